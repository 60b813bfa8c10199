//! The analysis of a program for the timing model: costs, operands, loops, unrolling and instruction order.

use crate::code::{Code, INSTRUCTION_BYTES, Loop, line_bytes};
use crate::cost::{Cost, instruction_cost};
use crate::if_conversion;
use crate::loop_unrolling;
use crate::order;
use perf_model::Machine;
use simulator::program::{Op, Program, RegSlot, Space};

impl Code {
    /// Analyses a program for a GPU. All fields but `spills` get their final values; `spills` is 0 for each instruction.
    pub(crate) fn new(program: &Program, machine: &Machine) -> Code {
        let mut costs: Vec<Cost> = program.code.iter().map(|instr| instruction_cost(program, instr, machine)).collect();
        let converted_branches = if_conversion::converted_branches(program, &costs);
        let mut is_constant = vec![false; program.slot_count as usize];
        program.constants.iter().for_each(|&(slot, _)| is_constant[slot as usize] = true);
        is_constant[0] = true;
        let mut operands: Vec<(Vec<RegSlot>, Vec<RegSlot>)> = program
            .code
            .iter()
            .map(|instr| {
                let (mut reads, mut writes) = (Vec::new(), Vec::new());
                instr.for_each_operand(|slot| reads.push(slot), |slot| writes.push(slot));
                reads.retain(|&slot| !is_constant[slot as usize]);
                (reads, writes)
            })
            .collect();
        // If-conversion puts the predicate of the branch on the instructions that the branch skips, so these instructions read the
        // predicate.
        for (pc, instr) in program.code.iter().enumerate().filter(|&(pc, _)| converted_branches[pc]) {
            costs[pc] = Cost::default();
            if let (Op::Branch { target }, Some((predicate, _))) = (&instr.op, instr.guard) {
                operands[pc + 1..*target as usize].iter_mut().for_each(|(reads, _)| reads.push(predicate));
            }
        }
        let operands = operands.into_iter().map(|(reads, writes)| (reads.into_boxed_slice(), writes.into_boxed_slice())).collect();
        let assumed_latency =
            program.code.iter().zip(&costs).map(|(instr, cost)| latency_assumed_by_assembler(&instr.op, cost, machine)).collect();
        let is_foldable = |op: &Op| {
            let is_param_load = matches!(op, Op::Load { space: Space::Param, .. });
            is_param_load || matches!(op, Op::Elementwise { .. } | Op::Move { .. } | Op::Pack { .. } | Op::Unpack { .. })
        };
        let folded =
            program.code.iter().zip(&costs).map(|(instr, cost)| cost.issue_slots == 0.0 && is_foldable(&instr.op)).collect();
        let loops = find_loops(program);
        let mut code = Code {
            innermost_loop: innermost_loops(&loops, program.code.len()),
            folded,
            costs,
            operands,
            assumed_latency,
            spills: vec![0.0; program.code.len()],
            block_starts: range_starts(program, |_| false),
            region_starts: range_starts(program, |pc| converted_branches[pc]),
            converted_branches,
            order: Vec::new(),
            loops,
            unrolling: Vec::new(),
            cache_lines: vec![0; program.code.len()],
            cache_line_count: 0,
        };
        code.order = order::issue_order(program, &code);
        code.unrolling = loop_unrolling::unrolling_of_loops(program, &code);
        let (mut bytes, line) = (0.0, line_bytes(machine));
        for &pc in &code.order {
            code.cache_lines[pc as usize] = (bytes / line) as u32;
            bytes += INSTRUCTION_BYTES * code.costs[pc as usize].issue_slots;
        }
        code.cache_line_count = ((bytes / line) as u32).saturating_add(1);
        code
    }
}

/// Returns the latency that ptxas assumes when it orders instructions. It assumes that global loads hit the L2 cache.
fn latency_assumed_by_assembler(op: &Op, cost: &Cost, machine: &Machine) -> f64 {
    match op {
        Op::Load { space: Space::Param, .. } => 0.0,
        Op::Load { space: Space::Global | Space::Generic, .. } => machine.global.l2_latency,
        Op::Load { .. } => machine.shared.latency,
        Op::LoadMatrix { .. } => machine.shared.matrix,
        Op::Atom { .. } => machine.global.l2_latency,
        Op::TmemLoad { .. } => machine.tcgen05.load_latency,
        _ => cost.latency,
    }
}

/// Returns the starts of straight-line code ranges, and the end of the program. A branch for which `ignores_branch` holds does not
/// end a range.
fn range_starts(program: &Program, ignores_branch: impl Fn(usize) -> bool) -> Vec<u32> {
    let mut is_start = vec![true];
    is_start.resize(program.code.len() + 1, false);
    for (pc, instr) in program.code.iter().enumerate() {
        match &instr.op {
            Op::Branch { .. } if ignores_branch(pc) => {}
            Op::Branch { target } => {
                is_start[*target as usize] = true;
                is_start[pc + 1] = true;
            }
            Op::BranchIndirect { targets, .. } => {
                targets.iter().for_each(|&target| is_start[target as usize] = true);
                is_start[pc + 1] = true;
            }
            Op::Exit | Op::Trap => is_start[pc + 1] = true,
            _ => {}
        }
    }
    is_start[program.code.len()] = true;
    (0..is_start.len() as u32).filter(|&pc| is_start[pc as usize]).collect()
}

/// Returns for each of `count` instructions the index in `loops` of its innermost loop; `None` outside loops.
fn innermost_loops(loops: &[Loop], count: usize) -> Vec<Option<usize>> {
    let mut innermost = vec![None; count];
    // Inner loops overwrite outer loops.
    let mut outer_first: Vec<usize> = (0..loops.len()).collect();
    outer_first.sort_by_key(|&index| std::cmp::Reverse((loops[index].last - loops[index].first, index)));
    for index in outer_first {
        innermost[loops[index].first as usize..=loops[index].last as usize].fill(Some(index));
    }
    innermost
}

/// Finds the loops of a program: the instructions between a backward branch and its target.
fn find_loops(program: &Program) -> Vec<Loop> {
    let mut loops: Vec<Loop> = Vec::new();
    for (pc, instr) in program.code.iter().enumerate() {
        if let Op::Branch { target } = instr.op
            && target as usize <= pc
        {
            let label = program.labels.get(&target).cloned().unwrap_or_default();
            match loops.iter_mut().find(|l| l.first == target) {
                Some(l) => l.last = pc as u32,
                None => loops.push(Loop { first: target, last: pc as u32, label }),
            }
        }
    }
    loops
}
