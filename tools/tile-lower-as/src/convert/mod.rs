//! Purpose: rewrite a function from `.aa` to `.as` as its [`LoweringPlan`] specifies.
//! Requires: a complete plan.
//! Establishes: a value with an assigned layout is emitted once, at its defining op. Other tiles are rematerialized at each use, in
//! the layout that the use needs ([`Converter::tile_in_layout`]). A layout conversion is reused by later uses in the same region.
//! Preserves: the order of effects.
//! See also: Triton's `ConvertTritonToTritonGPU` and `ConvertLayoutOp`.

mod control;
mod convert_mma;
mod convert_reductions;
mod convert_tcgen05;
mod core;
mod memory;
mod relayout;
mod shape;

use crate::access_layouts::Accesses;
use crate::async_copies::Copies;
use crate::layout_assignment::AssignedLayouts;
use crate::lowering_plan::LoweringPlan;
use crate::mma_selection::MmaSelections;
use crate::smem_fit::BufferOrigins;
use crate::tma_stores::TmaStores;
use base::diag::{Diagnostic, Result};
use base::ir::Op as OpId;
use base::{Block, Body, Envelope, Loc, Value};
use core_dialect::tile::{Elem, Shape};
use relayout::ReadBackAtoms;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tileas::{Buffer, FunctionAttrs, Layout, LayoutId, Type};

/// Converts a function as planned. Returns the new function, and the `.aa` ops from which its buffers originate.
pub(crate) fn convert(
    function: &tileaa::Function,
    plan: &LoweringPlan,
    module: &mut tileas::Module,
    envelope: &Envelope,
) -> Result<(tileas::Function, BufferOrigins)> {
    let mut new_function = tileas::Function::new(&function.name, plan.attrs.clone(), function.loc);
    let block = new_function.entry();
    let mut converter = Converter {
        from: function,
        to: std::mem::take(&mut new_function.body),
        attrs: std::mem::take(&mut new_function.attrs),
        module,
        accesses: &plan.accesses,
        mmas: &plan.mmas,
        assigned_layouts: &plan.assigned_layouts,
        copies: &plan.copies,
        stores: &plan.stores,
        parents: control::parent_ops(function),
        use_counts: function.body.use_counts(function.region),
        block,
        scopes: vec![Scope::new(block, false)],
        buffered: BTreeMap::new(),
        buffer_origins: BufferOrigins::default(),
        accumulators: BTreeMap::new(),
        component: 0,
        following_ops: &[],
        shared_tmem_buffers: Vec::new(),
        tma_store_buffers: Vec::new(),
        envelope,
    };
    for &param in function.params() {
        let ty = converter.scalar_type(param)?;
        let value = converter.to.add_argument(block, ty);
        converter.remember(param, None, value);
    }
    converter.convert_ops(function.entry())?;
    let Converter { to, attrs, buffer_origins, .. } = converter;
    (new_function.body, new_function.attrs) = (to, attrs);
    Ok((base::text::compact(&new_function), buffer_origins))
}

/// A region of the new function that the conversion has entered and not left.
struct Scope {
    /// The block of the region in the new function.
    block: Block,
    /// Whether the region is the body of a loop, reduction or scan, which may execute several times.
    is_repeated: bool,
    /// The new value for each old value and layout. Scalars, views and tokens have no layout.
    new_values: BTreeMap<(Value, Option<LayoutId>), Value>,
    /// The buffers to which threads stored MMA operands, by old value and innermost dimension of the buffer.
    operands: BTreeMap<(Value, usize), Buffer>,
}

impl Scope {
    /// Creates a scope without values.
    fn new(block: Block, is_repeated: bool) -> Scope {
        Scope { block, is_repeated, new_values: BTreeMap::new(), operands: BTreeMap::new() }
    }
}

/// The state of the conversion of a function.
struct Converter<'a> {
    /// The `.aa` function.
    from: &'a tileaa::Function,
    /// The body of the `.as` function.
    to: Body<tileas::Op, Type>,
    /// The attributes of the new function.
    attrs: FunctionAttrs,
    /// The new module, whose layout table the conversion extends.
    module: &'a mut tileas::Module,
    /// The planned memory accesses.
    accesses: &'a Accesses,
    /// The selected instructions of the MMAs.
    mmas: &'a MmaSelections,
    /// The assigned layouts of the old values.
    assigned_layouts: &'a AssignedLayouts,
    /// The planned asynchronous copies.
    copies: &'a Copies,
    /// The planned TMA stores.
    stores: &'a TmaStores,
    /// The parent op of each old op.
    parents: Vec<Option<OpId>>,
    /// The use count of each old value.
    use_counts: Vec<u32>,
    /// The block of the new function to which new ops are appended.
    block: Block,
    /// The regions around the insertion block, outermost first.
    scopes: Vec<Scope>,
    /// For each copied tile without an assigned layout, the buffer from which each use reads it.
    buffered: BTreeMap<Value, Buffer>,
    /// The `.aa` op from which each buffer originates.
    buffer_origins: BufferOrigins,
    /// The TMEM buffers of accumulators, by the first MMA of their chain.
    accumulators: BTreeMap<OpId, Buffer>,
    /// The index of the current op's component: the compute role that executes the op.
    component: usize,
    /// The old ops after the current op in its block.
    following_ops: &'a [OpId],
    /// The TMEM buffers that MMAs of a component share in sequence, each with the index of its component.
    shared_tmem_buffers: Vec<(usize, Buffer)>,
    /// The buffers that TMA stores of a component in one block share in sequence, each with its component and block.
    tma_store_buffers: Vec<((usize, Block), Buffer)>,
    envelope: &'a Envelope,
}

impl Converter<'_> {
    /// Converts the ops of a block in order.
    fn convert_ops(&mut self, block: Block) -> Result<()> {
        let ops = &self.from.body.blocks[block].ops;
        for (at, &op) in ops.iter().enumerate() {
            self.following_ops = &ops[at + 1..];
            self.convert_op(op)?;
        }
        Ok(())
    }

    /// Converts one op, and records the new values of its results.
    fn convert_op(&mut self, op: OpId) -> Result<()> {
        use tileaa::Op;
        let kind = &self.from.body.ops[op].kind;
        self.component = self.mmas.component(op);
        match kind {
            Op::Core(core) => self.convert_core(op, core),
            Op::LoadView { .. } | Op::StoreView { .. } | Op::ReduceView { .. } => self.view_access(op, kind),
            Op::MulticastLoad { .. } | Op::MulticastStore { .. } => self.multicast_access(op, kind),
            Op::Load { .. } | Op::Store { .. } | Op::AtomicRmw { .. } | Op::AtomicCas { .. } => self.pointer_access(op, kind),
            Op::Reduce { operands, dim, body, .. } => self.convert_reduce(op, operands, *dim, *body),
            Op::Scan { operands, dim, reverse, body, .. } => self.convert_scan(op, operands, *dim, *reverse, *body),
            Op::Mma { .. } | Op::MmaScaled { .. } => self.convert_mma(op, kind),
        }
    }

    /// The error for an op that the conversion does not support.
    fn unsupported(&self, op: OpId) -> Box<Diagnostic> {
        let node = &self.from.body.ops[op];
        let result = node.results.first().map(|value| base::text::TypeText::print(self.from.body.ty(*value)));
        let name = base::ir::Operation::mnemonic(&node.kind);
        let target = self.envelope.target.map(|target| target.name).unwrap_or_default();
        let type_suffix = result.map(|ty| format!(" of type {ty}")).unwrap_or_default();
        Diagnostic::unsupported("AS900", format!("op '{name}'{type_suffix} is not supported on {target}"))
            .at_loc(&self.envelope.debug, node.loc)
    }

    /// Appends an op to the insertion block. Returns its results.
    fn emit(&mut self, op: impl Into<tileas::Op>, results: impl IntoIterator<Item = Type>, loc: Loc) -> SmallVec<[Value; 2]> {
        let op = self.to.append(self.block, op.into(), results, loc);
        self.to.ops[op].results.clone()
    }
    /// Appends an op with one result to the insertion block. Returns this result.
    fn emit_one(&mut self, op: impl Into<tileas::Op>, result: Type, loc: Loc) -> Value {
        self.emit(op, [result], loc)[0]
    }

    /// Records the new value of an old value in a layout, in the innermost scope.
    fn remember(&mut self, old: Value, layout: Option<LayoutId>, new: Value) {
        self.scopes.last_mut().expect("a function is open").new_values.insert((old, layout), new);
    }
    /// The new value of an old value in a layout. `None` if no scope around the insertion block has emitted it.
    fn recall(&self, old: Value, layout: Option<LayoutId>) -> Option<Value> {
        self.scopes.iter().rev().find_map(|scope| scope.new_values.get(&(old, layout)).copied())
    }

    /// Returns whether an old value is a tile with at least one dimension.
    fn is_tile(&self, value: Value) -> bool {
        self.from.body.ty(value).tile().is_some_and(|(_, shape)| !shape.is_empty())
    }
    /// The element type and shape of an old tile or scalar.
    fn elem_shape(&self, value: Value) -> (Elem, Shape) {
        let (elem, shape) = self.from.body.ty(value).tile().expect("a tile or scalar");
        (elem, shape.clone())
    }
    /// Returns the type of a tile with this layout. A tile without dimensions becomes a scalar.
    fn tile_type(&mut self, elem: Elem, shape: &Shape, layout: Layout) -> Type {
        if shape.is_empty() {
            return Type::Scalar(elem);
        }
        Type::Tile { elem, shape: shape.clone(), layout: self.module.layout_id(layout) }
    }
    /// The new type of a scalar, memref, view or token. Returns an error for a tile.
    fn scalar_type(&self, value: Value) -> Result<Type> {
        match self.from.body.ty(value) {
            tileaa::Type::Tile { elem, shape } if shape.is_empty() => Ok(Type::Scalar(*elem)),
            tileaa::Type::MemRef(memref) => Ok(Type::MemRef(memref.clone())),
            tileaa::Type::View(view) => Ok(Type::View(view.clone())),
            tileaa::Type::Token => Ok(Type::Token),
            tileaa::Type::Tile { .. } => Err(Diagnostic::unsupported("AS901", "a kernel parameter must be a scalar or a pointer")),
        }
    }
    /// The new type of an old value. A tile has its assigned layout, and a TMEM accumulator becomes its `zero_init` predicate.
    fn assigned_type(&mut self, value: Value) -> Result<Type> {
        if self.mmas.is_accumulator(value) {
            return Ok(convert_tcgen05::PREDICATE);
        }
        if !self.is_tile(value) {
            return self.scalar_type(value);
        }
        let (elem, shape) = self.elem_shape(value);
        let assigned_layout = self.assigned_layouts.or_default(self.from, value);
        Ok(self.tile_type(elem, &shape, assigned_layout))
    }

    /// The new value of a scalar, memref, view or token.
    fn non_tile(&mut self, value: Value) -> Result<Value> {
        Ok(self.recall(value, None).expect("scalars are emitted at their op"))
    }

    /// The new value of an old value. A tile is in its assigned layout.
    fn in_assigned_layout(&mut self, value: Value) -> Result<Value> {
        if !self.is_tile(value) {
            return self.non_tile(value);
        }
        let layout = self.assigned_layouts.or_default(self.from, value);
        self.tile_in_layout(value, &layout)
    }

    /// The new value of a tile in a layout.
    fn tile_in_layout(&mut self, value: Value, layout: &Layout) -> Result<Value> {
        self.tile_read_with(value, layout, ReadBackAtoms::Any)
    }

    /// [`Converter::tile_in_layout`] with an additional parameter. If a layout conversion passes through shared memory, threads
    /// read the tile back with `atoms` only.
    fn tile_read_with(&mut self, value: Value, layout: &Layout, atoms: ReadBackAtoms) -> Result<Value> {
        let id = self.module.layout_id(layout.clone());
        if let Some(new) = self.recall(value, Some(id)) {
            return Ok(new);
        }
        let new = match self.assigned_layouts.get(value) {
            Some(assigned_layout) if atoms == ReadBackAtoms::Any && self.pays_to_rematerialize(value, assigned_layout, layout) => {
                self.emit_in_layout(value, layout)?
            }
            Some(assigned_layout) => {
                let assigned_id = self.module.layout_id(assigned_layout.clone());
                return Ok(self.convert_from_assigned(value, assigned_id, layout, id, atoms));
            }
            None => self.emit_in_layout(value, layout)?,
        };
        self.remember(value, Some(id), new);
        Ok(new)
    }

    /// Converts a tile from its assigned layout to `layout`, whose id is `id`. The conversion is hoisted out of loops in which the
    /// tile is invariant.
    fn convert_from_assigned(
        &mut self,
        value: Value,
        assigned_layout: LayoutId,
        layout: &Layout,
        id: LayoutId,
        atoms: ReadBackAtoms,
    ) -> Value {
        let value_in_scope = |scope: &Scope| scope.new_values.get(&(value, Some(assigned_layout))).copied();
        let (computed_at, source) = self
            .scopes
            .iter()
            .enumerate()
            .rev()
            .find_map(|(at, scope)| Some((at, value_in_scope(scope)?)))
            .expect("a value with an assigned layout is emitted at its op");
        let at = self.before_loops(computed_at);
        let insertion_block = std::mem::replace(&mut self.block, self.scopes[at].block);
        let loc = self.loc_of(value);
        let new = self.relayout(source, layout, atoms, loc);
        self.block = insertion_block;
        self.scopes[at].new_values.insert((value, Some(id)), new);
        new
    }

    /// The index of the scope to which code is hoisted that depends on a value of scope `computed_at`: the scope around all loops
    /// in which the value is invariant.
    fn before_loops(&self, computed_at: usize) -> usize {
        let loops = self.scopes[computed_at + 1..].iter().rev().take_while(|scope| scope.is_repeated).count();
        self.scopes.len() - 1 - loops
    }

    /// The source location of the op that defines an old value, or of the function for block arguments.
    fn loc_of(&self, value: Value) -> Loc {
        self.from.body.defining_op(value).map_or(self.from.loc, |op| self.from.body.ops[op].loc)
    }

    /// Records the new values of an op's results, in the layouts that the new values have.
    fn remember_results(&mut self, op: OpId, new: &[Value]) {
        for (&old, &new) in self.from.body.ops[op].results.iter().zip(new) {
            let layout = self.to.ty(new).layout();
            self.remember(old, layout, new);
        }
    }
}
