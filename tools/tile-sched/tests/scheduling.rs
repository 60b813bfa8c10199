//! Schedules a matmul loop. Checks the decisions, the edits that a user may make, and the edits that the checks refuse.

use base::ir::Operation;
use base::{Envelope, File, Locations, Payload, Source};
use sched::{Module, Op, Phase};
use tile_sched::{PASSES, Scheduling, convert_to_sched};

/// A matmul of f16 with 32 x 32 x 32 tiles, for sm_80.
fn matmul_program() -> File<tileas::Module> {
    File::read(include_bytes!("matmul.as"), "matmul.as").unwrap()
}

/// Returns the matmul after the pass that establishes `phase`.
fn scheduled_until(phase: Phase) -> File<Module> {
    let mut file = convert_to_sched(&matmul_program(), "test");
    resume(&mut file, phase).unwrap();
    file
}

/// Runs the passes up to a phase.
fn resume(file: &mut File<Module>, phase: Phase) -> base::diag::Result<()> {
    let mut state = Scheduling::new(file.clone());
    PASSES[..=phase as usize].iter().try_for_each(|pass| (pass.run)(&mut state))?;
    *file = state.written_file().into_owned();
    Ok(())
}

/// Writes a file as text and reads the text.
fn reparsed(file: &File<Module>) -> File<Module> {
    let text = file.write(base::envelope::Form::Text).unwrap();
    File::read(&text, "again").unwrap()
}

/// Each pass establishes the phase with its name, so the two lists are equal.
#[test]
fn pass_names_equal_phase_names() {
    let names: Vec<&str> = PASSES.iter().map(|pass| pass.name).collect();
    assert_eq!(names, Phase::ALL.iter().map(|phase| phase.name()).collect::<Vec<_>>());
}

/// The text form of a file of any phase is valid, and the remaining passes compute the same result from the text. The drafts
/// between `pipeline-loops` and `warp-roles` are the exception: no pass can continue from them.
#[test]
fn every_phase_is_valid_and_later_passes_continue_from_it() {
    for phase in Phase::ALL {
        let file = scheduled_until(*phase);
        hazard_checked(&file).unwrap_or_else(|error| panic!("{}: {}", phase.name(), error.message));
        let mut again = reparsed(&file);
        let continued = resume(&mut again, Phase::Materialize);
        match phase.is_draft() {
            true => assert!(continued.unwrap_err().message.contains("cannot continue from phase"), "{}", phase.name()),
            false => assert_eq!(again.payload, scheduled_until(Phase::Materialize).payload, "{}", phase.name()),
        }
    }
}

#[test]
fn copies_run_ahead_and_the_mma_bounds_the_interval() {
    let file = scheduled_until(Phase::Alloc);
    let [schedule] = &file.payload.schedules[..] else { panic!("one loop has one schedule") };
    assert!(schedule.interval >= schedule.resource_bound.max(schedule.recurrence_bound));
    assert_eq!(schedule.entries.len(), 5, "two copies, two reads, an MMA");
    assert_eq!(schedule.last_stage(), 3, "the latency is many intervals, so copies run ahead by the limit");
    let depths: Vec<u32> = file.payload.functions[0].attrs.placements.values().map(|place| place.depth).collect();
    assert_eq!(depths, [4, 4, 1]);
}

#[test]
fn a_prefetch_distance_may_be_shortened_by_hand() {
    let mut file = scheduled_until(Phase::Analysis);
    for entry in &mut file.payload.schedules[0].entries[..1] {
        entry.stage += 2;
    }
    let mut file = reparsed(&file);
    resume(&mut file, Phase::Materialize).unwrap();
    let depths: Vec<u32> = file.payload.functions[0].attrs.placements.values().map(|place| place.depth).collect();
    assert_eq!(depths, [2, 4, 1]);
    hazard_checked(&file).unwrap();
}

/// Returns the message with which a check refuses a schedule after `edit`.
fn refusal_message(edit: impl FnOnce(&mut Module)) -> String {
    let mut file = scheduled_until(Phase::Analysis);
    edit(&mut file.payload);
    let read = hazard_checked(&file);
    read.and_then(|()| resume(&mut file, Phase::Materialize)).unwrap_err().message
}

#[test]
fn infeasible_schedules_are_refused_with_the_op() {
    let message = refusal_message(|module| {
        let entries = &mut module.schedules[0].entries;
        (entries[1].stage, entries[1].cycle) = (entries[0].stage, entries[0].cycle);
    });
    assert!(message.contains("op 0 (copy_view) and op 1 (copy_view) both need"), "{message}");
    let message = refusal_message(|module| module.schedules[0].entries[4].stage -= 1);
    assert!(message.contains("op 4 (mma) is in stage 2, but computes in stage 3"), "{message}");
    let message = refusal_message(|module| _ = module.schedules[0].entries.pop());
    assert!(message.contains("4 of 5 ops"), "{message}");
    let message = refusal_message(|module| module.schedules[0].entries[3].cycle = 0);
    assert!(message.contains("op 3 (shared_load)") || message.contains("op 2 (shared_load)"), "{message}");
}

/// Returns the error of the hazard checker for the materialized program without the ops that `drop` selects.
fn error_without(drop: impl Fn(&Op) -> bool) -> String {
    let mut file = scheduled_until(Phase::Materialize);
    let body = &mut file.payload.functions[0].body;
    let dropped: Vec<_> = body.ops.iter().filter(|(_, node)| drop(&node.kind)).map(|(op, _)| op).collect();
    assert!(!dropped.is_empty());
    body.blocks.values_mut().for_each(|block| block.ops.retain(|op| !dropped.contains(op)));
    hazard_checked(&file).unwrap_err().message
}

/// Prints the program and parses it again.
fn reread(file: &File<Module>, envelope: &mut Envelope) -> base::diag::Result<Module> {
    let text = file.payload.print(&file.envelope, Locations::Named);
    Module::parse(Source { text: &text, name: "edited", first_line: 1, by_line: false }, envelope)
}

/// Runs the hazard checker, as every tool that reads a `.sched` file does.
fn hazard_checked(file: &File<Module>) -> base::diag::Result<()> {
    let mut envelope = file.envelope.clone();
    let payload = reread(file, &mut envelope)?;
    payload.verify(&envelope)
}

#[test]
fn the_hazard_checker_detects_missing_waits_barriers_and_stages() {
    let message = error_without(|op| matches!(op, Op::CopyWait { .. }));
    assert!(message.contains("before its copy was waited for"), "{message}");
    let message = error_without(|op| matches!(op, Op::Barrier { .. }));
    assert!(message.contains("before a barrier after"), "{message}");
    // Make the loads read the stage that their block fills.
    let mut file = scheduled_until(Phase::Materialize);
    let body = &mut file.payload.functions[0].body;
    for block in body.blocks.values() {
        let accesses = block.ops.iter().flat_map(|op| body.ops[*op].kind.effects().buffers);
        let filled = accesses.filter(|access| access.access_kind.writes()).find_map(|access| access.stage);
        for op in &block.ops {
            if let (Some(filled), Op::Core(program @ tileas::Op::SharedLoad { .. })) = (filled, &mut body.ops[*op].kind) {
                program.stages_mut().into_iter().for_each(|(_, stage)| *stage = stage.and(Some(filled)));
            }
        }
    }
    let message = hazard_checked(&file).unwrap_err().message;
    assert!(message.contains("stage"), "{message}");
}

/// Extreme stages and cycles are rejected, because they would make abstract execution and unrolling too slow.
#[test]
fn stages_and_cycles_have_limits() {
    let message = refusal_message(|module| module.schedules[0].entries[4].stage = u32::MAX);
    assert!(message.contains("op 4 is in stage 4294967295; there are at most 64"), "{message}");
    let message = refusal_message(|module| module.schedules[0].entries.iter_mut().for_each(|entry| entry.stage += 3_000_000));
    assert!(message.contains("op 0 is in stage 3000000"), "{message}");
    let message = refusal_message(|module| module.schedules[0].entries[4].cycle = u32::MAX - 1);
    assert!(message.contains("op 4 starts in cycle 4294967294 of"), "{message}");
}

/// Multi-stage buffers that are filled ahead of their iteration need exclusive memory and enough stages.
#[test]
fn overlapping_or_shallow_buffers_are_refused_at_phase_alloc() {
    let edited = |edit: fn(&mut Module)| {
        let mut file = scheduled_until(Phase::Alloc);
        edit(&mut file.payload);
        hazard_checked(&file).unwrap_err().message
    };
    let message = edited(|module| {
        let places = &mut module.functions[0].attrs.placements;
        places[tileas::Buffer(1)].offset = places[tileas::Buffer(0)].offset;
    });
    assert!(message.contains("another buffer uses its memory meanwhile"), "{message}");
    let message = edited(|module| module.functions[0].attrs.placements[tileas::Buffer(0)].depth -= 1);
    assert!(message.contains("buffer0 has 3 stages, but is filled 3 iterations ahead and needs 4"), "{message}");
}

#[test]
fn the_steady_state_waits_for_earlier_iterations_only() {
    let file = scheduled_until(Phase::Materialize);
    let body = &file.payload.functions[0].body;
    let waits = body.ops.values().filter_map(|node| match node.kind {
        Op::CopyWait { pending } => Some(pending),
        _ => None,
    });
    // Each iteration commits two groups, and copies run three iterations ahead, so four groups may be pending. The last wait
    // follows the steady loop and the epilogue loop, before another use of the buffers' memory.
    assert_eq!(waits.collect::<Vec<_>>(), [4, 4, 0]);
    let barriers = |block: &base::ir::BlockNode| block.ops.iter().filter(|op| body.ops[**op].kind.mnemonic() == "barrier").count();
    let loops = body.blocks.values().filter(|block| block.ops.iter().any(|op| body.ops[*op].kind.mnemonic() == "mma"));
    assert_eq!(loops.map(barriers).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(reread(&file, &mut file.envelope.clone()).unwrap(), file.payload);
}
