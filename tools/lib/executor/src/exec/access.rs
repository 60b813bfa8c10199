//! Loads, stores and atomics through pointers and views, on complete tiles. All formats use this module.

use super::{Env, Results};
use crate::check_kind::Check;
use crate::kernel_memory::{Access, START_TOKEN, Token};
use crate::tile::shape::{for_each_index, from_bytes, row_strides, to_bytes};
use crate::tile::{Tile, memory_bits};
use crate::value::{Value, View, padding_bits};
use base::diag::Result;
use base::{Loc, Value as Id};
use core_dialect::memory::{AtomicMode, MemoryOrdering, MemoryScope, MulticastReduction, Order};
use core_dialect::tile::{Elem, ViewKind, element_count};
use numerics::Scalar;
use numerics::arith::{Binary, ElementWords, Overflow, Rounding, Signedness};
use std::sync::Arc;

/// The attributes that all accesses have.
#[derive(Clone, Copy)]
pub(crate) struct AccessAttrs {
    pub(crate) loc: Loc,
    /// The token operand. The access happens after the accesses of this token.
    pub(crate) token: Option<Id>,
    pub(crate) ordering: MemoryOrdering,
    pub(crate) scope: Option<MemoryScope>,
}

impl AccessAttrs {
    pub(crate) fn new(loc: Loc, token: Option<Id>, order: &Order) -> AccessAttrs {
        AccessAttrs { loc, token, ordering: order.semantics, scope: order.scope }
    }
}

/// A memory access with its operands as complete (not distributed) tiles.
pub(crate) enum AccessRequest<'a> {
    LoadView {
        view: Arc<View>,
        index: Vec<Tile>,
        in_bounds: &'a [bool],
    },
    StoreView {
        tile: Tile,
        view: Arc<View>,
        index: Vec<Tile>,
        in_bounds: &'a [bool],
    },
    ReduceView {
        tile: Tile,
        view: Arc<View>,
        index: Vec<Tile>,
        in_bounds: &'a [bool],
        mode: AtomicMode,
    },
    /// A store through a multicast view, or a reduction into its memory. The executor models one device, so
    /// it writes one copy of the memory.
    MulticastStore {
        tile: Tile,
        view: Arc<View>,
        index: Vec<Tile>,
        in_bounds: &'a [bool],
        reduction: Option<MulticastReduction>,
    },
    Load {
        pointers: Tile,
        elem: Elem,
        mask: Option<Tile>,
        /// The results for elements with a false mask.
        padding: Option<Tile>,
    },
    Store {
        pointers: Tile,
        value: Tile,
        mask: Option<Tile>,
    },
    ReadModifyWrite {
        pointers: Tile,
        value: Tile,
        mask: Option<Tile>,
        mode: AtomicMode,
    },
    CompareAndSwap {
        pointers: Tile,
        compare: Tile,
        value: Tile,
        mask: Option<Tile>,
    },
}

/// Performs an access. Returns the loaded tile, for an access that loads, and the token of the access.
pub(crate) fn perform_access(request: AccessRequest<'_>, access_attrs: AccessAttrs, env: &mut Env<'_>) -> Result<Results> {
    env.begin_access(access_attrs);
    let tile = match &request {
        AccessRequest::LoadView { view, index, in_bounds } => {
            check_bounds(view, index, in_bounds, access_attrs.loc, env);
            Some(load_view(view, index, env)?)
        }
        AccessRequest::StoreView { tile, view, index, in_bounds } => {
            check_bounds(view, index, in_bounds, access_attrs.loc, env);
            store_view(view, index, tile, env)?;
            None
        }
        AccessRequest::ReduceView { tile, view, index, in_bounds, mode } => {
            check_bounds(view, index, in_bounds, access_attrs.loc, env);
            reduce_view(*mode, view, index, tile, env)?;
            None
        }
        AccessRequest::MulticastStore { tile, view, index, in_bounds, reduction } => {
            check_bounds(view, index, in_bounds, access_attrs.loc, env);
            multicast_store(*reduction, view, index, tile, env)?;
            None
        }
        AccessRequest::Load { pointers, elem, mask, padding } => Some(load(pointers, *elem, mask.as_ref(), padding.as_ref(), env)?),
        AccessRequest::Store { pointers, value, mask } => {
            store(pointers, value, mask.as_ref(), env)?;
            None
        }
        AccessRequest::ReadModifyWrite { pointers, value, mask, mode } => {
            Some(read_modify_write(*mode, pointers, value, mask.as_ref(), env)?)
        }
        AccessRequest::CompareAndSwap { pointers, compare, value, mask } => {
            Some(compare_and_swap(pointers, compare, value, mask.as_ref(), env)?)
        }
    };
    Ok(end_access(tile, env))
}

impl Env<'_> {
    /// Returns the token of an optional operand. Without an operand, returns the start token.
    pub(crate) fn token(&self, id: Option<Id>) -> Token {
        match id.map(|id| self.value(id)) {
            Some(Value::Token(token)) => *token,
            None => START_TOKEN,
            Some(other) => panic!("{other:?} is not a token"),
        }
    }

    /// Begins an access of an op, and records whether the access may synchronise with other tile blocks.
    pub(crate) fn begin_access(&mut self, access_attrs: AccessAttrs) {
        let AccessAttrs { loc, token, ordering, scope } = access_attrs;
        self.state.synchronised |= ordering != MemoryOrdering::Weak;
        self.kernel_memory.begin_access(Access { loc, after: self.token(token), ordering, scope });
    }

    /// Reads an element of global memory, as bits.
    fn read_element(&mut self, address: u64, ty: Scalar) -> Result<u64> {
        let mut bytes = [0; 8];
        let size = ty.bytes() as usize;
        self.kernel_memory.read(address, &mut bytes[..size])?;
        let bits = u64::from_le_bytes(bytes);
        Ok(if ty == Scalar::I1 { u64::from(bits != 0) } else { bits & ty.mask() })
    }

    /// Writes an element of global memory.
    fn write_element(&mut self, address: u64, ty: Scalar, bits: u64) -> Result<()> {
        self.kernel_memory.write(address, &bits.to_le_bytes()[..ty.bytes() as usize])
    }
}

/// Returns whether the mask enables an element.
fn is_enabled(mask: Option<&Tile>, index: usize) -> bool {
    mask.is_none_or(|mask| mask.element_words().get(index) & 1 == 1)
}

/// Returns the number of enabled elements from element `start` on whose addresses are contiguous. `element_bytes` is the size of an
/// element.
fn run_length(pointers: &[u64], mask: Option<&Tile>, start: usize, element_bytes: u64) -> usize {
    let follows = |i: usize| pointers[i] == pointers[start].wrapping_add((i - start) as u64 * element_bytes) && is_enabled(mask, i);
    1 + (start + 1..pointers.len()).take_while(|i| follows(*i)).count()
}

/// Returns the address of each pointer of a tile.
fn pointer_addresses(pointers: &Tile) -> Vec<u64> {
    let ElementWords::W64(addresses) = pointers.element_words() else { panic!("pointers have 64 bits") };
    addresses.clone()
}

/// Loads a tile. Elements with a false mask take the value of `padding`, or zero without padding.
fn load(pointers: &Tile, elem: Elem, mask: Option<&Tile>, padding: Option<&Tile>, env: &mut Env<'_>) -> Result<Tile> {
    let (ty, addresses) = (elem.carrier(), pointer_addresses(pointers));
    let mut element_words =
        padding.map_or_else(|| ElementWords::splat(ty, 0, addresses.len()), |padding| padding.element_words().clone());
    let mut i = 0;
    while i < addresses.len() {
        if !is_enabled(mask, i) {
            i += 1;
            continue;
        }
        let length = if ty.bits() >= 8 { run_length(&addresses, mask, i, ty.bytes().into()) } else { 1 };
        if length == 1 {
            element_words.set(i, env.read_element(addresses[i], ty)?);
        } else {
            let mut bytes = vec![0; length * ty.bytes() as usize];
            env.kernel_memory.read(addresses[i], &mut bytes)?;
            let words = from_bytes(elem, &bytes);
            (0..length).for_each(|k| element_words.set(i + k, words.get(k)));
        }
        i += length;
    }
    Ok(Tile::new(pointers.shape.clone(), elem, element_words))
}

/// Stores the elements with a true mask. Without a mask, stores all elements.
fn store(pointers: &Tile, value: &Tile, mask: Option<&Tile>, env: &mut Env<'_>) -> Result<()> {
    let (ty, addresses) = (value.carrier(), pointer_addresses(pointers));
    let bytes = if ty.bits() >= 8 { to_bytes(value) } else { Vec::new() };
    let mut i = 0;
    while i < addresses.len() {
        if !is_enabled(mask, i) {
            i += 1;
            continue;
        }
        let length = if ty.bits() >= 8 { run_length(&addresses, mask, i, ty.bytes().into()) } else { 1 };
        match length {
            1 => env.write_element(addresses[i], ty, value.element_words().get(i))?,
            _ => env.kernel_memory.write(addresses[i], &bytes[i * ty.bytes() as usize..(i + length) * ty.bytes() as usize])?,
        }
        i += length;
    }
    Ok(())
}

/// Stores a tile to multicast memory. With `reduction`, combines the tile with the old contents. The executor models one
/// device, so it writes one copy of the memory.
pub(crate) fn multicast_store(
    reduction: Option<MulticastReduction>,
    view: &View,
    indices: &[Tile],
    tile: &Tile,
    env: &mut Env<'_>,
) -> Result<()> {
    match reduction {
        None => store_view(view, indices, tile, env),
        Some(reduction) => reduce_view(atomic_mode(reduction, tile.carrier()), view, indices, tile, env),
    }
}

/// Returns the atomic operation that combines elements in the same way as a multicast reduction.
fn atomic_mode(reduction: MulticastReduction, ty: Scalar) -> AtomicMode {
    match reduction {
        MulticastReduction::Add if ty.is_float() => AtomicMode::AddF,
        MulticastReduction::Add => AtomicMode::Add,
        MulticastReduction::Min => AtomicMode::Min,
        MulticastReduction::Max => AtomicMode::Max,
        MulticastReduction::And => AtomicMode::And,
        MulticastReduction::Or => AtomicMode::Or,
        MulticastReduction::Xor => AtomicMode::Xor,
        MulticastReduction::UMin => AtomicMode::UMin,
        MulticastReduction::UMax => AtomicMode::UMax,
    }
}

/// Returns the value that an atomic stores, from the old value in memory and the operand.
fn atomic_result(mode: AtomicMode, ty: Scalar, old: u64, operand: u64) -> u64 {
    let op = match mode {
        AtomicMode::And => Binary::And,
        AtomicMode::Or => Binary::Or,
        AtomicMode::Xor => Binary::Xor,
        AtomicMode::Add => Binary::AddI { overflow: Overflow::None },
        AtomicMode::AddF => Binary::AddF { rounding: Rounding::NearestEven, ftz: false },
        AtomicMode::Max => Binary::MaxI { signedness: Signedness::Signed },
        AtomicMode::Min => Binary::MinI { signedness: Signedness::Signed },
        AtomicMode::UMax => Binary::MaxI { signedness: Signedness::Unsigned },
        AtomicMode::UMin => Binary::MinI { signedness: Signedness::Unsigned },
        AtomicMode::Xchg => return operand,
    };
    op.eval(ty, old, operand)
}

/// Performs an atomic operation on one element after another. Returns the old values. For elements
/// with a false mask, the result is zero.
pub(crate) fn read_modify_write(
    mode: AtomicMode,
    pointers: &Tile,
    operand: &Tile,
    mask: Option<&Tile>,
    env: &mut Env<'_>,
) -> Result<Tile> {
    let ty = operand.carrier();
    let mut old = ElementWords::splat(ty, 0, operand.count());
    for (i, address) in pointer_addresses(pointers).into_iter().enumerate().filter(|(i, _)| is_enabled(mask, *i)) {
        let current = env.read_element(address, ty)?;
        old.set(i, current);
        env.write_element(address, ty, atomic_result(mode, ty, current, operand.element_words().get(i)))?;
    }
    Ok(Tile::new(operand.shape.clone(), operand.elem, old))
}

/// Compares and swaps one element after another. The comparison is bitwise. Returns the old values. For elements
/// with a false mask, the result is the element of `compare`.
pub(crate) fn compare_and_swap(
    pointers: &Tile,
    compare: &Tile,
    value: &Tile,
    mask: Option<&Tile>,
    env: &mut Env<'_>,
) -> Result<Tile> {
    let ty = value.carrier();
    let mut old = compare.element_words().clone();
    for (i, address) in pointer_addresses(pointers).into_iter().enumerate().filter(|(i, _)| is_enabled(mask, *i)) {
        let current = env.read_element(address, ty)?;
        old.set(i, current);
        if current == compare.element_words().get(i) {
            env.write_element(address, ty, value.element_words().get(i))?;
        }
    }
    Ok(Tile::new(value.shape.clone(), value.elem, old))
}

/// One tile of a view, with the coordinates of its elements in the tensor.
struct TileWindow<'a> {
    view: &'a View,
    /// For each tile dimension, the tensor coordinate of each position along the dimension. `None` is outside the tensor.
    coordinates: Vec<Vec<Option<i64>>>,
}

impl TileWindow<'_> {
    /// Returns the tile at an index of the view. `indices` has one tile per dimension: the index in the view's index space, or the
    /// row numbers for the sparse dimension of a gather. Indices and row numbers are unsigned.
    fn new<'a>(view: &'a View, indices: &[Tile]) -> TileWindow<'a> {
        let coordinates = (0..view.tile.len()).map(|t| {
            let size = view.tensor.sizes[view.dim_map[t]];
            let in_tensor = |at: u128| (at < size.max(0) as u128).then_some(at as i64);
            if view.kind == (ViewKind::Gather { sparse_dim: t as u32 }) {
                return indices[t].element_words().iter().map(|row| in_tensor(row.into())).collect();
            }
            let origin = u128::from(indices[t].first()) * u128::from(view.kind.step(&view.tile, t));
            (0..view.tile[t]).map(|i| in_tensor(origin + u128::from(i))).collect()
        });
        TileWindow { view, coordinates: coordinates.collect() }
    }

    /// Returns whether any coordinate along tile dimension `t` is outside the tensor.
    fn leaves_tensor(&self, t: usize) -> bool {
        self.coordinates[t].iter().any(Option::is_none)
    }

    /// Calls `f` for each row along the tile's last dimension. The first argument is the index of the row's first element in the
    /// tile. The second argument is the offset of coordinate 0 of the row in the tensor, or `None` if the row is outside the
    /// tensor.
    fn for_each_row(&self, mut f: impl FnMut(usize, Option<i64>) -> Result<()>) -> Result<()> {
        let View { tensor, tile, dim_map, .. } = self.view;
        let outer = tile.len() - 1;
        let strides = row_strides(tile);
        let mut result = Ok(());
        for_each_index(&tile[..outer], |index| {
            let tile_index: usize = index.iter().zip(&strides).map(|(i, stride)| *i as usize * stride).sum();
            let offset = index
                .iter()
                .enumerate()
                .map(|(t, i)| self.coordinates[t][*i as usize].map(|at| at.wrapping_mul(tensor.strides[dim_map[t]])));
            let offset = offset.sum::<Option<i64>>();
            if result.is_ok() {
                result = f(tile_index, offset);
            }
        });
        result
    }

    /// Returns the in-bounds elements of a row as contiguous runs: index in the row, offset in the tensor, and length. `row` is the
    /// offset of coordinate 0 of the row in the tensor.
    fn contiguous_runs(&self, row: i64) -> Vec<(usize, i64, usize)> {
        let last = self.view.tile.len() - 1;
        let stride = self.view.tensor.strides[self.view.dim_map[last]];
        let mut out: Vec<(usize, i64, usize)> = Vec::new();
        for (i, at) in self.coordinates[last].iter().enumerate() {
            let Some(element) = at.map(|at| row.wrapping_add(at.wrapping_mul(stride))) else { continue };
            match out.last_mut() {
                Some((tile_index, first, length)) if *tile_index + *length == i && *first + *length as i64 == element => {
                    *length += 1
                }
                _ => out.push((i, element, 1)),
            }
        }
        out
    }

    /// Returns the byte address of an element, and whether a 4-bit element is the upper half of the byte.
    fn address(&self, element: i64) -> (u64, bool) {
        let tensor = &self.view.tensor;
        let bits = i128::from(element) * i128::from(memory_bits(tensor.elem));
        (tensor.base.wrapping_add((bits >> 3) as u64), bits & 7 != 0)
    }

    /// Reads `length` elements that are contiguous in the tensor.
    fn read_run(&self, element: i64, length: usize, env: &mut Env<'_>) -> Result<ElementWords> {
        let ty = self.view.tensor.elem;
        let (address, upper) = self.address(element);
        let skipped_elements = usize::from(upper);
        let mut bytes = vec![0; ((length + skipped_elements) * memory_bits(ty) as usize).div_ceil(8)];
        env.kernel_memory.read(address, &mut bytes)?;
        let element_words = from_bytes(Elem::Scalar(ty), &bytes);
        Ok(if ty.bits() == 4 { element_words.gather(skipped_elements..skipped_elements + length) } else { element_words })
    }

    /// Writes elements that are contiguous in the tensor.
    fn write_run(&self, element: i64, values: &ElementWords, env: &mut Env<'_>) -> Result<()> {
        let ty = self.view.tensor.elem;
        let (address, upper) = self.address(element);
        if ty.bits() != 4 {
            let row = Tile::new([values.len() as u32].into_iter().collect(), Elem::Scalar(ty), values.clone());
            return env.kernel_memory.write(address, &to_bytes(&row));
        }
        // A byte contains two 4-bit elements. A read-modify-write keeps the other element.
        for (i, value) in values.iter().enumerate() {
            let half = i + usize::from(upper);
            let (address, shift) = (address.wrapping_add(half as u64 / 2), half % 2 * 4);
            let mut byte = [0];
            env.kernel_memory.read(address, &mut byte)?;
            env.kernel_memory.write(address, &[byte[0] & !(15 << shift) | (value as u8 & 15) << shift])?;
        }
        Ok(())
    }
}

/// Returns for each element of a view's tile whether the element is outside the tensor. Returns `None` if all elements are inside.
pub(crate) fn elements_outside(view: &View, indices: &[Tile]) -> Option<Vec<bool>> {
    let window = TileWindow::new(view, indices);
    if !(0..view.tile.len()).any(|t| window.leaves_tensor(t)) {
        return None;
    }
    let mut outside = Vec::with_capacity(element_count(&view.tile));
    for_each_index(&view.tile, |index| {
        outside.push(index.iter().zip(&window.coordinates).any(|(i, coordinates)| coordinates[*i as usize].is_none()));
    });
    Some(outside)
}

/// Copies all elements of `from` into `to`, starting at index `at`.
fn copy_words(to: &mut ElementWords, at: usize, from: &ElementWords) {
    fn copy<W: numerics::arith::Word>(to: &mut ElementWords, at: usize, from: &[W]) {
        W::words_of_mut(to).expect("both have the view's element type")[at..at + from.len()].copy_from_slice(from);
    }
    numerics::match_words!(from, words => copy(to, at, words));
}

/// Loads a tile of a view. Elements outside the tensor become the view's padding.
pub(crate) fn load_view(view: &View, indices: &[Tile], env: &mut Env<'_>) -> Result<Tile> {
    let ty = view.tensor.elem;
    let window = TileWindow::new(view, indices);
    let mut element_words = ElementWords::splat(ty, padding_bits(view.padding, ty), element_count(&view.tile));
    window.for_each_row(|tile_index, row| {
        for (at, element, length) in row.map_or(Vec::new(), |row| window.contiguous_runs(row)) {
            copy_words(&mut element_words, tile_index + at, &window.read_run(element, length, env)?);
        }
        Ok(())
    })?;
    Ok(Tile::new(view.tile.clone(), Elem::Scalar(ty), element_words))
}

/// Stores a tile to a view. Ignores elements outside the tensor.
fn store_view(view: &View, indices: &[Tile], tile: &Tile, env: &mut Env<'_>) -> Result<()> {
    let window = TileWindow::new(view, indices);
    window.for_each_row(|tile_index, row| {
        for (at, element, length) in row.map_or(Vec::new(), |row| window.contiguous_runs(row)) {
            let values = tile.element_words().gather(tile_index + at..tile_index + at + length);
            window.write_run(element, &values, env)?;
        }
        Ok(())
    })
}

/// Combines the elements of a tile with memory, by atomic operations. Ignores elements outside the tensor.
pub(crate) fn reduce_view(mode: AtomicMode, view: &View, indices: &[Tile], tile: &Tile, env: &mut Env<'_>) -> Result<()> {
    let (window, ty) = (TileWindow::new(view, indices), view.tensor.elem);
    window.for_each_row(|tile_index, row| {
        for (at, element, length) in row.map_or(Vec::new(), |row| window.contiguous_runs(row)) {
            for k in 0..length {
                let (address, _) = window.address(element + k as i64);
                combine_element(mode, address, ty, tile.element_words().get(tile_index + at + k), env)?;
            }
        }
        Ok(())
    })
}

/// Performs an atomic operation on an element in memory, without a result.
pub(crate) fn combine_element(mode: AtomicMode, address: u64, ty: Scalar, operand: u64, env: &mut Env<'_>) -> Result<()> {
    let old = env.read_element(address, ty)?;
    env.write_element(address, ty, atomic_result(mode, ty, old, operand))
}

/// Reports indices outside the index space, with `--check=memory`. Also reports each dimension with an `inbounds` promise along
/// which the tile extends outside the tensor.
pub(crate) fn check_bounds(view: &View, indices: &[Tile], inbounds: &[bool], loc: Loc, env: &mut Env<'_>) {
    if !env.kernel_memory.checks(Check::Memory) {
        return;
    }
    for (dim, (index, extent)) in indices.iter().zip(view.index_space()).enumerate() {
        // Row numbers of a gather may be outside the tensor.
        let is_sparse = view.kind == ViewKind::Gather { sparse_dim: dim as u32 };
        if !is_sparse && index.first() >= extent as u64 {
            let message =
                format!("index {} of dimension {dim} is outside the index space, whose extent is {extent}", index.first());
            env.kernel_memory.report(Check::Memory, loc, message);
        }
    }
    if !inbounds.contains(&true) {
        return;
    }
    let window = TileWindow::new(view, indices);
    for dim in (0..inbounds.len()).filter(|t| inbounds[*t] && window.leaves_tensor(*t)) {
        env.kernel_memory.report(Check::Memory, loc, format!("dimension {dim} leaves the tensor despite its 'inbounds' promise"));
    }
}

/// Ends an access. Returns the loaded tile, for an access that loads, and the token of the access.
pub(crate) fn end_access(tile: Option<Tile>, env: &mut Env<'_>) -> Results {
    let token = Value::Token(env.kernel_memory.end_access());
    tile.map(Value::Tile).into_iter().chain([token]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cta_state::{BlockPosition, CtaState};
    use crate::kernel_memory::InterleavedMemory;
    use crate::memory::{Memory, Segment};
    use crate::value::Tensor;
    use core_dialect::memory::Padding;

    const ADDRESS: u64 = 4096;

    /// Runs a closure on a memory with the given bytes. Returns the result and the final bytes.
    fn run_on<T>(data: &[u8], f: impl FnOnce(&mut Env<'_>) -> T) -> (T, Vec<u8>) {
        let mut memory = Memory::default();
        memory.add(Segment { name: "a".into(), address: ADDRESS, contents: data.to_vec().into(), constant: false });
        let mut kernel_memory = InterleavedMemory::new(memory);
        let mut state = CtaState::new(BlockPosition::new(0, [1; 3], 1), 0, u64::MAX, None, 0);
        let result =
            f(&mut Env { state: &mut state, kernel_memory: &mut kernel_memory, observer: &mut crate::observe::NoopObserver });
        let mut after = vec![0; data.len()];
        kernel_memory.memory.read(ADDRESS, &mut after).unwrap();
        (result, after)
    }

    fn view(elem: Scalar, sizes: &[i64], tile: &[u32], kind: ViewKind, padding: Option<Padding>) -> View {
        let mut strides = vec![1; sizes.len()];
        (1..sizes.len()).rev().for_each(|dim| strides[dim - 1] = strides[dim] * sizes[dim]);
        let tensor = Tensor { base: ADDRESS, elem, sizes: sizes.to_vec(), strides };
        View { tensor: Arc::new(tensor), tile: tile.into(), dim_map: (0..sizes.len()).collect(), kind, padding }
    }

    fn index_tiles(values: &[i64]) -> Vec<Tile> {
        values.iter().map(|value| Tile::i32(*value)).collect()
    }
    fn bytes(tile: &Tile) -> Vec<u8> {
        to_bytes(tile)
    }
    fn tile(shape: &[u32], elem: Scalar, values: &[u8]) -> Tile {
        Tile::new(shape.into(), Elem::Scalar(elem), ElementWords::W8(values.to_vec()))
    }

    const DATA: [u8; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

    #[test]
    fn partition_tiles_at_the_border_are_padded_and_clipped() {
        let view = view(Scalar::I8, &[3, 4], &[2, 4], ViewKind::Partition, None);
        let load = |index: &[i64]| bytes(&run_on(&DATA, |env| load_view(&view, &index_tiles(index), env).unwrap()).0);
        assert_eq!(load(&[0, 0]), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(load(&[1, 0]), [8, 9, 10, 11, 0, 0, 0, 0]);
        // Indices are unsigned, so -1 is far outside the tensor.
        assert_eq!(load(&[-1, 0]), [0; 8]);
        assert_eq!(view.index_space(), [2, 1]);
        let ones = tile(&[2, 4], Scalar::I8, &[77; 8]);
        let (_, after) = run_on(&DATA, |env| store_view(&view, &index_tiles(&[1, 0]), &ones, env).unwrap());
        assert_eq!(after, [0, 1, 2, 3, 4, 5, 6, 7, 77, 77, 77, 77]);
    }

    #[test]
    fn a_dim_map_permutes_the_tile() {
        let mut view = view(Scalar::I8, &[3, 4], &[4, 2], ViewKind::Partition, None);
        view.dim_map = vec![1, 0];
        let (loaded, _) = run_on(&DATA, |env| load_view(&view, &index_tiles(&[0, 1]), env).unwrap());
        assert_eq!(bytes(&loaded), [8, 0, 9, 0, 10, 0, 11, 0]);
        assert_eq!(view.index_space(), [1, 2]);
    }

    #[test]
    fn strided_tiles_overlap_and_gathers_select_rows() {
        let strided = view(Scalar::I8, &[12], &[4], ViewKind::Strided { steps: vec![3] }, Some(Padding::Zero));
        let load = |index: i64| bytes(&run_on(&DATA, |env| load_view(&strided, &index_tiles(&[index]), env).unwrap()).0);
        assert_eq!((load(1), load(3)), (vec![3, 4, 5, 6], vec![9, 10, 11, 0]));
        assert_eq!(strided.index_space(), [4]);
        let gather = view(Scalar::I8, &[3, 4], &[2, 2], ViewKind::Gather { sparse_dim: 0 }, None);
        let rows = Tile::new([2].into_iter().collect(), Elem::Scalar(Scalar::I32), ElementWords::W32(vec![2, 7]));
        // Along the dense dimension, the index counts elements.
        let (loaded, _) = run_on(&DATA, |env| load_view(&gather, &[rows, Tile::i32(1)], env).unwrap());
        assert_eq!(bytes(&loaded), [9, 10, 0, 0]);
    }

    #[test]
    fn each_padding_kind_fills_with_its_f16_bit_pattern() {
        for (padding, bits) in
            [(Padding::NegZero, 0x8000), (Padding::Nan, 0x7fff), (Padding::PosInf, 0x7c00), (Padding::NegInf, 0xfc00)]
        {
            let view = view(Scalar::F16, &[1], &[2], ViewKind::Partition, Some(padding));
            let (loaded, _) = run_on(&[0, 0x3c], |env| load_view(&view, &index_tiles(&[0]), env).unwrap());
            assert_eq!(*loaded.element_words(), ElementWords::W16(vec![0x3c00, bits]));
        }
    }

    #[test]
    fn loads_and_stores_of_4_bit_elements_use_half_bytes() {
        let view = view(Scalar::F4E2M1FN, &[6], &[4], ViewKind::Strided { steps: vec![1] }, None);
        let (loaded, _) = run_on(&[0x21, 0x43, 0x65], |env| load_view(&view, &index_tiles(&[1]), env).unwrap());
        assert_eq!(*loaded.element_words(), ElementWords::W8(vec![2, 3, 4, 5]));
        let stored = tile(&[4], Scalar::F4E2M1FN, &[9, 10, 11, 12]);
        let (_, after) = run_on(&[0x21, 0x43, 0x65], |env| store_view(&view, &index_tiles(&[1]), &stored, env).unwrap());
        assert_eq!(after, [0x91, 0xba, 0x6c]);
    }

    /// Returns pointers to bytes of the memory.
    fn pointers_at(offsets: &[u64]) -> Tile {
        let elem = Elem::Ptr { pointee: Scalar::I8, space: core_dialect::tile::Space::Generic };
        Tile::new(
            [offsets.len() as u32].into_iter().collect(),
            elem,
            ElementWords::W64(offsets.iter().map(|offset| ADDRESS + offset).collect()),
        )
    }

    #[test]
    fn a_false_mask_suppresses_the_access() {
        let mask = tile(&[4], Scalar::I1, &[1, 0, 1, 1]);
        let (pointers, other) = (pointers_at(&[0, 99, 2, 3]), tile(&[4], Scalar::I8, &[50, 51, 52, 53]));
        let elem = Elem::Scalar(Scalar::I8);
        let (loaded, _) = run_on(&DATA, |env| load(&pointers, elem, Some(&mask), Some(&other), env).unwrap());
        assert_eq!(bytes(&loaded), [0, 51, 2, 3]);
        let (_, after) = run_on(&DATA, |env| store(&pointers, &other, Some(&mask), env).unwrap());
        assert_eq!(after[..4], [50, 1, 52, 53]);
        assert!(run_on(&DATA, |env| load(&pointers, elem, None, None, env).is_err()).0);
    }

    /// Two elements of the tile have the same address. Their atomic operations execute in the order of the elements.
    #[test]
    fn atomics_return_the_old_values() {
        let pointers =
            pointers_at(&[0, 0, 4]).with_elem(Elem::Ptr { pointee: Scalar::I32, space: core_dialect::tile::Space::Generic });
        let words =
            |values: [u32; 3]| Tile::new([3].into_iter().collect(), Elem::Scalar(Scalar::I32), ElementWords::W32(values.into()));
        let (old, after) =
            run_on(&[0; 8], |env| read_modify_write(AtomicMode::Add, &pointers, &words([5, 6, 7]), None, env).unwrap());
        assert_eq!((old.element_words().iter().collect::<Vec<_>>(), after), (vec![0, 5, 0], vec![11, 0, 0, 0, 7, 0, 0, 0]));
        let (old, after) = run_on(&[3, 0, 0, 0, 0, 0, 0, 0], |env| {
            compare_and_swap(&pointers, &words([3, 3, 0]), &words([9, 8, 7]), None, env).unwrap()
        });
        assert_eq!((old.element_words().iter().collect::<Vec<_>>(), after), (vec![3, 9, 0], vec![9, 0, 0, 0, 7, 0, 0, 0]));
    }
}
