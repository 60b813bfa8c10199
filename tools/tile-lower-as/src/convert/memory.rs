//! Converts memory accesses. A store first converts its tile to the planned layout of the access. The result of a load has its
//! assigned layout.

use super::Converter;
use super::relayout::ReadBackAtoms;
use crate::access_plan::AccessPlan;
use crate::copy_planner::{Copy, CopyMethod, Readers};
use crate::smem_swizzles;
use crate::tma_stores::TmaStore;
use base::diag::{Diagnostic, Result};
use base::ir::Op as OpId;
use base::{Block, Value};
use tensormap::Map;
use tileaa::ops::AccessHint;
use tileas::{Buffer, BufferInfo, CopyAtom, Layout, MapId, Op, Type};

impl Converter<'_> {
    /// Converts a load, store or reduction through a view to an asynchronous copy, a TMA store, or an access by threads, as
    /// planned.
    pub(super) fn view_access(&mut self, op: OpId, kind: &tileaa::Op) -> Result<()> {
        if self.copies.get(op).is_some() {
            return self.copy_view(op, kind);
        }
        if let Some(store) = self.stores.get(op) {
            return self.store_by_tma(op, kind, store);
        }
        let new = match kind {
            tileaa::Op::LoadView { view, index, token, order, in_bounds, .. } => {
                let vector_bits = self.accesses.get(op).map_or(0, |access| access.vector_bits);
                Op::LoadView {
                    view: self.non_tile(*view)?,
                    index: self.view_index(
                        *view,
                        index,
                        &self.assigned_layouts.or_default(self.from, self.from.body.result(op)),
                    )?,
                    token: self.optional_non_tile(*token)?,
                    order: *order,
                    in_bounds: in_bounds.clone(),
                    atom: CopyAtom::Vector { vector_bits },
                    versioned: false,
                }
            }
            tileaa::Op::StoreView { tile, view, index, token, order, in_bounds, .. } => {
                let access = self.accesses.get(op).expect("every view access is planned");
                let (vector_bits, layout) = (access.vector_bits, access.layout.clone());
                Op::StoreView {
                    tile: self.tile_in_layout(*tile, &layout)?,
                    view: self.non_tile(*view)?,
                    index: self.view_index(*view, index, &layout)?,
                    token: self.optional_non_tile(*token)?,
                    order: *order,
                    in_bounds: in_bounds.clone(),
                    atom: CopyAtom::Vector { vector_bits },
                    versioned: false,
                }
            }
            tileaa::Op::ReduceView { tile, view, index, token, order, in_bounds, mode } => {
                let layout = self.accesses.get(op).expect("every view access is planned").layout.clone();
                Op::ReduceView {
                    tile: self.tile_in_layout(*tile, &layout)?,
                    view: self.non_tile(*view)?,
                    index: self.view_index(*view, index, &layout)?,
                    token: self.optional_non_tile(*token)?,
                    order: *order,
                    in_bounds: in_bounds.clone(),
                    mode: *mode,
                    versioned: false,
                }
            }
            _ => unreachable!("the caller passes view accesses only"),
        };
        self.emit_access(op, new)
    }

    /// Converts a multicast load or store. Returns an error if the access has no plan, because no `multimem` instruction fits it.
    pub(super) fn multicast_access(&mut self, op: OpId, kind: &tileaa::Op) -> Result<()> {
        let loc = self.from.body.ops[op].loc;
        let Some(AccessPlan { vector_bits, layout, .. }) = self.accesses.get(op).cloned() else {
            let (tileaa::Op::MulticastLoad { view, .. } | tileaa::Op::MulticastStore { view, .. }) = kind else {
                unreachable!("the caller passes multicast accesses only")
            };
            let ty = base::text::TypeText::print(self.from.body.ty(*view));
            let name = base::ir::Operation::mnemonic(kind);
            let message =
                format!("op '{name}' on {ty}: pairs of its 16-bit elements cannot be words of memory, which multimem needs");
            let target = self.envelope.target.map(|target| target.name).unwrap_or_default();
            return Err(Diagnostic::unsupported("AS904", format!("{message} on {target}")).at_loc(&self.envelope.debug, loc));
        };
        let atom = CopyAtom::Vector { vector_bits };
        let new = match kind {
            tileaa::Op::MulticastLoad { view, index, token, order, in_bounds, reduction } => Op::MulticastLoad {
                view: self.non_tile(*view)?,
                index: self.view_index(*view, index, &layout)?,
                token: self.optional_non_tile(*token)?,
                order: *order,
                in_bounds: in_bounds.clone(),
                reduction: *reduction,
                atom,
            },
            tileaa::Op::MulticastStore { tile, view, index, token, order, in_bounds, write } => Op::MulticastStore {
                tile: self.tile_in_layout(*tile, &layout)?,
                view: self.non_tile(*view)?,
                index: self.view_index(*view, index, &layout)?,
                token: self.optional_non_tile(*token)?,
                order: *order,
                in_bounds: in_bounds.clone(),
                write: *write,
                atom,
            },
            _ => unreachable!("the caller passes multicast accesses only"),
        };
        self.emit_access(op, new)
    }

    /// Converts a load through a view to an asynchronous copy of the tile to a buffer.
    fn copy_view(&mut self, op: OpId, kind: &tileaa::Op) -> Result<()> {
        let tileaa::Op::LoadView { view, index, token, order, in_bounds, hints } = kind else {
            unreachable!("only loads are copies")
        };
        let latency = self.hinted_latency(hints);
        let Copy { buffer, method, readers } = self.copies.get(op).expect("the load is a copy").clone();
        let reused_buffer = self.copies.alternating_with(op).map(|earlier| self.buffered[&self.from.body.result(earlier)]);
        let buffer = reused_buffer.unwrap_or_else(|| self.attrs.buffers.push(buffer));
        let (view, token) = (self.non_tile(*view)?, self.optional_non_tile(*token)?);
        let index = index.iter().map(|value| self.in_assigned_layout(*value)).collect::<Result<Vec<Value>>>()?;
        let (order, in_bounds, stage) = (*order, in_bounds.clone(), None);
        let new = match method {
            CopyMethod::Pieces { layout, bytes, whole } => {
                let (layout, atom) = (self.module.layout_id(layout), CopyAtom::Async { bytes });
                Op::CopyView { view, index, token, order, in_bounds, whole, buffer, stage, layout, latency, atom, versioned: false }
            }
            CopyMethod::Tma(map) => {
                let map = self.map_id(&map);
                Op::TmaLoad { view, index, token, order, in_bounds, buffer, stage, latency, map }
            }
        };
        self.emit_copy(op, new, buffer, readers);
        Ok(())
    }

    /// The author's latency hint for this target, from 1 to `MAX_LATENCY`. `None` without a hint in this range.
    fn hinted_latency(&self, hints: &[AccessHint]) -> Option<u32> {
        let valid_latency = |hint: &AccessHint| hint.latency.filter(|latency| (1..=tileas::MAX_LATENCY).contains(latency));
        AccessHint::value_for(hints, self.envelope.target?, valid_latency)
    }

    /// The id of a tensor map in the new function. Adds the map to the function unless the function has an equal map.
    fn map_id(&mut self, map: &Map) -> MapId {
        let existing_map = self.attrs.maps.iter().find(|(_, map_of_id)| *map_of_id == map).map(|(id, _)| id);
        existing_map.unwrap_or_else(|| self.attrs.maps.push(map.clone()))
    }

    /// Converts a store or reduction through a view to a TMA store: threads store the tile to a buffer, from which TMA writes
    /// global memory.
    fn store_by_tma(&mut self, op: OpId, kind: &tileaa::Op, store: &TmaStore) -> Result<()> {
        let (tileaa::Op::StoreView { tile, view, index, token, order, in_bounds, .. }
        | tileaa::Op::ReduceView { tile, view, index, token, order, in_bounds, .. }) = kind
        else {
            unreachable!("only stores to views use TMA")
        };
        let mode = if let tileaa::Op::ReduceView { mode, .. } = kind { Some(*mode) } else { None };
        let node = &self.from.body.ops[op];
        let assigned_layout = self.assigned_layouts.or_default(self.from, *tile);
        let x = self.tile_in_layout(*tile, &assigned_layout)?;
        let x = self.relayout(x, &store.layout, ReadBackAtoms::Any, node.loc);
        let buffer = self.tma_store_buffer(&store.buffer);
        self.shared_store(x, &store.layout, buffer, node.loc);
        let (view, token) = (self.non_tile(*view)?, self.optional_non_tile(*token)?);
        let index = index.iter().map(|value| self.in_assigned_layout(*value)).collect::<Result<Vec<Value>>>()?;
        let (order, in_bounds, stage, map) = (*order, in_bounds.clone(), None, self.map_id(&store.map));
        let new = Op::TmaStore { view, index, token, order, in_bounds, buffer, stage, map, mode, waits: false };
        let result_token = self.emit_one(new, Type::Token, node.loc);
        self.remember(node.results[0], None, result_token);
        Ok(())
    }

    /// A buffer of the form `info` for a TMA store. TMA stores of the same block and component share a buffer of the same form.
    fn tma_store_buffer(&mut self, info: &BufferInfo) -> Buffer {
        let component_and_block = (self.component, self.block);
        let is_reusable =
            |(owner, buffer): &&((usize, Block), Buffer)| *owner == component_and_block && self.attrs.buffers[*buffer] == *info;
        let existing_buffer = self.tma_store_buffers.iter().find(is_reusable);
        existing_buffer.map(|(_, buffer)| *buffer).unwrap_or_else(|| {
            let buffer = self.attrs.buffers.push(info.clone());
            self.tma_store_buffers.push((component_and_block, buffer));
            buffer
        })
    }

    /// Converts a load through pointers to a `cp.async` copy of the tile to a buffer.
    fn copy_pointers(&mut self, op: OpId, kind: &tileaa::Op) -> Result<()> {
        let tileaa::Op::Load { ptr, mask, token, order, hints, .. } = kind else { unreachable!("only loads are copies") };
        let latency = self.hinted_latency(hints);
        let Copy { buffer, method: CopyMethod::Pieces { layout, bytes, .. }, readers } =
            self.copies.get(op).expect("the load is a copy").clone()
        else {
            unreachable!("TMA copies views only")
        };
        let buffer = self.attrs.buffers.push(buffer);
        let new = Op::Copy {
            ptr: self.tile_in_layout(*ptr, &layout)?,
            mask: mask.map(|mask| self.tile_in_layout(mask, &layout)).transpose()?,
            token: self.optional_non_tile(*token)?,
            order: *order,
            buffer,
            stage: None,
            latency,
            atom: CopyAtom::Async { bytes },
        };
        self.emit_copy(op, new, buffer, readers);
        Ok(())
    }

    /// Emits `new`, the asynchronous copy to `buffer` that replaces a load. If the readers are threads, also emits the load of the
    /// full tile from the buffer.
    fn emit_copy(&mut self, op: OpId, new: Op, buffer: Buffer, readers: Readers) {
        let node = &self.from.body.ops[op];
        let (tile, result_token) = (node.results[0], node.results[1]);
        let token = self.emit_one(new, Type::Token, node.loc);
        self.remember(result_token, None, token);
        self.buffer_origins.copies.insert(buffer, op);
        match readers {
            // Each use reads the tile from the buffer in the layout that the use needs.
            Readers::Mmas => _ = self.buffered.insert(tile, buffer),
            Readers::Registers => {
                let assigned_layout = self.assigned_layouts.or_default(self.from, tile);
                let (elem, shape) = self.elem_shape(tile);
                let ty = self.tile_type(elem, &shape, assigned_layout.clone());
                let new = self.shared_load(buffer, ty, &assigned_layout, node.loc);
                let id = self.module.layout_id(assigned_layout);
                self.remember(tile, Some(id), new);
            }
        }
    }

    /// Converts an access through pointers to a `cp.async` copy or an access by threads, as planned.
    pub(super) fn pointer_access(&mut self, op: OpId, kind: &tileaa::Op) -> Result<()> {
        if self.copies.get(op).is_some() {
            return self.copy_pointers(op, kind);
        }
        let new = match kind {
            tileaa::Op::Load { ptr, mask, other, token, order, .. } => {
                let result = self.from.body.result(op);
                // The result has the layout of its widest access, see `layout_assignment`.
                let vector_bits = self.accesses.get(op).map_or(0, |access| access.vector_bits);
                Op::Load {
                    ptr: self.in_layout_of(*ptr, result)?,
                    mask: mask.map(|mask| self.in_layout_of(mask, result)).transpose()?,
                    other: other.map(|other| self.in_layout_of(other, result)).transpose()?,
                    token: self.optional_non_tile(*token)?,
                    order: *order,
                    atom: CopyAtom::Vector { vector_bits },
                }
            }
            tileaa::Op::Store { ptr, value, mask, token, order, .. } => {
                let access = self.accesses.get(op).cloned();
                let vector_bits = access.as_ref().map_or(0, |access| access.vector_bits);
                let layout = access.map(|access| access.layout);
                Op::Store {
                    ptr: self.in_layout(*ptr, layout.as_ref())?,
                    value: self.in_layout(*value, layout.as_ref())?,
                    mask: mask.map(|mask| self.in_layout(mask, layout.as_ref())).transpose()?,
                    token: self.optional_non_tile(*token)?,
                    order: *order,
                    atom: CopyAtom::Vector { vector_bits },
                }
            }
            tileaa::Op::AtomicRmw { ptr, value, mask, token, order, mode } => {
                let result = self.from.body.result(op);
                Op::AtomicRmw {
                    ptr: self.in_layout_of(*ptr, result)?,
                    value: self.in_layout_of(*value, result)?,
                    mask: mask.map(|mask| self.in_layout_of(mask, result)).transpose()?,
                    token: self.optional_non_tile(*token)?,
                    order: *order,
                    mode: *mode,
                }
            }
            tileaa::Op::AtomicCas { ptr, compare, value, mask, token, order } => {
                let result = self.from.body.result(op);
                Op::AtomicCas {
                    ptr: self.in_layout_of(*ptr, result)?,
                    compare: self.in_layout_of(*compare, result)?,
                    value: self.in_layout_of(*value, result)?,
                    mask: mask.map(|mask| self.in_layout_of(mask, result)).transpose()?,
                    token: self.optional_non_tile(*token)?,
                    order: *order,
                }
            }
            _ => unreachable!("the caller passes pointer accesses only"),
        };
        self.emit_access(op, new)
    }

    /// The new value of `value`, in the assigned layout of `other` if `value` is a tile.
    fn in_layout_of(&mut self, value: Value, other: Value) -> Result<Value> {
        if !self.is_tile(value) {
            return self.non_tile(value);
        }
        let layout = self.assigned_layouts.or_default(self.from, other);
        self.tile_in_layout(value, &layout)
    }

    /// The new value of `value`: the tile in `layout`, or without `layout` the scalar.
    fn in_layout(&mut self, value: Value, layout: Option<&tileas::Layout>) -> Result<Value> {
        match layout {
            Some(layout) => self.tile_in_layout(value, layout),
            None => self.non_tile(value),
        }
    }

    /// The new indices of an access through a view, whose tile has `layout`. A gather has an index tile with one element per row.
    /// Each thread must hold the index elements of the rows that it accesses.
    fn view_index(&mut self, view: Value, index: &[Value], layout: &tileas::Layout) -> Result<Vec<Value>> {
        let tileaa::Type::View(view) = self.from.body.ty(view) else { unreachable!("the verifier checks that views are views") };
        let strides = tileas::layout::Strides::for_shape(&view.tile);
        let convert_index = |(t, value): (usize, &Value)| {
            if self.is_tile(*value) {
                self.tile_in_layout(*value, &layout.map(|basis| strides.coordinate(basis, t)))
            } else {
                self.non_tile(*value)
            }
        };
        index.iter().enumerate().map(convert_index).collect()
    }

    /// Emits `new`, the access by threads that replaces `op`.
    fn emit_access(&mut self, op: OpId, new: Op) -> Result<()> {
        let by_one_thread = new.effects().is_computed_by_one_thread();
        let results = self.result_types(op)?;
        let mut values = self.emit(new, results, self.from.body.ops[op].loc);
        if by_one_thread {
            values[0] = self.broadcast_result(op, values[0]);
        }
        self.remember_results(op, &values);
        Ok(())
    }

    /// Broadcasts `value`, the result of `op` that one thread computed: this thread stores it to a buffer, and all warps load it.
    /// Returns `value` if no op uses the result, or if every warp already has its own elements.
    pub(super) fn broadcast_result(&mut self, op: OpId, value: Value) -> Value {
        let node = &self.from.body.ops[op];
        let ty = self.to.ty(value).clone();
        let Some(elem) = ty.elem().filter(|_| self.use_counts[node.results[0].0 as usize] > 0) else { return value };
        let uniform = || Layout::uniform(self.attrs.warps.ilog2() as usize);
        let layout = ty.layout().map_or_else(uniform, |id| self.module.layouts[id].clone());
        if !layout.warp.contains(&0) {
            return value;
        }
        let buffer = self.exchange_buffer(elem, &ty.shape().into());
        self.shared_store(value, &layout, buffer, node.loc);
        let atom = CopyAtom::Vector { vector_bits: smem_swizzles::widest_vector(&self.attrs.buffers[buffer], &layout) };
        self.emit_one(Op::SharedLoad { buffer, stage: None, atom, per_k_step: false, prefetch_next: false }, ty, node.loc)
    }

    /// [`Converter::non_tile`] for an operand that may be absent.
    fn optional_non_tile(&mut self, value: Option<Value>) -> Result<Option<Value>> {
        value.map(|value| self.non_tile(value)).transpose()
    }
    /// The types of an op's results in the new function. Tiles have their assigned layouts.
    fn result_types(&mut self, op: OpId) -> Result<Vec<Type>> {
        let results = self.from.body.ops[op].results.clone();
        results.iter().map(|value| self.assigned_type(*value)).collect()
    }
}
