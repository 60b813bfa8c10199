//! Loop unrolling: the assembler unrolls short loops, and then issues the loads of several iterations together.
//!
//! PTX `L: ld; fma; bra L` becomes machine code with `ld; ld; ld; ld; fma; fma; fma; fma` in each iteration. A warp then waits once
//! for several loads. No load moves across a barrier, a wait, an asynchronous copy or a store of an earlier iteration. A loop that
//! contains one of these instructions therefore does not benefit from unrolling.
//!
//! `perf_model::unrolling` decides how many iterations are unrolled.

use crate::code::{Code, Loop, Unrolling};
use crate::order::{OrderKind, order_kind};
use perf_model::unrolling::unrolled_iterations;
use simulator::Record;
use simulator::program::{Op, Program, RegSlot, Space};
use std::collections::BTreeSet;

/// Maximum number of move instructions between a constant and the loop counter that it initialises.
const MAX_MOVES: u32 = 4;
/// Maximum number of temporary registers through which a loop computes the next value of its counter.
const MAX_TEMPORARIES: u32 = 1;

/// Returns how the assembler unrolls each loop of a program.
pub(crate) fn unrolling_of_loops(program: &Program, code: &Code) -> Vec<Unrolling> {
    let contains =
        |outer: &Loop, inner: &Loop| outer.first <= inner.first && inner.last <= outer.last && outer.first != inner.first;
    let is_innermost = |outer: &Loop| !code.loops.iter().any(|inner| contains(outer, inner));
    code.loops.iter().map(|l| if is_innermost(l) { unrolling_of_innermost_loop(program, code, l) } else { Unrolling::No }).collect()
}

/// Returns how the assembler unrolls a loop that contains no other loop.
fn unrolling_of_innermost_loop(program: &Program, code: &Code, l: &Loop) -> Unrolling {
    let body = l.first as usize..=l.last as usize;
    let keeps_order = |op: &Op| {
        matches!(order_kind(op), OrderKind::Store | OrderKind::Fence)
            || matches!(op, Op::Exit | Op::Trap | Op::BranchIndirect { .. })
    };
    if program.code[body.clone()].iter().any(|instr| keeps_order(&instr.op)) {
        return Unrolling::No;
    }
    let instructions = code.costs[body].iter().map(|cost| cost.issue_slots).sum::<f64>().max(1.0);
    let is_known = has_known_trip_count(program, code, l);
    // The exact trip count is known only from a recording. Two is the smallest trip count with anything to unroll.
    let factor = unrolled_iterations(instructions, is_known.then_some(2.0)) as u32;
    if factor == 1 || has_loaded_address(program, code, l) {
        Unrolling::No
    } else if is_known {
        Unrolling::Complete { instructions }
    } else {
        Unrolling::Factor(factor)
    }
}

/// Returns whether the assembler can compute the trip count of a loop. A loop exit must compare a counter with a constant. The
/// counter must start at a constant, and each iteration must compute its next value only from its current value and constants.
fn has_known_trip_count(program: &Program, code: &Code, l: &Loop) -> bool {
    let body = l.first..=l.last;
    let is_exit = |pc: u32| match program.code[pc as usize].op {
        Op::Branch { target } => target == l.first || !body.contains(&target),
        _ => false,
    };
    let guards: BTreeSet<RegSlot> =
        body.clone().filter(|&pc| is_exit(pc)).filter_map(|pc| Some(program.code[pc as usize].guard?.0)).collect();
    body.clone().any(|pc| {
        let (reads, writes) = &code.operands[pc as usize];
        let is_counter = |slot| {
            is_constant(program, code, l.first, slot, MAX_MOVES) && is_computed_from(slot, slot, program, code, l, MAX_TEMPORARIES)
        };
        matches!(reads[..], [slot] if is_counter(slot)) && writes.iter().any(|slot| guards.contains(slot))
    })
}

/// Returns whether the last write of a register before instruction `end` assigns a constant to it, directly or
/// through at most `moves` other registers.
fn is_constant(program: &Program, code: &Code, end: u32, slot: RegSlot, moves: u32) -> bool {
    let last_write = (0..end).rev().find(|&pc| code.operands[pc as usize].1.contains(&slot));
    last_write.is_some_and(|pc| {
        let is_move = matches!(program.code[pc as usize].op, Op::Move { .. });
        let mut sources = code.operands[pc as usize].0.iter();
        is_move && moves > 0 && sources.all(|&source| is_constant(program, code, pc, source, moves - 1))
    })
}

/// Returns whether all instructions of the loop that write register `slot` compute it from `counter` and constants, directly or
/// through at most `temporaries` other registers. Returns `false` if the loop does not write the register.
fn is_computed_from(counter: RegSlot, slot: RegSlot, program: &Program, code: &Code, l: &Loop, temporaries: u32) -> bool {
    let mut writes = (l.first..=l.last).filter(|&pc| code.operands[pc as usize].1.contains(&slot)).peekable();
    let is_source = |source: RegSlot| {
        source == counter || temporaries > 0 && is_computed_from(counter, source, program, code, l, temporaries - 1)
    };
    writes.peek().is_some()
        && writes.all(|pc| {
            let is_elementwise_or_move = matches!(program.code[pc as usize].op, Op::Elementwise { .. } | Op::Move { .. });
            let reads = &code.operands[pc as usize].0;
            is_elementwise_or_move && !reads.is_empty() && reads.iter().all(|&source| is_source(source))
        })
}

/// Returns whether the address of a load in the loop depends on a load of an earlier iteration, as in a linked list.
fn has_loaded_address(program: &Program, code: &Code, l: &Loop) -> bool {
    let body = l.first as usize..=l.last as usize;
    let is_load = |pc: usize| matches!(program.code[pc].op, Op::Load { space, .. } if space != Space::Param);
    let carried_registers = carried_registers(code, l);
    // The carried registers whose values depend on a load of an earlier iteration. The set grows until it is stable.
    let mut load_dependent: BTreeSet<RegSlot> = BTreeSet::new();
    loop {
        let mut dependent = load_dependent.clone();
        for pc in body.clone() {
            let (reads, writes) = &code.operands[pc];
            let depends = is_load(pc) || reads.iter().any(|slot| dependent.contains(slot));
            set_membership(&mut dependent, writes, depends);
        }
        let count = load_dependent.len();
        load_dependent.extend(dependent.intersection(&carried_registers));
        if load_dependent.len() == count {
            break;
        }
    }
    let mut dependent = load_dependent;
    body.clone().any(|pc| {
        let (reads, writes) = &code.operands[pc];
        let depends = reads.iter().any(|slot| dependent.contains(slot));
        set_membership(&mut dependent, writes, depends && !is_load(pc));
        depends && is_load(pc)
    })
}

/// Adds the registers `written` to `set` if `is_member` is true. Otherwise removes these registers from `set`.
fn set_membership(set: &mut BTreeSet<RegSlot>, written: &[RegSlot], is_member: bool) {
    for slot in written {
        if is_member {
            set.insert(*slot);
        } else {
            set.remove(slot);
        }
    }
}

/// Returns the loop-carried registers: those that the loop writes, and that an iteration reads before it writes them.
fn carried_registers(code: &Code, l: &Loop) -> BTreeSet<RegSlot> {
    let (mut written, mut read_first) = (BTreeSet::new(), BTreeSet::new());
    for (reads, writes) in &code.operands[l.first as usize..=l.last as usize] {
        read_first.extend(reads.iter().copied().filter(|slot| !written.contains(slot)));
        written.extend(writes.iter().copied());
    }
    read_first.intersection(&written).copied().collect()
}

/// The position of a warp in an unrolled loop. A group is the set of iterations that the assembler combines into one.
#[derive(Default)]
pub(crate) struct UnrolledIterations {
    /// The index in `Code::loops` of the unrolled loop that the warp executes; `None` outside unrolled loops.
    loop_index: Option<usize>,
    /// The number of the current iteration in its group, and the number of iterations of a group.
    iteration: u32,
    group_size: u32,
    /// The times at which the current group and the current iteration start.
    group_start: f64,
    iteration_start: f64,
}

impl UnrolledIterations {
    /// Updates the position when a warp enters a scheduling region at `now`. `records` are the instructions that the warp executes
    /// from the start of the region on.
    pub(crate) fn enter_region(&mut self, code: &Code, records: &[Record], now: f64) {
        let pc = records[0].pc;
        let loop_index = code.innermost_loop_of(pc).filter(|&index| code.unrolling[index] != Unrolling::No);
        let Some(index) = loop_index else { return *self = UnrolledIterations::default() };
        let l = &code.loops[index];
        if self.loop_index != Some(index) {
            let group_size = code.unrolling[index].group_size(|| trip_count(records, l));
            *self = UnrolledIterations { loop_index, iteration: 0, group_size, group_start: now, iteration_start: now };
        } else if pc == l.first {
            self.iteration = (self.iteration + 1) % self.group_size.max(1);
            self.iteration_start = now;
            if self.iteration == 0 {
                self.group_start = now;
            }
        }
    }

    /// Returns the number of cycles by which the loads of the current iteration issue earlier than without unrolling.
    pub(crate) fn load_advance(&self) -> f64 {
        self.iteration_start - self.group_start
    }
}

/// Returns the number of loop iterations in the records, from the first record up to the loop exit. Returns `None` if the records
/// end inside the loop.
fn trip_count(records: &[Record], l: &Loop) -> Option<u32> {
    let end = records.iter().position(|record| !(l.first..=l.last).contains(&record.pc))?;
    let headers = records[1..end.max(1)].iter().filter(|record| record.pc == l.first).count();
    u32::try_from(headers + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::{Unrolling, unrolling_of_loops};
    use crate::code::Code;
    use perf_model::Machine;

    /// Returns how the assembler unrolls a loop with this body. `condition` is the last instruction before the branch.
    fn unrolling(body: &str, condition: &str) -> Unrolling {
        let registers = ".reg .b64 %rd<4>;\n.reg .b32 %r<9>;\n.reg .f32 %f<2>;\n.reg .pred %p<4>;";
        let text = format!(
            ".version 8.8\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u32 n)\n{{\n{registers}\n\
             ld.param.u64 %rd1, [a];\nld.param.u32 %r1, [n];\nmov.b32 %r3, 0;\nmov.b32 %r5, 0;\n\
             L:\n{body}\nadd.s64 %rd1, %rd1, 512;\nadd.s32 %r3, %r3, 1;\n{condition}\n@%p1 bra L;\n\
             st.global.u32 [%rd1], %r5;\nret;\n}}\n"
        );
        let module = ptx::parse(&text).expect("the text is PTX");
        let program = simulator::decode(&module, None, simulator::LaunchSizes::default()).expect("the text is a program");
        let code = Code::new(&program, &Machine::named("h100-sxm").expect("a machine of this name is known"));
        unrolling_of_loops(&program, &code)[0]
    }

    const LOAD: &str = "ld.global.u32 %r4, [%rd1];\nadd.s32 %r5, %r5, %r4;\n";
    const UNKNOWN_TRIP_COUNT: &str = "setp.lt.u32 %p1, %r3, %r1;";
    const KNOWN_TRIP_COUNT: &str = "setp.ne.u32 %p1, %r3, 8;";

    /// Returns the number of iterations whose loads issue together, for a loop with this number of multiply-adds. The expected
    /// numbers are the unroll factors of ptxas (`tests/cli/unrolling.rs`).
    fn group_size(multiply_adds: usize, condition: &str, trips: u32) -> u32 {
        let body = LOAD.to_string() + &"fma.rn.f32 %f1, %f1, %f1, %f1;\n".repeat(multiply_adds);
        unrolling(&body, condition).group_size(|| Some(trips))
    }

    #[test]
    fn a_short_loop_is_unrolled_as_ptxas_does() {
        assert_eq!((group_size(0, UNKNOWN_TRIP_COUNT, 100), group_size(30, UNKNOWN_TRIP_COUNT, 100)), (4, 4));
        assert_eq!((group_size(16, KNOWN_TRIP_COUNT, 8), group_size(30, KNOWN_TRIP_COUNT, 8)), (8, 8));
    }

    #[test]
    fn a_long_loop_is_not_unrolled() {
        assert_eq!((group_size(48, UNKNOWN_TRIP_COUNT, 100), group_size(100, UNKNOWN_TRIP_COUNT, 100)), (1, 1));
        assert_eq!((group_size(100, KNOWN_TRIP_COUNT, 8), group_size(40, KNOWN_TRIP_COUNT, 30)), (1, 1));
    }

    #[test]
    fn the_trip_count_is_known_if_the_next_counter_depends_only_on_the_counter() {
        let is_known = |update: &str| match unrolling(LOAD, &format!("{update}\n{KNOWN_TRIP_COUNT}")) {
            Unrolling::Complete { .. } => true,
            other => {
                assert_eq!(other, Unrolling::Factor(4), "{update}");
                false
            }
        };
        assert!(is_known("add.s32 %r7, %r3, 1;\nmov.b32 %r3, %r7;"));
        assert!(!is_known("ld.global.u32 %r3, [%rd1];"));
        assert!(!is_known("ld.global.u32 %r7, [%rd1];\nmov.b32 %r3, %r7;"));
        assert!(!is_known("add.s32 %r3, %r3, %r4;"));
    }

    #[test]
    fn loops_with_barriers_or_stores_are_not_unrolled() {
        assert_eq!(unrolling(&format!("{LOAD}bar.sync 0;"), UNKNOWN_TRIP_COUNT), Unrolling::No);
        assert_eq!(unrolling(&format!("{LOAD}st.global.u32 [%rd1], %r5;"), UNKNOWN_TRIP_COUNT), Unrolling::No);
    }

    #[test]
    fn a_loop_over_a_linked_list_is_not_unrolled() {
        assert_eq!(unrolling("ld.global.u64 %rd1, [%rd1];", UNKNOWN_TRIP_COUNT), Unrolling::No);
        // The address depends on a load of the same iteration only.
        let gathered =
            "ld.global.u32 %r4, [%rd1];\nmul.wide.u32 %rd2, %r4, 4;\nld.global.u32 %r4, [%rd2];\nadd.s32 %r5, %r5, %r4;\n";
        assert_eq!(unrolling(gathered, UNKNOWN_TRIP_COUNT), Unrolling::Factor(4));
    }
}
