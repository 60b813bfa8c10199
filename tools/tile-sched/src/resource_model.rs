//! The resource model: which resources of an SM each op occupies, for how many cycles, and when its results are ready.
//!
//! The rates come from `machines/` (`formats/perf-model`). Each tile op occupies each of its resources once, for consecutive
//! cycles. If an op produces its registers one by one, its users start after a latency. Otherwise they start when the op is
//! complete.

use base::ir::Operation;
use base::{Target, Value};
use core_dialect::core_ops::Elementwise;
use core_dialect::tile::element_count;
use numerics::arith::{Binary, Unary};
use perf_model::Rates;
use sched::{Function, Module, Op};
use std::collections::BTreeMap;
use tileas::{MmaAtom, MmaOperand, Type};

/// A resource of an SM that an op occupies for some cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    /// MMAs on tensor cores.
    Tensor,
    SharedMemory,
    GlobalMemory,
    /// Additions, multiplications and multiply-adds of floats.
    MultiplyAdd,
    /// All other simple operations.
    Integer,
    /// Special function units.
    Special,
}

impl Resource {
    pub(crate) const ALL: [Resource; 6] = [
        Resource::Tensor,
        Resource::SharedMemory,
        Resource::GlobalMemory,
        Resource::MultiplyAdd,
        Resource::Integer,
        Resource::Special,
    ];

    /// Returns the name for messages and traces.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Resource::Tensor => "tensor",
            Resource::SharedMemory => "shared memory",
            Resource::GlobalMemory => "global memory",
            Resource::MultiplyAdd => "multiply-add",
            Resource::Integer => "integer",
            Resource::Special => "special functions",
        }
    }
}

/// The performance model of a target's SM.
pub(crate) struct Machine {
    target: Target,
    rates: &'static Rates,
}

/// The cost of an op.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cost {
    /// The cycles for which the op occupies each resource.
    pub(crate) uses: BTreeMap<Resource, u32>,
    /// Cycles until the first register of the result is ready.
    pub(crate) first_result: u32,
    /// Cycles until the complete result is ready.
    pub(crate) full_result: u32,
}

impl Machine {
    pub(crate) fn for_target(target: Target) -> Machine {
        Machine { target, rates: perf_model::rates(target) }
    }

    /// Cycles until a copy of this many bytes from global memory has arrived.
    pub(crate) fn copy_latency(&self, bytes: u32) -> u32 {
        self.rates.copy_latency(bytes)
    }

    /// The cost of an op and of all ops in its regions, each executed once.
    pub(crate) fn cost(&self, module: &Module, function: &Function, op: base::ir::Op) -> Cost {
        let node = &function.body.ops[op];
        let mut cost = self.cost_without_regions(module, function, &node.kind, &node.results);
        for region in node.kind.regions() {
            for inner in function.body.walk(region) {
                let node = &function.body.ops[inner];
                for (resource, cycles) in self.cost_without_regions(module, function, &node.kind, &node.results).uses {
                    *cost.uses.entry(resource).or_default() += cycles;
                }
            }
            cost.full_result = cost.uses.values().sum();
            cost.first_result = cost.full_result;
        }
        cost
    }

    /// Returns the cost of an op, without the ops in its regions.
    fn cost_without_regions(&self, module: &Module, function: &Function, op: &Op, results: &[Value]) -> Cost {
        use tileas::Op as Program;
        let body = &function.body;
        let elements = |value: Value| element_count(body.ty(value).shape()) as u32;
        let elem_bytes = |value: Value| body.ty(value).elem().map_or(0, |elem| elem.bytes());
        // Number of elements that all threads hold together; an element that several threads hold counts several times. 0 if the
        // value is not a tile.
        let held_elements = |value: Value| match body.ty(value) {
            Type::Tile { layout, .. } => {
                let layout = &module.layouts[*layout];
                layout.registers() as u32 * 32 * layout.warps() as u32
            }
            Type::Scalar(_) | Type::MemRef(_) | Type::View(_) | Type::Token => 0,
        };
        let rates = self.rates;
        match op {
            Op::Core(Program::CopyView { buffer, .. } | Program::TmaLoad { buffer, .. } | Program::Copy { buffer, .. }) => {
                let bytes = function.attrs.program.buffers[*buffer].bytes();
                let work = [(Resource::GlobalMemory, bytes, rates.copy), (Resource::SharedMemory, bytes, rates.shared)];
                cost_of_work(&work, rates.copy_latency(bytes), true)
            }
            Op::Core(Program::TmaStore { buffer, .. }) => {
                let bytes = function.attrs.program.buffers[*buffer].bytes();
                cost_of_work(&[(Resource::SharedMemory, bytes, rates.shared)], rates.shared_latency, false)
            }
            Op::Core(Program::SharedLoad { .. }) => {
                let bytes = held_elements(results[0]) * elem_bytes(results[0]);
                cost_of_work(&[(Resource::SharedMemory, bytes, rates.shared)], rates.shared_latency, true)
            }
            Op::Core(Program::SharedStore { x, .. }) => {
                cost_of_work(&[(Resource::SharedMemory, elements(*x) * elem_bytes(*x), rates.shared)], rates.shared_latency, false)
            }
            Op::Core(Program::Mma { lhs, acc, atom, .. }) => {
                let k = k_extent(function, lhs);
                let accumulators = match acc {
                    MmaOperand::Registers(value) => elements(*value),
                    MmaOperand::Memory { buffer, .. } => element_count(&function.attrs.program.buffers[*buffer].shape) as u32,
                };
                let work = accumulators.saturating_mul(k);
                let (unit, latency) = match atom {
                    MmaAtom::Sync(_) | MmaAtom::Group(_) | MmaAtom::Tensor(_) => (Resource::Tensor, rates.mma_latency),
                    MmaAtom::MultiplyAdd(_) => (Resource::MultiplyAdd, rates.arithmetic_latency),
                };
                cost_of_work(&[(unit, work, atom.rate(self.target))], latency, false)
            }
            Op::Core(Program::LoadView { .. } | Program::Load { .. } | Program::StoreView { .. } | Program::Store { .. }) => {
                let values = op.operands().into_iter().chain(results.iter().copied());
                let bytes = values
                    .map(|value| elements(value) * elem_bytes(value) * u32::from(held_elements(value) > 0))
                    .max()
                    .unwrap_or(0);
                cost_of_work(&[(Resource::GlobalMemory, bytes, rates.copy)], rates.copy_latency(bytes), false)
            }
            Op::Core(Program::ReduceRegisters { operands, .. } | Program::ReduceLanes { operands, .. }) => {
                let work = operands.iter().map(|value| held_elements(*value)).sum();
                cost_of_work(&[(Resource::Integer, work, rates.integer)], rates.arithmetic_latency, false)
            }
            Op::Core(Program::Core(core)) if core.is_elementwise() => {
                let op = core.as_elementwise().expect("the op is element-wise");
                let count = results.first().map_or(0, |value| held_elements(*value));
                let (resource, rate) = execution_unit(op, rates);
                cost_of_work(&[(resource, count, rate)], rates.arithmetic_latency * u32::from(count > 0), true)
            }
            // These ops are too rare or too short to influence the schedule, or later passes introduce them.
            Op::Core(
                Program::Core(_)
                | Program::Coordinate { .. }
                | Program::ConvertLayout { .. }
                | Program::ReduceView { .. }
                | Program::MulticastLoad { .. }
                | Program::MulticastStore { .. }
                | Program::AtomicRmw { .. }
                | Program::AtomicCas { .. }
                | Program::TmemLoad { .. }
                | Program::TmemStore { .. }
                | Program::TmemScale { .. }
                | Program::SharedGather { .. }
                | Program::SharedScatter { .. }
                | Program::Scan { .. },
            )
            | Op::Pairs { .. }
            | Op::Barrier { .. }
            | Op::CopyCommit {}
            | Op::CopyWait { .. }
            | Op::AsyncFence {}
            | Op::Free { .. }
            | Op::PrintLock {}
            | Op::PrintStage { .. }
            | Op::GroupWait { .. }
            | Op::WarpRole { .. }
            | Op::PipelineAcquire { .. }
            | Op::PipelineCommit { .. }
            | Op::PipelineWait { .. }
            | Op::PipelineRelease { .. } => Cost::default(),
        }
    }
}

/// Computes a cost from the work on each resource, the resource's rate (work per cycle) and the latency in cycles. `one_by_one`:
/// the registers of the result become ready one by one, so users of the result start after the latency.
fn cost_of_work(uses: &[(Resource, u32, u32)], latency: u32, one_by_one: bool) -> Cost {
    let uses: BTreeMap<Resource, u32> =
        uses.iter().filter(|(_, work, _)| *work > 0).map(|(resource, work, rate)| (*resource, work.div_ceil(*rate))).collect();
    let busiest = uses.values().copied().max().unwrap_or(0);
    let full_result = busiest + latency;
    Cost { uses, first_result: if one_by_one { latency } else { full_result }, full_result }
}

/// The extent along K of the left operand of an MMA.
fn k_extent(function: &Function, lhs: &MmaOperand) -> u32 {
    let extents = match lhs {
        MmaOperand::Registers(value) => function.body.ty(*value).shape().last(),
        MmaOperand::Memory { buffer, transposed, .. } => {
            let info = &function.attrs.program.buffers[*buffer];
            info.shape.iter().rev().nth(usize::from(*transposed))
        }
    };
    extents.copied().unwrap_or(1)
}

/// The resource that executes an element-wise op, and its rate in elements per cycle.
fn execution_unit(op: Elementwise<'_>, rates: &Rates) -> (Resource, u32) {
    match op {
        Elementwise::Unary(kind) => unary_unit(kind, rates),
        Elementwise::Binary(kind) => binary_unit(kind, rates),
        Elementwise::Fma => (Resource::MultiplyAdd, rates.multiply_add),
        Elementwise::Compare
        | Elementwise::Convert
        | Elementwise::Select
        | Elementwise::PointerCast
        | Elementwise::Offset
        | Elementwise::Assume => (Resource::Integer, rates.integer),
    }
}

/// The resource that executes a binary op, and its rate in elements per cycle.
fn binary_unit(kind: &Binary, rates: &Rates) -> (Resource, u32) {
    match kind {
        Binary::AddF { .. } | Binary::SubF { .. } | Binary::MulF { .. } => (Resource::MultiplyAdd, rates.multiply_add),
        Binary::DivF { .. }
        | Binary::RemF
        | Binary::MaxF { .. }
        | Binary::MinF { .. }
        | Binary::PowF
        | Binary::PowI
        | Binary::Atan2
        | Binary::AddI { .. }
        | Binary::SubI { .. }
        | Binary::MulI { .. }
        | Binary::MulHiU
        | Binary::DivI { .. }
        | Binary::RemI { .. }
        | Binary::MaxI { .. }
        | Binary::MinI { .. }
        | Binary::And
        | Binary::Or
        | Binary::Xor
        | Binary::ShL { .. }
        | Binary::ShR { .. } => (Resource::Integer, rates.integer),
    }
}

/// The resource that executes a unary op, and its rate in elements per cycle.
fn unary_unit(kind: &Unary, rates: &Rates) -> (Resource, u32) {
    match kind {
        Unary::NegF | Unary::AbsF | Unary::NegI { .. } | Unary::AbsI => (Resource::Integer, rates.integer),
        Unary::Exp { .. } | Unary::Exp2 { .. } => (Resource::Special, rates.exponential),
        Unary::Ceil
        | Unary::Floor
        | Unary::Sqrt { .. }
        | Unary::Rsqrt { .. }
        | Unary::Log
        | Unary::Log2
        | Unary::Sin
        | Unary::Cos
        | Unary::Tan
        | Unary::Sinh
        | Unary::Cosh
        | Unary::Tanh { .. } => (Resource::Special, rates.special),
    }
}
