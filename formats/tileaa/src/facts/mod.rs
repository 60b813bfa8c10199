//! Facts about the values of a function: divisors, ranges, and the structure of tiles (contiguity, constancy).
//!
//! A forward data-flow analysis (compare Triton's axis info analysis). Its sources are assumptions, constants, the grid and loop
//! bounds. Arithmetic and shape ops propagate the facts. A loop-carried value starts with the facts of its initial value. Each
//! iteration drops the facts that it does not confirm, until a fixed point. Ranges that keep growing are widened to the type's
//! range.

mod info;
mod table;
mod transfer;

pub use info::{AxisInfo, TileFacts, full_range};
pub(crate) use table::first_underivable;
pub use table::{ValueFacts, derive_table};

use crate::{Function, Op, Type};
use base::Value;
use base::ir::{Op as OpId, Operation};
use core_dialect::core_ops::Core;
use core_dialect::region_edges::destinations_of_terminator;
use core_dialect::rules::CoreDialectOp;
use core_dialect::rules::OpParents;
use core_dialect::structured_ops::LoopBounds;
use core_dialect::tile::{Elem, Shape};
use transfer::Operand;

/// The facts about a memref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemRefFacts {
    /// A divisor of the base address in bytes.
    pub base_divisor: u64,
    /// A divisor of the size of each dimension, in elements.
    pub size_divisors: Vec<u64>,
    /// A divisor of the stride of each dimension, in elements.
    pub stride_divisors: Vec<u64>,
    /// The lowest and highest possible size of each dimension.
    pub size_ranges: Vec<(i64, i64)>,
    /// The lowest and highest possible stride of each dimension.
    pub stride_ranges: Vec<(i64, i64)>,
}

/// The derived facts about all values of a function.
pub struct Facts<'a> {
    function: &'a Function,
    /// By value id; `None` for a value that is not a tile, and for an unreachable value.
    infos: Vec<Option<TileFacts>>,
}

/// How often the facts about a loop-carried value may change before the analysis widens a growing range to that of the type.
const MAX_CHANGES_BEFORE_WIDENING: u32 = 2;
/// How often the facts about a loop-carried value may change before the analysis drops all facts about the value.
const MAX_CHANGES: u32 = 12;
/// Limit on the iterations of the analysis. A loop nest may need one iteration for each nesting level. At the limit, the analysis
/// drops all facts about loop-carried values.
const MAX_ITERATIONS: usize = 64;

impl<'a> Facts<'a> {
    /// Derives the facts about all values of a function.
    pub fn derive(function: &'a Function) -> Facts<'a> {
        let count = function.body.values.len();
        let mut analysis = FactAnalysis {
            function,
            infos: vec![None; count],
            changes: vec![0; count],
            nesting: OpParents::analyse(&function.body, function.region),
            changed: false,
        };
        for &param in function.params() {
            analysis.infos[param.0 as usize] = analysis.unknown(param);
        }
        let order = function.body.walk(function.region);
        for iteration in 0.. {
            if iteration == MAX_ITERATIONS {
                order.iter().for_each(|op| analysis.drop_facts(*op));
            }
            analysis.changed = false;
            order.iter().for_each(|op| analysis.update_op(*op));
            if !analysis.changed {
                break;
            }
        }
        Facts { function, infos: analysis.infos }
    }

    /// All facts about a tile or scalar; `None` for a value of another type, and for an unreachable value.
    pub fn info(&self, value: Value) -> Option<&TileFacts> {
        self.infos[value.0 as usize].as_ref()
    }

    /// A power of two that divides every element; for pointers in bytes.
    pub fn divisor(&self, value: Value) -> u64 {
        self.info(value).map_or(1, |info| info.divisor)
    }

    /// Bounds of every element as a signed number, both included.
    pub fn range(&self, value: Value) -> (i64, i64) {
        match (self.info(value), self.function.body.ty(value)) {
            (Some(info), _) => info.range,
            (None, Type::Tile { elem, .. }) => full_range(*elem),
            (None, _) => (i64::MIN, i64::MAX),
        }
    }

    /// The number that all elements have; `None` if the facts do not show that there is one.
    pub fn constant(&self, value: Value) -> Option<i64> {
        self.info(value).and_then(TileFacts::constant)
    }

    /// The facts along a dimension of a tile.
    pub fn axis(&self, value: Value, dim: usize) -> AxisInfo {
        self.info(value).and_then(|info| info.axes.get(dim)).copied().unwrap_or(AxisInfo::UNKNOWN)
    }

    /// The facts about a memref, or about the memref of a view. `None` for a block argument and for other types.
    pub fn memref(&self, value: Value) -> Option<MemRefFacts> {
        let body = &self.function.body;
        match (&body.ops[body.defining_op(value)?].kind, body.ty(value)) {
            (Op::Core(Core::MakeView { memref }), _) => self.memref(*memref),
            (Op::Core(Core::MakeMemRef { base, sizes, strides }), Type::MemRef(ty)) => {
                let divisors_and_ranges = |known: &[Option<u64>], open: &[Value]| {
                    let mut open = open.iter();
                    let mut divisor_and_range = |known: &Option<u64>| match (known, known.is_none().then(|| open.next()).flatten())
                    {
                        (Some(number), _) => (info::power_of_two_divisor(*number), (*number as i64, *number as i64)),
                        (None, Some(value)) => (self.divisor(*value), self.range(*value)),
                        (None, None) => (1, (i64::MIN, i64::MAX)),
                    };
                    known.iter().map(&mut divisor_and_range).unzip()
                };
                let (size_divisors, size_ranges) = divisors_and_ranges(&ty.sizes, sizes);
                let (stride_divisors, stride_ranges) = divisors_and_ranges(&ty.strides, strides);
                let base_divisor = self.divisor(*base);
                Some(MemRefFacts { base_divisor, size_divisors, stride_divisors, size_ranges, stride_ranges })
            }
            _ => None,
        }
    }
}

/// The state of the data-flow analysis. `infos` and `changes` are indexed by value id.
struct FactAnalysis<'a> {
    function: &'a Function,
    /// The facts found so far; `None` as in [`Facts`].
    infos: Vec<Option<TileFacts>>,
    /// How often the facts about a value have changed.
    changes: Vec<u32>,
    /// The op that contains each op.
    nesting: OpParents,
    /// Whether a fact changed in the current iteration.
    changed: bool,
}

impl FactAnalysis<'_> {
    fn tile(&self, value: Value) -> Option<(Elem, &Shape)> {
        self.function.body.ty(value).tile()
    }

    /// The facts that follow from the type of a value alone.
    fn unknown(&self, value: Value) -> Option<TileFacts> {
        self.tile(value).map(|(elem, shape)| TileFacts::unknown(elem, shape))
    }

    fn info(&self, value: Value) -> Option<&TileFacts> {
        self.infos[value.0 as usize].as_ref()
    }

    /// Replaces the facts about a value, and notes whether they changed.
    fn set_info(&mut self, value: Value, info: Option<TileFacts>) {
        let info_of_value = &mut self.infos[value.0 as usize];
        if *info_of_value != info {
            *info_of_value = info;
            self.changed = true;
        }
    }

    /// Merges the facts about one more incoming value into the facts about `to`. Widens a range that keeps growing.
    fn merge_info(&mut self, from: Option<TileFacts>, to: Value) {
        let (Some(from), Some((elem, shape))) = (from, self.tile(to)) else { return };
        let (full, shape) = (full_range(elem), shape.clone());
        let Some(old) = self.info(to) else {
            self.set_info(to, Some(from));
            return;
        };
        let mut joined = old.join(&from);
        if joined == *old {
            return;
        }
        let changes = &mut self.changes[to.0 as usize];
        *changes += 1;
        if *changes > MAX_CHANGES {
            joined = TileFacts::unknown(elem, &shape);
        } else if *changes > MAX_CHANGES_BEFORE_WIDENING {
            let old_range = self.infos[to.0 as usize].as_ref().map_or(full, |info| info.range);
            if joined.range.0 < old_range.0 {
                joined.range.0 = full.0;
            }
            if joined.range.1 > old_range.1 {
                joined.range.1 = full.1;
            }
        }
        self.set_info(to, Some(joined));
    }

    /// Merges the facts about forwarded values into the facts about their destinations.
    fn merge_forwarded(&mut self, from: &[Value], to: &[Value]) {
        for (&from, &to) in from.iter().zip(to) {
            self.merge_info(self.info(from).cloned(), to);
        }
    }

    /// Updates the facts about the results of an op, and about the values to which the op forwards its operands.
    fn update_op(&mut self, op: OpId) {
        let function = self.function;
        let node = &function.body.ops[op];
        let args = |region| &function.body.blocks[function.body.block_of(region)].args[..];
        let target = self.nesting.target[op.0 as usize];
        match &node.kind {
            Op::Core(core) if core.is_structured() => {
                if let Some(loop_op) = core.as_loop() {
                    if let Some(LoopBounds { lower, upper, step, unsigned }) = loop_op.bounds {
                        self.set_loop_index(args(loop_op.body)[0], lower, upper, step, unsigned);
                    }
                    loop_op.destinations(&function.body, op).into_iter().for_each(|to| self.merge_forwarded(loop_op.init, to));
                }
            }
            Op::Core(core @ (Core::Continue { values } | Core::Break { values } | Core::Yield { values })) => {
                // The values that the body of a reduction yields imply no facts about the results of the reduction.
                let is_structured = |target: &OpId| function.body.ops[*target].kind.core().is_some_and(Core::is_structured);
                if let Some(target) = target.filter(is_structured) {
                    let destinations = destinations_of_terminator(&function.body, target, core);
                    destinations.into_iter().for_each(|to| self.merge_forwarded(values, to));
                }
            }
            Op::Reduce { body, .. } | Op::Scan { body, .. } => {
                // Each argument may be an element or the result of a combination.
                args(*body).iter().for_each(|arg| self.set_info(*arg, self.unknown(*arg)));
                self.drop_results(op);
            }
            Op::Core(Core::MemRefShape { memref }) => self.set_memref_shape(op, *memref),
            Op::Core(Core::ViewShape { .. }) => {
                for &result in &node.results {
                    let info = self.unknown(result).map(|info| TileFacts { range: (0, info.range.1), ..info });
                    self.set_info(result, info);
                }
            }
            Op::Core(core) => match node.results[..] {
                [result] if core.is_pure() && self.tile(result).is_some() => self.compute_result(core, result),
                _ => self.drop_results(op),
            },
            _ => self.drop_results(op),
        }
    }

    /// Drops all facts about the results and carried values of a branch or loop.
    fn drop_facts(&mut self, op: OpId) {
        let function = self.function;
        let Some(core) = function.body.ops[op].kind.core().filter(|core| core.is_structured()) else { return };
        let carried = core.as_loop().map(|loop_op| loop_op.carried_args(&function.body)).unwrap_or_default();
        carried.iter().for_each(|arg| self.set_info(*arg, self.unknown(*arg)));
        self.drop_results(op);
    }

    /// Drops all facts about the results of an op.
    fn drop_results(&mut self, op: OpId) {
        let function = self.function;
        for &result in &function.body.ops[op].results {
            self.set_info(result, self.unknown(result));
        }
    }

    /// Sets the facts about the result of a pure op, once all its operands have facts.
    fn compute_result(&mut self, core: &Core, result: Value) {
        let body = &self.function.body;
        let Type::Tile { elem, shape } = body.ty(result) else { return };
        let operands: Option<Vec<Operand<'_>>> = core
            .operands()
            .iter()
            .map(|value| {
                let (elem, shape) = body.ty(*value).tile()?;
                Some(Operand { info: self.info(*value)?, elem, shape })
            })
            .collect();
        if let Some(operands) = operands {
            let info = transfer::result_info(core, &operands, *elem, shape);
            self.set_info(result, Some(info));
        }
    }

    /// Sets the facts about the index of a `for`: the index starts at the lower bound and stays below the upper bound.
    fn set_loop_index(&mut self, index: Value, lower: Value, upper: Value, step: Value, unsigned: bool) {
        let (Some(lower), Some(upper), Some(step)) = (self.info(lower), self.info(upper), self.info(step)) else { return };
        let Some((elem, _)) = self.tile(index) else { return };
        let signed_order_holds = !unsigned || lower.range.0 >= 0 && upper.range.0 >= 0;
        let last = upper.range.1.saturating_sub(1);
        let range = if signed_order_holds && lower.range.0 <= last { (lower.range.0, last) } else { full_range(elem) };
        let divisor = lower.divisor.min(step.divisor);
        let info = TileFacts { range, divisor, axes: Default::default() }.refine(&Shape::new());
        self.set_info(index, Some(info));
    }

    /// Sets the facts about the results of `memref_shape`, which are the sizes that `make_memref` takes.
    fn set_memref_shape(&mut self, op: OpId, memref: Value) {
        let function = self.function;
        let current = Facts { function, infos: std::mem::take(&mut self.infos) };
        let facts = current.memref(memref);
        self.infos = current.infos;
        for (dim, &result) in function.body.ops[op].results.iter().enumerate() {
            let Some((elem, shape)) = self.tile(result) else { continue };
            let mut info = TileFacts::unknown(elem, shape);
            if let Some(facts) = &facts {
                info.divisor = facts.size_divisors[dim];
                let (low, high) = facts.size_ranges[dim];
                let full = full_range(elem);
                if low >= full.0 && high <= full.1 {
                    info.range = (low, high);
                }
            }
            self.set_info(result, Some(info));
        }
    }
}
