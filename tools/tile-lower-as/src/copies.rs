//! Decides which loads become copies straight to shared memory, from where products read their fragments: in loops, and before them
//! what products in loops read there by itself, if the copy engine brings it.
//!
//! Such a copy needs no registers and can run ahead, which is what `tile-sched` makes of it. A load qualifies when it leads to a
//! product, when it lies directly in the body of a `for`, and when its pieces have a size and alignment that `cp.async` takes.
//! Where only products use it they read their fragments from the buffer, and where something is computed first [`crate::direct`] says
//! whether that is done as they want it; else the tile is read into registers as it was loaded. Loads that lead to no product
//! are for [`crate::rows`] to decide about.

use crate::access::{Accesses, Pieces};
use crate::banks;
use crate::operands::{self, MOST_BETWEEN, Uses};
use crate::plan::{Choices, Plan};
use crate::products::{self, Place, Product, Products};
use crate::rows::{Prefetch, Rows};
use crate::tensor;
use base::ir::{Op as OpId, Operation};
use base::{Block, Envelope, Target, Value};
use hardware::Feature;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use tensormap::Map;
use tileaa::facts::Facts;
use tileaa::{Function, Op, Type};
use tileas::layout::Strides;
use tileas::{BufferInfo, Layout, budget, group};
use vocabulary::core_ops::Core;
use vocabulary::memory::{MemoryOrdering, Padding};
use vocabulary::tile::{Dense, Elem, Space, ViewKind, element_count};

/// Whether the copy engine makes copies: what `--tma` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boxes {
    Never,
    WherePays,
    WherePossible,
}

impl Boxes {
    pub(crate) fn of(envelope: &Envelope) -> Boxes {
        match envelope.options.get("tma") {
            Some("off") => Boxes::Never,
            Some("on") => Boxes::WherePossible,
            _ => Boxes::WherePays,
        }
    }
}

const NO_ROOM: &str = "shared memory has no room for it beside the others";

/// How a load becomes a copy.
#[derive(Clone)]
pub(crate) struct Copy {
    pub(crate) buffer: BufferInfo,
    pub(crate) by: By,
    /// Who reads the buffer.
    pub(crate) readers: Readers,
}

#[derive(Clone)]
pub(crate) enum By {
    /// The threads, in pieces of so many bytes: which one copies what, and whether no bound cuts a piece.
    Pieces { layout: Layout, bytes: u32, whole: bool },
    /// The copy engine.
    Boxes(Map),
}

impl std::fmt::Display for By {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            By::Pieces { bytes, .. } => write!(f, "in pieces of {bytes} bytes"),
            By::Boxes(map) => write!(f, "by boxes of {} bytes", map.box_bytes()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Each product for itself, its fragments, or that from which they are computed.
    Products,
    /// The loop, the whole tile into registers, to compute from it.
    Registers,
}

/// An operand that warp groups read from shared memory, and whether it is stored there the other way round than memory has it.
struct InPlace {
    value: Value,
    transposed: bool,
}

/// The copies of a function by the load's op, and why other operands of products are loaded to registers.
#[derive(Default)]
pub(crate) struct Copies {
    copies: BTreeMap<OpId, Copy>,
    /// Copies by boxes that fill the buffer of an earlier one of their loop, when its products have read it.
    in_turn: BTreeMap<OpId, OpId>,
    pub(crate) declined: Vec<(OpId, &'static str)>,
    /// Why threads make copies that the copy engine might make.
    pub(crate) no_boxes: Vec<(OpId, &'static str)>,
}

/// How products read a buffer: the layouts of their fragments, and whether warp groups read it in place.
#[derive(Default)]
pub(crate) struct Reads {
    pub(crate) fragments: Vec<Layout>,
    pub(crate) groups: bool,
}

impl Copies {
    /// Those of which the loops' buffers take at most the target's memory.
    pub(crate) fn of(function: &Function, plan: &Plan, target: Target, options: Choices) -> Copies {
        let body = &function.body;
        let order = body.walk(function.region);
        let planner = Planner::of(function, plan, target, options);
        let mut found = Copies::default();
        for op in order {
            let Op::Core(Core::For { body: inner, .. }) = &body.ops[op].kind else { continue };
            let block = body.block_of(*inner);
            let wanted = planner.wants_boxes(block);
            for &load in &body.blocks[block].ops {
                if plan.without_room.contains(&load) {
                    found.declined.push((load, NO_ROOM));
                    continue;
                }
                let is_view = matches!(body.ops[load].kind, Op::LoadView { .. });
                if is_view && wanted && planner.uses.reach_a_product(body.result(load)) {
                    let boxes = if plan.boxes_without_room.contains(&load) { Err(NO_ROOM) } else { planner.boxes(load, op) };
                    match boxes {
                        Ok(copy) => {
                            found.copies.insert(load, copy);
                            continue;
                        }
                        Err(reason) => found.no_boxes.push((load, reason)),
                    }
                }
                let plan = match body.ops[load].kind {
                    Op::LoadView { .. } if planner.uses.reach_a_product(body.result(load)) => planner.view(load, block),
                    Op::Load { .. } if planner.uses.reach_a_product(body.result(load)) => planner.pointers(load, block),
                    _ => continue,
                };
                match plan {
                    Ok(copy) => _ = found.copies.insert(load, copy),
                    Err(reason) => found.declined.push((load, reason)),
                }
            }
            let Rows { copies, declined } = planner.rows(op, |load| !plan.without_room.contains(&load));
            found.copies.extend(copies);
            found.declined.extend(declined);
            found.settle_boxes(&planner, block, budget::shared_memory(target));
            found.fit(&planner, &body.blocks[block].ops, budget::shared_memory(target));
        }
        found.before_loops(&planner, plan);
        found
    }

    /// Copies that are made once, of operands that products in loops read beside what boxes bring.
    fn before_loops(&mut self, planner: &Planner<'_>, plan: &Plan) {
        let function = planner.function;
        let entry = Some(function.entry());
        let by_boxes = |op: &OpId| self.copies.get(op).is_some_and(|copy| matches!(copy.by, By::Boxes(_)));
        if planner.boxes == Boxes::Never || !function.body.ops.ids().any(|op| by_boxes(&op)) {
            return;
        }
        for &load in &function.body.blocks[function.entry()].ops {
            let Op::LoadView { .. } = function.body.ops[load].kind else { continue };
            let readers = planner.uses.ends(function.body.result(load));
            let in_loop = |op: &OpId| operands::is_product(function, *op) && planner.blocks[op.0 as usize] != entry;
            if plan.without_room.contains(&load) || !readers.iter().any(in_loop) {
                continue;
            }
            let boxes = match plan.boxes_without_room.contains(&load) {
                true => Err(NO_ROOM),
                // It may store something in the copy's place.
                false if planner.products.is_in_strands() => Err("of two agents that compute none knows that it has come"),
                false => planner.boxes_once(load),
            };
            match boxes {
                Ok(copy) => _ = self.copies.insert(load, copy),
                Err(reason) => self.no_boxes.push((load, reason)),
            }
        }
    }

    /// Lets threads make all copies of a loop where boxes for some would not pay.
    fn settle_boxes(&mut self, planner: &Planner<'_>, block: Block, room: u32) {
        let ops = &planner.function.body.blocks[block].ops;
        let copies = ops.iter().copied().filter(|op| self.copies.contains_key(op));
        let (boxes, pieces): (Vec<OpId>, Vec<OpId>) = copies.partition(|op| matches!(self.copies[op].by, By::Boxes(_)));
        let pays = |load: &OpId| planner.reaches_asynchronous_product(planner.function.body.result(*load));
        let mut has_room = self.has_room(planner, ops, &boxes, room);
        if !has_room && pieces.is_empty() {
            self.take_turns(planner, ops, &boxes);
            has_room = self.has_room(planner, ops, &boxes, room);
        }
        if !has_room && pieces.is_empty() {
            has_room = self.pays_with_one_slot(planner, ops, &boxes, room);
        }
        let reason = match (pieces.is_empty(), has_room) {
            (false, _) if planner.boxes == Boxes::WherePays && !boxes.iter().any(pays) => {
                "threads copy another operand of its loop, and wait for all at once"
            }
            (_, false) => "shared memory has no room for two tiles of each operand beside what the loop stores there",
            (_, true) => return,
        };
        for load in boxes {
            self.copies.remove(&load);
            self.in_turn.remove(&load);
            self.no_boxes.push((load, reason));
            match planner.view(load, block) {
                Ok(copy) => _ = self.copies.insert(load, copy),
                Err(reason) => self.declined.push((load, reason)),
            }
        }
    }

    /// A ring that the copy engine fills shares memory with nothing else in its loop, and is worth that only if one slot is filled
    /// while another is read.
    fn has_room(&self, planner: &Planner<'_>, ops: &[OpId], boxes: &[OpId], room: u32) -> bool {
        self.have_room(planner, ops, boxes, (2, room))
    }

    /// Whether boxes pay where each ring has one slot: some are filled while others are read, since no product reads all of them. Threads
    /// would wait for each of their copies, unless these have room for a second slot of the largest.
    fn pays_with_one_slot(&self, planner: &Planner<'_>, ops: &[OpId], boxes: &[OpId], room: u32) -> bool {
        let read = |load: &OpId| planner.uses.ends(planner.function.body.result(*load)).into_iter().collect::<BTreeSet<_>>();
        let all: Vec<BTreeSet<OpId>> = boxes.iter().map(read).collect();
        let by_all = |op: &OpId| all.iter().all(|read| read.contains(op));
        let largest = boxes.iter().map(|op| self.copies[op].buffer.bytes()).max().unwrap_or(0);
        let is_tight = !self.have_room(planner, ops, boxes, (1, room.saturating_sub(largest)));
        is_tight && !all.iter().flatten().any(by_all) && self.have_room(planner, ops, boxes, (1, room))
    }

    /// Whether so many slots of each ring have room beside what the loop stores for products.
    fn have_room(&self, planner: &Planner<'_>, ops: &[OpId], boxes: &[OpId], (slots, room): (u32, u32)) -> bool {
        let own = boxes.iter().filter(|op| !self.in_turn.contains_key(*op));
        let bytes = own.map(|op| self.copies[op].buffer.bytes()).fold(0, u32::saturating_add);
        let stored = ops.iter().flat_map(|op| planner.in_place(*op)).filter(|operand| !self.brings(planner, operand));
        let stored = stored.map(|operand| planner.bytes(operand.value)).fold(0, u32::saturating_add);
        bytes.saturating_mul(slots).saturating_add(stored) <= room
    }

    /// Lets copies by boxes fill one buffer in turn that lie alike, and of which products have read one before the next is asked for.
    fn take_turns(&mut self, planner: &Planner<'_>, ops: &[OpId], boxes: &[OpId]) {
        let body = &planner.function.body;
        let place: BTreeMap<OpId, usize> = ops.iter().enumerate().map(|(at, op)| (*op, at)).collect();
        // The first of those that take turns, and where its buffer was read last. An agent makes the products in tensor memory, others
        // are made by those that compute, and a pipe has one of them as its consumer.
        let mut first: Vec<(OpId, usize)> = Vec::new();
        let by_agent = |load: OpId| planner.reaches_tensor_memory(body.result(load));
        for load in boxes.iter().filter(|load| self.copies[*load].readers == Readers::Products) {
            let readers = planner.uses.ends(body.result(*load));
            let read_at = |user: OpId| place.get(&user).copied().filter(|_| planner.products.get(user).is_some());
            let Some(read) = readers.into_iter().map(read_at).collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max())
            else {
                continue;
            };
            let alike = |(other, free): &&mut (OpId, usize)| {
                let same = self.copies[other].buffer == self.copies[load].buffer && by_agent(*other) == by_agent(*load);
                *free < place[load] && same
            };
            match first.iter_mut().find(alike) {
                Some((other, free)) => {
                    *free = read;
                    self.in_turn.insert(*load, *other);
                }
                None => first.push((*load, read)),
            }
        }
    }

    /// Whether a copy brings an operand as warp groups read it; else it is stored to shared memory for them.
    fn brings(&self, planner: &Planner<'_>, operand: &InPlace) -> bool {
        !operand.transposed
            && operands::loaded_by(planner.function, operand.value).is_some_and(|load| self.copies.contains_key(&load))
    }

    /// Takes back copies of a loop until one slot of each has room, beside the largest tile that then passes through shared memory
    /// on its way to other registers: where most is needed, the largest.
    fn fit(&mut self, planner: &Planner<'_>, ops: &[OpId], room: u32) {
        let place: BTreeMap<OpId, usize> = ops.iter().enumerate().map(|(at, op)| (*op, at)).collect();
        let last_use = |op: OpId| {
            let users = planner.uses.ends(planner.function.body.result(op));
            users.into_iter().filter_map(|user| place.get(&user)).max().copied()
        };
        let lives: Vec<(OpId, usize, usize)> = ops
            .iter()
            .enumerate()
            .filter(|(_, op)| self.copies.contains_key(*op))
            .map(|(at, op)| (*op, at, last_use(*op).unwrap_or(ops.len())))
            .collect();
        let mut passing = 0;
        loop {
            let alive = |at: usize| {
                let here = lives.iter().filter(move |(_, first, last)| (*first..=*last).contains(&at));
                here.filter_map(|(op, ..)| Some((self.copies.get(op)?.buffer.bytes(), *op))).collect::<Vec<_>>()
            };
            let together = |alive: &Vec<(u32, OpId)>| alive.iter().fold(passing, |sum: u32, (bytes, _)| sum.saturating_add(*bytes));
            let fullest = lives.iter().map(|(_, first, _)| alive(*first)).max_by_key(together);
            let largest = fullest.filter(|alive| together(alive) > room).and_then(|alive| alive.into_iter().max());
            let Some((bytes, largest)) = largest else { return };
            self.copies.remove(&largest);
            self.declined.push((largest, NO_ROOM));
            passing = passing.max(bytes);
        }
    }

    pub(crate) fn get(&self, op: OpId) -> Option<&Copy> {
        self.copies.get(&op)
    }
    /// The copy whose buffer one fills, too.
    pub(crate) fn in_turn_with(&self, op: OpId) -> Option<OpId> {
        self.in_turn.get(&op).copied()
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = (OpId, &Copy)> {
        self.copies.iter().map(|(op, copy)| (*op, copy))
    }
}

/// How the pieces of a copy lie: their dimension, and the rest as in [`struct@Copy`].
struct Copied {
    dim: usize,
    layout: Layout,
    bytes: u32,
    whole: bool,
}

pub(crate) struct Planner<'a> {
    pub(crate) function: &'a Function,
    pub(crate) target: Target,
    pub(crate) boxes: Boxes,
    pub(crate) prefetch: Prefetch,
    /// Blocks that a multiprocessor has at a time, where the author says so; else one.
    pub(crate) blocks_beside: u32,
    accesses: &'a Accesses,
    pub(crate) products: &'a Products,
    warp_bits: usize,
    pub(crate) uses: Uses<'a>,
    pub(crate) blocks: Vec<Option<Block>>,
    /// Derived when the first load is asked for that could go by boxes.
    pub(crate) facts: OnceCell<Facts<'a>>,
}

impl<'a> Planner<'a> {
    pub(crate) fn of(function: &'a Function, plan: &'a Plan, target: Target, options: Choices) -> Planner<'a> {
        let Plan { accesses, products, warp_bits, attrs, .. } = plan;
        Planner {
            function,
            target,
            boxes: options.boxes,
            prefetch: options.prefetch,
            blocks_beside: attrs.occupancy.unwrap_or(1),
            accesses,
            products,
            warp_bits: *warp_bits,
            uses: Uses::of(function),
            blocks: function.body.op_blocks(),
            facts: OnceCell::new(),
        }
    }
}

impl Planner<'_> {
    fn view(&self, op: OpId, block: Block) -> Result<Copy, &'static str> {
        self.copy(op, block, self.pieces(op)?)
    }

    /// The copy of a load from whose buffer the whole tile is read into registers, whoever uses it.
    pub(crate) fn row(&self, op: OpId) -> Result<Copy, &'static str> {
        let home = self.accesses.get(op).map(|access| access.layout.clone());
        Ok(self.buffered(op, self.pieces(op)?, (Readers::Registers, home.into_iter().collect())))
    }

    /// How threads copy the tile of a view.
    fn pieces(&self, op: OpId) -> Result<Copied, &'static str> {
        let body = &self.function.body;
        let Op::LoadView { view, order, .. } = &body.ops[op].kind else { unreachable!("only loads are planned") };
        let Type::View(ty) = body.ty(*view) else { unreachable!("the verifier holds that views are views") };
        if order.semantics != MemoryOrdering::Weak {
            return Err("it is ordered against other threads");
        }
        if matches!(ty.kind, ViewKind::Gather { .. }) {
            return Err("its rows have an index each");
        }
        if !matches!(ty.padding, None | Some(Padding::Zero)) {
            return Err("its padding is not zero");
        }
        let Some(Pieces { dim, bits, whole }) = self.accesses.get(op).and_then(|access| access.copy) else {
            return Err("no dimension is contiguous in memory");
        };
        let value = body.result(op);
        let (elem, shape) = body.ty(value).tile().expect("a load gives a tile");
        let bytes = elem.bytes() << bits;
        if !matches!(bytes, 4 | 8 | 16) || elem.bits() < 8 {
            return Err("its neighbours in memory are not known to be aligned");
        }
        let strides = Strides::of(shape);
        let others = (0..shape.len()).rev().filter(|other| *other != dim);
        let order: Vec<u32> = std::iter::once(dim).chain(others).flat_map(|dim| strides.dim_bits(dim)).collect();
        let layout = Layout::blocked(&order, bits as usize, self.warp_bits);
        Ok(Copied { dim, layout, bytes, whole })
    }

    fn copy(&self, op: OpId, block: Block, copied: Copied) -> Result<Copy, &'static str> {
        let value = self.function.body.result(op);
        let (elem, shape) = self.function.body.ty(value).tile().expect("a load gives a tile");
        let read = match self.readers(value, Some(block), 0) {
            Some(Reads { groups: true, .. }) => {
                let Copied { dim, layout, bytes, whole } = copied;
                let buffer = group::operand_buffer(elem, shape, dim).ok_or("its rows are too short for a matrix descriptor")?;
                return Ok(Copy { buffer, by: By::Pieces { layout, bytes, whole }, readers: Readers::Products });
            }
            Some(Reads { fragments, .. }) => (Readers::Products, fragments),
            // What else used it would want it in registers for long.
            None if !self.uses.reach_only_products(value) => return Err("something else than a product uses it"),
            None => {
                let home = self.accesses.get(op).map(|access| &access.layout);
                let directly = home.and_then(|home| self.read_directly(value, block, copied.dim, &copied.layout, home));
                directly
                    .map_or_else(|| (Readers::Registers, home.cloned().into_iter().collect()), |wanted| (Readers::Products, wanted))
            }
        };
        Ok(self.buffered(op, copied, read))
    }

    /// The copy to a buffer that lies well for the copy itself and those who read it.
    fn buffered(&self, op: OpId, copied: Copied, (readers, layouts): (Readers, Vec<Layout>)) -> Copy {
        let Copied { dim, layout, bytes, whole } = copied;
        let (elem, shape) = self.function.body.ty(self.function.body.result(op)).tile().expect("a load gives a tile");
        let accesses: Vec<&Layout> = std::iter::once(&layout).chain(&layouts).collect();
        let buffer = banks::buffer(elem, shape, dim, &accesses);
        Copy { buffer, by: By::Pieces { layout, bytes, whole }, readers }
    }

    /// A load through pointers: its vectors are the pieces.
    fn pointers(&self, op: OpId, block: Block) -> Result<Copy, &'static str> {
        let body = &self.function.body;
        let Op::Load { ptr, other, order, .. } = &body.ops[op].kind else { unreachable!("only loads are planned") };
        if order.semantics != MemoryOrdering::Weak {
            return Err("it is ordered against other threads");
        }
        if !matches!(body.ty(*ptr).tile(), Some((Elem::Ptr { space: Space::Global, .. }, _))) {
            return Err("its pointers may point elsewhere than to global memory");
        }
        if other.is_some_and(|other| !self.is_zero(other)) {
            return Err("its padding is not zero");
        }
        let value = body.result(op);
        let (elem, shape) = body.ty(value).tile().expect("a load gives a tile");
        let Some(access) = self.accesses.get(op) else { return Err("nothing is known of its pointers") };
        let bytes = elem.bytes() << access.vector_bits;
        if !matches!(bytes, 4 | 8 | 16) || elem.bits() < 8 {
            return Err("its neighbours in memory are not known to be aligned");
        }
        let strides = Strides::of(shape);
        let neighbour = access.layout.register.first().copied().unwrap_or(1);
        let dim = (0..shape.len()).find(|dim| strides.mask(*dim) & neighbour != 0).unwrap_or(shape.len() - 1);
        self.copy(op, block, Copied { dim, layout: access.layout.clone(), bytes, whole: true })
    }

    fn is_zero(&self, value: Value) -> bool {
        let made = self.function.body.defining_op(value).map(|op| &self.function.body.ops[op].kind);
        matches!(made, Some(Op::Core(Core::Constant { value: Dense::Splat(0) })))
    }

    /// How products in a block, or anywhere, read a value that nothing else uses; none when something does.
    pub(crate) fn readers(&self, value: Value, block: Option<Block>, between: u32) -> Option<Reads> {
        let body = &self.function.body;
        let mut found = Reads::default();
        let fragments = &mut found.fragments;
        for &user in self.uses.users(value) {
            if block.is_some_and(|block| self.blocks[user.0 as usize] != Some(block)) || between > MOST_BETWEEN {
                return None;
            }
            let behind = || self.readers(body.result(user), block, between + 1);
            match &body.ops[user].kind {
                kind @ (Op::Mma { lhs, rhs, acc, .. } | Op::MmaScaled { lhs, rhs, acc, .. }) => match self.products.get(user) {
                    Some(Product::Sync { a, b, scales, .. }) if *acc != value => {
                        fragments.extend((*lhs == value).then(|| a.clone()));
                        fragments.extend((*rhs == value).then(|| b.clone()));
                        if let (Op::MmaScaled { lhs_scale, rhs_scale, .. }, Some(scales)) = (kind, scales) {
                            let [of_a, of_b] = &**scales;
                            fragments.extend((*lhs_scale == value).then(|| of_a.clone()));
                            fragments.extend((*rhs_scale == value).then(|| of_b.clone()));
                        }
                    }
                    // Each thread reads what it multiplies, from the buffer as it is.
                    Some(Product::Shared { c }) if *acc != value && between == 0 => {
                        let shape = |value: Value| body.ty(value).tile().expect("products are of tiles").1;
                        let operand = shape(value);
                        let sides = [(*lhs, operand.len() - 2), (*rhs, operand.len() - 1)];
                        let reads = sides.into_iter().filter(|(side, _)| *side == value);
                        fragments.extend(reads.map(|(_, dim)| products::shared_reads(c, shape(*acc), operand, dim)));
                    }
                    Some(Product::Tensor { scales: Some(scales), .. }) if kind.operands()[3..].contains(&value) => {
                        let shape = body.ty(value).tile().expect("products are of tiles").1;
                        let sides: Vec<Value> = kind.operands()[3..].to_vec();
                        let read = sides.into_iter().zip(scales.iter()).filter(|(side, _)| *side == value);
                        fragments.extend(read.map(|(_, layout)| tensor::one_copy(layout, shape)));
                    }
                    Some(Product::Group { lhs: a, rhs: b, .. } | Product::Tensor { lhs: a, rhs: b, .. }) if *acc != value => {
                        for (_, place) in [(*lhs, a), (*rhs, b)].into_iter().filter(|(side, _)| *side == value) {
                            fragments.extend(place.layout().cloned());
                            found.groups |= place.layout().is_none();
                        }
                    }
                    _ => return None,
                },
                Op::Core(Core::Permute { order, .. }) => {
                    let shape = body.ty(body.result(user)).tile().expect("a permutation is of tiles").1;
                    let Reads { fragments: all, groups } = behind()?;
                    fragments.extend(all.iter().map(|layout| layout.unpermute(shape, order)));
                    found.groups |= groups;
                }
                Op::Core(Core::Reshape { .. }) => {
                    let Reads { fragments: all, groups } = behind()?;
                    fragments.extend(all);
                    found.groups |= groups;
                }
                // Warp groups read memory as it is.
                Op::Core(Core::Convert { x, .. }) if self.bits(*x) == self.bits(body.result(user)) => {
                    let Reads { fragments: all, .. } = behind().filter(|reads| !reads.groups)?;
                    fragments.extend(all);
                }
                _ => return None,
            }
        }
        Some(found)
    }

    /// Whether the loads of a loop are copied by boxes if they can be: unasked where tensor cores multiply what it loads, who have no
    /// instructions to spare for copies, be it that threads read fragments.
    fn wants_boxes(&self, block: Block) -> bool {
        match self.boxes {
            Boxes::Never => false,
            Boxes::WherePays => {
                let ops = &self.function.body.blocks[block].ops;
                self.target.has(Feature::BoxCopies)
                    && ops.iter().any(|op| self.reads_in_place(*op) || self.multiplies_by_warps(*op))
            }
            Boxes::WherePossible => true,
        }
    }

    /// Whether an op is a product of warp groups, or in tensor memory.
    pub(crate) fn reads_in_place(&self, op: OpId) -> bool {
        matches!(self.products.get(op), Some(Product::Group { .. } | Product::Tensor { .. }))
    }

    fn multiplies_by_warps(&self, op: OpId) -> bool {
        matches!(self.products.get(op), Some(Product::Sync { .. }))
    }

    /// Whether a value is an operand of a product in tensor memory.
    pub(crate) fn reaches_tensor_memory(&self, value: Value) -> bool {
        self.uses.ends(value).into_iter().any(|user| matches!(self.products.get(user), Some(Product::Tensor { .. })))
    }

    /// Whether it is one of a product that others of the warp's instructions go on beside.
    fn reaches_asynchronous_product(&self, value: Value) -> bool {
        let is_asynchronous = |product: Option<&Product>| matches!(product, Some(Product::Tensor { .. } | Product::Group { .. }));
        self.uses.ends(value).into_iter().any(|user| is_asynchronous(self.products.get(user)))
    }

    /// The operands of a product that warp groups read from shared memory.
    fn in_place(&self, op: OpId) -> Vec<InPlace> {
        let (Op::Mma { lhs, rhs, .. }, Some(Product::Group { lhs: a, rhs: b, .. })) =
            (&self.function.body.ops[op].kind, self.products.get(op))
        else {
            return Vec::new();
        };
        let operand = |(value, place): (&Value, &Place)| match place {
            Place::Registers(_) | Place::Tensor(_) => None,
            Place::Transposed(_) => Some(InPlace { value: *value, transposed: true }),
            Place::Memory => Some(InPlace { value: *value, transposed: false }),
        };
        [(lhs, a), (rhs, b)].into_iter().filter_map(operand).collect()
    }

    fn bytes(&self, value: Value) -> u32 {
        let tile = self.function.body.ty(value).tile();
        tile.map_or(0, |(elem, shape)| (element_count(shape) as u32).saturating_mul(elem.bytes()))
    }

    /// Whether fragments are read from a buffer that boxes fill with more passes over the banks than it takes threads to copy a tile
    /// to another buffer and read them there.
    pub(crate) fn meets_banks(&self, value: Value, buffer: &BufferInfo, fragments: &[Layout]) -> bool {
        let (elem, shape) = self.function.body.ty(value).tile().expect("a load gives a tile");
        let inner = Strides::of(shape);
        let first = buffer.offsets.first().copied().unwrap_or(1);
        let dim = (0..shape.len()).find(|dim| inner.mask(*dim) & first != 0).unwrap_or(shape.len() - 1);
        let reads: Vec<&Layout> = fragments.iter().collect();
        let passes =
            |buffer: &BufferInfo| fragments.iter().map(|layout| banks::wavefronts(buffer, layout)).sum::<u32>() << self.warp_bits;
        let other = banks::buffer(elem, shape, dim, &reads);
        passes(buffer) > passes(&other) && passes(buffer) >= passes(&other) + buffer.bytes() / banks::LINE
    }

    fn bits(&self, value: Value) -> Option<u32> {
        self.function.body.ty(value).tile().map(|(elem, _)| elem.bits())
    }
}
