//! Purpose: hold the facts about a function that the passes from `pipeline-loops` to `warp-roles` share and no file records.
//! Requires: schedules and placements.
//! Establishes: pipelined loops, waits, barriers and fences, in one role or split into warp roles.
//! Preserves: the program of the function.
//! See also: [`crate::partition`], which splits a function into warp roles.
//!
//! A function with TMA copies is first written for a producer warp, which fills the stages. If the split into warp roles then turns
//! out to be impossible, the draft starts again from the function before `pipeline-loops`, and writes the loops for one role.

use crate::feature_choice::{FeatureChoice, Overlap, Reason, RoleChoices};
use crate::materialize::{self, PipelinedLoops};
use crate::partition;
use crate::{barriers, heap_and_print, hoisted_tma_loads, proxy_fences, softmax_critical_path, tma_pipelines, tmem_pipelines};
use base::diag::{Diagnostic, Result};
use base::{Arena, Envelope};
use sched::{Function, LoopSchedule, Phase};
use tileas::layout::{Layout, LayoutId};

/// A pass on a function and its draft.
pub(crate) type DraftPass = fn(&mut Draft, &mut Function, &Arena<LayoutId, Layout>);

/// The passes between `pipeline-loops` and `warp-roles`, in order.
pub(crate) const PASSES: &[(Phase, DraftPass)] = &[
    (Phase::TmemPipelines, Draft::add_tmem_pipelines),
    (Phase::HoistedCopies, Draft::add_pipelines_of_hoisted_copies),
    (Phase::SoftmaxOrder, Draft::order_softmax),
    (Phase::Barriers, Draft::place_barriers),
    (Phase::HeapAndPrint, Draft::free_heap_and_stage_prints),
    (Phase::ProxyFences, Draft::place_proxy_fences),
];

/// The warp roles for which a draft is written.
enum DraftRoles {
    /// One role: a producer warp would have nothing to do, or an option turns roles off.
    NoProducer,
    /// One role, although the function has TMA copies. The reason tells why the function is not split.
    Declined(Reason),
    /// Several roles.
    Several {
        /// The function before `pipeline-loops`.
        source: Box<Function>,
    },
}

/// A function between the passes `pipeline-loops` and `warp-roles`: the decisions and facts that no file records.
pub(crate) struct Draft {
    roles: DraftRoles,
    /// The options for warp roles.
    choices: RoleChoices,
    pipelined_loops: PipelinedLoops,
    /// Whether two compute roles take turns. Pass `tmem-pipelines` sets this flag.
    has_two_compute_roles: bool,
}

impl Draft {
    /// Writes the pipelined loops of a function: for several warp roles where that may be possible.
    pub(crate) fn start(function: &mut Function, schedules: &[LoopSchedule], envelope: &Envelope) -> Draft {
        let choices = RoleChoices::from_envelope(envelope);
        let roles = if choices.roles == FeatureChoice::Never || !partition::has_copies(function) {
            DraftRoles::NoProducer
        } else {
            match partition::check(function).and_then(|()| partition::check_memory(function)) {
                Ok(()) => DraftRoles::Several { source: Box::new(function.clone()) },
                Err(reason) => DraftRoles::Declined(reason),
            }
        };
        Draft::write_loops(function, schedules, roles, choices)
    }

    /// Rewrites the scheduled loops of a function for the given roles. Starts the draft.
    fn write_loops(function: &mut Function, schedules: &[LoopSchedule], roles: DraftRoles, choices: RoleChoices) -> Draft {
        let has_several = matches!(roles, DraftRoles::Several { .. });
        let own_schedules = match has_several || partition::share_pipelines::are_shared(function) {
            // A producer warp needs no prefetch distance. Loops that share a pipeline must fill it in program order.
            true => partition::without_prefetch(function, schedules),
            false => tma_pipelines::with_serial_schedules(function, schedules),
        };
        let pipelined_loops = materialize::run(function, &own_schedules, has_several);
        Draft { roles, choices, pipelined_loops, has_two_compute_roles: false }
    }

    /// Adds the pipelines of tensor memory MMAs, and the ping-pong order of two compute roles.
    pub(crate) fn add_tmem_pipelines(&mut self, function: &mut Function, _: &Arena<LayoutId, Layout>) {
        let may_overlap = matches!(self.roles, DraftRoles::Several { .. }) && self.choices.overlap != FeatureChoice::Never;
        let ping_pong_roles = if may_overlap { partition::ping_pong_roles(function) } else { Default::default() };
        self.has_two_compute_roles = !ping_pong_roles.is_empty();
        tmem_pipelines::run(function, ping_pong_roles);
    }

    pub(crate) fn add_pipelines_of_hoisted_copies(&mut self, function: &mut Function, _: &Arena<LayoutId, Layout>) {
        hoisted_tma_loads::run(function);
    }

    /// Reorders the softmax if the function has two compute roles.
    pub(crate) fn order_softmax(&mut self, function: &mut Function, _: &Arena<LayoutId, Layout>) {
        if self.has_two_compute_roles {
            softmax_critical_path::run(function);
        }
    }

    pub(crate) fn place_barriers(&mut self, function: &mut Function, layouts: &Arena<LayoutId, Layout>) {
        barriers::run(function, &self.pipelined_loops, layouts);
    }

    pub(crate) fn free_heap_and_stage_prints(&mut self, function: &mut Function, _: &Arena<LayoutId, Layout>) {
        heap_and_print::run(function);
    }

    pub(crate) fn place_proxy_fences(&mut self, function: &mut Function, _: &Arena<LayoutId, Layout>) {
        proxy_fences::run(function);
    }

    /// Splits the function into warp roles. If that is impossible, writes the function again for one role.
    pub(crate) fn split(
        self,
        function: &mut Function,
        layouts: &mut Arena<LayoutId, Layout>,
        schedules: &[LoopSchedule],
        envelope: &mut Envelope,
    ) -> Result<()> {
        let (target, choices) = (envelope.target()?, self.choices);
        let source = match self.roles {
            DraftRoles::NoProducer => {
                let reason = "the function has no TMA copies, or --roles=off".into();
                return check_requested_overlap(function, choices, &Err(reason), envelope);
            }
            DraftRoles::Declined(reason) => {
                envelope.log.push(partition::remark(function, Err(&reason)));
                return check_requested_overlap(function, choices, &Err(reason), envelope);
            }
            DraftRoles::Several { source } => source,
        };
        let mut new_layouts = layouts.clone();
        let split = partition::run(function, &mut new_layouts, target, choices);
        match split {
            Ok(_) => *layouts = new_layouts,
            Err(_) => *function = *source,
        }
        envelope.log.push(partition::remark(function, split.as_ref()));
        check_requested_overlap(function, choices, &split, envelope)?;
        if let Err(reason) = split {
            let mut draft = Draft::write_loops(function, schedules, DraftRoles::Declined(reason), choices);
            PASSES.iter().for_each(|(_, pass)| pass(&mut draft, function, layouts));
        }
        Ok(())
    }
}

/// Reports an error if `--overlap=on` requests two MMA warps and the function has only one.
fn check_requested_overlap(
    function: &Function,
    choices: RoleChoices,
    split: &std::result::Result<Overlap, Reason>,
    envelope: &Envelope,
) -> Result<()> {
    let (FeatureChoice::WherePossible, Err(reason) | Ok(Err(reason))) = (choices.overlap, split) else { return Ok(()) };
    let refused = Diagnostic::unsupported("SC104", format!("--overlap: MMAs cannot be split between two warp roles: {reason}"));
    Err(refused.at_loc(&envelope.debug, function.loc))
}
