//! `wgmma`: asynchronous MMAs of a warp group.
//!
//! Each of the four warps computes 16 of the 64 rows. An MMA owns its registers until a wait covers its commit group. An earlier
//! access to these registers is a fault. With late delivery, the MMA executes at that wait.

use super::check_defined;
use super::matrix::require_whole_warp;
use super::register_copies::{destinations, execute_copy};
use crate::descriptor::{Descriptor, Major, MatrixExtents, read_matrix};
use crate::fault::{Fault, Result};
use crate::fragment;
use crate::in_flight_work::{AccumulatorStep, IssuedWgmma, OpenMmas, WarpGroupMmas};
use crate::lanes::{ALL_LANES, Lanes, WARP_SIZE};
use crate::machine::{Cluster, Delivery, ExecutionMode, Machine};
use crate::mma_arith::{AccumulatorType, multiply_accumulate};
use crate::pending::QUEUE_CAPACITY;
use crate::program::{Op, Program, RegSlot, WgmmaA, WgmmaOp};
use crate::warp::Flow;
use crate::warp::{Wait, Warp};

/// Number of rows of D that each warp computes.
const ROWS_PER_WARP: usize = 16;

impl WarpGroupMmas {
    /// Records that a warp issues its next MMA at instruction `pc`. If another warp issued the MMA with this number at another
    /// instruction, returns that instruction.
    fn record_issue(&mut self, warp: usize, pc: u32) -> Option<u32> {
        let mma_index = self.issued[warp % 4] - self.first;
        self.issued[warp % 4] += 1;
        let other_pc = self.issued_at.get(mma_index as usize).copied();
        if other_pc.is_none() {
            self.issued_at.push_back(pc);
        }
        while self.issued.iter().all(|&issued| issued > self.first) {
            self.issued_at.pop_front();
            self.first += 1;
        }
        other_pc.filter(|&other_pc| other_pc != pc)
    }
}

impl OpenMmas {
    /// Adds a copy of an accumulator register to the commit group of the last MMA.
    pub(super) fn record_copy(&mut self, pc: u32, mask: u32) {
        let group = if self.open.is_empty() { self.groups.back_mut() } else { Some(&mut self.open) };
        group.into_iter().for_each(|group| group.push(AccumulatorStep::Copy { pc, mask }));
    }
}

/// Returns the operands of the MMA at an instruction index.
fn mma_at(program: &Program, pc: u32) -> &WgmmaOp {
    match &program.code[pc as usize].op {
        Op::Wgmma(op) => op,
        _ => unreachable!("the instruction is an MMA"),
    }
}

/// Sets whether the registers that the steps own are in flight.
fn set_step_registers_in_flight(program: &Program, warp: &mut Warp, steps: &[AccumulatorStep], in_flight: bool) {
    for step in steps {
        match step {
            AccumulatorStep::Mma(issued) => {
                for &slot in mma_at(program, issued.pc).registers() {
                    warp.set_in_flight(slot, in_flight);
                }
            }
            AccumulatorStep::Copy { pc, .. } => {
                for &slot in destinations(&program.code[*pc as usize].op) {
                    warp.set_in_flight(slot, in_flight);
                }
            }
        }
    }
}

impl Machine<'_> {
    /// Issues a `wgmma.mma_async`. All lanes of the warp must execute it together.
    pub(super) fn execute_wgmma(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        pc: u32,
        op: &WgmmaOp,
    ) -> Result<Flow> {
        if let Some(flow) = require_whole_warp(warp, mask)? {
            return Ok(flow);
        }
        let uniform_value = |warp: &Warp, slot: RegSlot, what: &str| {
            super::check_defined(warp, slot, ALL_LANES, what)?;
            let values = warp.read(slot);
            match values.iter().all(|value| value == &values[0]) {
                true => Ok(values[0]),
                false => Err(Fault::new("SIM052", format!("{what} differs among the lanes of a warp"))),
            }
        };
        if !warp.has_fenced {
            return Err(Fault::new("SIM037", "a wgmma without a preceding wgmma.fence"));
        }
        if let Some(slot) = op.registers().iter().find(|&&slot| warp.is_unfenced(slot)) {
            let what = if op.d.contains(slot) { "accumulators" } else { "registers of A" };
            self.report_violation(Fault::new(
                "SIM037",
                format!("a wgmma uses {what} that were written after the last wgmma.fence"),
            ))?;
        }
        let group = cluster.ctas[cta].warp_groups.entry(warp.index / 4).or_default();
        if let Some(other) = group.record_issue(warp.index, pc) {
            let line = self.program.code[other as usize].line;
            let message = format!("the warps of a group issue different wgmmas; the other one is in line {line}");
            return Err(Fault::new("SIM055", message));
        }
        let a = match &op.a {
            WgmmaA::Shared(slot) => uniform_value(warp, *slot, "a matrix descriptor")?,
            WgmmaA::Registers(_) => 0,
        };
        let b = uniform_value(warp, op.b, "a matrix descriptor")?;
        let accumulate = uniform_value(warp, op.accumulate, "the choice to accumulate")? != 0;
        let issued = IssuedWgmma { pc, a, b, accumulate };
        match self.options.delivery {
            Delivery::Early if self.options.mode == ExecutionMode::TimingOnly => {}
            Delivery::Early => self.compute_wgmma(cluster, cta, warp, op, &issued)?,
            Delivery::Late => set_operands_in_flight(cluster, cta, warp.index, op, &issued, true)?,
        }
        warp.mmas.issued += 1;
        let open_count = warp.mmas.open.len() + warp.mmas.groups.iter().map(|group| group.len() + 1).sum::<usize>();
        if open_count > QUEUE_CAPACITY {
            return Err(Fault::unsupported(format!("more than {QUEUE_CAPACITY} wgmmas without a wait")));
        }
        let step = [AccumulatorStep::Mma(issued)];
        set_step_registers_in_flight(self.program, warp, &step, true);
        warp.mmas.open.extend(step);
        Ok(Flow::Next)
    }

    /// Executes `wgmma.commit_group`: closes the group of the MMAs that the warp has issued.
    pub(super) fn wgmma_commit(&mut self, warp: &mut Warp) {
        let group = std::mem::take(&mut warp.mmas.open);
        // An empty group with no open group before it is complete, so a wait need not count it.
        if !group.is_empty() || !warp.mmas.groups.is_empty() {
            warp.mmas.groups.push_back(group);
        }
    }

    /// Executes `wgmma.wait_group`: completes all groups except the last `max_open`.
    pub(super) fn wgmma_wait(&mut self, cluster: &mut Cluster, cta: usize, warp: &mut Warp, max_open: u32) -> Result<Flow> {
        let program = self.program;
        if let Some(wait) = wait_for_missing_warps(cluster, cta, warp, max_open) {
            return Ok(Flow::Wait(wait));
        }
        let mut done = Vec::new();
        while warp.mmas.groups.len() > max_open as usize {
            done.extend(warp.mmas.groups.pop_front().unwrap_or_default());
        }
        set_step_registers_in_flight(program, warp, &done, false);
        let mmas = std::mem::take(&mut warp.mmas);
        for steps in mmas.groups.iter().chain([&mmas.open]) {
            set_step_registers_in_flight(program, warp, steps, true);
        }
        warp.mmas = mmas;
        if self.options.delivery == Delivery::Early {
            return Ok(Flow::Next);
        }
        for step in &done {
            match step {
                AccumulatorStep::Mma(issued) => {
                    let op = mma_at(program, issued.pc);
                    set_operands_in_flight(cluster, cta, warp.index, op, issued, false)?;
                    self.compute_wgmma(cluster, cta, warp, op, issued).map_err(|fault| {
                        fault.line(program.code[issued.pc as usize].line).note("while the wgmma executed at its wait")
                    })?;
                }
                AccumulatorStep::Copy { pc, mask } => {
                    let op = &program.code[*pc as usize].op;
                    execute_copy(warp, *mask, op);
                    destinations(op).iter().for_each(|&slot| warp.set_unfenced(slot, false));
                }
            }
        }
        Ok(Flow::Next)
    }

    /// Computes the sixteen rows of D that belong to this warp.
    fn compute_wgmma(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        op: &WgmmaOp,
        issued: &IssuedWgmma,
    ) -> Result<()> {
        let (n, k) = (op.n, op.k);
        let cta_state = &cluster.ctas[cta];
        let actor = self.actor(cta, warp);
        let order = &mut cluster.happens_before;
        let mut read = |address: u32| {
            order.check_read(actor, cta, address, 16)?;
            cta_state.shared.read_async(address, 16, actor, &cta_state.proxy_fence_times)
        };
        let bytes = op.element_bytes as usize;
        let mut a = vec![0.0; ROWS_PER_WARP * k];
        match &op.a {
            WgmmaA::Shared(_) => {
                let descriptor = Descriptor::decode_wgmma(issued.a)?;
                let first_row = warp.index % 4 * ROWS_PER_WARP;
                // The warp reads only its own rows, which start at a multiple of eight rows of the matrix.
                let major = if op.transpose_a { Major::Mn } else { Major::K };
                let chunk_address = |row: u32, offset: u32| match major {
                    Major::K => descriptor.chunk_address(major, row + first_row as u32, offset),
                    Major::Mn => descriptor.chunk_address(major, row, offset + (first_row * bytes) as u32),
                };
                let (rows, contiguous_extent) = if major == Major::K { (ROWS_PER_WARP, k) } else { (k, ROWS_PER_WARP) };
                for row in 0..rows {
                    for start in (0..contiguous_extent).step_by(16 / bytes) {
                        let data = read(chunk_address(row as u32, (start * bytes) as u32))?;
                        for (index, element) in data.chunks_exact(bytes).enumerate() {
                            let bits = element.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
                            let (mn, at) = if major == Major::K { (row, start + index) } else { (start + index, row) };
                            a[mn * k + at] = op.a_value(bits);
                        }
                    }
                }
            }
            WgmmaA::Registers(slots) => {
                let elements_per_register = 4 / bytes;
                for (register, &slot) in slots.iter().enumerate() {
                    for (lane, &value) in warp.read(slot).iter().enumerate() {
                        for part in 0..elements_per_register {
                            let (row, column) = fragment::a_position(lane, register, part, elements_per_register, ROWS_PER_WARP);
                            let bits = value >> (8 * bytes * part) & (u64::MAX >> (64 - 8 * bytes));
                            a[row * k + column] = op.a_value(bits);
                        }
                    }
                }
            }
        }
        let mut b = vec![0.0; k * n];
        let major = if op.transpose_b { Major::Mn } else { Major::K };
        read_matrix(
            Descriptor::decode_wgmma(issued.b)?,
            major,
            MatrixExtents { mn: n, k, element_bytes: bytes },
            read,
            |column, row, bits| {
                b[row * n + column] = op.b_value(bits);
            },
        )?;
        if op.negate_a != op.negate_b {
            a.iter_mut().for_each(|value| *value = -*value);
        }
        let packed = op.d_type == AccumulatorType::Float(numerics::Scalar::F16);
        let mut accumulator = vec![0.0; ROWS_PER_WARP * n];
        if issued.accumulate {
            for (index, &slot) in op.d.iter().enumerate() {
                check_defined(warp, slot, ALL_LANES, "a sum")?;
                for (lane, &value) in warp.read(slot).iter().enumerate() {
                    for (part, element_position) in fragment_elements(lane, index, packed) {
                        accumulator[element_position.0 * n + element_position.1] = op.d_type.value(value >> (16 * part));
                    }
                }
            }
        }
        multiply_accumulate(&mut accumulator, &a, &b, k, n);
        for (index, &slot) in op.d.iter().enumerate() {
            let mut out: Lanes = [0; WARP_SIZE];
            for (lane, value) in out.iter_mut().enumerate() {
                for (part, element_position) in fragment_elements(lane, index, packed) {
                    *value |= op.d_type.round_to_bits(accumulator[element_position.0 * n + element_position.1]) << (16 * part);
                }
            }
            warp.write_result(slot, ALL_LANES, &out, 0);
            warp.set_unfenced(slot, false);
        }
        Ok(())
    }
}

/// If a warp of the group has not issued all MMAs that must be complete, returns the wait for this warp. Reason: the four warps of
/// a group execute an MMA together.
fn wait_for_missing_warps(cluster: &mut Cluster, cta: usize, warp: &Warp, max_open: u32) -> Option<Wait> {
    let mmas = |steps: &Vec<AccumulatorStep>| steps.iter().filter(|step| matches!(step, AccumulatorStep::Mma(_))).count() as u64;
    let still_open = warp.mmas.groups.iter().rev().take(max_open as usize).chain([&warp.mmas.open]);
    let required_mmas = warp.mmas.issued - still_open.map(mmas).sum::<u64>();
    let group = cluster.ctas[cta].warp_groups.entry(warp.index / 4).or_default();
    let first_warp = warp.index / 4 * 4;
    let missing: Vec<usize> = (0..4).filter(|&other| group.issued[other] < required_mmas).map(|other| first_warp + other).collect();
    (!missing.is_empty()).then_some(Wait::WarpGroup { missing, mmas: required_mmas })
}

/// Counts the beginning (`begin`) or the end of an MMA's reads of shared memory.
fn set_operands_in_flight(
    cluster: &mut Cluster,
    cta: usize,
    warp: usize,
    op: &WgmmaOp,
    issued: &IssuedWgmma,
    begin: bool,
) -> Result<()> {
    let shared = &mut cluster.ctas[cta].shared;
    let bytes = op.element_bytes;
    let mut mark_operand = |descriptor: u64, transposed: bool, first: u32, count: u32| -> Result<()> {
        let descriptor = Descriptor::decode_wgmma(descriptor)?;
        let (k, elements_per_chunk) = (op.k as u32, 16 / bytes);
        let (major, rows, (first_byte, contiguous_extent)) = match transposed {
            false => (Major::K, first..first + count, (0, k)),
            true => (Major::Mn, 0..k, (first * bytes, count)),
        };
        for row in rows {
            for chunk in 0..contiguous_extent.div_ceil(elements_per_chunk) {
                shared.mark_async_read(descriptor.chunk_address(major, row, first_byte + 16 * chunk), 16, begin)?;
            }
        }
        Ok(())
    };
    if let WgmmaA::Shared(_) = op.a {
        mark_operand(issued.a, op.transpose_a, (warp % 4 * ROWS_PER_WARP) as u32, ROWS_PER_WARP as u32)?;
    }
    mark_operand(issued.b, op.transpose_b, 0, op.n as u32)
}

/// Returns the elements of accumulator register `index` of a lane: for each part of the register, the row and the column.
pub(crate) fn fragment_elements(lane: usize, index: usize, packed: bool) -> impl Iterator<Item = (usize, (usize, usize))> {
    (0..if packed { 2 } else { 1 }).map(move |part| {
        let element_position = match packed {
            true => (lane / 4 + 8 * (index % 2), index / 2 * 8 + 2 * (lane % 4) + part),
            false => (lane / 4 + 8 * (index / 2 % 2), index / 4 * 8 + 2 * (lane % 4) + index % 2),
        };
        (part, element_position)
    })
}

#[cfg(test)]
mod tests {
    use super::fragment_elements;
    use std::collections::BTreeSet;

    /// Expected positions from the PTX ISA: the first registers of lane 5 have columns 2 and 3 of rows 1 and 9. The next registers
    /// have the next eight columns.
    #[test]
    fn accumulator_registers_have_the_positions_of_the_ptx_isa() {
        let elements_of = |index: usize, packed| {
            fragment_elements(5, index, packed).map(|(_, element_position)| element_position).collect::<Vec<_>>()
        };
        assert_eq!([0, 1, 2, 3, 4].map(|index| elements_of(index, false)[0]), [(1, 2), (1, 3), (9, 2), (9, 3), (1, 10)]);
        assert_eq!([0, 1, 2].map(|index| elements_of(index, true)), [[(1, 2), (1, 3)], [(9, 2), (9, 3)], [(1, 10), (1, 11)]]);
        for (packed, registers) in [(false, 32), (true, 16)] {
            let all: BTreeSet<_> = (0..32)
                .flat_map(|lane| (0..registers).flat_map(move |index| fragment_elements(lane, index, packed)))
                .map(|p| p.1)
                .collect();
            assert_eq!(all.len(), 16 * 64);
        }
    }
}
