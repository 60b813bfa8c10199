//! Verifier rules of `.as` files (V-AS), which also apply to the program in `.sched` files. A reader may index a verified module
//! without checks.
//!
//! | code | rule |
//! |---|---|
//! | AS001 | structure: ids exist, each op in one place, definitions before uses, terminators last |
//! | AS002 | every location is in the table |
//! | AS003 | the warps of a CTA are a power of two up to the limit, the occupancy exists, and only clusters have ranks |
//! | AS004 | layouts are in the table, which has each once, for five lane bits and all warps |
//! | AS005 | every value has a well-formed type, and its layout holds every element of its tile |
//! | AS006 | buffers give every element one offset, and are in memory that the target has |
//! | AS007 | operands and results of every op have types and layouts that fit it and its atom |
//! | AS008 | ids are in program order and nothing is unreachable |
//! | AS009 | names of functions and globals are unique; a global's data has its type |
//! | AS010 | every region is one block with a terminator that its op allows and the expected values; nesting is limited |
//! | AS011 | a buffer is written before it is read: in program order, and in `.as` on every path |
//! | AS012 | in `.as` every op is complete when the next one starts, and every buffer has one stage |
//! | AS013 | tensor maps refer to the parameters of their function, and are in the table once |
//! | AS014 | a value that one thread computes for several warps reaches them through a buffer |

mod buffers;
mod combine;
mod memory;
mod relations;
mod tables;
mod tmem_rules;
mod written_before_read;
mod zero_init;

use crate::effects::{Completes, Effects};
use crate::layout::{Layout, LayoutId};
use crate::{FunctionAttrs, Module, Op, Type};
use base::diag::{Diagnostic, Result};
use base::ir::{Def, Operation};
use base::text::Function;
use base::{Arena, Block, Body, Envelope, Loc, Region, Target, Value};
use core_dialect::core_ops::Core;
use core_dialect::rules::{self, MiddleOp, MiddleType, Rule, Seen, Uses, described, require};
use core_dialect::tile::Global;
use target_info::Feature;

pub(crate) fn module(module: &Module, envelope: &Envelope) -> Result<()> {
    program(&module.layouts, &module.globals, &module.functions, |_| Vec::new(), envelope)?;
    module.functions.iter().try_for_each(|function| {
        if function.attrs.cta_pair {
            let message = format!("in '{}': only `.sched` can mark a CTA pair", function.name);
            return Err(Diagnostic::invalid("AS012", message).at_loc(&envelope.debug, function.loc));
        }
        written_before_read::on_every_path(&function.body, function.region, &function.attrs).map_err(|(loc, message)| {
            Diagnostic::invalid("AS011", format!("in '{}': {message}", function.name)).at_loc(&envelope.debug, loc)
        })?;
        let mut ops = function.body.ops.values();
        ops.try_for_each(|op| {
            let loads_full_tiles =
                !matches!(op.kind, Op::SharedLoad { per_k_step: true, .. } | Op::SharedLoad { prefetch_next: true, .. });
            let loads_full_tiles = require(loads_full_tiles, || "only `.sched` can mark a per-K-step load".into());
            let versioned = matches!(
                op.kind,
                Op::LoadView { versioned: true, .. }
                    | Op::StoreView { versioned: true, .. }
                    | Op::ReduceView { versioned: true, .. }
                    | Op::CopyView { versioned: true, .. }
            );
            let is_unversioned = require(!versioned, || "only `.sched` can mark a versioned access".into());
            let waits = matches!(op.kind, Op::TmaStore { waits: true, .. });
            let never_waits = require(!waits, || "only `.sched` can make a TMA store wait".into());
            loads_full_tiles.and(is_unversioned).and(never_waits).and_then(|()| check_no_sched_state(&op.kind.effects())).map_err(
                |message| {
                    let message = format!("in '{}': {}: {message}", function.name, op.kind.mnemonic());
                    Diagnostic::invalid("AS012", message).at_loc(&envelope.debug, op.loc)
                },
            )
        })
    })
}

/// Rejects states that exist only in `.sched`: operations in flight, and buffers with several stages.
fn check_no_sched_state(effects: &Effects<'_>) -> Rule {
    require(effects.completes != Completes::WithMmaGroup, || "it stays in flight, but `.as` has no waits".into())?;
    let stages = effects.buffers.iter().all(|access| access.stage.is_none());
    require(stages, || "buffers have one stage in `.as`".into())
}

/// An op of this format, or of a format that extends it.
pub trait Program: MiddleOp {
    /// The op of this format; none for an op of the extending format.
    fn program(&self) -> Option<&Op>;
    fn effects(&self) -> Option<Effects<'_>> {
        self.program().map(Op::effects)
    }
    /// Returns whether the op reads a value only from the one thread that computes it, not from all threads that hold the tile.
    fn reads_from_one_thread(&self) -> bool {
        matches!(self.program(), Some(Op::SharedStore { .. }))
    }
}

impl Program for Op {
    fn program(&self) -> Option<&Op> {
        Some(self)
    }
}

impl AsRef<FunctionAttrs> for FunctionAttrs {
    fn as_ref(&self) -> &FunctionAttrs {
        self
    }
}

/// A region that only some warps of the CTA execute, and their number; its layouts cover these warps.
pub type ExecutedRegion = (Region, u32);

/// Checks the rules for a program of this format or of one that extends it. `parts` returns the warp-role regions of a function, if
/// it has any.
pub fn program<O: Program, A: AsRef<FunctionAttrs>>(
    layouts: &Arena<LayoutId, Layout>,
    globals: &[Global],
    functions: &[Function<O, Type, A>],
    parts: impl Fn(&Function<O, Type, A>) -> Vec<ExecutedRegion>,
    envelope: &Envelope,
) -> Result<()> {
    let target = envelope.target()?;
    let invalid = |code: &str, message: String| Diagnostic::invalid(code, message);
    rules::names(globals, functions.iter().map(|f| f.name.as_str())).map_err(|message| invalid("AS009", message))?;
    let locs = &envelope.debug.locs;
    let everywhere = globals.iter().map(|global| global.loc).chain(functions.iter().map(|function| function.loc));
    let ops = functions.iter().flat_map(|function| function.body.ops.values().map(|op| op.loc));
    if let Some(loc) = everywhere.chain(ops).find(|loc| locs.get(*loc).is_none()) {
        return Err(invalid("AS002", format!("an op, function or global has location {loc}, which is not in the table")));
    }
    tables::layouts(layouts).map_err(|message| invalid("AS004", message))?;
    functions.iter().try_for_each(|function| {
        let attrs = function.attrs.as_ref();
        let check = Check { layouts, globals, attrs, warps: attrs.warps, target };
        check.function(function, &parts(function)).map_err(|Breach { code, loc, message }| {
            invalid(code, format!("in '{}': {message}", function.name)).at_loc(&envelope.debug, loc)
        })
    })
}

/// A violated rule: its code, location and message.
struct Breach {
    code: &'static str,
    loc: Loc,
    message: String,
}

/// The inputs for the rules of one function.
#[derive(Clone, Copy)]
struct Check<'a> {
    layouts: &'a Arena<LayoutId, Layout>,
    globals: &'a [Global],
    attrs: &'a FunctionAttrs,
    /// The warps that execute the code under check; 0 where no tile may be.
    warps: u32,
    target: Target,
}

/// The warps that execute each block of a body: all warps, unless it has warp roles. Then no op outside the roles uses tiles.
fn executors<O: Operation>(body: &Body<O, Type>, all: u32, parts: &[ExecutedRegion]) -> Vec<u32> {
    let mut warps = vec![if parts.is_empty() { all } else { 0 }; body.blocks.len()];
    for (region, own) in parts {
        let inner = body.walk(*region).into_iter().flat_map(|op| body.ops[op].kind.regions());
        for region in inner.chain([*region]) {
            body.regions[region].blocks.iter().for_each(|block| warps[block.0 as usize] = *own);
        }
    }
    warps
}

impl Check<'_> {
    fn function<O: Program, A>(
        &self,
        function: &Function<O, Type, A>,
        parts: &[ExecutedRegion],
    ) -> std::result::Result<(), Breach> {
        let body = &function.body;
        let breach = |code: &'static str, loc: Loc| move |message: String| Breach { code, loc, message };
        let here = function.loc;
        body.verify_structure(function.region).map_err(breach("AS001", here))?;
        require(base::text::is_compact(function), || "ids are not in program order".into()).map_err(breach("AS008", here))?;
        tables::cta(self.attrs, !parts.is_empty()).map_err(breach("AS003", here))?;
        let cluster = self.attrs.cluster;
        let has_clusters = cluster.is_none() || self.target.has(Feature::Clusters);
        require(has_clusters, || "the target has no clusters".into()).map_err(breach("AS003", here))?;
        rules::cluster(body, cluster).map_err(breach("AS003", here))?;
        let can_be_cta_pair = cluster == Some(crate::tensor_memory::CTA_PAIR) && self.target.has(Feature::TensorMemory);
        require(can_be_cta_pair || !self.attrs.cta_pair, || "the cluster or the target has no CTA pair with tensor memory".into())
            .map_err(breach("AS003", here))?;
        let executors = executors(body, self.warps, parts);
        let by_warps_of = |block: Block| Check { warps: executors[block.0 as usize], ..*self };
        let op_blocks: Vec<Block> = body.op_blocks().into_iter().map(|block| block.expect("each op is in one place")).collect();
        for (value, node) in body.values.iter() {
            let block = match node.def {
                Def::Argument { block, .. } => block,
                Def::Result { op, .. } => op_blocks[op.0 as usize],
            };
            by_warps_of(block).value(&node.ty).map_err(|message| breach("AS005", here)(format!("{value}: {message}")))?;
        }
        let params = function.params();
        let scalars = params.iter().all(|param| matches!(body.ty(*param), Type::Scalar(_)));
        require(scalars, || "a kernel's parameters are scalars".into()).map_err(breach("AS005", here))?;
        tables::buffers(self.attrs).and_then(|()| self.has_tensor_memory()).map_err(breach("AS006", here))?;
        tables::maps(self.attrs, params.len()).map_err(breach("AS013", here))?;
        rules::regions(body, function.region, here).map_err(|(loc, message)| breach("AS010", loc)(message))?;
        let has_clc = !rules::uses_clc(body) || self.target.has(Feature::ClusterLaunchControl);
        require(has_clc, || "the target has no cluster launch control".into()).map_err(breach("AS003", here))?;
        let outermost = parts.iter().map(|(region, _)| body.block_of(*region)).chain([function.entry()]);
        rules::clc_loops(body, &outermost.collect::<Vec<_>>()).map_err(breach("AS010", here))?;
        for (id, op) in body.ops.iter() {
            let uses = Uses { body, globals: self.globals, op };
            op.kind
                .program()
                .map_or(Ok(()), |kind| by_warps_of(op_blocks[id.0 as usize]).op(&uses, kind))
                .map_err(|message| breach("AS007", op.loc)(format!("{}: {message}", described(body, id))))?;
        }
        let is_in_several = |value: Value| {
            let Def::Result { op, .. } = body.values[value].def else { return false };
            let check = by_warps_of(op_blocks[op.0 as usize]);
            let holds = !matches!(body.ty(value), Type::Token);
            holds && body.ty(value).layout().map_or(check.warps > 1, |id| self.layouts[id].warp.contains(&0))
        };
        buffers::goes_through_a_buffer(body, is_in_several).map_err(|(loc, message)| breach("AS014", loc)(message))?;
        if !parts.is_empty() {
            // Warp roles run concurrently, so program order does not prove that a write precedes a read.
            return Ok(());
        }
        buffers::written_before_read(body, function.region, self.attrs).map_err(|(loc, message)| breach("AS011", loc)(message))
    }

    fn value(&self, ty: &Type) -> Rule {
        rules::well_formed(ty.seen())?;
        let Type::Tile { shape, layout, .. } = ty else { return Ok(()) };
        require(!shape.is_empty(), || "a tile needs at least one dimension".into())?;
        let layout = self.layouts.get(*layout).ok_or("its layout is not in the table")?;
        require(self.warps > 0, || "it is a tile outside all warp roles".into())?;
        require(1 << layout.warp.len() == self.warps, || {
            format!("its layout is for {} warps, not {}", layout.warps(), self.warps)
        })?;
        layout.covers(shape.iter().map(|extent| extent.trailing_zeros()).sum())
    }

    fn op<O: Program>(&self, uses: &Uses<'_, O, Type>, kind: &Op) -> Rule {
        match kind {
            Op::Core(core) => {
                uses.core(core)?;
                self.core_layouts(uses, core)
            }
            Op::Coordinate { dim } => {
                let (elem, shape) = uses.result_tile()?;
                let extent = shape.get(*dim as usize).ok_or("there is no such dimension")?;
                let counts = |scalar: numerics::Scalar| scalar.is_int() && u64::from(extent - 1) <= scalar.mask();
                require(elem.scalar().is_some_and(counts), || {
                    "the element type must be an integer that holds every coordinate".into()
                })
            }
            Op::ConvertLayout { x, route } => {
                uses.results(&[uses.seen(*x)])?;
                self.layout_conversion(uses, *x, *route)
            }
            Op::LoadView { .. }
            | Op::StoreView { .. }
            | Op::CopyView { .. }
            | Op::TmaLoad { .. }
            | Op::TmaStore { .. }
            | Op::Copy { .. }
            | Op::ReduceView { .. }
            | Op::MulticastLoad { .. }
            | Op::MulticastStore { .. }
            | Op::Load { .. }
            | Op::Store { .. }
            | Op::AtomicRmw { .. }
            | Op::AtomicCas { .. } => self.memory(uses, kind),
            Op::SharedStore { .. } | Op::SharedLoad { .. } | Op::SharedGather { .. } | Op::SharedScatter { .. } => {
                self.shared(uses, kind)
            }
            Op::TmemLoad { .. } | Op::TmemStore { .. } | Op::TmemScale { .. } => self.tensor_access(uses, kind),
            Op::ReduceRegisters { .. } | Op::ReduceLanes { .. } | Op::Scan { .. } | Op::Mma { .. } => self.combination(uses, kind),
        }
    }

    /// The layout of a tile; a scalar is in one register of every thread.
    fn layout<O: Program>(&self, uses: &Uses<'_, O, Type>, value: Value) -> Layout {
        let scalar = || Layout::uniform(self.warps.checked_ilog2().unwrap_or(0) as usize);
        uses.body.ty(value).layout().map_or_else(scalar, |id| self.layouts[id].clone())
    }

    /// All values have one layout. Values that are not tiles are in every thread.
    fn check_same_layout<O: Program>(&self, uses: &Uses<'_, O, Type>, values: &[Value]) -> Rule {
        let mut layouts = values.iter().filter_map(|value| uses.body.ty(*value).layout().map(|layout| (*value, layout)));
        let Some((first, layout)) = layouts.next() else { return Ok(()) };
        match layouts.find(|(_, other)| *other != layout) {
            Some((other, _)) => Err(format!("{first} and {other} are in different layouts")),
            None => Ok(()),
        }
    }
}
