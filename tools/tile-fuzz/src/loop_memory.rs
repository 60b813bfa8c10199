//! Generators of loops with memory dependences between iterations. A loop-carried token orders the accesses. In most iterations,
//! another thread accesses an element than in the previous iteration, so a missing barrier changes the result.

use crate::builder::{TileKind, View, ViewKind};
use crate::induction::{AddressForm, CarriedAddress, POSITION_TYPE, POSITIONS};
use crate::program::Generator;
use crate::views::Tensor;
use base::ir::Value;
use numerics::Scalar;
use tileir::Op;

/// Alignment of each tile block's memory, in elements. It makes the alignment assumptions of the accesses true in every tile block.
const ALIGNMENT: u64 = 16;

/// How the addresses of an access depend on the position. The position is the number of completed iterations.
#[derive(Clone)]
enum AddressPath {
    /// Pointers that advance by `step` elements per position.
    Pointers { step: i64 },
    /// Pointers to the same elements, permuted differently at each position.
    Permuted,
    /// A view of tiles that overlap along a dimension. Adjacent tiles start `step` elements apart.
    Strided { dim: usize, step: i64 },
    /// A gather view whose row indices advance by `step` per position.
    Gathered { dim: usize, step: i64 },
    /// A partition view whose tile index repeats: positions that are equal modulo half the number of positions access the same
    /// tile.
    Partition { dim: usize },
    /// A view whose base pointer depends on the position.
    MovedBase,
}

/// The memory of one tile block that a loop accesses.
#[derive(Clone)]
struct LoopMemory {
    kind: TileKind,
    /// Pointers to the start of the memory; more than one if several parameters alias.
    base_pointers: Vec<Value>,
    /// The paths from which each access chooses one.
    paths: Vec<AddressPath>,
    /// Loop-carried addresses of the enclosing loop, which accesses may use instead of a path.
    carried_addresses: Vec<CarriedAddress>,
}

impl AddressPath {
    /// Returns the number of elements from the first to the last element that the accesses at all positions touch.
    fn span_elements(&self, kind: &TileKind) -> i64 {
        let last = POSITIONS - 1;
        match self {
            AddressPath::Pointers { step } => kind.count() + last * step,
            AddressPath::Permuted => kind.count(),
            AddressPath::Strided { .. } | AddressPath::Gathered { .. } | AddressPath::Partition { .. } => {
                self.tensor_sizes(kind).iter().product()
            }
            AddressPath::MovedBase => kind.count() + last * ALIGNMENT as i64,
        }
    }

    /// Returns the extents of the tensor that the view of an access divides.
    fn tensor_sizes(&self, kind: &TileKind) -> Vec<i64> {
        let mut sizes = kind.shape.clone();
        match self {
            AddressPath::Strided { dim, step } | AddressPath::Gathered { dim, step } => sizes[*dim] += (POSITIONS - 1) * step,
            AddressPath::Partition { dim } => sizes[*dim] *= POSITIONS / 2,
            AddressPath::Pointers { .. } | AddressPath::Permuted | AddressPath::MovedBase => {}
        }
        sizes
    }
}

/// The address operands of an access.
enum AddressPattern {
    /// A tile of pointers.
    Pointers(Value),
    /// A view and the index operands.
    View(Value, Vec<Value>),
}

impl Generator {
    /// Emits one loop, or two nested loops, whose iterations access the same memory. After the loop, loads the elements of position
    /// 0.
    pub(crate) fn memory_loop(&mut self) {
        let (initial, kind) = self.any_tile();
        if kind.scalar == Scalar::I1 || kind.shape.is_empty() {
            return;
        }
        let loop_memory = self.new_loop_memory(&kind);
        let token = self.builder.token_type();
        let token = self.builder.emit_with_type(Op::MakeToken {}, token);
        let zero = self.index_constant(0);
        let (value, token) = match self.random.one_in(4) {
            true => self.emit_loop(&loop_memory, 2, zero, initial, token, &|inner, loop_memory, position, value, token| {
                inner.emit_loop(loop_memory, 5, position, value, token, &Generator::emit_iteration)
            }),
            false => self.emit_loop(&loop_memory, 6, zero, initial, token, &Generator::emit_iteration),
        };
        self.add_to_pool(value, kind.clone());
        let (final_tile, _) = self.load_at_position(&loop_memory, zero, token);
        self.add_to_pool(final_tile, kind);
    }

    /// Adds an output buffer for a loop. For each tile block, the buffer covers the accesses of all chosen paths.
    fn new_loop_memory(&mut self, kind: &TileKind) -> LoopMemory {
        let paths: Vec<AddressPath> = (0..1 + self.random.below(2)).map(|_| self.random_path(kind)).collect();
        let max_span = paths.iter().map(|path| path.span_elements(kind)).max().expect("there is a path");
        let aligned_span = max_span.unsigned_abs().next_multiple_of(ALIGNMENT) as i64;
        let pointer = self.add_output(kind.scalar, aligned_span * self.grid, 0.0);
        let ty = self.builder.pointer_tile_type(kind.scalar, &[]);
        let mut pointers = vec![pointer];
        if self.random.one_in(3) {
            pointers.push(self.add_alias_of_newest_output(kind.scalar));
        }
        let offset = self.own_elements_start(aligned_span);
        let base_pointers = pointers.into_iter().map(|ptr| self.builder.emit_with_type(Op::Offset { ptr, offset }, ty)).collect();
        LoopMemory { kind: kind.clone(), base_pointers, paths, carried_addresses: Vec::new() }
    }

    /// Chooses how the addresses of the accesses depend on the position. Most steps are so small that consecutive accesses overlap.
    fn random_path(&mut self, kind: &TileKind) -> AddressPath {
        let dim = self.random.below(kind.shape.len());
        let random_step = |generator: &mut Generator, extent: i64| generator.random.pick(&[1, 1, 2, (extent / 2).max(1), extent]);
        match self.random.below(7) {
            0 | 1 => AddressPath::Pointers { step: random_step(self, kind.count()) },
            2 => AddressPath::Permuted,
            3 => AddressPath::Strided { dim, step: random_step(self, kind.shape[dim]) },
            4 => AddressPath::Gathered { dim, step: random_step(self, kind.shape[dim]) },
            5 => AddressPath::Partition { dim },
            _ => AddressPath::MovedBase,
        }
    }

    /// Emits a loop of at most `max_iterations` iterations that carries a tile, the token and addresses. Positions start at
    /// `start`. `emit_body` emits the accesses of an iteration from the position, the tile and the token, and returns the next tile
    /// and token. Returns the final tile and token.
    fn emit_loop(
        &mut self,
        loop_memory: &LoopMemory,
        max_iterations: usize,
        start: Value,
        value: Value,
        token: Value,
        emit_body: &dyn Fn(&mut Generator, &LoopMemory, Value, Value, Value) -> (Value, Value),
    ) -> (Value, Value) {
        let scalar_kind = TileKind::new(POSITION_TYPE, &[]);
        let one = self.index_constant(1);
        let iterations = match max_iterations > 4 && self.random.one_in(3) {
            // This computed trip count may differ between tile blocks.
            true => self.integers_below(4, &[]),
            false => {
                let iterations = 1 + self.random.below(max_iterations) as i64;
                self.index_constant(iterations)
            }
        };
        let counter_range = self.counter_range();
        let [lower_bound, upper_bound, step] = self.counted_loop(&counter_range, iterations);
        let carried_addresses = self.new_carried_addresses(loop_memory, start);
        let carries_position = self.random.one_in(4);
        let fixed_types = [self.builder.tile_type(&loop_memory.kind), self.builder.token_type()];
        let mut types = [&[self.builder.tile_type(&scalar_kind)], &fixed_types[..]].concat();
        types.extend(carried_addresses.iter().map(|carried_address| carried_address.ty));
        types.extend(carries_position.then(|| types[0]));
        self.loop_depth += 1;
        let body = self.region(&types, |inner, args| {
            let mut carried_addresses = carried_addresses.clone();
            carried_addresses.iter_mut().zip(&args[3..]).for_each(|(carried_address, arg)| carried_address.value = *arg);
            let position = match carries_position {
                true => args[args.len() - 1],
                false => {
                    let iterations = inner.iterations_before(&counter_range, args[0]);
                    inner.builder.emit_add(&scalar_kind, iterations, start)
                }
            };
            inner.add_to_pool(position, scalar_kind.clone());
            inner.add_to_pool(args[1], loop_memory.kind.clone());
            let loop_memory = LoopMemory { carried_addresses, ..loop_memory.clone() };
            let (value, token) = emit_body(inner, &loop_memory, position, args[1], args[2]);
            let mut next_values = vec![value, token];
            next_values.extend(
                loop_memory.carried_addresses.iter().map(|carried_address| inner.next_address(&loop_memory.kind, carried_address)),
            );
            next_values.extend(carries_position.then(|| inner.builder.emit_add(&scalar_kind, position, one)));
            inner.builder.emit_with_types(Op::Continue { operands: next_values.into() }, &[]);
        });
        self.loop_depth -= 1;
        let mut init_values = vec![value, token];
        init_values.extend(carried_addresses.iter().map(|carried_address| carried_address.value));
        init_values.extend(carries_position.then_some(start));
        let op = Op::For { unsigned_cmp: false, lower_bound, upper_bound, step, init_values: init_values.into(), body };
        let results = self.builder.emit_with_types(op, &types[1..]);
        let token = match carried_addresses.first() {
            // Use the loop-carried addresses after the loop too.
            Some(carried_address) if self.random.one_in(5) => {
                let carried_address = CarriedAddress { value: results[2], ..carried_address.clone() };
                let start = self.random.pick(&loop_memory.base_pointers);
                let pointers = self.pointers_of_address(loop_memory, start, &carried_address);
                self.store_pointers(pointers, results[0], None, Some(results[1]))
            }
            _ => results[1],
        };
        (results[0], token)
    }

    /// Emits loop-carried addresses that advance like one of the pointer paths. Returns an empty list without such a path, and in
    /// one of three other cases.
    fn new_carried_addresses(&mut self, loop_memory: &LoopMemory, start: Value) -> Vec<CarriedAddress> {
        let step = loop_memory.paths.iter().find_map(|path| match path {
            AddressPath::Pointers { step } => Some(*step),
            _ => None,
        });
        let Some(step) = step.filter(|_| !self.random.one_in(3)) else { return Vec::new() };
        let count = 1 + self.random.below(2);
        (0..count)
            .map(|_| {
                let base = self.random.pick(&loop_memory.base_pointers);
                self.carried_address(&loop_memory.kind, base, start, step)
            })
            .collect()
    }

    /// Converts a loop-carried address to a tile of pointers. If the address is a tile of element indices, they are relative to the
    /// pointer `start`.
    fn pointers_of_address(&mut self, loop_memory: &LoopMemory, start: Value, carried_address: &CarriedAddress) -> Value {
        match carried_address.form {
            AddressForm::Pointers => carried_address.value,
            AddressForm::Indices => {
                let kind = &loop_memory.kind;
                let offset = self.reshape(carried_address.value, &TileKind::new(POSITION_TYPE, &[kind.count()]), &kind.shape);
                self.pointers(start, kind.scalar, offset, &kind.shape)
            }
        }
    }

    /// Emits the accesses of one iteration: at most a store and a load. Returns the next loop-carried tile and token.
    fn emit_iteration(&mut self, loop_memory: &LoopMemory, position: Value, value: Value, token: Value) -> (Value, Value) {
        match self.random.below(4) {
            0 => (value, self.store_at_position(loop_memory, position, value, token)),
            1 => {
                let next = self.arithmetic(value, &loop_memory.kind);
                (next, self.maybe_store(loop_memory, position, next, token))
            }
            2 => {
                let store_token = self.store_at_position(loop_memory, position, value, token);
                let other_position = self.position_or_neighbour(position);
                let (loaded, load_token) = self.load_at_position(loop_memory, other_position, store_token);
                (self.arithmetic(loaded, &loop_memory.kind), load_token)
            }
            _ => {
                let other_position = self.position_or_neighbour(position);
                let (loaded, load_token) = self.load_at_position(loop_memory, other_position, token);
                let next = self.arithmetic(loaded, &loop_memory.kind);
                (next, self.store_at_position(loop_memory, position, next, load_token))
            }
        }
    }

    /// Emits a position that is equal to `position`, or differs from it in the lowest bit.
    fn position_or_neighbour(&mut self, position: Value) -> Value {
        let low_bit = self.random.below(2) as i64;
        let low_bit = self.index_constant(low_bit);
        self.builder.emit(&TileKind::new(POSITION_TYPE, &[]), Op::XOrI { lhs: position, rhs: low_bit })
    }

    /// Emits a store. In one of two cases, the store is inside an `if`, so some tile blocks or iterations may skip it. Returns the
    /// token after the store.
    fn maybe_store(&mut self, loop_memory: &LoopMemory, position: Value, value: Value, token: Value) -> Value {
        if !self.random.one_in(2) {
            return self.store_at_position(loop_memory, position, value, token);
        }
        let (condition, ty) = (self.random_condition(), self.builder.token_type());
        let then_region = self.region(&[], |inner, _| {
            let store_token = inner.store_at_position(loop_memory, position, value, token);
            inner.builder.emit_with_types(Op::Yield { operands: [store_token].into() }, &[]);
        });
        let else_region =
            self.region(&[], |inner, _| _ = inner.builder.emit_with_types(Op::Yield { operands: [token].into() }, &[]));
        self.builder.emit_with_type(Op::If { condition, then_region, else_region }, ty)
    }

    /// Emits a store to the addresses of a position. Returns the token of the store.
    fn store_at_position(&mut self, loop_memory: &LoopMemory, position: Value, value: Value, token: Value) -> Value {
        match self.address_pattern(loop_memory, position) {
            AddressPattern::Pointers(pointers) => {
                let mask = self.random.one_in(4).then(|| self.tile_of_kind(&loop_memory.kind.with_scalar(Scalar::I1)));
                self.store_pointers(pointers, value, mask, Some(token))
            }
            AddressPattern::View(view, index) => self.store_view(view, &index, value, Some(token)),
        }
    }

    /// Emits a load from the addresses of a position. Returns the loaded tile and the token of the load.
    fn load_at_position(&mut self, loop_memory: &LoopMemory, position: Value, token: Value) -> (Value, Value) {
        match self.address_pattern(loop_memory, position) {
            AddressPattern::Pointers(pointers) => self.load_pointers(pointers, &loop_memory.kind, None, None, Some(token)),
            AddressPattern::View(view, index) => self.load_view(view, &index, &loop_memory.kind, Some(token)),
        }
    }

    /// Emits the address operands of an access at a position. The addresses follow a random path or a loop-carried address.
    fn address_pattern(&mut self, loop_memory: &LoopMemory, position: Value) -> AddressPattern {
        let (kind, path, start) =
            (&loop_memory.kind, self.random.pick(&loop_memory.paths), self.random.pick(&loop_memory.base_pointers));
        if !loop_memory.carried_addresses.is_empty() && self.random.one_in(2) {
            let carried_address = self.random.pick(&loop_memory.carried_addresses);
            return AddressPattern::Pointers(self.pointers_of_address(loop_memory, start, &carried_address));
        }
        match path {
            AddressPath::Pointers { step } => {
                let offset = self.scaled_position(position, step);
                self.pattern_of_pointers(kind, start, offset, |generator, flat, indices, offset| {
                    generator.builder.emit_add(flat, indices, offset)
                })
            }
            AddressPath::Permuted => self.pattern_of_pointers(kind, start, position, |generator, flat, indices, offset| {
                let exchanged = generator.builder.emit(flat, Op::XOrI { lhs: indices, rhs: offset });
                let mask = generator.splat(flat, flat.count() as u64 - 1);
                generator.builder.emit_and(flat, exchanged, mask)
            }),
            AddressPath::Strided { dim, step } => {
                let mut tile_distances = kind.shape.clone();
                tile_distances[dim] = step;
                let index = self.index_along(kind, dim, position);
                self.pattern_of_view(kind, &path, start, ViewKind::Strided(tile_distances), index)
            }
            AddressPath::Gathered { dim, step } => {
                let rows = TileKind::new(POSITION_TYPE, &[kind.shape[dim]]);
                let offset = self.scaled_position(position, step);
                let (rows_in_order, offset) = (self.permuted_indices(&rows), self.broadcast_scalar(offset, &rows));
                let row_indices = self.builder.emit_add(&rows, rows_in_order, offset);
                let index = self.index_along(kind, dim, row_indices);
                self.pattern_of_view(kind, &path, start, ViewKind::Gather(dim), index)
            }
            AddressPath::Partition { dim } => {
                let last = self.index_constant(POSITIONS / 2 - 1);
                let tile_index = self.builder.emit_and(&TileKind::new(POSITION_TYPE, &[]), position, last);
                let index = self.index_along(kind, dim, tile_index);
                self.pattern_of_view(kind, &path, start, ViewKind::Partition, index)
            }
            AddressPath::MovedBase => {
                let offset = self.scaled_position(position, ALIGNMENT as i64);
                let ty = self.builder.pointer_tile_type(kind.scalar, &[]);
                let start = self.builder.emit_with_type(Op::Offset { ptr: start, offset }, ty);
                let zero = self.index_constant(0);
                let index = self.index_along(kind, 0, zero);
                self.pattern_of_view(kind, &path, start, ViewKind::Partition, index)
            }
        }
    }

    /// Emits a tile of pointers. `combine` emits the element indices from permuted indices and the broadcast `offset`.
    fn pattern_of_pointers(
        &mut self,
        kind: &TileKind,
        start: Value,
        offset: Value,
        combine: impl FnOnce(&mut Generator, &TileKind, Value, Value) -> Value,
    ) -> AddressPattern {
        let flat = TileKind::new(POSITION_TYPE, &[kind.count()]);
        let (indices_in_order, offset) = (self.permuted_indices(&flat), self.broadcast_scalar(offset, &flat));
        let indices = combine(self, &flat, indices_in_order, offset);
        let offset = self.reshape(indices, &flat, &kind.shape);
        AddressPattern::Pointers(self.pointers(start, kind.scalar, offset, &kind.shape))
    }

    /// Emits a view of the tensor of `path` at `base`, for an access with the given index operands.
    fn pattern_of_view(
        &mut self,
        kind: &TileKind,
        path: &AddressPath,
        base: Value,
        view_kind: ViewKind,
        index: Vec<Value>,
    ) -> AddressPattern {
        let sizes = path.tensor_sizes(kind);
        let dims: Vec<usize> = (0..sizes.len()).collect();
        let tensor = Tensor::packed(kind.scalar, &sizes, &dims, base);
        let view = View { kind: view_kind, tile: kind.shape.clone(), dim_map: dims };
        AddressPattern::View(self.view(&tensor, &view, None), index)
    }

    /// Returns the index operands of an access: `index` for the dimension `dim`, and zero for the other dimensions.
    fn index_along(&mut self, kind: &TileKind, dim: usize, index: Value) -> Vec<Value> {
        let zero = self.index_constant(0);
        (0..kind.shape.len()).map(|other| if other == dim { index } else { zero }).collect()
    }

    /// Emits the distance in elements that a pointer has advanced at a position.
    fn scaled_position(&mut self, position: Value, step: i64) -> Value {
        let step = self.index_constant(step);
        self.builder.emit_mul(&TileKind::new(POSITION_TYPE, &[]), position, step)
    }
}
