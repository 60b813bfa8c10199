//! `tcgen05.mma`: MMAs whose operands are in shared memory or tensor memory, and whose accumulators are in tensor memory.
//!
//! MMAs, copies to tensor memory and commits of a CTA complete in issue order.

use super::check_defined;
use crate::descriptor::{Descriptor, Major, MatrixExtents, read_matrix};
use crate::fault::{Fault, Result};
use crate::happens_before::{Actor, HappensBefore};
use crate::in_flight_work::{Action, ElementFormat, InstructionDescriptor, IssuedTcgen05Mma, OperandA, Pending};
use crate::machine::{Cluster, Cta, Delivery, ExecutionMode, Machine};
use crate::mma_arith::{AccumulatorType, MmaElement, multiply_accumulate};
use crate::program::{Address, RegSlot, Tcgen05Mma, Tcgen05MmaKind};
use crate::record::Event;
use crate::tmem::TMEM_LANES;
use crate::tmem_happens_before::{ALL_LANE_GROUPS, TmemAccessKind};
use crate::warp::Warp;
use numerics::Scalar;
use std::ops::Range;

/// TMEM lanes that a warp can access.
const LANES_OF_WARP: usize = 32;

/// The shared memory of a CTA from which an MMA reads, with the happens-before analysis that checks the reads.
struct SharedMemoryReader<'a> {
    cta: &'a Cta,
    /// The rank of the CTA in its cluster.
    rank: usize,
    order: &'a mut HappensBefore,
    actor: Actor,
}

/// Returns the element format for an operand type code of the instruction descriptor.
fn element_format(kind: Tcgen05MmaKind, code: u32) -> Result<ElementFormat> {
    let unsupported_type =
        || Fault::new("SIM082", format!("the instruction descriptor has operand type {code}, which this kind does not support"));
    let float = |ty: Scalar, width, per_chunk| Ok(ElementFormat { kind: MmaElement::Float(ty), width, per_chunk });
    match (kind, code) {
        (Tcgen05MmaKind::F16, 0) => float(Scalar::F16, 16, 8),
        (Tcgen05MmaKind::F16, 1) => float(Scalar::BF16, 16, 8),
        (Tcgen05MmaKind::Tf32, 2) => float(Scalar::TF32, 32, 4),
        (Tcgen05MmaKind::Mxf4, 1) => float(Scalar::F4E2M1FN, 4, 32),
        (Tcgen05MmaKind::F8f6f4 | Tcgen05MmaKind::Mxf8f6f4, 0) => float(Scalar::F8E4M3FN, 8, 16),
        (Tcgen05MmaKind::F8f6f4 | Tcgen05MmaKind::Mxf8f6f4, 1) => float(Scalar::F8E5M2, 8, 16),
        (Tcgen05MmaKind::F8f6f4 | Tcgen05MmaKind::Mxf8f6f4, 3) => {
            Ok(ElementFormat { kind: MmaElement::Small { exponent: 2, mantissa: 3 }, width: 6, per_chunk: 16 })
        }
        (Tcgen05MmaKind::F8f6f4 | Tcgen05MmaKind::Mxf8f6f4, 4) => {
            Ok(ElementFormat { kind: MmaElement::Small { exponent: 3, mantissa: 2 }, width: 6, per_chunk: 16 })
        }
        // Sixteen elements of fewer than 8 bits occupy the first bytes of a 16-byte unit.
        (Tcgen05MmaKind::F8f6f4 | Tcgen05MmaKind::Mxf8f6f4, 5) => float(Scalar::F4E2M1FN, 4, 16),
        (Tcgen05MmaKind::I8, 0 | 1) => {
            Ok(ElementFormat { kind: MmaElement::Int { bits: 8, signed: code == 1 }, width: 8, per_chunk: 16 })
        }
        _ => Err(unsupported_type()),
    }
}

impl InstructionDescriptor {
    /// Decodes the 32-bit instruction descriptor of a `tcgen05.mma`.
    fn decode(kind: Tcgen05MmaKind, bits: u32) -> Result<InstructionDescriptor> {
        let field = |from: u32, count: u32| bits >> from & ((1 << count) - 1);
        let scaled = matches!(kind, Tcgen05MmaKind::Mxf8f6f4 | Tcgen05MmaKind::Mxf4);
        let invalid = |what: &str| Fault::new("SIM082", format!("the instruction descriptor {bits:#x} is invalid: {what}"));
        if field(2, 1) == 1 {
            return Err(Fault::unsupported("sparse MMAs"));
        }
        let d = match (scaled, field(4, 2), kind) {
            (true, ..) => AccumulatorType::Float(Scalar::F32),
            (_, 2, Tcgen05MmaKind::I8) => AccumulatorType::Int { saturate: field(3, 1) == 1 },
            (_, 1, Tcgen05MmaKind::F16 | Tcgen05MmaKind::Tf32 | Tcgen05MmaKind::F8f6f4) => AccumulatorType::Float(Scalar::F32),
            (_, 0, Tcgen05MmaKind::F16 | Tcgen05MmaKind::F8f6f4) => AccumulatorType::Float(Scalar::F16),
            _ => return Err(invalid("its result type")),
        };
        let idesc = InstructionDescriptor {
            m: field(24, 5) as usize * 16,
            n: field(17, 6) as usize * 8,
            k: match kind {
                Tcgen05MmaKind::F16 => 16,
                Tcgen05MmaKind::Tf32 => 8,
                Tcgen05MmaKind::Mxf4 => 64,
                _ => 32,
            },
            d,
            a: element_format(kind, field(7, 3))?,
            b: element_format(kind, field(10, 3))?,
            transpose_a: field(15, 1) == 1,
            transpose_b: field(16, 1) == 1,
            negate: field(13, 1) != field(14, 1),
            scale: MmaElement::Float(if field(23, 1) == 1 { Scalar::F8E8M0FNU } else { Scalar::F8E4M3FN }),
            scale_a: if scaled { field(29, 2) } else { 0 },
            scale_b: if scaled { field(4, 2) } else { 0 },
        };
        if !matches!(idesc.m, 64 | 128 | 256) || idesc.n == 0 || idesc.n > 256 {
            return Err(invalid("its shape"));
        }
        Ok(idesc)
    }
}

/// Calls `visit` with the index and the bits of each element of a 16-byte chunk of shared memory.
fn for_each_element(elements: ElementFormat, chunk: &[u8], mut visit: impl FnMut(usize, u64)) {
    let all = chunk.iter().rev().fold(0u128, |bits, &byte| bits << 8 | u128::from(byte));
    let mask = (1u128 << elements.width) - 1;
    for index in 0..elements.per_chunk {
        visit(index, (all >> (index as u32 * elements.width) & mask) as u64);
    }
}

impl Machine<'_> {
    /// Issues the `tcgen05.mma` of a lane: reads its operands from registers and submits the MMA as asynchronous work.
    pub(super) fn issue_tcgen05_mma(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        lane: usize,
        op: &Tcgen05Mma,
    ) -> Result<()> {
        let value = |warp: &Warp, slot: RegSlot| -> Result<u64> {
            check_defined(warp, slot, 1 << lane, "an operand of an MMA")?;
            Ok(warp.read(slot)[lane])
        };
        let tensor =
            |warp: &Warp, address: Address| value(warp, address.base).map(|base| (base as u32).wrapping_add(address.offset as u32));
        let idesc = InstructionDescriptor::decode(op.kind, value(warp, op.instruction_descriptor)? as u32)?;
        let mma = IssuedTcgen05Mma {
            cta,
            cta_pair: op.cta_pair,
            scale_block: op.scale_block,
            d: tensor(warp, op.d)?,
            a: match (op.a_tensor, op.a_shared) {
                (Some(address), _) => OperandA::Tensor(tensor(warp, address)?),
                (None, slot) => OperandA::Shared(value(warp, slot)?),
            },
            b: value(warp, op.b)?,
            idesc,
            scales: match op.scales {
                Some((a, b)) => Some((tensor(warp, a)?, tensor(warp, b)?)),
                None => None,
            },
            disabled_lanes: op
                .disabled_lanes
                .iter()
                .map(|&slot| value(warp, slot).map(|value| value as u32))
                .collect::<Result<_>>()?,
            accumulate: value(warp, op.accumulate)? != 0,
            scale_input_d: op.scale_input_d,
        };
        if op.cta_pair && (cluster.ctas.len() < 2 || !cta.is_multiple_of(2)) {
            return Err(Fault::new("SIM082", "only the even CTA of a pair may issue an MMA of the pair"));
        }
        let actor = self.actor(cta, warp);
        mma.check_order(&mut cluster.happens_before, actor)?;
        let (m, n) = (idesc.m as u32, idesc.n as u32);
        let a_in_tensor_memory = matches!(mma.a, OperandA::Tensor(_));
        self.record_event(|| Event::Mma { m, n, a_in_tensor_memory });
        if self.options.mode == ExecutionMode::TimingOnly {
            return Ok(());
        }
        if self.options.delivery == Delivery::Late {
            mma.set_in_flight(cluster, true)?;
        }
        self.submit(cluster, Pending { actor, action: Action::Mma(Box::new(mma)) })
    }

    /// Performs an issued MMA: reads the operands and updates the accumulator in tensor memory.
    pub(crate) fn perform_mma(&mut self, cluster: &mut Cluster, mma: &IssuedTcgen05Mma, actor: Actor) -> Result<()> {
        if self.options.delivery == Delivery::Late {
            mma.set_in_flight(cluster, false)?;
        }
        let idesc = mma.idesc;
        let ctas = mma.ctas();
        let (rows, columns) = (idesc.m / ctas.len(), idesc.n / ctas.len());
        let mut b = vec![0.0; idesc.k * idesc.n];
        for (half, cta) in ctas.clone().enumerate() {
            let start = half * columns;
            let source = SharedMemoryReader { cta: &cluster.ctas[cta], rank: cta, order: &mut cluster.happens_before, actor };
            mma.read_shared(source, mma.b, idesc.b, columns, idesc.transpose_b, |column, k, value| {
                b[k * idesc.n + start + column] = value;
            })?;
            if let Some((_, scales)) = mma.scales {
                for column in 0..columns {
                    for k in 0..idesc.k {
                        let byte = idesc.scale_b + k as u32 / mma.scale_block;
                        let b_column = start + column;
                        b[k * idesc.n + b_column] *= mma.scale_value(&cluster.ctas[mma.cta], scales, b_column, byte)?;
                    }
                }
            }
        }
        for cta in ctas {
            mma.compute_rows(cluster, cta, actor, rows, &b)?;
        }
        Ok(())
    }
}

impl IssuedTcgen05Mma {
    /// Returns the CTAs whose tensor memory contains the accumulator: the issuing CTA, or both CTAs of a pair.
    fn ctas(&self) -> Range<usize> {
        self.cta..self.cta + if self.cta_pair { 2 } else { 1 }
    }
    /// Checks that the MMA's accesses to tensor memory are ordered after earlier conflicting accesses, and records them.
    fn check_order(&self, order: &mut HappensBefore, actor: Actor) -> Result<()> {
        let (d, a) = self.tmem_columns();
        for cta in self.ctas() {
            for column in self.scale_columns(cta) {
                order.check_tmem_access(actor, cta, ALL_LANE_GROUPS, column..column + 1, TmemAccessKind::MmaRead)?;
            }
            order.check_tmem_access(actor, cta, self.lane_groups(), a.clone(), TmemAccessKind::MmaRead)?;
            order.check_tmem_access(actor, cta, self.lane_groups(), d.clone(), TmemAccessKind::MmaWrite)?;
        }
        Ok(())
    }
    /// Returns the bit mask of the groups of sixteen TMEM lanes that contain rows of the accumulator.
    fn lane_groups(&self) -> u8 {
        let rows = self.idesc.m / self.ctas().len();
        let columns = [0, self.idesc.n - 1];
        let lanes = (0..rows).flat_map(|row| columns.map(|column| self.tmem_cell(row, column, self.d, rows).0));
        lanes.fold(0, |groups, lane| groups | 1 << (lane / 16 % 8))
    }
    /// Returns the addresses of the 16-byte chunks of shared memory that the MMA reads in each of its CTAs.
    fn smem_chunks(&self) -> Result<Vec<u32>> {
        let cta_count = self.ctas().len();
        let mut chunks = Vec::new();
        let mut add_operand = |descriptor, elements: ElementFormat, (mn, transposed): (usize, bool)| -> Result<()> {
            let descriptor = Descriptor::decode_tcgen05(descriptor)?;
            let major = if transposed { Major::Mn } else { Major::K };
            let (rows, contiguous_extent) = if transposed { (self.idesc.k, mn) } else { (mn, self.idesc.k) };
            for row in 0..rows as u32 {
                chunks.extend(
                    (0..contiguous_extent.div_ceil(elements.per_chunk))
                        .map(|chunk| descriptor.chunk_address(major, row, 16 * chunk as u32)),
                );
            }
            Ok(())
        };
        if let OperandA::Shared(a) = self.a {
            add_operand(a, self.idesc.a, (self.idesc.m / cta_count, self.idesc.transpose_a))?;
        }
        add_operand(self.b, self.idesc.b, (self.idesc.n / cta_count, self.idesc.transpose_b))?;
        Ok(chunks)
    }
    /// Returns the TMEM columns of the accumulator and of A. The columns of A are empty if A is in shared memory.
    fn tmem_columns(&self) -> (Range<u32>, Range<u32>) {
        // A CTA-pair MMA with 128 rows stores half of its columns in lanes 0 to 63 and the other half in lanes 64 to 127.
        let folded = self.cta_pair && self.idesc.m == 128;
        let d = (self.d & 0xffff, if folded { self.idesc.n / 2 } else { self.idesc.n } as u32);
        let a = match self.a {
            OperandA::Tensor(address) => (address & 0xffff, self.idesc.k as u32 * self.idesc.a.width / 32),
            OperandA::Shared(_) => (0, 0),
        };
        (d.0..d.0 + d.1, a.0..a.0 + a.1)
    }
    /// Counts the beginning (`begin`) or the end of the MMA's accesses to shared and tensor memory.
    fn set_in_flight(&self, cluster: &mut Cluster, begin: bool) -> Result<()> {
        let chunks = self.smem_chunks()?;
        let (d, a) = self.tmem_columns();
        for rank in self.ctas() {
            let cta = &mut cluster.ctas[rank];
            for &chunk in &chunks {
                cta.shared.mark_async_read(chunk, 16, begin)?;
            }
            for column in d.clone().chain(a.clone()).chain(self.scale_columns(rank)) {
                let column = cta.tmem.check_column(column)?;
                if begin && cta.tmem.has_store_in_flight(None, column) {
                    return Err(Fault::new(
                        "SIM034",
                        format!("column {column} of tensor memory is used by an MMA before tcgen05.wait::st"),
                    ));
                }
                let count = &mut cta.tmem.mmas_in_flight[column];
                *count = if begin { count.saturating_add(1) } else { count.saturating_sub(1) };
            }
        }
        Ok(())
    }

    /// Reads an operand from shared memory. Calls `put(mn, k, value)` for each element, where `mn` is the index along M or N.
    fn read_shared(
        &self,
        source: SharedMemoryReader,
        descriptor: u64,
        elements: ElementFormat,
        mn: usize,
        transposed: bool,
        mut put: impl FnMut(usize, usize, f64),
    ) -> Result<()> {
        let descriptor = Descriptor::decode_tcgen05(descriptor)?;
        let major = if transposed { Major::Mn } else { Major::K };
        let table = if elements.width <= 8 { elements.kind.value_table(elements.width) } else { Vec::new() };
        let value = |bits: u64| table.get(bits as usize).copied().unwrap_or_else(|| elements.kind.value(bits));
        let SharedMemoryReader { cta, rank, order, actor } = source;
        let mut read = |address: u32| {
            order.check_read(actor, rank, address, 16)?;
            cta.shared.read_async(address, 16, actor, &cta.proxy_fence_times)
        };
        let k = self.idesc.k;
        if elements.width >= 8 && elements.per_chunk * elements.width as usize == 128 {
            let bytes = elements.width as usize / 8;
            return read_matrix(descriptor, major, MatrixExtents { mn, k, element_bytes: bytes }, read, |mn, k, bits| {
                put(mn, k, value(bits))
            });
        }
        if transposed {
            return Err(Fault::unsupported("operands of fewer than 8 bits that are transposed"));
        }
        for row in 0..mn {
            for start in (0..k).step_by(elements.per_chunk) {
                let offset = (start / elements.per_chunk * 16) as u32;
                for_each_element(elements, read(descriptor.chunk_address(major, row as u32, offset))?, |index, bits| {
                    put(row, start + index, value(bits))
                });
            }
        }
        Ok(())
    }

    /// Returns the scale of row `index` of A or column `index` of B. A TMEM column has the scales of 32 rows of A (or columns of
    /// B), one per lane. The four bytes of a word are the scales of four blocks along K. Each of the four groups of 32 lanes has a
    /// copy of the scales. A fault reports copies that differ.
    fn scale_value(&self, cta: &Cta, address: u32, index: usize, byte: u32) -> Result<f64> {
        let (column, first) = ((address & 0xffff) + index as u32 / 32, (address >> 16 & 0x7f) as usize + index % 32);
        let lanes = (0..TMEM_LANES / LANES_OF_WARP).map(|warp| (first + warp * LANES_OF_WARP) % TMEM_LANES);
        let mut scale_bits = None;
        for lane in lanes {
            let scale = cta.tmem.read(lane, column)? >> (8 * byte) & 0xff;
            if !cta.tmem.is_defined(lane, column) || *scale_bits.get_or_insert(scale) != scale {
                let message = format!(
                    "column {column} of tensor memory, lane {lane}, has a scale that differs from those in other warps' lanes"
                );
                return Err(Fault::new("SIM082", message));
            }
        }
        Ok(self.idesc.scale.value(u64::from(scale_bits.unwrap_or_default())))
    }
    /// Returns the TMEM columns that scales occupy in a CTA. The scales of B are in the first CTA of a pair.
    fn scale_columns(&self, cta: usize) -> impl Iterator<Item = u32> {
        let columns =
            |address: u32, row_count: usize| (address & 0xffff)..(address & 0xffff) + row_count.div_ceil(LANES_OF_WARP) as u32;
        let scales = self.scales.into_iter();
        let rows = self.idesc.m / self.ctas().len();
        let columns_of_b = if cta == self.cta { self.idesc.n } else { 0 };
        scales.flat_map(move |(a, b)| columns(a, rows).chain(columns(b, columns_of_b)))
    }

    /// Computes the rows of D in one CTA. `b` is the complete operand B, row-major.
    fn compute_rows(&self, cluster: &mut Cluster, index: usize, actor: Actor, rows: usize, b: &[f64]) -> Result<()> {
        let idesc = self.idesc;
        let (n, k) = (idesc.n, idesc.k);
        let mut a = vec![0.0; rows * k];
        match self.a {
            OperandA::Shared(descriptor) => {
                let source =
                    SharedMemoryReader { cta: &cluster.ctas[index], rank: index, order: &mut cluster.happens_before, actor };
                self.read_shared(source, descriptor, idesc.a, rows, idesc.transpose_a, |row, k_index, value| {
                    a[row * k + k_index] = value
                })?;
            }
            OperandA::Tensor(address) => {
                let cta = &cluster.ctas[index];
                let elements_per_word = 32 / idesc.a.width;
                for row in 0..rows {
                    for k_index in 0..k {
                        let lane = self.tmem_cell(row, 0, address, rows).0;
                        let word = cta.tmem.read(lane, (address & 0xffff) + k_index as u32 / elements_per_word)?;
                        let bits = u64::from(word) >> (k_index as u32 % elements_per_word * idesc.a.width)
                            & (u64::MAX >> (64 - idesc.a.width));
                        a[row * k + k_index] = idesc.a.kind.value(bits);
                    }
                }
            }
        }
        let cta = &mut cluster.ctas[index];
        if let Some((scales, _)) = self.scales {
            for row in 0..rows {
                for k_index in 0..k {
                    let byte = idesc.scale_a + k_index as u32 / self.scale_block;
                    a[row * k + k_index] *= self.scale_value(cta, scales, row, byte)?;
                }
            }
        }
        if idesc.negate {
            a.iter_mut().for_each(|value| *value = -*value);
        }
        let mut accumulator = vec![0.0; rows * n];
        if self.accumulate {
            let factor = f64::powi(0.5, self.scale_input_d as i32);
            for row in 0..rows {
                for column in 0..n {
                    let (lane, tmem_column) = self.tmem_cell(row, column, self.d, rows);
                    if !cta.tmem.is_defined(lane, tmem_column) {
                        let message = format!(
                            "an MMA accumulates to column {tmem_column} of tensor memory, lane {lane}, which is uninitialised"
                        );
                        return Err(Fault::new("SIM020", message));
                    }
                    accumulator[row * n + column] = idesc.d.value(cta.tmem.read(lane, tmem_column)?.into()) * factor;
                }
            }
        }
        multiply_accumulate(&mut accumulator, &a, b, k, n);
        for row in 0..rows {
            for column in 0..n {
                let (lane, tmem_column) = self.tmem_cell(row, column, self.d, rows);
                if self.disabled_lanes.get(lane / 32).is_none_or(|mask| mask >> (lane % 32) & 1 == 0) {
                    cta.tmem.write(lane, tmem_column, idesc.d.round_to_bits(accumulator[row * n + column]) as u32)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the TMEM lane and column of an element of the accumulator, or the lane of a row of A. `address` is the TMEM address
    /// of the matrix, and `rows` its number of rows in one CTA.
    fn tmem_cell(&self, row: usize, column: usize, address: u32, rows: usize) -> (usize, u32) {
        let (first, start) = ((address >> 16 & 0x7f) as usize, address & 0xffff);
        let n = self.idesc.n;
        match (rows, self.cta_pair) {
            // The 32 lanes of each warp have 16 rows. Their other 16 lanes are unused.
            (64, false) => (first + row / 16 * 32 + row % 16, start + column as u32),
            // Lanes 0 to 63 have the first half of the columns, lanes 64 to 127 the second half.
            (64, true) => (first + row + column / (n / 2) * 64, start + (column % (n / 2)) as u32),
            _ => (first + row, start + column as u32),
        }
    }
}
