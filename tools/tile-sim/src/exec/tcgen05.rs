//! `tcgen05`: tensor memory, and products that read shared memory and write it.
//!
//! Products, copies to tensor memory and commits of a CTA are done in the order in which they were issued.

use super::matrix::whole_warp;
use super::memory::{addresses, shared_place};
use super::{Flow, defined};
use crate::descriptor::{Descriptor, Major, read_matrix};
use crate::fault::{Fault, Result};
use crate::lanes::{ALL, Lanes, WARP, lanes_of};
use crate::machine::{Cluster, Cta, Delivery, Machine};
use crate::order::{Actor, Order};
use crate::pending::{Action, Pending};
use crate::product::{Accumulator, Kind, multiply};
use crate::program::{Address, CopyShape, Op, Slot, Space, TensorKind, TensorProduct};
use crate::tensor_order::Touch;
use crate::tmem::Shape;
use crate::warp::{Wait, Warp};
use base::Scalar;
use std::collections::BTreeSet;
use std::ops::Range;

/// Stores that a warp may have under way.
const STORES: usize = 256;

/// A product, with the values it took when it was issued.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    cta: usize,
    warp: usize,
    pair: bool,
    block: u32,
    d: u32,
    a: Operand,
    b: u64,
    form: Form,
    scales: Option<(u32, u32)>,
    /// Lanes that keep what they have.
    disabled: Vec<u32>,
    accumulate: bool,
    shift: u32,
}

#[derive(Clone, Copy, Debug)]
enum Operand {
    Shared(u64),
    Tensor(u32),
}

/// What the instruction descriptor says.
#[derive(Clone, Copy, Debug)]
struct Form {
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

/// How the elements of an operand lie in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Elements {
    kind: Kind,
    width: u32,
    /// Elements in 16 bytes.
    per: usize,
}

/// Shared memory that a product reads.
struct Source<'a> {
    cta: &'a Cta,
    index: usize,
    order: &'a mut Order,
    actor: Actor,
}

/// A copy from shared to tensor memory.
#[derive(Clone, Debug)]
pub(crate) struct Fill {
    cta: usize,
    warp: usize,
    pair: bool,
    to: u32,
    from: u64,
    shape: CopyShape,
}

/// A load or a store of a warp; a store may have to wait until it is made.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pc: u32,
    address: u32,
    values: Vec<Lanes>,
}

fn elements(kind: TensorKind, code: u32) -> Result<Elements> {
    let wrong = || Fault::new("SIM082", format!("the instruction descriptor has operand type {code}, which this kind has not"));
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
        // Sixteen elements of fewer bits fill the first bytes of sixteen.
        (TensorKind::F8f6f4 | TensorKind::Mxf8f6f4, 5) => float(Scalar::F4E2M1FN, 4, 16),
        (TensorKind::I8, 0 | 1) => Ok(Elements { kind: Kind::Int { bits: 8, signed: code == 1 }, width: 8, per: 16 }),
        _ => Err(wrong()),
    }
}

impl Form {
    fn decode(kind: TensorKind, bits: u32) -> Result<Form> {
        let field = |from: u32, count: u32| bits >> from & ((1 << count) - 1);
        let scaled = matches!(kind, TensorKind::Mxf8f6f4 | TensorKind::Mxf4);
        let wrong = |what: &str| Fault::new("SIM082", format!("the instruction descriptor {bits:#x} is wrong: {what}"));
        if field(2, 1) == 1 {
            return Err(Fault::unsupported("sparse products"));
        }
        let d = match (scaled, field(4, 2), kind) {
            (true, ..) => Accumulator::Float(Scalar::F32),
            (_, 2, TensorKind::I8) => Accumulator::Int { saturate: field(3, 1) == 1 },
            (_, 1, TensorKind::F16 | TensorKind::Tf32 | TensorKind::F8f6f4) => Accumulator::Float(Scalar::F32),
            (_, 0, TensorKind::F16 | TensorKind::F8f6f4) => Accumulator::Float(Scalar::F16),
            _ => return Err(wrong("its result type")),
        };
        let form = Form {
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
        if !matches!(form.m, 64 | 128 | 256) || form.n == 0 || form.n > 256 {
            return Err(wrong("its shape"));
        }
        Ok(form)
    }
}

/// The elements of a chunk of 16 bytes.
fn unpack(elements: Elements, chunk: &[u8], mut put: impl FnMut(usize, u64)) {
    let all = chunk.iter().rev().fold(0u128, |bits, &byte| bits << 8 | u128::from(byte));
    let mask = (1u128 << elements.width) - 1;
    for index in 0..elements.per {
        put(index, (all >> (index as u32 * elements.width) & mask) as u64);
    }
}

impl Machine<'_> {
    pub(super) fn tcgen05(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        pc: u32,
        op: &Op,
    ) -> Result<Flow> {
        match op {
            Op::TensorAllocate { address, columns } => return self.tensor_allocate(cluster, cta, warp, mask, *address, *columns),
            Op::TensorFree { address, columns } => {
                if let Some(flow) = whole_warp(warp, mask)? {
                    return Ok(flow);
                }
                let (address, columns) = (uniform(warp, *address, "an address")?, uniform(warp, *columns, "a size")?);
                cluster.ctas[cta].tmem.free(address, columns)?;
            }
            Op::TensorRelinquish => cluster.ctas[cta].tmem.relinquished = true,
            Op::TensorLoad { .. } | Op::TensorStore { .. } => return self.tensor_access(cluster, cta, warp, mask, pc, op),
            Op::TensorWait { loads: false } => self.tensor_wait(cluster, cta, warp)?,
            Op::TensorWait { loads: true } => cluster.order.tensor_loaded(self.actor(cta, warp)),
            Op::TensorFence { before } => cluster.order.tensor_fence(self.actor(cta, warp), *before),
            Op::TensorProduct(op) => {
                for lane in lanes_of(mask) {
                    self.tensor_product(cluster, cta, warp, lane, op).map_err(|fault| fault.lanes(1 << lane))?;
                }
            }
            Op::TensorCopy { shape, pair, to, from } => {
                defined(warp, to.base, mask, "an address")?;
                defined(warp, *from, mask, "a matrix descriptor")?;
                for lane in lanes_of(mask) {
                    let to = (warp.read(to.base)[lane] as u32).wrapping_add(to.offset as u32);
                    let fill = Fill { cta, warp: warp.index, pair: *pair, to, from: warp.read(*from)[lane], shape: *shape };
                    if fill.ctas().end > cluster.ctas.len() {
                        return Err(Fault::new("SIM082", "a copy of a pair without a second CTA").lanes(1 << lane));
                    }
                    let actor = self.actor(cta, warp);
                    fill.touch(&mut cluster.order, actor)?;
                    if self.options.delivery == Delivery::Late {
                        fill.reserve(cluster, true)?;
                    }
                    self.submit(cluster, Pending { actor, action: Action::Fill(fill) })?;
                }
            }
            Op::TensorCommit { address, multicast } => {
                let at = addresses(warp, mask, *address, Space::SharedCluster, 8)?;
                for lane in lanes_of(mask) {
                    let place = shared_place(cluster, cta, at[lane] as u32)?;
                    let barriers = match multicast {
                        None => vec![place],
                        Some(slot) => {
                            let ranks = warp.read(*slot)[lane] as u32 & 0xffff;
                            if ranks >> cluster.ctas.len() != 0 {
                                let message = format!("a commit to CTAs {ranks:#x} of a cluster of {}", cluster.ctas.len());
                                return Err(Fault::new("SIM071", message).lanes(1 << lane));
                            }
                            lanes_of(ranks).map(|rank| (rank, place.1)).collect()
                        }
                    };
                    let actor = self.actor(cta, warp);
                    cluster.order.tensor_fence(actor, true);
                    let number = cluster.order.tensor_commit(actor);
                    self.submit(cluster, Pending { actor, action: Action::Commit { barriers, number } })?;
                }
            }
            _ => return Err(Fault::unsupported("this instruction is decoded but not executed")),
        }
        Ok(Flow::Next)
    }

    fn tensor_allocate(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        address: Address,
        columns: Slot,
    ) -> Result<Flow> {
        if let Some(flow) = whole_warp(warp, mask)? {
            return Ok(flow);
        }
        let columns = uniform(warp, columns, "a size")?;
        let at = addresses(warp, mask, address, Space::SharedCta, 4)?;
        let state = &mut cluster.ctas[cta];
        let Some(start) = state.tmem.allocate(columns)? else {
            return Ok(Flow::Wait(Wait::Asynchronous { what: "free columns of tensor memory" }));
        };
        cluster.order.write(self.actor(cta, warp), cta, at[0] as u32, 4)?;
        cluster.order.tensor_allocated(cta, start..start + columns);
        state.shared.write(at[0] as u32, &start.to_le_bytes(), warp.index)?;
        Ok(Flow::Next)
    }

    fn tensor_access(&mut self, cluster: &mut Cluster, cta: usize, warp: &mut Warp, mask: u32, pc: u32, op: &Op) -> Result<Flow> {
        if let Some(flow) = whole_warp(warp, mask)? {
            return Ok(flow);
        }
        let (address, slots, load) = match op {
            Op::TensorLoad { address, dst, .. } => (*address, dst, true),
            Op::TensorStore { address, src, .. } => (*address, src, false),
            _ => unreachable!("the caller has a load or a store"),
        };
        let address = uniform(warp, address.base, "an address")?.wrapping_add(address.offset as u32);
        let first = (address >> 16) as usize;
        if first / 32 != warp.index % 4 {
            let message = format!(
                "warp {} of its group reaches lanes {} to {} of tensor memory, not lane {first}",
                warp.index % 4,
                warp.index % 4 * 32,
                warp.index % 4 * 32 + 31
            );
            return Err(Fault::new("SIM081", message));
        }
        let values = if load { Vec::new() } else { slots.iter().map(|&slot| *warp.read(slot)).collect() };
        let access = Access { pc, address, values };
        let tmem = &cluster.ctas[cta].tmem;
        for_each_cell(op, &access, |_, _, (lane, _), column| {
            let column = tmem.column(column)?;
            if tmem.product[column] > 0 {
                return Err(Fault::new(
                    "SIM034",
                    format!("column {column} of tensor memory belongs to a product that is under way"),
                ));
            }
            if load && tmem.is_storing(Some(lane), column) {
                return Err(Fault::new("SIM034", format!("column {column} of tensor memory is read before tcgen05.wait::st")));
            }
            Ok(())
        })?;
        let mut columns = BTreeSet::new();
        for_each_cell(op, &access, |_, _, _, column| {
            columns.insert(column);
            Ok(())
        })?;
        let (actor, touch) = (self.actor(cta, warp), if load { Touch::Load } else { Touch::Store });
        for column in columns {
            cluster.order.tensor_touch(actor, cta, first / 32..first / 32 + 1, column..column + 1, touch)?;
        }
        // A load is done at once in both modes: its registers have scoreboards, and NVIDIA's compiler relies on them.
        if load || self.options.delivery == Delivery::Early {
            return self.do_access(&mut cluster.ctas[cta], warp, &access).map(|()| Flow::Next);
        }
        let tmem = &mut cluster.ctas[cta].tmem;
        for_each_cell(op, &access, |_, _, (lane, _), column| {
            tmem.storing(lane, column, true);
            Ok(())
        })?;
        warp.tensor_stores.push(access);
        if warp.tensor_stores.len() > STORES {
            self.tensor_wait(cluster, cta, warp)?;
        }
        Ok(Flow::Next)
    }

    /// Makes the stores that a warp waits for.
    fn tensor_wait(&mut self, cluster: &mut Cluster, cta: usize, warp: &mut Warp) -> Result<()> {
        for access in std::mem::take(&mut warp.tensor_stores) {
            let op = &self.program.code[access.pc as usize].op;
            let state = &mut cluster.ctas[cta];
            for_each_cell(op, &access, |_, _, (lane, _), column| {
                state.tmem.storing(lane, column, false);
                Ok(())
            })?;
            self.do_access(state, warp, &access)?;
        }
        Ok(())
    }

    /// Moves the data of a load or store.
    fn do_access(&self, cta: &mut Cta, warp: &mut Warp, access: &Access) -> Result<()> {
        let op = &self.program.code[access.pc as usize].op;
        match op {
            Op::TensorLoad { dst, packed, .. } => {
                let mut out = vec![[0u64; WARP]; dst.len()];
                let mut undefined = vec![0; dst.len()];
                for_each_cell(op, access, |register, thread, (lane, half), column| {
                    let word = u64::from(cta.tmem.read(lane, column)?);
                    undefined[register] |= u32::from(!cta.tmem.is_defined(lane, column)) << thread;
                    out[register][thread] |= if *packed { (word & 0xffff) << (16 * half) } else { word };
                    Ok(())
                })?;
                for ((values, &slot), &undefined) in out.iter().zip(dst).zip(&undefined) {
                    warp.set(slot, ALL, values, undefined);
                }
            }
            Op::TensorStore { packed, .. } => for_each_cell(op, access, |register, thread, (lane, half), column| {
                let value = access.values[register][thread] as u32;
                let value = if *packed { value >> (16 * half) & 0xffff } else { value };
                cta.tmem.write(lane, column, value)
            })?,
            _ => unreachable!("a load or store was issued there"),
        }
        Ok(())
    }

    fn tensor_product(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        lane: usize,
        op: &TensorProduct,
    ) -> Result<()> {
        let value = |warp: &Warp, slot: Slot| -> Result<u64> {
            defined(warp, slot, 1 << lane, "an operand of a product")?;
            Ok(warp.read(slot)[lane])
        };
        let tensor =
            |warp: &Warp, address: Address| value(warp, address.base).map(|base| (base as u32).wrapping_add(address.offset as u32));
        let form = Form::decode(op.kind, value(warp, op.descriptor)? as u32)?;
        let product = Product {
            cta,
            warp: warp.index,
            pair: op.pair,
            block: op.block,
            d: tensor(warp, op.d)?,
            a: match (op.a_tensor, op.a_shared) {
                (Some(address), _) => Operand::Tensor(tensor(warp, address)?),
                (None, slot) => Operand::Shared(value(warp, slot)?),
            },
            b: value(warp, op.b)?,
            form,
            scales: match op.scales {
                Some((a, b)) => Some((tensor(warp, a)?, tensor(warp, b)?)),
                None => None,
            },
            disabled: op.disabled.iter().map(|&slot| value(warp, slot).map(|value| value as u32)).collect::<Result<_>>()?,
            accumulate: value(warp, op.accumulate)? != 0,
            shift: op.shift,
        };
        if op.pair && (cluster.ctas.len() < 2 || !cta.is_multiple_of(2)) {
            return Err(Fault::new("SIM082", "a product of a pair of CTAs is issued by the first of the two"));
        }
        let actor = self.actor(cta, warp);
        product.touch(&mut cluster.order, actor)?;
        if self.options.delivery == Delivery::Late {
            product.reserve(cluster, true)?;
        }
        self.submit(cluster, Pending { actor, action: Action::Product(Box::new(product)) })
    }

    pub(crate) fn do_product(&mut self, cluster: &mut Cluster, product: &Product, actor: Actor) -> Result<()> {
        if self.options.delivery == Delivery::Late {
            product.reserve(cluster, false)?;
        }
        let form = product.form;
        let ctas = product.ctas();
        let (rows, columns) = (form.m / ctas.len(), form.n / ctas.len());
        let mut b = vec![0.0; form.k * form.n];
        for (half, cta) in ctas.clone().enumerate() {
            let start = half * columns;
            let source = Source { cta: &cluster.ctas[cta], index: cta, order: &mut cluster.order, actor };
            product.read_shared(source, product.b, form.b, (columns, form.transpose_b), |column, k, value| {
                b[k * form.n + start + column] = value;
            })?;
            if let Some((_, scales)) = product.scales {
                let count = form.k as u32 / product.block;
                for column in 0..columns {
                    for k in 0..form.k {
                        let byte = form.scale_b + k as u32 / product.block;
                        let at = start + column;
                        b[k * form.n + at] *= product.scale(&cluster.ctas[product.cta], scales, at, byte, count)?;
                    }
                }
            }
        }
        for cta in ctas {
            product.rows_of(cluster, cta, actor, rows, &b)?;
        }
        Ok(())
    }

    pub(crate) fn do_fill(&mut self, cluster: &mut Cluster, fill: &Fill, actor: Actor) -> Result<()> {
        if self.options.delivery == Delivery::Late {
            fill.reserve(cluster, false)?;
        }
        let descriptor = Descriptor::tcgen05(fill.from)?;
        for cta in fill.ctas() {
            let state = &mut cluster.ctas[cta];
            let (rows, bytes) = fill.shape.size();
            for row in 0..rows {
                for offset in (0..bytes).step_by(16) {
                    let address = descriptor.chunk(Major::K, row as u32, offset);
                    cluster.order.read(actor, cta, address, 16)?;
                    let chunk = state.shared.read_async(address, 16, fill.warp, &state.fenced)?.to_vec();
                    for (index, word) in chunk.chunks_exact(4).enumerate() {
                        let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                        let column = (fill.to & 0xffff) + offset / 4 + index as u32;
                        for lane in fill.shape.lanes(row) {
                            state.tmem.write((fill.to >> 16) as usize + lane, column, value)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl Fill {
    fn ctas(&self) -> Range<usize> {
        self.cta..self.cta + if self.pair { 2 } else { 1 }
    }
    fn touch(&self, order: &mut Order, actor: Actor) -> Result<()> {
        let first = self.to & 0xffff;
        let columns = first..first + self.shape.size().1 / 4;
        self.ctas().try_for_each(|cta| order.tensor_touch(actor, cta, 0..4, columns.clone(), Touch::ProductWrite))
    }
    /// Notes the begin or the end of its reading of shared memory.
    fn reserve(&self, cluster: &mut Cluster, begin: bool) -> Result<()> {
        let descriptor = Descriptor::tcgen05(self.from)?;
        let (rows, bytes) = self.shape.size();
        for cta in &mut cluster.ctas[self.ctas()] {
            for row in 0..rows as u32 {
                for offset in (0..bytes).step_by(16) {
                    cta.shared.leaving(descriptor.chunk(Major::K, row, offset), 16, begin)?;
                }
            }
        }
        Ok(())
    }
}

impl CopyShape {
    /// Rows and bytes of a row.
    fn size(self) -> (usize, u32) {
        match self {
            CopyShape::S128x256 => (128, 32),
            CopyShape::S4x256 => (4, 32),
            CopyShape::S128x128 => (128, 16),
            CopyShape::S64x128Apart | CopyShape::S64x128Together => (64, 16),
            CopyShape::S32x128 => (32, 16),
        }
    }
    /// The lanes that get a row.
    fn lanes(self, row: usize) -> Vec<usize> {
        match self {
            CopyShape::S128x256 | CopyShape::S128x128 => vec![row],
            CopyShape::S4x256 => (0..4).map(|warp| 32 * warp + row).collect(),
            // Warps 0 and 2 have the first half, 1 and 3 the second; or 0 and 1, 2 and 3.
            CopyShape::S64x128Apart => vec![row, row + 64],
            CopyShape::S64x128Together => vec![row / 32 * 64 + row % 32, row / 32 * 64 + 32 + row % 32],
            CopyShape::S32x128 => (0..4).map(|warp| 32 * warp + row).collect(),
        }
    }
}

impl Product {
    fn ctas(&self) -> Range<usize> {
        self.cta..self.cta + if self.pair { 2 } else { 1 }
    }
    /// What it reads and writes in tensor memory, for the order of accesses.
    fn touch(&self, order: &mut Order, actor: Actor) -> Result<()> {
        let columns = |address: u32, count: usize| (address & 0xffff)..(address & 0xffff) + count as u32;
        let (d, a) = self.columns();
        for cta in self.ctas() {
            let mut touch = |columns, touch| order.tensor_touch(actor, cta, 0..4, columns, touch);
            touch(a.clone(), Touch::ProductRead)?;
            if let Some((scale_a, scale_b)) = self.scales {
                touch(columns(scale_a, (self.form.m / self.ctas().len()).div_ceil(32)), Touch::ProductRead)?;
                if cta == self.cta {
                    touch(columns(scale_b, self.form.n.div_ceil(32)), Touch::ProductRead)?;
                }
            }
            touch(d.clone(), Touch::ProductWrite)?;
        }
        Ok(())
    }
    /// The shared memory that it reads in each of its CTAs, in pieces of 16 bytes.
    fn chunks(&self) -> Result<Vec<u32>> {
        let count = self.ctas().len();
        let mut chunks = Vec::new();
        let mut add = |descriptor, elements: Elements, (mn, transposed): (usize, bool)| -> Result<()> {
            let descriptor = Descriptor::tcgen05(descriptor)?;
            let major = if transposed { Major::Mn } else { Major::K };
            let (rows, along) = if transposed { (self.form.k, mn) } else { (mn, self.form.k) };
            for row in 0..rows as u32 {
                chunks.extend((0..along.div_ceil(elements.per)).map(|at| descriptor.chunk(major, row, 16 * at as u32)));
            }
            Ok(())
        };
        if let Operand::Shared(a) = self.a {
            add(a, self.form.a, (self.form.m / count, self.form.transpose_a))?;
        }
        add(self.b, self.form.b, (self.form.n / count, self.form.transpose_b))?;
        Ok(chunks)
    }
    /// The columns that are written, and those that an operand in tensor memory takes.
    fn columns(&self) -> (Range<u32>, Range<u32>) {
        // A pair with 128 rows has half of the columns in the other half of the lanes.
        let folded = self.pair && self.form.m == 128;
        let d = (self.d & 0xffff, if folded { self.form.n / 2 } else { self.form.n } as u32);
        let a = match self.a {
            Operand::Tensor(address) => (address & 0xffff, self.form.k as u32 * self.form.a.width / 32),
            Operand::Shared(_) => (0, 0),
        };
        (d.0..d.0 + d.1, a.0..a.0 + a.1)
    }
    fn reserve(&self, cluster: &mut Cluster, begin: bool) -> Result<()> {
        let chunks = self.chunks()?;
        let (d, a) = self.columns();
        for cta in &mut cluster.ctas[self.ctas()] {
            for &chunk in &chunks {
                cta.shared.leaving(chunk, 16, begin)?;
            }
            for column in d.clone().chain(a.clone()) {
                let column = cta.tmem.column(column)?;
                if begin && cta.tmem.is_storing(None, column) {
                    return Err(Fault::new(
                        "SIM034",
                        format!("column {column} of tensor memory is used by a product before tcgen05.wait::st"),
                    ));
                }
                let count = &mut cta.tmem.product[column];
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
            cta.shared.read_async(address, 16, self.warp, &cta.fenced)
        };
        let k = self.form.k;
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
                unpack(elements, read(descriptor.chunk(major, row as u32, offset))?, |index, bits| {
                    put(row, start + index, value(bits))
                });
            }
        }
        Ok(())
    }

    /// The scale of a row of A or a column of B: 32 of them share a column, four lie in a word.
    fn scale(&self, cta: &Cta, address: u32, index: usize, byte: u32, count: u32) -> Result<f64> {
        let _ = count;
        let column = (address & 0xffff) + index as u32 / 32;
        let word = cta.tmem.read((address >> 16 & 0x7f) as usize + index % 32, column)?;
        Ok(self.form.scale.value(u64::from(word >> (8 * byte) & 0xff)))
    }

    /// The rows of one CTA.
    fn rows_of(&self, cluster: &mut Cluster, index: usize, actor: Actor, rows: usize, b: &[f64]) -> Result<()> {
        let form = self.form;
        let (n, k) = (form.n, form.k);
        let mut a = vec![0.0; rows * k];
        match self.a {
            Operand::Shared(descriptor) => {
                let source = Source { cta: &cluster.ctas[index], index, order: &mut cluster.order, actor };
                self.read_shared(source, descriptor, form.a, (rows, form.transpose_a), |row, at, value| a[row * k + at] = value)?;
            }
            Operand::Tensor(address) => {
                let cta = &cluster.ctas[index];
                let per = 32 / form.a.width;
                for row in 0..rows {
                    for at in 0..k {
                        let lane = self.lane(row, 0, address, rows).0;
                        let word = cta.tmem.read(lane, (address & 0xffff) + at as u32 / per)?;
                        let bits = u64::from(word) >> (at as u32 % per * form.a.width) & (u64::MAX >> (64 - form.a.width));
                        a[row * k + at] = form.a.kind.value(bits);
                    }
                }
            }
        }
        let cta = &mut cluster.ctas[index];
        if let Some((scales, _)) = self.scales {
            for row in 0..rows {
                for at in 0..k {
                    let byte = form.scale_a + at as u32 / self.block;
                    a[row * k + at] *= self.scale(cta, scales, row, byte, k as u32 / self.block)?;
                }
            }
        }
        if form.negate {
            a.iter_mut().for_each(|value| *value = -*value);
        }
        let mut sums = vec![0.0; rows * n];
        if self.accumulate {
            let factor = f64::powi(0.5, self.shift as i32);
            for row in 0..rows {
                for column in 0..n {
                    let (lane, at) = self.lane(row, column, self.d, rows);
                    if !cta.tmem.is_defined(lane, at) {
                        let message = format!("a product adds to column {at} of tensor memory, lane {lane}, that nothing has set");
                        return Err(Fault::new("SIM020", message));
                    }
                    sums[row * n + column] = form.d.value(cta.tmem.read(lane, at)?.into()) * factor;
                }
            }
        }
        multiply(&mut sums, &a, b, k, n);
        for row in 0..rows {
            for column in 0..n {
                let (lane, at) = self.lane(row, column, self.d, rows);
                if self.disabled.get(lane / 32).is_none_or(|mask| mask >> (lane % 32) & 1 == 0) {
                    cta.tmem.write(lane, at, form.d.round(sums[row * n + column]) as u32)?;
                }
            }
        }
        Ok(())
    }

    /// The lane and column of an element of the accumulator.
    fn lane(&self, row: usize, column: usize, address: u32, rows: usize) -> (usize, u32) {
        let (first, start) = ((address >> 16 & 0x7f) as usize, address & 0xffff);
        let n = self.form.n;
        match (rows, self.pair) {
            // Sixteen rows in each warp's lanes.
            (64, false) => (first + row / 16 * 32 + row % 16, start + column as u32),
            // Half of the columns are in the upper lanes.
            (64, true) => (first + row + column / (n / 2) * 64, start + (column % (n / 2)) as u32),
            _ => (first + row, start + column as u32),
        }
    }
}

/// Calls `f(register, thread, (lane, half), column)` for every cell of a load or store.
fn for_each_cell(op: &Op, access: &Access, mut f: impl FnMut(usize, usize, (usize, u32), u32) -> Result<()>) -> Result<()> {
    let (shape, count, packed, split): (Shape, usize, bool, u32) = match op {
        Op::TensorLoad { shape, dst, packed, split, .. } => (*shape, dst.len(), *packed, *split),
        Op::TensorStore { shape, src, packed, split, .. } => (*shape, src.len(), *packed, *split),
        _ => unreachable!("a load or store was issued there"),
    };
    let (first, start) = ((access.address >> 16 & 0x7f) as usize, access.address & 0xffff);
    for register in 0..count {
        for thread in 0..WARP {
            for half in 0..if packed { 2 } else { 1 } {
                let (lane, column) = shape.place(thread, register, if packed { 0 } else { split });
                // Packed registers hold two neighbouring columns.
                let column = match packed {
                    true => 2 * column + half + if shape == Shape::S16x32x2 && thread >= 16 { split } else { 0 },
                    false => column,
                };
                f(register, thread, (first + lane, half), start + column)?;
            }
        }
    }
    Ok(())
}

/// A value that has to be the same in the whole warp.
fn uniform(warp: &Warp, slot: Slot, what: &str) -> Result<u32> {
    defined(warp, slot, ALL, what)?;
    let values = warp.read(slot);
    match values.iter().all(|value| value == &values[0]) {
        true => Ok(values[0] as u32),
        false => Err(Fault::new("SIM052", format!("{what} differs among the lanes of a warp"))),
    }
}
