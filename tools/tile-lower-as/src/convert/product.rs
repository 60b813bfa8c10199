//! Matrix products: operands go to the fragments of the atom, or to buffers that each thread reads.

use super::{Rewriter, neighbours_first};
use crate::banks;
use crate::operands::{self, How, Step};
use crate::products::{Place as Planned, Product, shared_reads};
use base::diag::Result;
use base::ir::Def;
use base::ir::Op as OpId;
use base::{Loc, Value};
use numerics::arith::{Compare, Predicate, Signedness};
use std::collections::BTreeSet;
use tileas::group::{self, Matrix};
use tileas::mma::Operand;
use tileas::{Buffer, Layout, MmaAtom, Op, Place};
use vocabulary::core_ops::Core;
use vocabulary::tile::{Dense, element_count};

/// Products by threads whose operands are in buffers together, beside the first.
const MOST_BEHIND: usize = 3;
/// Bytes of such operands at most, so that they leave room for others.
const MOST_BYTES: usize = 48 << 10;
/// Steps along K of a product by multiply-adds that are written out.
const STEPS_TOGETHER: u32 = 4;

impl Rewriter<'_> {
    pub(super) fn product(&mut self, op: OpId, kind: &tileaa::Op) -> Result<()> {
        let (lhs, rhs, acc) = match kind {
            tileaa::Op::Mma { lhs, rhs, acc, .. } | tileaa::Op::MmaScaled { lhs, rhs, acc, .. } => (*lhs, *rhs, *acc),
            _ => return Err(self.unsupported(op)),
        };
        let (loc, result) = (self.from.body.ops[op].loc, self.from.body.result(op));
        let plan = self.products.get(op).expect("every product was planned").clone();
        if matches!(plan, Product::Tensor { .. }) {
            return self.tensor_product(op, kind);
        }
        let fresh = match plan {
            Product::Group { .. } => self.begins_with_zero(acc, loc)?,
            _ => None,
        };
        let acc = self.tile(acc, plan.accumulator())?;
        let (signed_lhs, signed_rhs, scales) = match kind {
            tileaa::Op::Mma { signed_lhs, signed_rhs, .. } => (*signed_lhs, *signed_rhs, None),
            tileaa::Op::MmaScaled { lhs_scale, rhs_scale, .. } => (false, false, Some([*lhs_scale, *rhs_scale])),
            _ => return Err(self.unsupported(op)),
        };
        let (mut lhs_scale, mut rhs_scale) = (None, None);
        let (atom, lhs, rhs) = match &plan {
            Product::Sync { atom, a, b, scales: layouts, .. } => {
                let [lhs, rhs] = [self.tile(lhs, a)?, self.tile(rhs, b)?];
                if let (Some([of_lhs, of_rhs]), Some(layouts)) = (scales, layouts) {
                    lhs_scale = Some(Place::Registers(self.tile(of_lhs, &layouts[0])?));
                    rhs_scale = Some(Place::Registers(self.tile(of_rhs, &layouts[1])?));
                }
                (MmaAtom::Sync(atom), Place::Registers(lhs), Place::Registers(rhs))
            }
            Product::Group { atom, lhs: a, rhs: b, .. } => {
                let lhs = self.operand_place(lhs, Operand::A, a, atom.transposes)?;
                let rhs = self.operand_place(rhs, Operand::B, b, atom.transposes)?;
                let read = [&lhs, &rhs].into_iter().filter_map(Place::buffer);
                self.made_for.products.extend(read.map(|buffer| (buffer, op)));
                (MmaAtom::Group(atom), lhs, rhs)
            }
            Product::Tensor { .. } => unreachable!("made elsewhere"),
            Product::Shared { .. } => {
                self.operands_of_others(op)?;
                let shape = self.elem_shape(lhs).1;
                let dims = shape.len();
                let atom = MmaAtom::multiply_add(shape[dims - 1], STEPS_TOGETHER);
                // Neighbours along the extent that a thread walks across lie side by side.
                let lhs = self.operand_buffer(lhs, dims - 2, result, loc)?;
                let rhs = self.operand_buffer(rhs, dims - 1, result, loc)?;
                let [lhs, rhs] = [lhs, rhs].map(|buffer| Place::Memory { buffer, slot: None, transposed: false });
                (atom, lhs, rhs)
            }
        };
        let ty = self.to.ty(acc).clone();
        let acc = Place::Registers(acc);
        let signed_rhs = signed_rhs != common::planted("as.signs");
        let new = Op::Mma { in_flight: false, lhs, rhs, acc, fresh, lhs_scale, rhs_scale, signed_lhs, signed_rhs, atom };
        let values = self.emit(new, [ty], loc);
        self.remember_results(op, &values);
        Ok(())
    }

    /// Brings the operands of the products by threads that stand right behind one, and share operands with it, to their buffers before the
    /// first of them is made: with nothing between the products what several read is read once.
    fn operands_of_others(&mut self, first: OpId) -> Result<()> {
        for op in self.products_behind(first) {
            let [lhs, rhs, _] = operands::of_product(self.from, op);
            let dims = self.elem_shape(lhs).1.len();
            let (result, loc) = (self.from.body.result(op), self.from.body.ops[op].loc);
            self.operand_buffer(lhs, dims - 2, result, loc)?;
            self.operand_buffer(rhs, dims - 1, result, loc)?;
        }
        Ok(())
    }

    /// The products by threads of which nothing but such stands between an op and them, and that share operands.
    fn products_behind(&self, first: OpId) -> Vec<OpId> {
        let body = &self.from.body;
        let shared = |op: &OpId| matches!(self.products.get(*op), Some(Product::Shared { .. }));
        let mut read: Vec<Value> = operands::of_product(self.from, first)[..2].to_vec();
        let mut behind = Vec::new();
        for op in self.behind.iter().take_while(|op| shared(op)).take(MOST_BEHIND) {
            let own = &operands::of_product(self.from, *op)[..2];
            let all: BTreeSet<Value> = read.iter().chain(own).copied().collect();
            let bytes =
                |value: &Value| body.ty(*value).tile().map_or(0, |(elem, shape)| element_count(shape) * elem.bytes() as usize);
            if !own.iter().any(|operand| read.contains(operand)) || all.iter().map(bytes).sum::<usize>() > MOST_BYTES {
                break;
            }
            read.extend(own);
            behind.push(*op);
        }
        behind
    }

    /// Whether sums are zero as nothing was added up yet, of those that are so always or in the first round of the loop around: nobody
    /// need write the zeros then.
    fn begins_with_zero(&mut self, acc: Value, loc: Loc) -> Result<Option<Value>> {
        if self.is_zero(acc) {
            return Ok(Some(self.truth(true, loc)));
        }
        let Some((counter, lower)) = self.zero_at_first(acc) else { return Ok(None) };
        let [lhs, rhs] = [self.plain(counter)?, self.plain(lower)?];
        let kind = Compare::Int { predicate: Predicate::Equal, signedness: Signedness::Signed };
        Ok(Some(self.emit_one(Core::Compare { kind, lhs, rhs }, super::tensor::TRUTH, loc)))
    }

    fn is_zero(&self, value: Value) -> bool {
        let made = self.from.body.defining_op(value).map(|op| &self.from.body.ops[op].kind);
        matches!(made, Some(tileaa::Op::Core(Core::Constant { value: Dense::Splat(0) })))
    }

    /// The counter of the loop that carries a value which begins as zero, and where it begins.
    fn zero_at_first(&self, value: Value) -> Option<(Value, Value)> {
        let body = &self.from.body;
        let Def::Argument { block, index } = body.values[value].def else { return None };
        let parent = body.blocks[block].ops.first().and_then(|op| self.parents[op.0 as usize])?;
        let tileaa::Op::Core(Core::For { lower, init, .. }) = &body.ops[parent].kind else { return None };
        let first = *init.get((index as usize).checked_sub(1)?)?;
        self.is_zero(first).then(|| (body.blocks[block].args[0], *lower))
    }

    /// Where an operand is that warp groups read, or products in tensor memory.
    pub(super) fn operand_place(&mut self, value: Value, operand: Operand, planned: &Planned, transposes: bool) -> Result<Place> {
        match planned {
            Planned::Registers(layout) => return Ok(Place::Registers(self.tile(value, layout)?)),
            Planned::Tensor(layout) => return self.left_in_tensor_memory(value, layout),
            Planned::Memory | Planned::Transposed(_) => {}
        }
        let (buffer, transposed) = self.matrix(value, operand, planned, transposes)?;
        Ok(Place::Memory { buffer, slot: None, transposed: transposed != common::planted("as.transposed") })
    }

    /// The buffer from which warp groups read an operand, and whether it holds it transposed: that of a copy, or one to which the
    /// tile is stored, before the loops that do not change it. Where the atom `transposes` operands it is contiguous along whichever
    /// extent threads store it with fewer passes over the banks, else along the depth.
    fn matrix(&mut self, value: Value, operand: Operand, place: &Planned, transposes: bool) -> Result<(Buffer, bool)> {
        if let Some(found) = self.copied_matrix(value, operand, transposes) {
            return Ok(found);
        }
        let (elem, shape) = self.elem_shape(value);
        let home = self.homes.or_default(self.from, value);
        let layout = place.layout().filter(|layout| self.is_better_moved(value, (&home, layout), operand)).unwrap_or(&home);
        let along_depth = if operand == Operand::B { shape.len() - 2 } else { shape.len() - 1 };
        let own = super::relayout::innermost(&home, &shape).max(shape.len() - 2);
        let other = 2 * shape.len() - 3 - own;
        // Rows of eight columns are too short for a descriptor.
        let passes = |inner: usize| Some(self.store_passes(&group::operand_buffer(elem, &shape, inner)?, layout));
        let either = [own, other].into_iter().filter_map(|inner| Some((passes(inner)?, inner)));
        let inner = either.min_by_key(|(passes, _)| *passes).filter(|_| transposes).map_or(along_depth, |(_, inner)| inner);
        let known = self.scopes.iter().rev().find_map(|scope| scope.operands.get(&(value, inner)).copied());
        if let Some(buffer) = known {
            return Ok((buffer, false));
        }
        let made_at = self.made_at(value);
        let at = self.before_loops(made_at);
        let here = std::mem::replace(&mut self.block, self.scopes[at].block);
        let x = self.tile(value, layout)?;
        let info = group::operand_buffer(elem, &shape, inner).expect("the product was planned for such operands");
        let buffer = self.attrs.buffers.push(info);
        self.shared_store(x, layout, buffer, self.loc_of(value));
        self.block = here;
        self.scopes[at].operands.insert((value, inner), buffer);
        Ok((buffer, false))
    }

    /// Whether it takes fewer passes over the banks to move a tile to the layout that transposes it and to store it from there than to
    /// store it as it is.
    fn is_better_moved(&self, value: Value, (home, layout): (&Layout, &Layout), operand: Operand) -> bool {
        let (elem, shape) = self.elem_shape(value);
        let along_depth = if operand == Operand::B { shape.len() - 2 } else { shape.len() - 1 };
        let Some(info) = group::operand_buffer(elem, &shape, along_depth) else { return true };
        let inner = [home, layout].map(|layout| super::relayout::innermost(layout, &shape));
        let moved = banks::passes(elem, &shape, inner, [home, layout]).wavefronts;
        self.homes.get(value).is_none() || moved + self.store_passes(&info, layout) < self.store_passes(&info, home)
    }

    /// The scope in which a tile was made; of a slice, which each use makes, that of the whole.
    fn made_at(&mut self, value: Value) -> usize {
        let here = self.scopes.len() - 1;
        if let Some(home) = self.homes.get(value).cloned() {
            let id = self.module.layout_id(home);
            return self.scopes.iter().rposition(|scope| scope.made.contains_key(&(value, Some(id)))).unwrap_or(here);
        }
        let of_slice = self.from.body.defining_op(value).map(|op| &self.from.body.ops[op].kind);
        let Some(tileaa::Op::Core(Core::Extract { x, indices })) = of_slice else { return here };
        // The indices are scalars, which are made where their ops stand.
        let scalar = |index: &Value| self.scopes.iter().rposition(|scope| scope.made.contains_key(&(*index, None)));
        let indices = indices.iter().map(|index| scalar(index).unwrap_or(here)).max().unwrap_or(here);
        self.made_at(*x).max(indices)
    }

    /// The buffer of a copied tile of which an operand is a rearrangement that a descriptor can tell.
    fn copied_matrix(&self, value: Value, operand: Operand, transposes: bool) -> Option<(Buffer, bool)> {
        let shape = self.elem_shape(value).1;
        let [rows, cols] = [shape[shape.len() - 2], shape[shape.len() - 1]].map(u32::trailing_zeros);
        // Which element of the copied tile each bit of the operand's element number is.
        let mut bits = Layout { register: (0..rows + cols).map(|bit| 1 << bit).collect(), ..Layout::default() };
        let mut source = value;
        let buffer = loop {
            if let Some(buffer) = self.buffered.get(&source) {
                break *buffer;
            }
            let Step { from, how } = operands::step(self.from, source)?;
            match how {
                How::Permuted(order) => bits = bits.unpermute(&self.elem_shape(source).1, order),
                How::Reshaped => {}
                How::Converted => return None,
            }
            source = from;
        };
        let straight = (0..rows + cols).map(|bit| 1 << bit);
        let swapped = (rows..rows + cols).chain(0..rows).map(|bit| 1 << bit);
        let transposed = !bits.register.iter().copied().eq(straight);
        let fits = !transposed || bits.register.iter().copied().eq(swapped);
        let matrix = Matrix::of(&self.attrs.buffers[buffer], operand, transposed).filter(|matrix| transposes || matrix.along_depth);
        (fits && matrix.is_some()).then_some((buffer, transposed))
    }

    /// The buffer from which threads read an operand: that of its copy, or else one with the extent `dim` innermost, which it has
    /// in common with the accumulator.
    fn operand_buffer(&mut self, value: Value, dim: usize, result: Value, loc: Loc) -> Result<Buffer> {
        let made = || self.scopes.last().and_then(|scope| scope.operands.get(&(value, dim)).copied());
        if let Some(buffer) = self.buffered.get(&value).copied().or_else(made) {
            return Ok(buffer);
        }
        let (elem, shape) = self.elem_shape(value);
        let accumulator = &self.homes.or_default(self.from, result);
        let layout = neighbours_first(&self.homes.or_default(self.from, value), &shape, dim);
        let x = self.tile(value, &layout)?;
        let reads = shared_reads(accumulator, &self.elem_shape(result).1, &shape, dim);
        let buffer = self.attrs.buffers.push(banks::exchange(elem, &shape, [dim; 2], &[&layout, &reads]));
        self.shared_store(x, &layout, buffer, loc);
        self.scopes.last_mut().expect("a function is open").operands.insert((value, dim), buffer);
        Ok(buffer)
    }
}
