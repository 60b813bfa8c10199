//! Computes the cost of an op: the demand, which is the cycles for which the op occupies each resource of an SM, and the latency of
//! its results.

use base::Target;
use base::Value;
use base::ir::Operation;
use core_dialect::core_ops::Core;
use core_dialect::tile::element_count;
use numerics::arith::{Binary, Unary};
use perf_model::Machine;
use std::collections::BTreeSet;
use std::ops::AddAssign;
use tileas::{Buffer, CopyAtom, Function, MmaAtom, MmaOperand, Module, Op, Route, Type};

/// A resource of an SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Issue slots of the four SM sub-partitions.
    Issue,
    /// The units for floating-point additions and multiplications.
    MultiplyAdd,
    /// The units for integer arithmetic, logic, comparisons and conversions.
    Integer,
    /// The units for special functions, such as `ex2` and reciprocals.
    Special,
    /// The load/store unit, which shared and global memory accesses use.
    LoadStore,
    /// Tensor cores.
    Tensor,
    /// The TMA unit, which works on one request at a time.
    Tma,
    /// The SM's share of the L2 bandwidth. The L2 cache serves reads of MMA operands, because other CTAs read them too.
    L2,
    /// The SM's share of the DRAM bandwidth.
    Dram,
}

impl Resource {
    const ALL: [Resource; 9] = [
        Resource::Issue,
        Resource::MultiplyAdd,
        Resource::Integer,
        Resource::Special,
        Resource::LoadStore,
        Resource::Tensor,
        Resource::Tma,
        Resource::L2,
        Resource::Dram,
    ];

    /// Returns the name of the resource for reports.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Issue => "issue slots",
            Resource::MultiplyAdd => "multiply-add",
            Resource::Integer => "integer",
            Resource::Special => "special functions",
            Resource::LoadStore => "shared memory",
            Resource::Tensor => "tensor cores",
            Resource::Tma => "TMA unit",
            Resource::L2 => "L2 cache",
            Resource::Dram => "DRAM",
        }
    }
}

/// Cycles for which a CTA occupies each resource.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand([f64; Resource::ALL.len()]);

impl Demand {
    /// Adds cycles for which an op occupies a resource.
    fn add(&mut self, resource: Resource, cycles: f64) {
        self.0[resource as usize] += cycles;
    }
    /// Returns the demand of an access that occupies only the load/store unit.
    pub(crate) fn load_store_demand(cycles: f64) -> Demand {
        let mut demand = Demand::default();
        demand.add(Resource::LoadStore, cycles);
        demand
    }
    /// Returns the demand of `factor` executions.
    pub(crate) fn scaled_by(mut self, factor: f64) -> Demand {
        self.0.iter_mut().for_each(|cycles| *cycles *= factor);
        self
    }
    /// Returns the number of machine instructions that each warp issues, if the demand is that of `warps` warps.
    pub(crate) fn instructions_per_warp(&self, warps: u32) -> f64 {
        self.0[Resource::Issue as usize] * SUB_PARTITIONS / f64::from(warps)
    }
    /// Returns the resource with the largest demand, and its cycles.
    pub fn largest(&self) -> (Resource, f64) {
        let all = Resource::ALL.into_iter().map(|resource| (resource, self.0[resource as usize]));
        all.fold((Resource::Issue, 0.0), |largest, next| if next.1 > largest.1 { next } else { largest })
    }
}

impl AddAssign for Demand {
    fn add_assign(&mut self, other: Demand) {
        self.0.iter_mut().zip(other.0).for_each(|(cycles, more)| *cycles += more);
    }
}

/// The cost of an op.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) demand: Demand,
    /// Cycles that the warps of the CTA need to issue the op, if they are alone on the SM.
    pub(crate) issue: f64,
    /// Cycles from the last issued instruction of the op to its results.
    pub(crate) latency: f64,
    /// Cycles that the producer warp needs to issue the TMA copies of the op. It runs concurrently with the other warps.
    pub(crate) tma_issue: f64,
}

/// Number of lanes of a warp.
const LANES: f64 = 32.0;
/// Number of sub-partitions of an SM.
const SUB_PARTITIONS: f64 = 4.0;
/// Maximum row size of a TMA tile in bytes, which the widest swizzle allows. A copy with longer rows takes several requests.
const MAX_ROW_BYTES: f64 = 128.0;
/// Assumed number of address and mask instructions for each vector that a thread loads or stores.
const ADDRESS_INSTRUCTIONS: f64 = 3.0;

/// Computes the costs of a function's ops with the throughput and latency numbers of `machine`.
pub(crate) struct Costs<'a> {
    pub(crate) module: &'a Module,
    pub(crate) function: &'a Function,
    pub(crate) target: Target,
    pub(crate) machine: &'a Machine,
    /// The buffers from which MMAs read their operands.
    pub(crate) operand_buffers: BTreeSet<Buffer>,
}

/// Returns the buffers from which MMAs read their operands, directly or through pure ops such as conversions.
pub(crate) fn operand_buffers(function: &Function) -> BTreeSet<Buffer> {
    let body = &function.body;
    let (mut buffers, mut seen, mut work) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for node in body.ops.values() {
        if let Op::Mma { lhs, rhs, lhs_scale, rhs_scale, .. } = &node.kind {
            let operands = [Some(*lhs), Some(*rhs), *lhs_scale, *rhs_scale];
            buffers.extend(operands.iter().flatten().filter_map(MmaOperand::buffer));
            work.extend(operands.iter().flatten().filter_map(MmaOperand::registers));
        }
    }
    while let Some(value) = work.pop() {
        let Some(op) = body.defining_op(value).filter(|op| seen.insert(*op)) else { continue };
        match &body.ops[op].kind {
            Op::SharedLoad { buffer, .. } => _ = buffers.insert(*buffer),
            kind if kind.is_pure() && kind.regions().is_empty() => work.extend(kind.operands()),
            _ => {}
        }
    }
    buffers
}

impl Costs<'_> {
    /// Returns the cycles in which the SM issues `count` instructions of each warp of the CTA.
    fn issue_cycles(&self, count: f64) -> f64 {
        count * f64::from(self.function.attrs.warps) / SUB_PARTITIONS
    }
    /// Returns the cycles that a CTA alone on the SM needs for work that occupies the whole SM for `sm_cycles`. Reason: if the
    /// CTA has fewer warps than the SM has sub-partitions, some sub-partitions are idle.
    fn alone_cycles(&self, sm_cycles: f64) -> f64 {
        sm_cycles * (SUB_PARTITIONS / f64::from(self.function.attrs.warps)).max(1.0)
    }

    /// Returns the cost of `count` instructions of each warp on a unit with `rate` results per cycle.
    fn instruction_cost(&self, count: f64, unit: Resource, rate: f64, latency: f64) -> Cost {
        let mut demand = Demand::default();
        let warps = f64::from(self.function.attrs.warps);
        demand.add(Resource::Issue, self.issue_cycles(count));
        demand.add(unit, count * warps * LANES / rate);
        let issue = self.alone_cycles(self.issue_cycles(count).max(count * warps * LANES / rate));
        Cost { demand, issue, latency, ..Cost::default() }
    }

    /// Returns the number of registers that a tile occupies in each thread. Other values occupy none. If `packed`, narrow elements
    /// share 32-bit registers. Otherwise each element has a register.
    fn registers_of(&self, value: Value, packed: bool) -> f64 {
        match self.function.body.ty(value) {
            Type::Tile { elem, layout, .. } => {
                let elements = self.module.layouts[*layout].registers() as f64;
                if packed { (elements * f64::from(elem.bits().max(1)) / 32.0).ceil() } else { elements }
            }
            _ => 0.0,
        }
    }

    /// Returns the size of a tile in bytes. Returns 0 for a value that is not a tile.
    fn tile_bytes(&self, value: Value) -> f64 {
        let ty = self.function.body.ty(value);
        ty.elem().map_or(0.0, |elem| element_count(ty.shape()) as f64 * f64::from(elem.bits()) / 8.0)
    }

    /// Returns the cycles in which DRAM transfers these bytes for one SM while all SMs share the bandwidth.
    fn dram_cycles(&self, bytes: f64) -> f64 {
        let chip = &self.machine.chip;
        bytes * chip.sms * chip.clock * 1e6 / (chip.memory * 1e9 * self.machine.global.mixed)
    }

    /// Returns the cycles for which a TMA copy of a buffer occupies the TMA unit. The slower of its row rate and its byte rate
    /// determines the cycles.
    fn tma_cycles(&self, buffer: Buffer) -> f64 {
        let copy = &self.machine.copy;
        let bytes = f64::from(self.function.attrs.buffers[buffer].bytes());
        let row_bytes = self.inner_bytes(buffer).clamp(1.0, MAX_ROW_BYTES);
        (bytes / row_bytes * copy.tma_row).max(bytes / copy.tma_bytes)
    }

    /// Returns the number of TMA requests that copy a buffer.
    fn tma_requests(&self, buffer: Buffer) -> f64 {
        (self.inner_bytes(buffer) / MAX_ROW_BYTES).ceil().max(1.0)
    }

    /// Returns the bytes of a buffer along its innermost dimension.
    fn inner_bytes(&self, buffer: Buffer) -> f64 {
        let buffer_info = &self.function.attrs.buffers[buffer];
        f64::from(buffer_info.shape.last().copied().unwrap_or(1)) * f64::from(buffer_info.elem.bits()) / 8.0
    }

    /// Adds the demand of a copy from global memory to a buffer. MMA operands come from the L2 cache, because other CTAs read them
    /// too.
    fn add_global_read(&self, demand: &mut Demand, buffer: Buffer) {
        let bytes = f64::from(self.function.attrs.buffers[buffer].bytes());
        match self.operand_buffers.contains(&buffer) {
            true => demand.add(Resource::L2, bytes / self.machine.global.l2_bytes),
            false => demand.add(Resource::Dram, self.dram_cycles(bytes)),
        }
    }

    /// Returns the cost of an op without the cost of its regions.
    pub(crate) fn op_cost(&self, op: &Op, results: &[Value]) -> Cost {
        let machine = self.machine;
        match op {
            Op::CopyView { buffer, atom, .. } | Op::Copy { buffer, atom, .. } => {
                let bytes = f64::from(self.function.attrs.buffers[*buffer].bytes());
                let vector = match atom {
                    CopyAtom::Async { bytes } => f64::from(*bytes),
                    _ => 4.0,
                };
                let threads = LANES * f64::from(self.function.attrs.warps);
                let mut cost = self.instruction_cost(
                    (bytes / vector / threads).ceil() * (1.0 + ADDRESS_INSTRUCTIONS),
                    Resource::Integer,
                    machine.rate.add,
                    0.0,
                );
                self.add_global_read(&mut cost.demand, *buffer);
                cost.demand.add(Resource::LoadStore, bytes / machine.shared.bytes);
                cost
            }
            Op::TmaLoad { buffer, .. } => {
                let bytes = f64::from(self.function.attrs.buffers[*buffer].bytes());
                let mut demand = Demand::default();
                self.add_global_read(&mut demand, *buffer);
                demand.add(Resource::LoadStore, bytes / machine.shared.bytes);
                demand.add(Resource::Tma, self.tma_cycles(*buffer));
                Cost { demand, tma_issue: self.tma_requests(*buffer) * machine.copy.tma_issue, ..Cost::default() }
            }
            Op::TmaStore { buffer, .. } => {
                let bytes = f64::from(self.function.attrs.buffers[*buffer].bytes());
                let mut demand = Demand::default();
                demand.add(Resource::Dram, self.dram_cycles(bytes));
                demand.add(Resource::LoadStore, bytes / machine.shared.bytes);
                demand.add(Resource::Tma, self.tma_cycles(*buffer));
                let tma_issue = self.tma_requests(*buffer) * machine.copy.tma_issue;
                Cost { demand, issue: 0.0, latency: machine.copy.store_read, tma_issue }
            }
            Op::LoadView { atom, .. } => self.global_access(results[0], *atom, true),
            Op::Load { atom, .. } => self.global_access(results[0], *atom, true),
            Op::StoreView { tile, atom, .. } => self.global_access(*tile, *atom, false),
            Op::Store { value, atom, .. } => self.global_access(*value, *atom, false),
            Op::ReduceView { tile, .. } => self.global_access(*tile, CopyAtom::Vector { vector_bits: 0 }, false),
            Op::AtomicRmw { value, .. } | Op::AtomicCas { value, .. } => {
                let mut cost = self.global_access(*value, CopyAtom::Vector { vector_bits: 0 }, false);
                cost.latency = if results.is_empty() { 0.0 } else { machine.global.l2_latency };
                cost
            }
            Op::MulticastLoad { atom, .. } => self.global_access(results[0], *atom, true),
            Op::MulticastStore { tile, atom, .. } => self.global_access(*tile, *atom, false),
            Op::SharedLoad { atom, .. } => self.shared_access(results[0], *atom, machine.shared.latency),
            Op::SharedStore { x, atom, .. } => self.shared_access(*x, *atom, machine.sync.barrier),
            Op::SharedGather { index, .. } | Op::SharedScatter { index, .. } => {
                self.shared_access(*index, CopyAtom::Vector { vector_bits: 0 }, machine.shared.latency)
            }
            Op::ConvertLayout { x, route } => match route {
                Route::Registers => Cost::default(),
                Route::Shuffle => self.instruction_cost(
                    self.registers_of(*x, true),
                    Resource::LoadStore,
                    machine.rate.shuffle,
                    machine.latency.shuffle,
                ),
            },
            Op::Mma { lhs, acc, atom, .. } => self.mma_cost(lhs, acc, *atom),
            Op::TmemLoad { .. } => self.tmem_access(self.registers_of(results[0], true)),
            Op::TmemStore { x, .. } => self.tmem_access(self.registers_of(*x, true)),
            Op::TmemScale { buffer, .. } => {
                let elements = element_count(&self.function.attrs.buffers[*buffer].shape) as f64;
                self.tmem_access(2.0 * elements / LANES / f64::from(self.function.attrs.warps))
            }
            Op::ReduceRegisters { operands, .. } => {
                let count = operands.iter().map(|value| self.registers_of(*value, false)).sum();
                // A thread combines its registers in a binary tree.
                let depth = f64::max(count, 1.0).log2().ceil();
                self.instruction_cost(count, Resource::MultiplyAdd, machine.rate.f32, depth * machine.latency.f32)
            }
            Op::ReduceLanes { operands, dim, .. } => {
                let bits = operands.first().map_or(0.0, |value| self.lane_bits(*value, *dim));
                let count: f64 = operands.iter().map(|value| self.registers_of(*value, true)).sum::<f64>() * bits;
                let step = machine.latency.shuffle + machine.latency.f32;
                self.instruction_cost(count, Resource::LoadStore, machine.rate.shuffle, bits * step)
            }
            Op::Scan { operands, dim, .. } => {
                let bits = operands.first().map_or(0.0, |value| self.lane_bits(*value, *dim));
                let element_registers: f64 = operands.iter().map(|value| self.registers_of(*value, false)).sum();
                let step = machine.latency.shuffle + machine.latency.f32;
                self.instruction_cost(
                    element_registers * (2.0 + bits),
                    Resource::Integer,
                    machine.rate.f32,
                    element_registers * machine.latency.f32 + bits * step,
                )
            }
            Op::Core(core) if core.is_elementwise() => {
                let count = results.first().map_or(0.0, |value| self.registers_of(*value, false));
                let (unit, rate, latency) = self.functional_unit(core);
                if count == 0.0 { Cost { latency, ..Cost::default() } } else { self.instruction_cost(count, unit, rate, latency) }
            }
            Op::Coordinate { .. } | Op::Core(_) => Cost::default(),
        }
    }

    /// Returns the number of steps of a reduction over the lanes along a dimension: one for each lane bit of the layout.
    fn lane_bits(&self, value: Value, dim: u32) -> f64 {
        let Type::Tile { layout, shape, .. } = self.function.body.ty(value) else { return 0.0 };
        let mask = tileas::layout::Strides::for_shape(shape).mask(dim as usize);
        self.module.layouts[*layout].lane.iter().filter(|basis| **basis & mask != 0).count() as f64
    }

    /// Returns the cost of an access of threads to global memory.
    fn global_access(&self, value: Value, atom: CopyAtom, is_load: bool) -> Cost {
        let machine = self.machine;
        let vector_bits = match atom {
            CopyAtom::Vector { vector_bits } => vector_bits,
            CopyAtom::Matrix { .. } | CopyAtom::Async { .. } | CopyAtom::ByteMatrix => 0,
        };
        let vectors = (self.registers_of(value, false) / f64::from(1u32 << vector_bits.min(8))).max(1.0);
        let latency = if is_load { machine.global.memory_latency } else { 0.0 };
        let mut cost = self.instruction_cost(vectors * (1.0 + ADDRESS_INSTRUCTIONS), Resource::Integer, machine.rate.add, latency);
        // The L1 cache takes a wavefront for each 128 bytes of a warp, and at least one for each instruction.
        let bytes = self.tile_bytes(value);
        let wavefronts = (vectors * f64::from(self.function.attrs.warps)).max(bytes / machine.shared.bytes);
        cost.demand.add(Resource::LoadStore, wavefronts);
        cost.demand.add(Resource::Dram, self.dram_cycles(bytes));
        cost.issue = cost.issue.max(wavefronts);
        cost
    }

    /// Returns the cost of an access of threads to shared memory. The model assumes that there are no bank conflicts.
    fn shared_access(&self, value: Value, atom: CopyAtom, latency: f64) -> Cost {
        let machine = self.machine;
        let words = self.registers_of(value, true).max(1.0);
        let instructions = match atom {
            CopyAtom::Vector { vector_bits } => (self.registers_of(value, false) / f64::from(1u32 << vector_bits.min(8))).max(1.0),
            CopyAtom::Matrix { .. } | CopyAtom::ByteMatrix => (words / 4.0).max(1.0),
            CopyAtom::Async { .. } => words,
        };
        let mut cost = self.instruction_cost(instructions, Resource::Integer, machine.rate.add, latency);
        let cycles = words.max(instructions) * f64::from(self.function.attrs.warps) * LANES * 4.0 / machine.shared.bytes;
        cost.demand.add(Resource::LoadStore, cycles);
        cost.issue = cost.issue.max(cycles);
        cost
    }

    /// Returns the cost of a `tcgen05.ld` or `tcgen05.st` of `columns` TMEM columns by each warp.
    fn tmem_access(&self, columns: f64) -> Cost {
        let tcgen05 = &self.machine.tcgen05;
        let cycles = self.issue_cycles(columns) * tcgen05.load_column;
        let mut demand = Demand::default();
        demand.add(Resource::Issue, self.issue_cycles(columns / 8.0));
        demand.add(Resource::LoadStore, cycles);
        Cost { demand, issue: self.alone_cycles(cycles), latency: tcgen05.load_latency, ..Cost::default() }
    }

    /// Returns the cost of an MMA.
    fn mma_cost(&self, lhs: &MmaOperand, acc: &MmaOperand, atom: MmaAtom) -> Cost {
        let (machine, function) = (self.machine, self.function);
        let k = match lhs {
            MmaOperand::Registers(value) => function.body.ty(*value).shape().last().copied(),
            MmaOperand::Memory { buffer, transposed, .. } => {
                function.attrs.buffers[*buffer].shape.iter().rev().nth(usize::from(*transposed)).copied()
            }
        };
        let accumulator_elements = match acc {
            MmaOperand::Registers(value) => element_count(function.body.ty(*value).shape()) as f64,
            MmaOperand::Memory { buffer, .. } => element_count(&function.attrs.buffers[*buffer].shape) as f64,
        };
        let multiply_adds = accumulator_elements * f64::from(k.unwrap_or(1));
        let cycles = multiply_adds / f64::from(atom.rate(self.target));
        let mut demand = Demand::default();
        match atom {
            MmaAtom::MultiplyAdd(_) => {
                let count = multiply_adds / LANES / f64::from(function.attrs.warps);
                // The model assumes 1.5 instructions for each multiply-add. It also assumes that an operand from shared memory
                // serves four multiply-adds.
                let mut cost = self.instruction_cost(count * 1.5, Resource::MultiplyAdd, machine.rate.f32, machine.latency.f32);
                cost.demand.add(Resource::LoadStore, count * f64::from(function.attrs.warps) / 4.0);
                cost
            }
            MmaAtom::Sync(_) => {
                demand.add(Resource::Tensor, cycles);
                demand.add(Resource::Issue, cycles / 4.0);
                Cost { demand, issue: self.alone_cycles(cycles), latency: machine.mma.latency, ..Cost::default() }
            }
            MmaAtom::Group(_) => {
                demand.add(Resource::Tensor, cycles);
                Cost { demand, issue: cycles, latency: machine.wgmma.drain, ..Cost::default() }
            }
            MmaAtom::Tensor(_) => {
                demand.add(Resource::Tensor, cycles);
                Cost { demand, issue: cycles, latency: machine.tcgen05.commit, ..Cost::default() }
            }
        }
    }

    /// Returns the unit that executes an element-wise op, the unit's results per cycle and its latency.
    fn functional_unit(&self, core: &Core) -> (Resource, f64, f64) {
        let (rate, latency) = (&self.machine.rate, &self.machine.latency);
        match core {
            Core::Unary { kind: Unary::NegF | Unary::AbsF | Unary::NegI { .. } | Unary::AbsI, .. } => {
                (Resource::Integer, rate.logic, latency.integer)
            }
            Core::Unary { kind: Unary::Exp { .. } | Unary::Exp2 { .. }, .. } => (Resource::Special, rate.ex2, latency.special),
            Core::Unary { .. } => (Resource::Special, rate.special, latency.special),
            Core::Fma { .. } | Core::Binary { kind: Binary::AddF { .. } | Binary::SubF { .. } | Binary::MulF { .. }, .. } => {
                (Resource::MultiplyAdd, rate.f32, latency.f32)
            }
            // A division is a reciprocal and multiply-adds that correct it.
            Core::Binary { kind: Binary::DivF { .. }, .. } => (Resource::Special, rate.special / 2.0, latency.special * 2.0),
            Core::Convert { .. } => (Resource::Integer, rate.convert, latency.convert),
            _ => (Resource::Integer, rate.add, latency.integer),
        }
    }
}
