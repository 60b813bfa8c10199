//! If-conversion: the assembler replaces a branch over a few instructions by predicates of these instructions.
//!
//! PTX `@p bra L; ...; L:` becomes machine code with `@!p` on each instruction between the branch and `L`. The branch then no
//! longer ends a basic block, so the assembler schedules across it. For example, several conditional loads can be in flight
//! together. Instructions with a false predicate still take issue slots.
//!
//! The model converts a branch if all skipped instructions can be predicated: no barrier, wait or exit, at most `MAX_PREDICATED`
//! machine instructions, and no other branch into the range. The range may contain converted branches to the same target, as PTX
//! for a condition `a && b` does.

use crate::cost::Cost;
use crate::order::{OrderKind, order_kind};
use simulator::program::{Op, Program};

/// Maximum number of machine instructions that a converted branch predicates. Source: the limit for divergent conditions in older
/// editions of NVIDIA's programming guide. The heuristics of today's ptxas are not public.
const MAX_PREDICATED: f64 = 7.0;

/// Returns for each instruction whether it is a branch that the assembler replaces by predicates.
pub(crate) fn converted_branches(program: &Program, costs: &[Cost]) -> Vec<bool> {
    let mut converted_branches: Vec<bool> = (0..program.code.len()).map(|pc| is_convertible(program, costs, pc)).collect();
    // A branch into the skipped range prevents conversion. An unconverted branch may itself enter another range, so repeat until no
    // branch changes.
    loop {
        // The number of unconverted branches to each instruction. The prefix sum below adds the branches to earlier instructions.
        let mut branches_into = vec![0u32; program.code.len() + 1];
        for (pc, instr) in program.code.iter().enumerate() {
            match &instr.op {
                Op::Branch { target } if !converted_branches[pc] => branches_into[*target as usize] += 1,
                Op::BranchIndirect { targets, .. } => targets.iter().for_each(|&target| branches_into[target as usize] += 1),
                _ => {}
            }
        }
        for index in 0..branches_into.len() - 1 {
            branches_into[index + 1] += branches_into[index];
        }
        let mut changed = false;
        for pc in 0..program.code.len() {
            if let Op::Branch { target } = program.code[pc].op
                && converted_branches[pc]
            {
                // No unconverted branch may enter the skipped range or the target. A branch inside the range must be converted and
                // have the same target.
                let skipped = &program.code[pc + 1..target as usize];
                let has_only_nested_branches = (pc + 1..target as usize).zip(skipped).all(|(at, instr)| match instr.op {
                    Op::Branch { target: other } => converted_branches[at] && other == target,
                    _ => true,
                });
                if !has_only_nested_branches || branches_into[target as usize] != branches_into[pc] {
                    converted_branches[pc] = false;
                    changed = true;
                }
            }
        }
        if !changed {
            return converted_branches;
        }
    }
}

/// Returns whether an instruction is a forward conditional branch over few instructions that can all be predicated.
fn is_convertible(program: &Program, costs: &[Cost], pc: usize) -> bool {
    let instr = &program.code[pc];
    let Op::Branch { target } = instr.op else { return false };
    let target = target as usize;
    if instr.guard.is_none() || target <= pc + 1 || target >= program.code.len() {
        return false;
    }
    let skipped = pc + 1..target;
    let can_be_predicated = |at: usize| match &program.code[at].op {
        Op::Branch { target: other } => *other as usize == target && program.code[at].guard.is_some(),
        op => !matches!(order_kind(op), OrderKind::Fence | OrderKind::End),
    };
    let issue_slots = |at: usize| if matches!(program.code[at].op, Op::Branch { .. }) { 0.0 } else { costs[at].issue_slots };
    skipped.len() <= 4 * MAX_PREDICATED as usize
        && skipped.clone().all(can_be_predicated)
        && skipped.map(issue_slots).sum::<f64>() <= MAX_PREDICATED
}

#[cfg(test)]
mod tests {
    use crate::code::Code;
    use perf_model::Machine;

    const PROLOGUE: &str = ".version 8.8\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a)\n{\n.reg .b64 %rd<4>;\n.reg .b32 %r<9>;\n.reg .pred %p<4>;\nld.param.u64 %rd1, [a];\nmov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 3;\nsetp.eq.u32 %p2, %r1, 4;\n";

    /// Returns the number of converted branches of a kernel body.
    fn converted_count(body: &str) -> usize {
        let text = format!("{PROLOGUE}{body}\nst.global.u32 [%rd1], %r2;\nret;\n}}\n");
        let module = ptx::parse(&text).expect("the text is PTX");
        let program = simulator::decode(&module, None, simulator::LaunchSizes::default()).expect("the text is a program");
        let machine = Machine::named("h100-sxm").expect("a machine of this name is known");
        Code::new(&program, &machine).converted_branches.iter().filter(|&&converted| converted).count()
    }

    #[test]
    fn two_branches_over_one_load_are_converted() {
        assert_eq!(converted_count("@%p1 bra L;\n@%p2 bra L;\nld.global.u32 %r2, [%rd1];\nL:"), 2);
    }

    #[test]
    fn a_branch_over_a_loop_header_is_not_converted() {
        assert_eq!(converted_count("@%p1 bra L;\nadd.u32 %r2, %r2, 1;\nL:\nadd.u32 %r3, %r3, 1;\n@%p2 bra L;"), 0);
    }

    #[test]
    fn branches_over_a_barrier_or_long_code_are_not_converted() {
        assert_eq!(converted_count("@%p1 bra L;\nbar.sync 0;\nL:"), 0);
        assert_eq!(converted_count(&format!("@%p1 bra L;\n{}L:", "mul.lo.u32 %r2, %r2, %r2;\n".repeat(9))), 0);
    }
}
