//! Loops with memory dependences between iterations. A loop-carried token orders the accesses. In most iterations an element
//! belongs to another thread than in the previous iteration.

use crate::builder::{Kind, View, ViewKind};
use crate::induction::{Elements, Moving, POSITION, POSITIONS};
use crate::program::Generator;
use crate::views::Tensor;
use base::ir::Value;
use numerics::Scalar;
use tileir::Op;

/// Alignment of each tile block's memory, in elements. It makes the address assumptions hold for every tile block.
const ALIGNED: u64 = 16;

/// How the addresses of an access depend on the position.
#[derive(Clone)]
enum Path {
    /// Pointers that advance by `step` elements per position.
    Pointers { step: i64 },
    /// Pointers to the same elements, permuted differently at each position.
    Exchanged,
    /// A view of tiles that overlap along a dimension; adjacent tiles start `step` elements apart.
    Strided { dim: usize, step: i64 },
    /// A gather view; its rows advance by `step` per position.
    Gathered { dim: usize, step: i64 },
    /// A partition view; every second position is the same tile.
    Partition { dim: usize },
    /// A view whose base pointer depends on the position.
    Moved,
}

/// Memory of one tile block that a loop accesses.
#[derive(Clone)]
struct Ground {
    kind: Kind,
    /// Base pointers; more than one if several parameters alias.
    starts: Vec<Value>,
    paths: Vec<Path>,
    /// Loop-carried addresses of the enclosing loop.
    moving: Vec<Moving>,
}

impl Path {
    /// The number of elements that all positions together span.
    fn length(&self, kind: &Kind) -> i64 {
        let last = POSITIONS - 1;
        match self {
            Path::Pointers { step } => kind.count() + last * step,
            Path::Exchanged => kind.count(),
            Path::Strided { .. } | Path::Gathered { .. } | Path::Partition { .. } => self.sizes(kind).iter().product(),
            Path::Moved => kind.count() + last * ALIGNED as i64,
        }
    }

    /// The extents of a view's tensor.
    fn sizes(&self, kind: &Kind) -> Vec<i64> {
        let mut sizes = kind.shape.clone();
        match self {
            Path::Strided { dim, step } | Path::Gathered { dim, step } => sizes[*dim] += (POSITIONS - 1) * step,
            Path::Partition { dim } => sizes[*dim] *= POSITIONS / 2,
            Path::Pointers { .. } | Path::Exchanged | Path::Moved => {}
        }
        sizes
    }
}

/// The address operands of an access.
enum AddressPattern {
    Pointers(Value),
    View(Value, Vec<Value>),
}

impl Generator {
    pub(crate) fn iterations(&mut self) {
        let (first, kind) = self.any();
        if kind.scalar == Scalar::I1 || kind.shape.is_empty() {
            return;
        }
        let ground = self.ground(&kind);
        let token = self.build.token();
        let token = self.build.op(Op::MakeToken {}, token);
        let zero = self.index_constant(0);
        let (value, token) = match self.random.one_in(4) {
            true => self.repeated(&ground, 2, zero, first, token, &|inner, ground, position, value, token| {
                inner.repeated(ground, 5, position, value, token, &Generator::iteration)
            }),
            false => self.repeated(&ground, 6, zero, first, token, &Generator::iteration),
        };
        self.add(value, kind.clone());
        let (left, _) = self.load_on(&ground, zero, token);
        self.add(left, kind);
    }

    fn ground(&mut self, kind: &Kind) -> Ground {
        let paths: Vec<Path> = (0..1 + self.random.below(2)).map(|_| self.path(kind)).collect();
        let longest = paths.iter().map(|path| path.length(kind)).max().expect("there is a path");
        let length = longest.unsigned_abs().next_multiple_of(ALIGNED) as i64;
        let pointer = self.output(kind.scalar, length * self.grid, 0.0);
        let ty = self.build.pointers(kind.scalar, &[]);
        let mut pointers = vec![pointer];
        if self.random.one_in(3) {
            pointers.push(self.same_output(kind.scalar));
        }
        let offset = self.own_start(length);
        let starts = pointers.into_iter().map(|ptr| self.build.op(Op::Offset { ptr, offset }, ty)).collect();
        Ground { kind: kind.clone(), starts, paths, moving: Vec::new() }
    }

    fn path(&mut self, kind: &Kind) -> Path {
        let dim = self.random.below(kind.shape.len());
        let near = |generator: &mut Generator, extent: i64| generator.random.pick(&[1, 1, 2, (extent / 2).max(1), extent]);
        match self.random.below(7) {
            0 | 1 => Path::Pointers { step: near(self, kind.count()) },
            2 => Path::Exchanged,
            3 => Path::Strided { dim, step: near(self, kind.shape[dim]) },
            4 => Path::Gathered { dim, step: near(self, kind.shape[dim]) },
            5 => Path::Partition { dim },
            _ => Path::Moved,
        }
    }

    /// Emits a loop of at most `most` iterations. It carries a tile, the token and addresses; positions count from `start`.
    fn repeated(
        &mut self,
        ground: &Ground,
        most: usize,
        start: Value,
        value: Value,
        token: Value,
        fill: &dyn Fn(&mut Generator, &Ground, Value, Value, Value) -> (Value, Value),
    ) -> (Value, Value) {
        let number = Kind::new(POSITION, &[]);
        let one = self.index_constant(1);
        let iterations = match most > 4 && self.random.one_in(3) {
            // This trip count may differ between tile blocks.
            true => self.below(4, &[]),
            false => {
                let iterations = 1 + self.random.below(most) as i64;
                self.index_constant(iterations)
            }
        };
        let steps = self.counts();
        let [lower_bound, upper_bound, step] = self.counted_loop(&steps, iterations);
        let moving = self.moving_addresses(ground, start);
        let counts = self.random.one_in(4);
        let fixed = [self.build.tile(&ground.kind), self.build.token()];
        let mut types = [&[self.build.tile(&number)], &fixed[..]].concat();
        types.extend(moving.iter().map(|moving| moving.ty));
        types.extend(counts.then(|| types[0]));
        self.loops += 1;
        let body = self.region(&types, |inner, args| {
            let mut moving = moving.clone();
            moving.iter_mut().zip(&args[3..]).for_each(|(moving, arg)| moving.value = *arg);
            let position = match counts {
                true => args[args.len() - 1],
                false => {
                    let before = inner.iterations_before(&steps, args[0]);
                    inner.build.plus(&number, before, start)
                }
            };
            inner.add(position, number.clone());
            inner.add(args[1], ground.kind.clone());
            let ground = Ground { moving, ..ground.clone() };
            let (value, token) = fill(inner, &ground, position, args[1], args[2]);
            let mut next = vec![value, token];
            next.extend(ground.moving.iter().map(|moving| inner.moved_on(&ground.kind, moving)));
            next.extend(counts.then(|| inner.build.plus(&number, position, one)));
            inner.build.ops(Op::Continue { operands: next.into() }, &[]);
        });
        self.loops -= 1;
        let mut init_values = vec![value, token];
        init_values.extend(moving.iter().map(|moving| moving.value));
        init_values.extend(counts.then_some(start));
        let op = Op::For { unsigned_cmp: false, lower_bound, upper_bound, step, init_values: init_values.into(), body };
        let results = self.build.ops(op, &types[1..]);
        let token = match moving.first() {
            // Uses the loop-carried addresses after the loop, too.
            Some(moving) if self.random.one_in(5) => {
                let moving = Moving { value: results[2], ..moving.clone() };
                let start = self.random.pick(&ground.starts);
                let pointers = self.pointers_of(ground, start, &moving);
                self.store_pointers(pointers, results[0], None, Some(results[1]))
            }
            _ => results[1],
        };
        (results[0], token)
    }

    /// Emits loop-carried addresses that advance like one of the pointer paths; often none.
    fn moving_addresses(&mut self, ground: &Ground, start: Value) -> Vec<Moving> {
        let step = ground.paths.iter().find_map(|path| match path {
            Path::Pointers { step } => Some(*step),
            _ => None,
        });
        let Some(step) = step.filter(|_| !self.random.one_in(3)) else { return Vec::new() };
        let count = 1 + self.random.below(2);
        (0..count)
            .map(|_| {
                let base = self.random.pick(&ground.starts);
                self.moving(&ground.kind, base, start, step)
            })
            .collect()
    }

    fn pointers_of(&mut self, ground: &Ground, start: Value, moving: &Moving) -> Value {
        match moving.elements {
            Elements::Pointers => moving.value,
            Elements::Numbers => {
                let kind = &ground.kind;
                let offset = self.reshape(moving.value, &Kind::new(POSITION, &[kind.count()]), &kind.shape);
                self.pointers(start, kind.scalar, offset, &kind.shape)
            }
        }
    }

    /// Emits one or two accesses, at least one of them a store.
    fn iteration(&mut self, ground: &Ground, position: Value, value: Value, token: Value) -> (Value, Value) {
        match self.random.below(4) {
            0 => (value, self.store_on(ground, position, value, token)),
            1 => {
                let next = self.arithmetic(value, &ground.kind);
                (next, self.store_where(ground, position, next, token))
            }
            2 => {
                let stored = self.store_on(ground, position, value, token);
                let other = self.other(position);
                let (loaded, read) = self.load_on(ground, other, stored);
                (self.arithmetic(loaded, &ground.kind), read)
            }
            _ => {
                let other = self.other(position);
                let (loaded, read) = self.load_on(ground, other, token);
                let next = self.arithmetic(loaded, &ground.kind);
                (next, self.store_on(ground, position, next, read))
            }
        }
    }

    /// This position or a neighbour: the position with its lowest bit flipped.
    fn other(&mut self, position: Value) -> Value {
        let beside = self.random.below(2) as i64;
        let beside = self.index_constant(beside);
        self.build.emit(&Kind::new(POSITION, &[]), Op::XOrI { lhs: position, rhs: beside })
    }

    /// Emits a store that some tile blocks or iterations may skip.
    fn store_where(&mut self, ground: &Ground, position: Value, value: Value, token: Value) -> Value {
        if !self.random.one_in(2) {
            return self.store_on(ground, position, value, token);
        }
        let (condition, ty) = (self.decision(), self.build.token());
        let then_region = self.region(&[], |inner, _| {
            let stored = inner.store_on(ground, position, value, token);
            inner.build.ops(Op::Yield { operands: [stored].into() }, &[]);
        });
        let else_region = self.region(&[], |inner, _| _ = inner.build.ops(Op::Yield { operands: [token].into() }, &[]));
        self.build.op(Op::If { condition, then_region, else_region }, ty)
    }

    fn store_on(&mut self, ground: &Ground, position: Value, value: Value, token: Value) -> Value {
        match self.pattern(ground, position) {
            AddressPattern::Pointers(pointers) => {
                let mask = self.random.one_in(4).then(|| self.some(&ground.kind.of(Scalar::I1)));
                self.store_pointers(pointers, value, mask, Some(token))
            }
            AddressPattern::View(view, index) => self.store_view(view, &index, value, Some(token)),
        }
    }

    fn load_on(&mut self, ground: &Ground, position: Value, token: Value) -> (Value, Value) {
        match self.pattern(ground, position) {
            AddressPattern::Pointers(pointers) => self.load_pointers(pointers, &ground.kind, None, None, Some(token)),
            AddressPattern::View(view, index) => self.load_view(view, &index, &ground.kind, Some(token)),
        }
    }

    fn pattern(&mut self, ground: &Ground, position: Value) -> AddressPattern {
        let (kind, path, start) = (&ground.kind, self.random.pick(&ground.paths), self.random.pick(&ground.starts));
        if !ground.moving.is_empty() && self.random.one_in(2) {
            let moving = self.random.pick(&ground.moving);
            return AddressPattern::Pointers(self.pointers_of(ground, start, &moving));
        }
        match path {
            Path::Pointers { step } => {
                let far = self.scaled_position(position, step);
                self.pattern_of_pointers(kind, start, far, |generator, flat, places, far| generator.build.plus(flat, places, far))
            }
            Path::Exchanged => self.pattern_of_pointers(kind, start, position, |generator, flat, places, far| {
                let other = generator.build.emit(flat, Op::XOrI { lhs: places, rhs: far });
                let mask = generator.splat(flat, flat.count() as u64 - 1);
                generator.build.and(flat, other, mask)
            }),
            Path::Strided { dim, step } => {
                let mut steps = kind.shape.clone();
                steps[dim] = step;
                let index = self.index_along(kind, dim, position);
                self.pattern_of_view(kind, &path, start, ViewKind::Strided(steps), index)
            }
            Path::Gathered { dim, step } => {
                let rows = Kind::new(POSITION, &[kind.shape[dim]]);
                let far = self.scaled_position(position, step);
                let (order, far) = (self.any_order(&rows), self.spread(far, &rows));
                let picked = self.build.plus(&rows, order, far);
                let index = self.index_along(kind, dim, picked);
                self.pattern_of_view(kind, &path, start, ViewKind::Gather(dim), index)
            }
            Path::Partition { dim } => {
                let last = self.index_constant(POSITIONS / 2 - 1);
                let tile = self.build.and(&Kind::new(POSITION, &[]), position, last);
                let index = self.index_along(kind, dim, tile);
                self.pattern_of_view(kind, &path, start, ViewKind::Partition, index)
            }
            Path::Moved => {
                let offset = self.scaled_position(position, ALIGNED as i64);
                let ty = self.build.pointers(kind.scalar, &[]);
                let start = self.build.op(Op::Offset { ptr: start, offset }, ty);
                let zero = self.index_constant(0);
                let index = self.index_along(kind, 0, zero);
                self.pattern_of_view(kind, &path, start, ViewKind::Partition, index)
            }
        }
    }

    fn pattern_of_pointers(
        &mut self,
        kind: &Kind,
        start: Value,
        far: Value,
        moved: impl FnOnce(&mut Generator, &Kind, Value, Value) -> Value,
    ) -> AddressPattern {
        let flat = Kind::new(POSITION, &[kind.count()]);
        let (order, far) = (self.any_order(&flat), self.spread(far, &flat));
        let places = moved(self, &flat, order, far);
        let offset = self.reshape(places, &flat, &kind.shape);
        AddressPattern::Pointers(self.pointers(start, kind.scalar, offset, &kind.shape))
    }

    fn pattern_of_view(&mut self, kind: &Kind, path: &Path, base: Value, view_kind: ViewKind, index: Vec<Value>) -> AddressPattern {
        let sizes = path.sizes(kind);
        let order: Vec<usize> = (0..sizes.len()).collect();
        let tensor = Tensor::packed(kind.scalar, &sizes, &order, base);
        let view = View { kind: view_kind, tile: kind.shape.clone(), dim_map: order };
        AddressPattern::View(self.view(&tensor, &view, None), index)
    }

    fn index_along(&mut self, kind: &Kind, dim: usize, along: Value) -> Vec<Value> {
        let zero = self.index_constant(0);
        (0..kind.shape.len()).map(|other| if other == dim { along } else { zero }).collect()
    }

    fn scaled_position(&mut self, position: Value, step: i64) -> Value {
        let step = self.index_constant(step);
        self.build.times(&Kind::new(POSITION, &[]), position, step)
    }
}
