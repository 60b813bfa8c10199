//! Converts `.tile` to `.aa` (TileAA) op by op: memory becomes explicit, without optimisation.
//!
//! A worklist of regions replaces recursion. Reason: the input decides the nesting depth, so recursion could overflow the stack.
//! Types follow from the source types and the [`provenance`] of pointers, so an op can be converted before its regions.

mod arithmetic;
mod memory;
mod op_groups;
mod provenance;
mod shapes;
mod structure;
mod types;

use base::diag::{Diagnostic, Result};
use base::ir::{Block, Op as OpId, Operation, Region};
use base::{DebugInfo, Loc, Value};
use core_dialect::core_ops::Core;
use core_dialect::rules::{MAX_NESTED, OpParents};
use core_dialect::tile::{Dense, MAX_ALIGNMENT, Space};
use op_groups::OpGroup;
use provenance::Provenance;
use tileaa::module::Sharing;
use tileaa::{FunctionAttrs, Global, Hint, KernelSpec};
use tileir::enums::{PointerSharing, Visibility};
use tileir::types::{Dictionary, Element};
use tileir::{Attribute, Module, Op, Type, TypeId};

/// Converts a module. Rejects calls and overaligned globals.
pub(crate) fn convert_module(module: &Module, debug: &DebugInfo) -> Result<tileaa::Module> {
    let globals = module.globals.iter().map(|global| convert_global(module, global, debug)).collect::<Result<_>>()?;
    module.functions.iter().try_for_each(|function| reject_calls(module, function, debug))?;
    let functions =
        module.functions.iter().map(|function| Converter::convert_function(module, function, debug)).collect::<Result<_>>()?;
    Ok(tileaa::Module { globals, functions })
}

/// Reports an error if a function contains a call. Reason: device functions are not compiled. Declarations without calls are
/// accepted.
fn reject_calls(module: &Module, function: &tileir::Function, debug: &DebugInfo) -> Result<()> {
    let call = function.body.ops.values().find_map(|node| match &node.kind {
        Op::PreviewCall { callee, .. } => Some((callee.0, node.loc)),
        _ => None,
    });
    let Some((callee, loc)) = call else { return Ok(()) };
    let message = format!("op 'preview$call' of @{} is not supported on any target", module.string(callee));
    Err(Diagnostic::unsupported("LAA005", message).at_loc(debug, loc))
}

fn convert_global(module: &Module, global: &tileir::Global, debug: &DebugInfo) -> Result<Global> {
    let (element, shape) = module.tile(global.ty);
    let natural_alignment = u64::from(element.bits().div_ceil(8));
    // Alignment 0 requests only the natural alignment of the element. Tile IR accepts any number, so round up to a power of two.
    let align = global.alignment.max(natural_alignment).checked_next_power_of_two().filter(|align| *align <= MAX_ALIGNMENT);
    let too_large = || {
        let message =
            format!("alignment {} of global @{} is larger than {MAX_ALIGNMENT}", global.alignment, module.string(global.name));
        Diagnostic::unsupported("LAA006", message).at_loc(debug, global.loc)
    };
    Ok(Global {
        name: module.string(global.name).into(),
        elem: element.scalar().expect("elements of globals are no pointers"),
        count: shape.iter().product::<i64>() as u64,
        value: dense_constant(module, global.value, global.ty),
        align: align.ok_or_else(too_large)?,
        constant: global.constant,
        private: global.visibility == Visibility::Private,
        loc: global.loc,
    })
}

/// The data of a constant, as a splat if all elements are equal.
fn dense_constant(module: &Module, id: tileir::ConstantId, ty: TypeId) -> Dense {
    if let Some(bits) = module.splat(id, ty) {
        return Dense::Splat(bits);
    }
    let elements: Vec<u64> = module.elements(id, ty).collect();
    match elements.split_first() {
        Some((first, rest)) if rest.iter().all(|bits| bits == first) => Dense::Splat(*first),
        _ => Dense::Elements(elements),
    }
}

/// Reports that a function received an op of another [`OpGroup`].
fn wrong_group(op: &Op) -> ! {
    unreachable!("'{}' is in group {:?}", op.mnemonic(), OpGroup::of_op(op))
}

/// The state of a function's conversion.
struct Converter<'a> {
    module: &'a Module,
    /// The function to convert.
    source: &'a tileir::Function,
    /// The address space and alias scope of each pointer of the source function.
    provenance: Provenance,
    /// The new function.
    out: tileaa::Function,
    /// For each value of the source function, the corresponding value of the new function; `None` before its conversion.
    value_map: Vec<Option<Value>>,
    /// Source regions that are not yet converted, each with its new region.
    pending_regions: Vec<(Region, Region)>,
    /// The block to which new ops are appended.
    block: Block,
    /// The location of the current source op, which its new ops get.
    loc: Loc,
}

impl<'a> Converter<'a> {
    fn convert_function(module: &'a Module, source: &'a tileir::Function, debug: &DebugInfo) -> Result<tileaa::Function> {
        let attrs = FunctionAttrs {
            hints: source.hints.iter().flat_map(|hints| kernel_hints(module, hints)).collect(),
            private: source.visibility == Visibility::Private,
            cluster: None,
            shares: sharing_kinds(module, source),
            facts: Vec::new(),
        };
        let out = tileaa::Function::new(module.string(source.name), attrs, source.loc);
        let mut converter = Converter {
            module,
            source,
            provenance: Provenance::analyse(module, source),
            block: out.entry(),
            loc: source.loc,
            pending_regions: Vec::new(),
            value_map: vec![None; source.body.values.len()],
            out,
        };
        converter.convert_block(source.region, converter.out.region)?;
        while let Some((from, to)) = converter.pending_regions.pop() {
            converter.out.body.new_block(to);
            converter.convert_block(from, to)?;
        }
        let converted = base::text::compact(&converter.out);
        if OpParents::analyse(&converted.body, converted.region).deepest > MAX_NESTED {
            let message = format!("'{}' has ops nested deeper than {MAX_NESTED} levels, which is not supported", converted.name);
            return Err(Diagnostic::unsupported("LAA004", message).at_loc(debug, converted.loc));
        }
        debug_assert!(converted.body.ops.values().all(|op| debug.locs.get(op.loc).is_some()));
        Ok(converted)
    }

    /// Converts the only block of a region. A region without a block is an empty `else`, which becomes a block with a `yield`.
    fn convert_block(&mut self, from: Region, to: Region) -> Result<()> {
        self.block = self.out.body.block_of(to);
        let Some(&block) = self.source.body.regions[from].blocks.first() else {
            self.append_core(Core::Yield { values: Vec::new() }, []);
            return Ok(());
        };
        let block = &self.source.body.blocks[block];
        for &arg in &block.args {
            let ty = self.new_type(arg)?;
            let new = self.out.body.add_argument(self.block, ty);
            self.value_map[arg.0 as usize] = Some(new);
        }
        for &op in &block.ops {
            self.loc = self.source.body.ops[op].loc;
            self.convert_op(op)?;
        }
        Ok(())
    }

    fn convert_op(&mut self, op: OpId) -> Result<()> {
        let kind = &self.source.body.ops[op].kind;
        let results = &self.source.body.ops[op].results;
        let converted: tileaa::Op = match OpGroup::of_op(kind) {
            OpGroup::Unary => self.unary_op(kind).into(),
            OpGroup::Binary => self.binary_op(kind).into(),
            OpGroup::Conversion => self.conversion_op(kind).into(),
            OpGroup::OtherElementwise => self.other_elementwise_op(kind, results).into(),
            OpGroup::Shape => self.shape_op(kind).into(),
            OpGroup::ControlFlow => self.control_flow_op(kind).into(),
            OpGroup::TokenOrMessage => self.token_or_message_op(kind).into(),
            OpGroup::ViewOrAddress => self.view_or_address_op(kind).into(),
            OpGroup::ReductionOrMma => self.reduction_or_mma(kind)?,
            OpGroup::ViewAccess => self.view_access(kind),
            OpGroup::PointerAccess => self.pointer_access(kind),
            OpGroup::PerAxis => return self.convert_per_axis(kind, results),
            OpGroup::Call => unreachable!("`convert_module` rejects calls"),
        };
        let types = results.iter().map(|result| self.new_type(*result)).collect::<Result<Vec<_>>>()?;
        let new = self.out.body.append(self.block, converted, types, self.loc);
        for (old, new) in results.iter().zip(&self.out.body.ops[new].results) {
            self.value_map[old.0 as usize] = Some(*new);
        }
        Ok(())
    }

    /// Converts an op that has one result per grid axis to one op per axis.
    fn convert_per_axis(&mut self, kind: &Op, results: &[Value]) -> Result<()> {
        for (axis, &result) in results.iter().enumerate() {
            let axis = axis as u32;
            let core = match kind {
                Op::GetTileBlockId {} => Core::BlockId { axis },
                Op::GetNumTileBlocks {} => Core::BlockCount { axis },
                op => wrong_group(op),
            };
            let ty = self.new_type(result)?;
            self.value_map[result.0 as usize] = Some(self.append_core(core, [ty])[0]);
        }
        Ok(())
    }

    /// Appends a core op to the current block and returns its results.
    fn append_core(&mut self, core: Core, types: impl IntoIterator<Item = tileaa::Type>) -> Vec<Value> {
        let op = self.out.body.append(self.block, core.into(), types, self.loc);
        self.out.body.ops[op].results.to_vec()
    }

    /// The value of the new function that corresponds to a value of the source function.
    fn new_value(&self, old: Value) -> Value {
        self.value_map[old.0 as usize].expect("the verifier checks that definitions dominate uses")
    }
    /// The values of the new function for values of the source function.
    fn new_values(&self, old: &[Value]) -> Vec<Value> {
        old.iter().map(|value| self.new_value(*value)).collect()
    }
    fn new_optional_value(&self, old: Option<Value>) -> Option<Value> {
        old.map(|value| self.new_value(value))
    }

    /// The type in the new function of a value of the source function.
    fn new_type(&self, old: Value) -> Result<tileaa::Type> {
        let base = self.base_of(old);
        let (space, alias_scope) =
            base.map_or((Space::Global, 0), |ptr| (self.provenance.space(ptr), self.provenance.alias_scope(ptr)));
        types::convert_type(self.module, *self.source.body.ty(old), space, alias_scope)
    }

    /// The base pointer of a view, or the pointer itself. A view's defining op is always known, because no block argument is a
    /// view.
    fn base_of(&self, mut value: Value) -> Option<Value> {
        loop {
            match self.module.ty(*self.source.body.ty(value)) {
                Type::Tile { .. } => return Some(value),
                Type::Token => return None,
                _ => {}
            }
            value = match &self.source.body.ops[self.source.body.defining_op(value)?].kind {
                Op::MakeTensorView { base, .. } => *base,
                Op::MakePartitionView { tensor_view }
                | Op::MakeStridedView { tensor_view }
                | Op::MakeGatherScatterView { tensor_view } => *tensor_view,
                Op::Assume { value, .. } => *value,
                _ => return None,
            };
        }
    }

    /// Creates a region and queues the conversion of `from` into it.
    fn queue_region(&mut self, from: Region) -> Region {
        let to = self.out.body.new_region();
        self.pending_regions.push((from, to));
        to
    }
}

/// The kinds of sharing between devices of the memory to which operands and results point, each kind once. Unused parameters do
/// not count.
fn sharing_kinds(module: &Module, source: &tileir::Function) -> Vec<Sharing> {
    let body = &source.body;
    let ops = body.walk(source.region).into_iter().map(|op| &body.ops[op]);
    let values = ops.flat_map(|node| node.kind.operands().into_iter().chain(node.results.iter().copied()));
    let mut kinds: Vec<Sharing> = values.filter_map(|value| sharing_kind(module, *body.ty(value))).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

/// The kind of sharing between devices of the memory to which a type points. `None` if the type states no kind.
fn sharing_kind(module: &Module, ty: tileir::TypeId) -> Option<Sharing> {
    let space = match module.ty(ty) {
        Type::Ptr(pointer) | Type::Tile { element: Element::Ptr(pointer), .. } => pointer.space,
        Type::TensorView { space, .. } => *space,
        other => return sharing_kind(module, other.tile_view()?.1),
    };
    match space {
        PointerSharing::Absent | PointerSharing::None => None,
        PointerSharing::Unicast => Some(Sharing::Unicast),
        PointerSharing::Multicast => Some(Sharing::Multicast),
    }
}

/// The kernel hints of the program's author, by target name.
fn kernel_hints<'a>(module: &'a Module, hints: &'a Dictionary) -> impl Iterator<Item = Hint> + 'a {
    hints.iter().map(|(target, entries)| {
        let hint_value = |key| hint_entry(module, entries, key).and_then(as_u32);
        let spec = KernelSpec {
            ctas_per_cluster: hint_value("num_cta_in_cga"),
            worker_warps: hint_value("num_worker_warps_per_cta"),
            occupancy: hint_value("occupancy"),
        };
        Hint { target: module.string(*target).into(), spec }
    })
}

/// An entry of a hint dictionary. Malformed hints are ignored, because hints never make a program invalid.
fn hint_entry<'a>(module: &'a Module, entries: &'a Attribute, key: &str) -> Option<&'a Attribute> {
    match entries {
        Attribute::Dictionary(entries) | Attribute::OptimizationHints(entries) => {
            entries.iter().find(|(name, _)| module.string(*name) == key).map(|(_, value)| value)
        }
        _ => None,
    }
}

/// An integer attribute, if it fits 32 bits.
fn as_u32(attribute: &Attribute) -> Option<u32> {
    match attribute {
        Attribute::Integer { bits, .. } => u32::try_from(*bits).ok(),
        _ => None,
    }
}
