//! The phase of a `.sched` file: the last pass of `tile-sched` that has run on the file.
//!
//! The file header names the phase. Each pass of `tile-sched` establishes one phase, and requires the phase before it. The verifier
//! refuses stages, pipelines and synchronisation before `pipeline-loops`, warp roles before `warp-roles`, and marked ops before the
//! pass that marks them.

use base::Envelope;

macro_rules! phases {
    ($($(#[$doc:meta])* $phase:ident $name:literal),* $(,)?) => {
        /// The last pass that has run on a file. Phases are ordered as the passes are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Phase {
            $($(#[$doc])* $phase),*
        }

        impl Phase {
            /// All phases, in the order of the passes.
            pub const ALL: &'static [Phase] = &[$(Phase::$phase),*];

            /// The name in the header of a file, and the name of the pass that establishes the phase.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Phase::$phase => $name),*
                }
            }
        }
    };
}

phases! {
    /// Clusters of two CTAs are CTA pairs if `tcgen05` can issue their MMAs as a pair. Each CTA then has half of the right operand.
    PairCtas "pair-ctas",
    /// Consecutive loops that copy the same tiles share one multi-stage buffer.
    SharePipelines "share-pipelines",
    /// Functions with loops state an occupancy (CTAs per SM) that the registers of their threads allow.
    LoopOccupancy "loop-occupancy",
    /// Loads for which each iteration would wait are issued one iteration ahead, into registers.
    PrefetchLoads "prefetch-loads",
    /// Each loop that can be pipelined has a schedule.
    Analysis "analysis",
    /// Each buffer has an address and a number of stages.
    Alloc "alloc",
    /// Functions without loops state an occupancy (CTAs per SM) that the registers of their threads allow.
    Occupancy "occupancy",
    /// Pipelined loops have a prologue, a steady state and an epilogue. Accesses to multi-stage buffers name the stage. The TMA
    /// copies of loops have mbarrier pipelines.
    PipelineLoops "pipeline-loops",
    /// MMAs with accumulators in tensor memory have mbarrier pipelines, and the buffers of TMA stores have stages.
    TmemPipelines "tmem-pipelines",
    /// TMA copies before the loops have mbarrier pipelines.
    HoistedCopies "hoisted-copies",
    /// In functions with two compute roles, the ops on which the next MMA depends precede the other ops of the iteration.
    SoftmaxOrder "softmax-order",
    /// Barriers separate conflicting accesses.
    Barriers "barriers",
    /// Heap memory is freed and printed tiles are staged.
    HeapAndPrint "heap-and-print",
    /// Async-proxy fences precede the barriers that need them.
    ProxyFences "proxy-fences",
    /// Functions are split into warp roles, or have one role.
    WarpRoles "warp-roles",
    /// In a CTA pair, one thread per warp signals the leader CTA, and producers wait for the last MMAs before their CTA exits.
    PairTails "pair-tails",
    /// TMA copies that all CTAs of a cluster need are multicast copies.
    Multicast "multicast",
    /// TMA stores wait for the earlier stores that tokens order before them.
    StoreWaits "store-waits",
    /// Shared-memory loads whose fragments are loaded per K step are marked.
    LazyFragments "lazy-fragments",
    /// Shared-memory loads whose first fragments are loaded an iteration ahead are marked.
    PrefetchFragments "prefetch-fragments",
    /// Accesses that also have a version without bounds checks are marked.
    VersionedAccesses "versioned-accesses",
    /// Arithmetic on two registers at once is marked.
    PackedArithmetic "packed-arithmetic",
    /// The file is complete. The verifier checks all rules, hazards included, and `tile-ptx` accepts the file.
    Materialize "materialize",
}

impl Phase {
    /// The phase with this name; `None` if there is no such phase.
    pub fn from_name(name: &str) -> Option<Phase> {
        Self::ALL.iter().copied().find(|phase| phase.name() == name)
    }
    /// The phase that a file header names; `None` if the name is not a phase of `.sched`.
    pub fn from_envelope(envelope: &Envelope) -> Option<Phase> {
        Phase::from_name(&envelope.phase)
    }

    /// Whether files of this phase have a placement for each buffer.
    pub fn has_placements(self) -> bool {
        self >= Phase::Alloc
    }
    /// Whether scheduled loops are written out. From this phase on there are stages, pipelines, waits and MMAs in flight.
    pub fn has_pipelined_loops(self) -> bool {
        self >= Phase::PipelineLoops
    }
    /// Whether the file is complete, so that a program without hazards runs as written.
    pub fn is_complete(self) -> bool {
        self == Phase::Materialize
    }
    /// Whether the next passes need facts about the loops that the file does not contain. Only the run of `tile-sched` that wrote
    /// the loops has these facts, so a later run cannot continue from such a phase.
    pub fn is_draft(self) -> bool {
        (Phase::PipelineLoops..Phase::WarpRoles).contains(&self)
    }
}
