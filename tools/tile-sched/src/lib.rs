//! Passes from `.as` (TileAS, the assembler-near dialect) to `.sched`.
//!
//! Each pass establishes one [`Phase`] of the file and requires the phase before it; [`sched::phase`] lists what each phase adds.
//! The verifier checks the phase after each pass in debug builds, and whenever a file is read. The header of each pass module
//! states in detail what the pass requires, establishes and preserves.
//!
//! A `.sched` file, perhaps edited by hand, continues with the pass after its phase. The passes from `pipeline-loops` to
//! `warp-roles` share facts that no file holds ([`draft`]), so no run can continue between them.

mod alloc;
mod analysis;
mod barriers;
mod bounds_check_versioning;
mod buffer_accesses;
mod check_schedule;
mod command;
mod compute_warpgroups;
mod draft;
mod feature_choice;
mod for_loops;
mod graph;
mod heap_and_print;
mod hoisted_tma_loads;
mod latency_hints;
mod mark_lazy_fragments;
mod materialize;
mod modulo;
mod multicast;
mod occupancy;
mod pack_f32x2;
mod pair_ctas;
mod partition;
mod pipelining_options;
mod prefetch_first_fragments;
mod proxy_fences;
mod register_prefetch;
mod register_pressure;
mod resource_model;
mod scalar_index_loads;
mod schedule_trace;
mod single_role_pipelines;
mod smem_extent;
mod softmax_critical_path;
mod tma_pipelines;
mod tma_store_waits;
mod tmem_alloc;
mod tmem_double_buffers;
mod tmem_mma_buffers;
mod tmem_pipelines;
mod token_barriers;
mod token_sources;
mod wgmma_in_flight;

use base::diag::{Diagnostic, Result};
use base::{Arena, Envelope, File, Target};
pub use command::{ABOUT, Options, run};
use common::{Pass, Show};
use draft::Draft;
use partition::share_pipelines;
use sched::{Function, FunctionAttrs, Module, Phase};
pub use schedule_trace::trace;
use std::borrow::Cow;
use tileas::layout::{Layout, LayoutId};

/// A row of the pass table: the name of the pass, which is also the name of the phase that it establishes, and its function.
macro_rules! pass {
    ($name:literal, $run:expr) => {
        Pass { name: $name, run: |state: &mut Scheduling| state.advance($name, $run) }
    };
}

/// The passes of the tool, in order.
pub const PASSES: &[Pass<Scheduling>] = &[
    pass!("pair-ctas", |state| pair_ctas::run(&mut state.file, run_later_passes)),
    pass!("share-pipelines", |state| share_pipelines::run(&mut state.file)),
    pass!("loop-occupancy", |state| occupancy::raise_for_loops(&mut state.file)),
    pass!("prefetch-loads", |state| register_prefetch::run(&mut state.file)),
    pass!("analysis", |state| analysis::run(&mut state.file)),
    // A user may have edited a schedule, so the passes that use schedules check them first.
    pass!("alloc", |state| check_schedule::check_schedules(&state.file).and_then(|()| alloc::run(&mut state.file))),
    pass!("occupancy", |state| occupancy::run(&mut state.file)),
    pass!("pipeline-loops", |state| check_schedule::check_schedules(&state.file).and_then(|()| state.start_drafts())),
    pass!("tmem-pipelines", |state| state.run_on_drafts(Phase::TmemPipelines)),
    pass!("hoisted-copies", |state| state.run_on_drafts(Phase::HoistedCopies)),
    pass!("softmax-order", |state| state.run_on_drafts(Phase::SoftmaxOrder)),
    pass!("barriers", |state| state.run_on_drafts(Phase::Barriers)),
    pass!("heap-and-print", |state| state.run_on_drafts(Phase::HeapAndPrint)),
    pass!("proxy-fences", |state| state.run_on_drafts(Phase::ProxyFences)),
    pass!("warp-roles", Scheduling::split_into_warp_roles),
    pass!("pair-tails", |state| state
        .run_on_functions(|function, context| pair_ctas::complete_pair_pipelines(function, context.envelope))),
    pass!("multicast", |state| {
        state.run_on_functions(|function, context| multicast::run(function, context.layouts, context.envelope))
    }),
    pass!("store-waits", |state| state.run_marking_pass(|function, _| tma_store_waits::run(function))),
    pass!("lazy-fragments", |state| state
        .run_marking_pass(|function, context| mark_lazy_fragments::run(function, context.layouts))),
    pass!("prefetch-fragments", |state| state.run_marking_pass(|function, _| prefetch_first_fragments::run(function))),
    pass!("versioned-accesses", |state| state
        .run_marking_pass(|function, context| bounds_check_versioning::run(function, context.layouts))),
    pass!("packed-arithmetic", |state| {
        state.run_marking_pass(|function, context| pack_f32x2::run(function, context.layouts, context.target))
    }),
    // The last phase adds nothing; it declares the file complete, so that the verifier checks all rules.
    pass!("materialize", |_| Ok(())),
];

/// The number of passes before `pipeline-loops`, which replaces the scheduled loops.
const PASSES_BEFORE_PIPELINING: usize = Phase::PipelineLoops as usize;

/// The state that the passes share.
pub struct Scheduling {
    /// The file that the passes change.
    pub file: File<Module>,
    /// One draft for each function, from pass `pipeline-loops` to `warp-roles`; `None` before and after.
    drafts: Option<Vec<Draft>>,
}

/// The parts of the file that a pass on one function may use in addition to the function.
struct Context<'a> {
    layouts: &'a Arena<LayoutId, Layout>,
    envelope: &'a mut Envelope,
    target: Target,
}

impl Scheduling {
    pub fn new(file: File<Module>) -> Scheduling {
        Scheduling { file, drafts: None }
    }

    /// Runs a pass unless the file has already reached its phase.
    fn advance(&mut self, name: &'static str, run: fn(&mut Scheduling) -> Result<()>) -> Result<()> {
        let phase = Phase::from_name(name).expect("each pass of tile-sched establishes the phase with its name");
        let reached = Phase::from_envelope(&self.file.envelope);
        if reached.is_some_and(|reached| reached >= phase) {
            return Ok(());
        }
        if let Some(reached) = reached.filter(|reached| reached.is_draft() && self.drafts.is_none()) {
            let (from, last) = (reached.name(), Phase::Occupancy.name());
            let message =
                format!("pass {name} cannot continue from phase {from}; schedule the file again from phase {last} or earlier");
            return Err(Diagnostic::invalid("SC122", message));
        }
        run(self)?;
        self.file.envelope.phase = name.into();
        Ok(())
    }

    /// Runs a pass that may fail on each function. Stops at the first error.
    fn run_on_functions(&mut self, run: fn(&mut Function, &mut Context<'_>) -> Result<()>) -> Result<()> {
        let File { envelope, payload: Module { functions, layouts, .. } } = &mut self.file;
        let target = envelope.target()?;
        let mut context = Context { layouts, envelope, target };
        functions.iter_mut().try_for_each(|function| run(function, &mut context))
    }

    /// Runs a marking pass on each function. A marking pass cannot fail. It sets attributes of ops or wraps an op in `pairs`, and
    /// moves no op.
    fn run_marking_pass(&mut self, run: fn(&mut Function, &Context<'_>)) -> Result<()> {
        let File { envelope, payload: Module { functions, layouts, .. } } = &mut self.file;
        let target = envelope.target()?;
        let context = Context { layouts, envelope, target };
        functions.iter_mut().for_each(|function| run(function, &context));
        Ok(())
    }

    /// Writes the pipelined loops of each function and starts its draft.
    fn start_drafts(&mut self) -> Result<()> {
        let File { envelope, payload: Module { functions, schedules, .. } } = &mut self.file;
        self.drafts = Some(functions.iter_mut().map(|function| Draft::start(function, schedules, envelope)).collect());
        Ok(())
    }

    /// Runs the pass that establishes this phase on each function and its draft.
    fn run_on_drafts(&mut self, phase: Phase) -> Result<()> {
        let (_, run) = draft::PASSES.iter().find(|(establishes, _)| *establishes == phase).expect("a pass of drafts");
        let Module { functions, layouts, .. } = &mut self.file.payload;
        functions.iter_mut().zip(self.drafts.iter_mut().flatten()).for_each(|(function, draft)| run(draft, function, layouts));
        Ok(())
    }

    /// Splits each function into warp roles. A function that cannot be split keeps one role: if the attempt fails, its loops are
    /// written again for one role.
    fn split_into_warp_roles(&mut self) -> Result<()> {
        let File { envelope, payload: Module { functions, schedules, layouts, .. } } = &mut self.file;
        for (function, draft) in functions.iter_mut().zip(self.drafts.take().unwrap_or_default()) {
            draft.split(function, layouts, schedules, envelope)?;
        }
        Ok(())
    }
}

impl Scheduling {
    /// The file in the state after the last pass. In a draft, the ids of ops are not in program order, because later passes refer
    /// to ops by id; the returned file has them in order.
    pub fn written_file(&self) -> Cow<'_, File<Module>> {
        if !Phase::from_envelope(&self.file.envelope).is_some_and(Phase::is_draft) {
            return Cow::Borrowed(&self.file);
        }
        let mut file = self.file.clone();
        file.payload.functions.iter_mut().for_each(|function| *function = base::text::compact(function));
        Cow::Owned(file)
    }
}

impl Show for Scheduling {
    fn show(&self) -> String {
        self.written_file().show()
    }
    fn check(&self) -> Result<()> {
        self.written_file().check()
    }
}

/// Runs all passes after `pair-ctas` on a trial copy.
fn run_later_passes(file: File<Module>) -> Result<File<Module>> {
    let mut state = Scheduling::new(file);
    PASSES[1..].iter().try_for_each(|pass| (pass.run)(&mut state))?;
    Ok(state.file)
}

/// Checks the schedules of a file if its loops are not pipelined yet.
pub fn check(file: &File<Module>) -> Result<()> {
    match Phase::from_envelope(&file.envelope) {
        // No scheduled loops are left, and the verifier checked the file when it was read.
        Some(phase) if phase.has_pipelined_loops() => Ok(()),
        _ => check_schedule::check_schedules(file),
    }
}

/// Converts a `.as` module to `.sched`, without any scheduling decision.
pub fn convert_to_sched(input: &File<tileas::Module>, producer: &str) -> File<Module> {
    let envelope = input.envelope.for_next_stage::<Module>("start", producer);
    let tileas::Module { layouts, globals, functions } = input.payload.clone();
    let functions = functions.into_iter().map(|function| {
        let attrs = FunctionAttrs { program: function.attrs, ..FunctionAttrs::default() };
        let base::text::Function { name, loc, region, body, .. } = function;
        sched::Function { name, attrs, loc, region, body: body.map_ops(sched::Op::Core) }
    });
    File { envelope, payload: Module { layouts, globals, schedules: Vec::new(), functions: functions.collect() } }
}
