//! `tcgen05.mma`: MMAs that read shared and tensor memory and write tensor memory.
//!
//! MMAs, copies to tensor memory and commits of a CTA complete in issue order.

use super::check_defined;
use crate::descriptor::{Descriptor, Major, read_matrix};
use crate::fault::{Fault, Result};
use crate::happens_before::{Actor, HappensBefore};
use crate::machine::{Cluster, Cta, Delivery, Machine};
use crate::mma_arith::{Accumulator, Kind, multiply_accumulate};
use crate::pending::{Action, Pending};
use crate::program::{Address, RegSlot, TensorKind, TensorMma};
use crate::record::Event;
use crate::tmem::LANES;
use crate::tmem_happens_before::{ALL_LANES, TmemAccessKind};
use crate::warp::Warp;
use numerics::Scalar;
use std::ops::Range;

/// TMEM lanes that a warp can access.
const LANES_OF_WARP: usize = 32;

/// An MMA with the operand values at its issue.
#[derive(Clone, Debug)]
pub(crate) struct Mma {
    cta: usize,
    pair: bool,
    scale_block: u32,
    d: u32,
    a: Operand,
    b: u64,
    idesc: InstructionDescriptor,
    scales: Option<(u32, u32)>,
    /// Mask of lanes that keep their old values.
    disabled: Vec<u32>,
    accumulate: bool,
    shift: u32,
}

#[derive(Clone, Copy, Debug)]
enum Operand {
    Shared(u64),
    Tensor(u32),
}

/// The fields of the instruction descriptor.
#[derive(Clone, Copy, Debug)]
struct InstructionDescriptor {
    m: usize,
    n: usize,
    k: usize,
    d: Accumulator,
    a: Elements,
    b: Elements,
    transpose_a: bool,
    transpose_b: bool,
    negate: bool,
    scale: Kind,
    scale_a: u32,
    scale_b: u32,
}

/// The format of an operand's elements in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Elements {
    kind: Kind,
    width: u32,
    /// Elements per 16 bytes.
    per: usize,
}

/// Shared memory that an MMA reads.
struct Source<'a> {
    cta: &'a Cta,
    index: usize,
    order: &'a mut HappensBefore,
    actor: Actor,
}

fn elements(kind: TensorKind, code: u32) -> Result<Elements> {
    let wrong =
        || Fault::new("SIM082", format!("the instruction descriptor has operand type {code}, which this kind does not support"));
    let float = |ty: Scalar, width, per| Ok(Elements { kind: Kind::Float(ty), width, per });
    match (kind, code) {
        (TensorKind::F16, 0) => float(Scalar::F16, 16, 8),
        (TensorKind::F16, 1) => float(Scalar::BF16, 16, 8),
        (TensorKind::Tf32, 2) => float(Scalar::TF32, 32, 4),
        (TensorKind::Mxf4, 1) => float(Scalar::F4E2M1FN, 4, 32),
        (TensorKind::F8f6f4 | TensorKind::Mxf8f6f4, 0) => float(Scalar::F8E4M3FN, 8, 16),
        (TensorKind::F8f6f4 | TensorKind::Mxf8f6f4, 1) => float(Scalar::F8E5M2, 8, 16),
        (TensorKind::F8f6f4 | TensorKind::Mxf8f6f4, 3) => {
            Ok(Elements { kind: Kind::Small { exponent: 2, mantissa: 3 }, width: 6, per: 16 })
        }
        (TensorKind::F8f6f4 | TensorKind::Mxf8f6f4, 4) => {
            Ok(Elements { kind: Kind::Small { exponent: 3, mantissa: 2 }, width: 6, per: 16 })
        }
        // Sixteen elements of fewer than 8 bits occupy the first bytes of a 16-byte unit.
        (TensorKind::F8f6f4 | TensorKind::Mxf8f6f4, 5) => float(Scalar::F4E2M1FN, 4, 16),
        (TensorKind::I8, 0 | 1) => Ok(Elements { kind: Kind::Int { bits: 8, signed: code == 1 }, width: 8, per: 16 }),
        _ => Err(wrong()),
    }
}

impl InstructionDescriptor {
    fn decode(kind: TensorKind, bits: u32) -> Result<InstructionDescriptor> {
        let field = |from: u32, count: u32| bits >> from & ((1 << count) - 1);
        let scaled = matches!(kind, TensorKind::Mxf8f6f4 | TensorKind::Mxf4);
        let wrong = |what: &str| Fault::new("SIM082", format!("the instruction descriptor {bits:#x} is invalid: {what}"));
        if field(2, 1) == 1 {
            return Err(Fault::unsupported("sparse MMAs"));
        }
        let d = match (scaled, field(4, 2), kind) {
            (true, ..) => Accumulator::Float(Scalar::F32),
            (_, 2, TensorKind::I8) => Accumulator::Int { saturate: field(3, 1) == 1 },
            (_, 1, TensorKind::F16 | TensorKind::Tf32 | TensorKind::F8f6f4) => Accumulator::Float(Scalar::F32),
            (_, 0, TensorKind::F16 | TensorKind::F8f6f4) => Accumulator::Float(Scalar::F16),
            _ => return Err(wrong("its result type")),
        };
        let idesc = InstructionDescriptor {
            m: field(24, 5) as usize * 16,
            n: field(17, 6) as usize * 8,
            k: match kind {
                TensorKind::F16 => 16,
                TensorKind::Tf32 => 8,
                TensorKind::Mxf4 => 64,
                _ => 32,
            },
            d,
            a: elements(kind, field(7, 3))?,
            b: elements(kind, field(10, 3))?,
            transpose_a: field(15, 1) == 1,
            transpose_b: field(16, 1) == 1,
            negate: field(13, 1) != field(14, 1),
            scale: Kind::Float(if field(23, 1) == 1 { Scalar::F8E8M0FNU } else { Scalar::F8E4M3FN }),
            scale_a: if scaled { field(29, 2) } else { 0 },
            scale_b: if scaled { field(4, 2) } else { 0 },
        };
        if !matches!(idesc.m, 64 | 128 | 256) || idesc.n == 0 || idesc.n > 256 {
            return Err(wrong("its shape"));
        }
        Ok(idesc)
    }
}

/// Calls `put` with each element of a 16-byte chunk.
fn unpack(elements: Elements, chunk: &[u8], mut put: impl FnMut(usize, u64)) {
    let all = chunk.iter().rev().fold(0u128, |bits, &byte| bits << 8 | u128::from(byte));
    let mask = (1u128 << elements.width) - 1;
    for index in 0..elements.per {
        put(index, (all >> (index as u32 * elements.width) & mask) as u64);
    }
}

impl Machine<'_> {
    pub(super) fn tensor_mma(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        lane: usize,
        op: &TensorMma,
    ) -> Result<()> {
        let value = |warp: &Warp, slot: RegSlot| -> Result<u64> {
            check_defined(warp, slot, 1 << lane, "an operand of an MMA")?;
            Ok(warp.read(slot)[lane])
        };
        let tensor =
            |warp: &Warp, address: Address| value(warp, address.base).map(|base| (base as u32).wrapping_add(address.offset as u32));
        let idesc = InstructionDescriptor::decode(op.kind, value(warp, op.instruction_descriptor)? as u32)?;
        let mma = Mma {
            cta,
            pair: op.pair,
            scale_block: op.scale_block,
            d: tensor(warp, op.d)?,
            a: match (op.a_tensor, op.a_shared) {
                (Some(address), _) => Operand::Tensor(tensor(warp, address)?),
                (None, slot) => Operand::Shared(value(warp, slot)?),
            },
            b: value(warp, op.b)?,
            idesc,
            scales: match op.scales {
                Some((a, b)) => Some((tensor(warp, a)?, tensor(warp, b)?)),
                None => None,
            },
            disabled: op.disabled.iter().map(|&slot| value(warp, slot).map(|value| value as u32)).collect::<Result<_>>()?,
            accumulate: value(warp, op.accumulate)? != 0,
            shift: op.shift,
        };
        if op.pair && (cluster.ctas.len() < 2 || !cta.is_multiple_of(2)) {
            return Err(Fault::new("SIM082", "only the even CTA of a pair may issue an MMA of the pair"));
        }
        let actor = self.actor(cta, warp);
        mma.check_order(&mut cluster.happens_before, actor)?;
        let (m, n) = (idesc.m as u32, idesc.n as u32);
        let a_in_tensor_memory = matches!(mma.a, Operand::Tensor(_));
        self.record_event(|| Event::Mma { m, n, a_in_tensor_memory });
        if !self.options.check_rules {
            return Ok(());
        }
        if self.options.delivery == Delivery::Late {
            mma.set_in_flight(cluster, true)?;
        }
        self.submit(cluster, Pending { actor, action: Action::Mma(Box::new(mma)) })
    }

    pub(crate) fn perform_mma(&mut self, cluster: &mut Cluster, mma: &Mma, actor: Actor) -> Result<()> {
        if self.options.delivery == Delivery::Late {
            mma.set_in_flight(cluster, false)?;
        }
        let idesc = mma.idesc;
        let ctas = mma.ctas();
        let (rows, columns) = (idesc.m / ctas.len(), idesc.n / ctas.len());
        let mut b = vec![0.0; idesc.k * idesc.n];
        for (half, cta) in ctas.clone().enumerate() {
            let start = half * columns;
            let source = Source { cta: &cluster.ctas[cta], index: cta, order: &mut cluster.happens_before, actor };
            mma.read_shared(source, mma.b, idesc.b, (columns, idesc.transpose_b), |column, k, value| {
                b[k * idesc.n + start + column] = value;
            })?;
            if let Some((_, scales)) = mma.scales {
                for column in 0..columns {
                    for k in 0..idesc.k {
                        let byte = idesc.scale_b + k as u32 / mma.scale_block;
                        let at = start + column;
                        b[k * idesc.n + at] *= mma.scale(&cluster.ctas[mma.cta], scales, at, byte)?;
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

impl Mma {
    fn ctas(&self) -> Range<usize> {
        self.cta..self.cta + if self.pair { 2 } else { 1 }
    }
    /// Records the MMA's accesses to tensor memory for the happens-before analysis.
    fn check_order(&self, order: &mut HappensBefore, actor: Actor) -> Result<()> {
        let (d, a) = self.columns();
        for cta in self.ctas() {
            for column in self.columns_of_scales(cta) {
                order.check_tmem_access(actor, cta, ALL_LANES, column..column + 1, TmemAccessKind::MmaRead)?;
            }
            order.check_tmem_access(actor, cta, self.lane_groups(), a.clone(), TmemAccessKind::MmaRead)?;
            order.check_tmem_access(actor, cta, self.lane_groups(), d.clone(), TmemAccessKind::MmaWrite)?;
        }
        Ok(())
    }
    /// Returns the groups of sixteen lanes that contain the rows.
    fn lane_groups(&self) -> u8 {
        let rows = self.idesc.m / self.ctas().len();
        let columns = [0, self.idesc.n - 1];
        let lanes = (0..rows).flat_map(|row| columns.map(|column| self.cell(row, column, self.d, rows).0));
        lanes.fold(0, |groups, lane| groups | 1 << (lane / 16 % 8))
    }
    /// Returns the 16-byte chunks of shared memory that the MMA reads in each of its CTAs.
    fn smem_chunks(&self) -> Result<Vec<u32>> {
        let count = self.ctas().len();
        let mut chunks = Vec::new();
        let mut add = |descriptor, elements: Elements, (mn, transposed): (usize, bool)| -> Result<()> {
            let descriptor = Descriptor::tcgen05(descriptor)?;
            let major = if transposed { Major::Mn } else { Major::K };
            let (rows, along) = if transposed { (self.idesc.k, mn) } else { (mn, self.idesc.k) };
            for row in 0..rows as u32 {
                chunks.extend((0..along.div_ceil(elements.per)).map(|at| descriptor.chunk_address(major, row, 16 * at as u32)));
            }
            Ok(())
        };
        if let Operand::Shared(a) = self.a {
            add(a, self.idesc.a, (self.idesc.m / count, self.idesc.transpose_a))?;
        }
        add(self.b, self.idesc.b, (self.idesc.n / count, self.idesc.transpose_b))?;
        Ok(chunks)
    }
    /// Returns the TMEM columns of the accumulator, and those of A if it is in tensor memory.
    fn columns(&self) -> (Range<u32>, Range<u32>) {
        // A CTA-pair MMA with 128 rows stores half of the columns in the other half of the lanes.
        let folded = self.pair && self.idesc.m == 128;
        let d = (self.d & 0xffff, if folded { self.idesc.n / 2 } else { self.idesc.n } as u32);
        let a = match self.a {
            Operand::Tensor(address) => (address & 0xffff, self.idesc.k as u32 * self.idesc.a.width / 32),
            Operand::Shared(_) => (0, 0),
        };
        (d.0..d.0 + d.1, a.0..a.0 + a.1)
    }
    /// Marks the MMA's accesses to shared and tensor memory as in flight, or as complete.
    fn set_in_flight(&self, cluster: &mut Cluster, begin: bool) -> Result<()> {
        let chunks = self.smem_chunks()?;
        let (d, a) = self.columns();
        for at in self.ctas() {
            let cta = &mut cluster.ctas[at];
            for &chunk in &chunks {
                cta.shared.mark_async_read(chunk, 16, begin)?;
            }
            for column in d.clone().chain(a.clone()).chain(self.columns_of_scales(at)) {
                let column = cta.tmem.column(column)?;
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

    fn read_shared(
        &self,
        source: Source,
        descriptor: u64,
        elements: Elements,
        (mn, transposed): (usize, bool),
        mut put: impl FnMut(usize, usize, f64),
    ) -> Result<()> {
        let descriptor = Descriptor::tcgen05(descriptor)?;
        let major = if transposed { Major::Mn } else { Major::K };
        let table = if elements.width <= 8 { elements.kind.table(elements.width) } else { Vec::new() };
        let value = |bits: u64| table.get(bits as usize).copied().unwrap_or_else(|| elements.kind.value(bits));
        let Source { cta, index, order, actor } = source;
        let mut read = |address: u32| {
            order.read(actor, index, address, 16)?;
            cta.shared.read_async(address, 16, actor, &cta.proxy_fence_times)
        };
        let k = self.idesc.k;
        if elements.width >= 8 && elements.per * elements.width as usize == 128 {
            let bytes = elements.width as usize / 8;
            return read_matrix(descriptor, major, (mn, k, bytes), read, |mn, k, bits| put(mn, k, value(bits)));
        }
        if transposed {
            return Err(Fault::unsupported("operands of fewer than 8 bits that are transposed"));
        }
        for row in 0..mn {
            for start in (0..k).step_by(elements.per) {
                let offset = (start / elements.per * 16) as u32;
                unpack(elements, read(descriptor.chunk_address(major, row as u32, offset))?, |index, bits| {
                    put(row, start + index, value(bits))
                });
            }
        }
        Ok(())
    }

    /// Returns the scale of a row of A or a column of B. A TMEM column holds the scales of 32 rows of A (or columns of B), one per
    /// lane. The four bytes of a word are the scales of four blocks along K. The lanes of all four warps hold the same scales.
    fn scale(&self, cta: &Cta, address: u32, index: usize, byte: u32) -> Result<f64> {
        let (column, first) = ((address & 0xffff) + index as u32 / 32, (address >> 16 & 0x7f) as usize + index % 32);
        let each = (0..LANES / LANES_OF_WARP).map(|warp| (first + warp * LANES_OF_WARP) % LANES);
        let mut found = None;
        for lane in each {
            let scale = cta.tmem.read(lane, column)? >> (8 * byte) & 0xff;
            if !cta.tmem.is_defined(lane, column) || *found.get_or_insert(scale) != scale {
                let message = format!(
                    "column {column} of tensor memory, lane {lane}, has a scale that differs from those in other warps' lanes"
                );
                return Err(Fault::new("SIM082", message));
            }
        }
        Ok(self.idesc.scale.value(u64::from(found.unwrap_or_default())))
    }
    /// Returns the TMEM columns that scales occupy in a CTA. The scales of B are in the first CTA of a pair.
    fn columns_of_scales(&self, cta: usize) -> impl Iterator<Item = u32> {
        let columns = |address: u32, lines: usize| (address & 0xffff)..(address & 0xffff) + lines.div_ceil(LANES_OF_WARP) as u32;
        let scales = self.scales.into_iter();
        let rows = self.idesc.m / self.ctas().len();
        let of_b = if cta == self.cta { self.idesc.n } else { 0 };
        scales.flat_map(move |(a, b)| columns(a, rows).chain(columns(b, of_b)))
    }

    /// Computes the rows of one CTA.
    fn compute_rows(&self, cluster: &mut Cluster, index: usize, actor: Actor, rows: usize, b: &[f64]) -> Result<()> {
        let idesc = self.idesc;
        let (n, k) = (idesc.n, idesc.k);
        let mut a = vec![0.0; rows * k];
        match self.a {
            Operand::Shared(descriptor) => {
                let source = Source { cta: &cluster.ctas[index], index, order: &mut cluster.happens_before, actor };
                self.read_shared(source, descriptor, idesc.a, (rows, idesc.transpose_a), |row, at, value| a[row * k + at] = value)?;
            }
            Operand::Tensor(address) => {
                let cta = &cluster.ctas[index];
                let per = 32 / idesc.a.width;
                for row in 0..rows {
                    for at in 0..k {
                        let lane = self.cell(row, 0, address, rows).0;
                        let word = cta.tmem.read(lane, (address & 0xffff) + at as u32 / per)?;
                        let bits = u64::from(word) >> (at as u32 % per * idesc.a.width) & (u64::MAX >> (64 - idesc.a.width));
                        a[row * k + at] = idesc.a.kind.value(bits);
                    }
                }
            }
        }
        let cta = &mut cluster.ctas[index];
        if let Some((scales, _)) = self.scales {
            for row in 0..rows {
                for at in 0..k {
                    let byte = idesc.scale_a + at as u32 / self.scale_block;
                    a[row * k + at] *= self.scale(cta, scales, row, byte)?;
                }
            }
        }
        if idesc.negate {
            a.iter_mut().for_each(|value| *value = -*value);
        }
        let mut accumulator = vec![0.0; rows * n];
        if self.accumulate {
            let factor = f64::powi(0.5, self.shift as i32);
            for row in 0..rows {
                for column in 0..n {
                    let (lane, at) = self.cell(row, column, self.d, rows);
                    if !cta.tmem.is_defined(lane, at) {
                        let message =
                            format!("an MMA accumulates to column {at} of tensor memory, lane {lane}, which is uninitialised");
                        return Err(Fault::new("SIM020", message));
                    }
                    accumulator[row * n + column] = idesc.d.value(cta.tmem.read(lane, at)?.into()) * factor;
                }
            }
        }
        multiply_accumulate(&mut accumulator, &a, b, k, n);
        for row in 0..rows {
            for column in 0..n {
                let (lane, at) = self.cell(row, column, self.d, rows);
                if self.disabled.get(lane / 32).is_none_or(|mask| mask >> (lane % 32) & 1 == 0) {
                    cta.tmem.write(lane, at, idesc.d.round_to(accumulator[row * n + column]) as u32)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the TMEM lane and column of an accumulator element of a matrix at `address`.
    fn cell(&self, row: usize, column: usize, address: u32, rows: usize) -> (usize, u32) {
        let (first, start) = ((address >> 16 & 0x7f) as usize, address & 0xffff);
        let n = self.idesc.n;
        match (rows, self.pair) {
            // Each warp's lanes hold sixteen rows.
            (64, false) => (first + row / 16 * 32 + row % 16, start + column as u32),
            // The upper lanes hold half of the columns.
            (64, true) => (first + row + column / (n / 2) * 64, start + (column % (n / 2)) as u32),
            _ => (first + row, start + column as u32),
        }
    }
}
