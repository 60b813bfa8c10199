//! Verifier rules of `.as` files, which also apply to the program in `.sched` files. Code that receives a verified module may index
//! its tables without bounds checks.
//!
//! | code | rule |
//! |---|---|
//! | AS001 | structure: ids exist, each op is in one block, definitions dominate uses, terminators are last |
//! | AS002 | every location is in the table |
//! | AS003 | the warps of a CTA are a power of two up to the limit, the occupancy is possible, `cluster_rank` needs a cluster |
//! | AS004 | each layout of the table has five lane bits and is in the table once |
//! | AS005 | every value has a well-formed type, and its layout holds every element of its tile |
//! | AS006 | a buffer gives every element one offset, and the target has the memory |
//! | AS007 | operands and results of every op have types and layouts that fit it and its atom |
//! | AS008 | ids are in program order and all entities are reachable |
//! | AS009 | names of functions and globals are unique; a global's data has its type |
//! | AS010 | every region is one block; its terminator fits its op and forwards values of the expected types; nesting is limited |
//! | AS011 | a buffer is written before it is read: in program order, and in `.as` on every path |
//! | AS012 | in `.as`, every op is complete when the next op starts, and no op or buffer has a state that only `.sched` has |
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
use core_dialect::rules::{self, CoreDialectOp, CoreDialectType, CoreType, OpContext, RuleResult, describe_op, require};
use core_dialect::tile::Global;
use target_info::Feature;

/// Checks an `.as` module.
pub(crate) fn check_module(module: &Module, envelope: &Envelope) -> Result<()> {
    check_program(&module.layouts, &module.globals, &module.functions, |_| Vec::new(), envelope)?;
    module.functions.iter().try_for_each(|function| {
        if function.attrs.cta_pair {
            let message = format!("in '{}': only `.sched` can mark a CTA pair", function.name);
            return Err(Diagnostic::invalid("AS012", message).at_loc(&envelope.debug, function.loc));
        }
        written_before_read::check_every_path(&function.body, function.region, &function.attrs).map_err(|(loc, message)| {
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
fn check_no_sched_state(effects: &Effects<'_>) -> RuleResult {
    require(effects.completes != Completes::WithMmaGroup, || "it stays in flight, but `.as` has no waits".into())?;
    let has_no_stages = effects.buffers.iter().all(|access| access.stage.is_none());
    require(has_no_stages, || "buffers have one stage in `.as`".into())
}

/// An op of `.as`, or of `.sched`, which extends `.as`.
pub trait TileAsOp: CoreDialectOp {
    /// The `.as` op; `None` for an op that only `.sched` has.
    fn tileas_op(&self) -> Option<&Op>;
    /// The effects of the op. The default is `None` for an op that only `.sched` has.
    fn effects(&self) -> Option<Effects<'_>> {
        self.tileas_op().map(Op::effects)
    }
    /// Returns whether the op may use the result of a single-thread op, such as an atomic (rule AS014). The op reads each element
    /// only in the thread that computed it.
    fn reads_from_one_thread(&self) -> bool {
        matches!(self.tileas_op(), Some(Op::SharedStore { .. }))
    }
}

impl TileAsOp for Op {
    fn tileas_op(&self) -> Option<&Op> {
        Some(self)
    }
}

impl AsRef<FunctionAttrs> for FunctionAttrs {
    fn as_ref(&self) -> &FunctionAttrs {
        self
    }
}

/// The region of a warp role, and the number of warps that execute the region. Layouts in the region distribute a tile over these
/// warps.
pub type ExecutedRegion = (Region, u32);

/// Checks the rules for the program of an `.as` or `.sched` file. `role_regions` returns the regions of a function's warp roles;
/// the list is empty without warp roles.
pub fn check_program<O: TileAsOp, A: AsRef<FunctionAttrs>>(
    layouts: &Arena<LayoutId, Layout>,
    globals: &[Global],
    functions: &[Function<O, Type, A>],
    role_regions: impl Fn(&Function<O, Type, A>) -> Vec<ExecutedRegion>,
    envelope: &Envelope,
) -> Result<()> {
    let target = envelope.target()?;
    let invalid = |code: &str, message: String| Diagnostic::invalid(code, message);
    rules::check_names(globals, functions.iter().map(|f| f.name.as_str())).map_err(|message| invalid("AS009", message))?;
    let locs = &envelope.debug.locs;
    let outer_locs = globals.iter().map(|global| global.loc).chain(functions.iter().map(|function| function.loc));
    let op_locs = functions.iter().flat_map(|function| function.body.ops.values().map(|op| op.loc));
    if let Some(loc) = outer_locs.chain(op_locs).find(|loc| locs.get(*loc).is_none()) {
        return Err(invalid("AS002", format!("an op, function or global has location {loc}, which is not in the table")));
    }
    tables::check_layouts(layouts).map_err(|message| invalid("AS004", message))?;
    functions.iter().try_for_each(|function| {
        let attrs = function.attrs.as_ref();
        let checker = FunctionChecker { layouts, globals, attrs, warps: attrs.warps, target };
        checker.check_function(function, &role_regions(function)).map_err(|Breach { code, loc, message }| {
            invalid(code, format!("in '{}': {message}", function.name)).at_loc(&envelope.debug, loc)
        })
    })
}

/// A violated rule: its code, location and message.
struct Breach {
    /// The code of the rule, as `AS014`.
    code: &'static str,
    loc: Loc,
    message: String,
}

/// Checks the rules for one function. The fields are the inputs of the rules.
#[derive(Clone, Copy)]
struct FunctionChecker<'a> {
    layouts: &'a Arena<LayoutId, Layout>,
    globals: &'a [Global],
    /// The attributes of the function under check.
    attrs: &'a FunctionAttrs,
    /// The number of warps that execute the code under check; 0 outside all warp roles, where no tile may be.
    warps: u32,
    target: Target,
}

/// Returns the number of warps that execute each block of a body, by block id. Without warp roles, `all` warps execute each block.
/// With warp roles, the warps of the role execute a block of its body. The number is 0 for blocks outside all roles, where no op
/// uses tiles.
fn warps_of_blocks<O: Operation>(body: &Body<O, Type>, all: u32, role_regions: &[ExecutedRegion]) -> Vec<u32> {
    let mut warps = vec![if role_regions.is_empty() { all } else { 0 }; body.blocks.len()];
    for (region, role_warps) in role_regions {
        let inner = body.walk(*region).into_iter().flat_map(|op| body.ops[op].kind.regions());
        for region in inner.chain([*region]) {
            body.regions[region].blocks.iter().for_each(|block| warps[block.0 as usize] = *role_warps);
        }
    }
    warps
}

impl FunctionChecker<'_> {
    /// Checks all rules for a function. `role_regions`: see [`check_program`].
    fn check_function<O: TileAsOp, A>(
        &self,
        function: &Function<O, Type, A>,
        role_regions: &[ExecutedRegion],
    ) -> std::result::Result<(), Breach> {
        let body = &function.body;
        let breach = |code: &'static str, loc: Loc| move |message: String| Breach { code, loc, message };
        let function_loc = function.loc;
        body.verify_structure(function.region).map_err(breach("AS001", function_loc))?;
        require(base::text::is_compact(function), || "ids are not in program order".into())
            .map_err(breach("AS008", function_loc))?;
        tables::check_cta(self.attrs, !role_regions.is_empty()).map_err(breach("AS003", function_loc))?;
        let cluster = self.attrs.cluster;
        let has_clusters = cluster.is_none() || self.target.has(Feature::Clusters);
        require(has_clusters, || "the target has no clusters".into()).map_err(breach("AS003", function_loc))?;
        rules::check_cluster(body, cluster).map_err(breach("AS003", function_loc))?;
        let can_be_cta_pair = cluster == Some(crate::tensor_memory::CTA_PAIR) && self.target.has(Feature::TensorMemory);
        require(can_be_cta_pair || !self.attrs.cta_pair, || "the cluster or the target has no CTA pair with tensor memory".into())
            .map_err(breach("AS003", function_loc))?;
        let warps_of_blocks = warps_of_blocks(body, self.warps, role_regions);
        let checker_of_block = |block: Block| FunctionChecker { warps: warps_of_blocks[block.0 as usize], ..*self };
        let op_blocks: Vec<Block> = body.op_blocks().into_iter().map(|block| block.expect("each op is in one block")).collect();
        for (value, node) in body.values.iter() {
            let block = match node.def {
                Def::Argument { block, .. } => block,
                Def::Result { op, .. } => op_blocks[op.0 as usize],
            };
            checker_of_block(block)
                .check_type(&node.ty)
                .map_err(|message| breach("AS005", function_loc)(format!("{value}: {message}")))?;
        }
        let params = function.params();
        let are_scalars = params.iter().all(|param| matches!(body.ty(*param), Type::Scalar(_)));
        require(are_scalars, || "a kernel's parameters are scalars".into()).map_err(breach("AS005", function_loc))?;
        tables::check_buffers(self.attrs).and_then(|()| self.check_has_tensor_memory()).map_err(breach("AS006", function_loc))?;
        tables::check_maps(self.attrs, params.len()).map_err(breach("AS013", function_loc))?;
        rules::check_regions(body, function.region, function_loc).map_err(|(loc, message)| breach("AS010", loc)(message))?;
        let has_clc = !rules::uses_clc(body) || self.target.has(Feature::ClusterLaunchControl);
        require(has_clc, || "the target has no cluster launch control".into()).map_err(breach("AS003", function_loc))?;
        let outermost = role_regions.iter().map(|(region, _)| body.block_of(*region)).chain([function.entry()]);
        rules::check_clc_loops(body, &outermost.collect::<Vec<_>>()).map_err(breach("AS010", function_loc))?;
        for (id, op) in body.ops.iter() {
            let context = OpContext { body, globals: self.globals, op };
            op.kind
                .tileas_op()
                .map_or(Ok(()), |kind| checker_of_block(op_blocks[id.0 as usize]).check_op(&context, kind))
                .map_err(|message| breach("AS007", op.loc)(format!("{}: {message}", describe_op(body, id))))?;
        }
        let is_in_several = |value: Value| {
            let Def::Result { op, .. } = body.values[value].def else { return false };
            let checker = checker_of_block(op_blocks[op.0 as usize]);
            let is_data = !matches!(body.ty(value), Type::Token);
            is_data && body.ty(value).layout().map_or(checker.warps > 1, |id| self.layouts[id].warp.contains(&0))
        };
        buffers::check_single_thread_values(body, is_in_several).map_err(|(loc, message)| breach("AS014", loc)(message))?;
        if !role_regions.is_empty() {
            // Warp roles run concurrently, so program order does not prove that a write precedes a read.
            return Ok(());
        }
        buffers::check_written_before_read(body, function.region, self.attrs)
            .map_err(|(loc, message)| breach("AS011", loc)(message))
    }

    /// Checks the type of a value, and that its layout covers its tile.
    fn check_type(&self, ty: &Type) -> RuleResult {
        rules::check_type(ty.core_type())?;
        let Type::Tile { shape, layout, .. } = ty else { return Ok(()) };
        require(!shape.is_empty(), || "a tile needs at least one dimension".into())?;
        let layout = self.layouts.get(*layout).ok_or("its layout is not in the table")?;
        require(self.warps > 0, || "it is a tile outside all warp roles".into())?;
        require(1 << layout.warp.len() == self.warps, || {
            format!("its layout is for {} warps, not {}", layout.warps(), self.warps)
        })?;
        layout.covers(shape.iter().map(|extent| extent.trailing_zeros()).sum())
    }

    /// Checks the operands, results and atom of an op.
    fn check_op<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, kind: &Op) -> RuleResult {
        match kind {
            Op::Core(core) => {
                context.check_core(core)?;
                self.check_core_layouts(context, core)
            }
            Op::Coordinate { dim } => {
                let (elem, shape) = context.result_tile()?;
                let extent = shape.get(*dim as usize).ok_or("there is no such dimension")?;
                let holds_coordinates = |scalar: numerics::Scalar| scalar.is_int() && u64::from(extent - 1) <= scalar.mask();
                require(elem.scalar().is_some_and(holds_coordinates), || {
                    "the element type must be an integer that holds every coordinate".into()
                })
            }
            Op::ConvertLayout { x, route } => {
                context.check_results(&[context.core_type(*x)])?;
                self.check_layout_conversion(context, *x, *route)
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
            | Op::AtomicCas { .. } => self.check_global_access(context, kind),
            Op::SharedStore { .. } | Op::SharedLoad { .. } | Op::SharedGather { .. } | Op::SharedScatter { .. } => {
                self.check_shared_access(context, kind)
            }
            Op::TmemLoad { .. } | Op::TmemStore { .. } | Op::TmemScale { .. } => self.check_tmem_access(context, kind),
            Op::ReduceRegisters { .. } | Op::ReduceLanes { .. } | Op::Scan { .. } | Op::Mma { .. } => {
                self.check_combination(context, kind)
            }
        }
    }

    /// The layout of a tile. For a scalar, the result is the uniform layout: every thread holds the scalar in one register.
    fn layout_of<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, value: Value) -> Layout {
        let scalar = || Layout::uniform(self.warps.checked_ilog2().unwrap_or(0) as usize);
        context.body.ty(value).layout().map_or_else(scalar, |id| self.layouts[id].clone())
    }

    /// Checks that all tiles among the values have the same layout.
    fn check_same_layout<O: TileAsOp>(&self, context: &OpContext<'_, O, Type>, values: &[Value]) -> RuleResult {
        let mut layouts = values.iter().filter_map(|value| context.body.ty(*value).layout().map(|layout| (*value, layout)));
        let Some((first, layout)) = layouts.next() else { return Ok(()) };
        match layouts.find(|(_, other)| *other != layout) {
            Some((other, _)) => Err(format!("{first} and {other} are in different layouts")),
            None => Ok(()),
        }
    }
}
