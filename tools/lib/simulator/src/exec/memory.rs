//! Loads, stores and atomic operations of threads.

use super::check_defined;
use crate::address_space::CLUSTER_SHIFT;
use crate::address_space::{LOCAL_BASE, PARAM_BASE, SHARED_BASE};
use crate::fault::{Fault, Result};
use crate::lanes::{Lanes, WARP_SIZE, lanes_of};
use crate::location::SharedLocation;
use crate::machine::{Cluster, Cta, Machine};
use crate::program::{Address, AtomOp, ElementConversion, RegSlot, Space};
use crate::warp::Warp;
use numerics::Scalar;
use numerics::arith::Rounding;
use numerics::float::{OverflowResult, add_to_odd, decode, encode};
use ptx::Type;

/// The state space and the address of an access, after decoding of generic and cluster addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryLocation {
    Global(u64),
    /// The CTA's rank in the cluster, and the address in its shared memory.
    Shared(usize, u32),
    Local(u32),
    Param(u32),
}

/// Returns the rank of the CTA whose shared memory contains an address.
pub(super) fn cta_rank_of_address(address: u64) -> u64 {
    u64::from(address as u32 >> CLUSTER_SHIFT)
}

/// Decodes a 32-bit shared address into the rank of its CTA and the address in the shared memory of this CTA.
pub(crate) fn shared_location(cluster: &Cluster, cta: usize, address: u32) -> Result<SharedLocation> {
    let offset = address & ((1 << CLUSTER_SHIFT) - 1);
    match (address >> CLUSTER_SHIFT) as usize {
        rank if rank != cta && cluster.ctas.get(rank).is_some_and(Cta::is_done) => {
            Err(Fault::new("SIM014", format!("shared address {address:#x} is in CTA {rank} of the cluster, which has ended")))
        }
        rank if rank < cluster.ctas.len() => Ok(SharedLocation { cta: rank, address: offset }),
        _ => Err(Fault::new("SIM010", format!("shared address {address:#x} is in no CTA of the cluster"))),
    }
}

/// Converts an address in a state space to a location. The upper 32 bits of a generic address select the space.
pub(crate) fn memory_location(cluster: &Cluster, cta: usize, space: Space, address: u64) -> Result<MemoryLocation> {
    Ok(match space {
        Space::Global => MemoryLocation::Global(address),
        Space::SharedCta | Space::SharedCluster => {
            let SharedLocation { cta, address: offset } = shared_location(cluster, cta, address as u32)?;
            MemoryLocation::Shared(cta, offset)
        }
        Space::Local => MemoryLocation::Local(address as u32),
        Space::Param => MemoryLocation::Param(address as u32),
        Space::Generic => match address >> 32 << 32 {
            SHARED_BASE => return memory_location(cluster, cta, Space::SharedCta, address & 0xffff_ffff),
            LOCAL_BASE => MemoryLocation::Local(address as u32),
            PARAM_BASE => MemoryLocation::Param(address as u32),
            _ => MemoryLocation::Global(address),
        },
    })
}

/// Returns the address of each lane, or a fault if an address is undefined or misaligned for an access of `bytes` bytes.
pub(crate) fn checked_lane_addresses(warp: &Warp, mask: u32, address: Address, space: Space, bytes: u32) -> Result<Lanes> {
    check_defined(warp, address.base, mask, "an address")?;
    let base = warp.read(address.base);
    let is_32_bit_space = !matches!(space, Space::Global | Space::Generic);
    let mut out: Lanes = [0; WARP_SIZE];
    let mut misaligned_lanes = 0;
    for lane in 0..WARP_SIZE {
        let lane_address = base[lane].wrapping_add_signed(address.offset);
        out[lane] = if is_32_bit_space { lane_address & 0xffff_ffff } else { lane_address };
        misaligned_lanes |= u32::from(out[lane] & u64::from(bytes - 1) != 0) << lane;
    }
    if misaligned_lanes & mask != 0 {
        let lane = (misaligned_lanes & mask).trailing_zeros() as usize;
        let message = format!("an access of {bytes} bytes at {:#x} is misaligned", out[lane]);
        return Err(Fault::new("SIM011", message).lanes(misaligned_lanes & mask));
    }
    Ok(out)
}

/// Returns the value of an element from its little-endian bytes.
fn little_endian(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => a.into(),
        [a, b] => u16::from_le_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => unreachable!("an element has 1, 2, 4 or 8 bytes"),
    }
}

/// Returns the register value of a loaded element: sign-extended for a load with a signed type, otherwise zero-extended.
fn extend_element(value: u64, element: ElementConversion) -> u64 {
    match element.sign_extended_bits {
        Some(width) => {
            let shift = 64 - 8 * element.bytes;
            (((value << shift) as i64) >> shift) as u64 & (u64::MAX >> (64 - width))
        }
        None => value,
    }
}

impl Machine<'_> {
    /// Executes a load, for each active lane.
    pub(super) fn execute_load(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        space: Space,
        element: ElementConversion,
        dst: &[RegSlot],
        address: Address,
    ) -> Result<()> {
        let total = element.bytes * dst.len() as u32;
        let lane_addresses = checked_lane_addresses(warp, mask, address, space, total)?;
        self.count_access(space, cta, &lane_addresses, mask, total);
        let actor = self.actor(cta, warp);
        let mut undefined = 0;
        for lane in lanes_of(mask) {
            let location = memory_location(cluster, cta, space, lane_addresses[lane]).map_err(|fault| fault.lanes(1 << lane))?;
            let local_bytes = self.program.local_bytes;
            let bytes: &[u8] = match location {
                MemoryLocation::Global(address) => {
                    self.global.read(address, total as usize).map_err(|fault| fault.lanes(1 << lane))?
                }
                MemoryLocation::Shared(cta, offset) => {
                    cluster.happens_before.check_read(actor, cta, offset, total).map_err(|fault| fault.lanes(1 << lane))?;
                    let shared = &cluster.ctas[cta].shared;
                    let bytes = shared.read(offset, total).map_err(|fault| fault.lanes(1 << lane))?;
                    undefined |= u32::from(shared.is_undefined(offset, total)) << lane;
                    bytes
                }
                MemoryLocation::Local(offset) => {
                    let start = local_start(local_bytes, lane, offset, total)?;
                    warp.local_memory.resize(local_bytes as usize * WARP_SIZE, 0);
                    &warp.local_memory[start..start + total as usize]
                }
                MemoryLocation::Param(offset) => {
                    let end = offset as usize + total as usize;
                    self.params.get(offset as usize..end).ok_or_else(|| {
                        Fault::new("SIM010", format!("parameter bytes {offset} to {end} do not exist")).lanes(1 << lane)
                    })?
                }
            };
            for (index, &slot) in dst.iter().enumerate() {
                let element_bytes = &bytes[index * element.bytes as usize..][..element.bytes as usize];
                warp.regs[slot as usize][lane] = extend_element(little_endian(element_bytes), element);
            }
        }
        for &slot in dst {
            warp.set_undefined(slot, mask, undefined);
        }
        Ok(())
    }

    /// Counts an access for the statistics and records it in the trace. For generic addresses, the address of the first lane
    /// determines the space.
    fn count_access(&mut self, space: Space, cta: usize, lane_addresses: &Lanes, mask: u32, bytes: u32) {
        let first_address = lane_addresses[mask.trailing_zeros() as usize];
        let (global, shared) = match (space, first_address >> 32 << 32) {
            (Space::Global, _) => (true, false),
            (Space::SharedCta | Space::SharedCluster, _) | (Space::Generic, SHARED_BASE) => (false, true),
            (Space::Generic, LOCAL_BASE | PARAM_BASE) | (Space::Local | Space::Param, _) => (false, false),
            (Space::Generic, _) => (true, false),
        };
        if global {
            self.record_global_access(lane_addresses, mask, bytes);
        } else if shared {
            let remote = cta_rank_of_address(first_address) != cta as u64;
            self.record_shared_access(lane_addresses, mask, bytes, remote);
        }
        match self.traffic() {
            Some(traffic) if global => traffic.count_global_access(lane_addresses, mask, bytes),
            Some(traffic) if shared => traffic.count_shared_access(lane_addresses, mask, bytes),
            _ => {}
        }
    }

    /// Executes `multimem.red`: one atomic operation for each of the contiguous elements. The address must be aligned for all
    /// elements together.
    #[expect(clippy::too_many_arguments, reason = "the state of the machine, and one argument per operand of the instruction")]
    pub(super) fn multimem_reduce(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        space: Space,
        address: Address,
        op: AtomOp,
        ty: Type,
        src: &[RegSlot],
        old_value_dst: RegSlot,
    ) -> Result<()> {
        checked_lane_addresses(warp, mask, address, space, ty.bytes() * src.len() as u32)?;
        for (i, &slot) in src.iter().enumerate() {
            let offset = address.offset.wrapping_add((i as u32 * ty.bytes()).into());
            let address = Address { offset, ..address };
            self.execute_atomic(cluster, cta, warp, mask, space, op, ty, old_value_dst, [slot, slot], address)?;
        }
        Ok(())
    }

    /// Executes a store, for each active lane.
    pub(super) fn execute_store(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        space: Space,
        bytes: u32,
        src: &[RegSlot],
        address: Address,
    ) -> Result<()> {
        let total = bytes * src.len() as u32;
        let lane_addresses = checked_lane_addresses(warp, mask, address, space, total)?;
        self.count_access(space, cta, &lane_addresses, mask, total);
        let actor = self.actor(cta, warp);
        let mut buffer = [0; 64];
        for lane in lanes_of(mask) {
            for (index, &slot) in src.iter().enumerate() {
                let value = warp.regs[slot as usize][lane].to_le_bytes();
                buffer[index * bytes as usize..][..bytes as usize].copy_from_slice(&value[..bytes as usize]);
            }
            let data = &buffer[..total as usize];
            let with_lane = |fault: Box<Fault>| fault.lanes(1 << lane);
            match memory_location(cluster, cta, space, lane_addresses[lane]).map_err(with_lane)? {
                MemoryLocation::Global(address) => {
                    self.global.write(address, data).map_err(with_lane)?;
                }
                MemoryLocation::Shared(cta, offset) => {
                    let before = cluster.ctas[cta].shared.peek(offset, total).map_err(with_lane)?;
                    cluster.happens_before.check_overwrite(actor, cta, offset, before, data).map_err(with_lane)?;
                    cluster.happens_before.check_write(actor, cta, offset, total).map_err(with_lane)?;
                    cluster.ctas[cta].shared.write(offset, data, warp.index).map_err(with_lane)?;
                }
                MemoryLocation::Local(offset) => {
                    let local_bytes = self.program.local_bytes;
                    let start = local_start(local_bytes, lane, offset, total)?;
                    warp.local_memory.resize(local_bytes as usize * WARP_SIZE, 0);
                    warp.local_memory[start..start + total as usize].copy_from_slice(data);
                }
                MemoryLocation::Param(_) => return Err(with_lane(Fault::new("SIM012", "a parameter is written"))),
            }
        }
        Ok(())
    }

    /// Executes an atomic op or a reduction, lane after lane.
    pub(super) fn execute_atomic(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        mask: u32,
        space: Space,
        op: AtomOp,
        ty: Type,
        dst: RegSlot,
        src: [RegSlot; 2],
        address: Address,
    ) -> Result<()> {
        let bytes = ty.bytes();
        let lane_addresses = checked_lane_addresses(warp, mask, address, space, bytes)?;
        self.count_access(space, cta, &lane_addresses, mask, bytes);
        let actor = self.actor(cta, warp);
        cluster.happens_before.synchronise_by_atomic(actor);
        let [a, b] = src.map(|slot| *warp.read(slot));
        let mut out: Lanes = [0; WARP_SIZE];
        for lane in lanes_of(mask) {
            let with_lane = |fault: Box<Fault>| fault.lanes(1 << lane);
            let memory = match memory_location(cluster, cta, space, lane_addresses[lane]).map_err(with_lane)? {
                MemoryLocation::Global(address) => self.global.bytes_mut(address, bytes as usize).map_err(with_lane)?,
                MemoryLocation::Shared(cta, offset) => {
                    cluster.happens_before.record_atomic(cta, offset);
                    cluster.ctas[cta].shared.bytes_for_atomic(offset, bytes, warp.index).map_err(with_lane)?
                }
                _ => return Err(with_lane(Fault::new("SIM012", "an atomic operation on local memory"))),
            };
            let old = little_endian(memory);
            let new = combine_atomic(op, ty, old, a[lane], b[lane]);
            memory.copy_from_slice(&new.to_le_bytes()[..bytes as usize]);
            out[lane] = old;
        }
        warp.write_result(dst, mask, &out, 0);
        Ok(())
    }
}

/// Returns the index of a lane's local address in the local memory of the warp, or a fault if the access is out of bounds.
fn local_start(local_bytes: u32, lane: usize, offset: u32, total: u32) -> Result<usize> {
    if offset.checked_add(total).is_none_or(|end| end > local_bytes) {
        let message =
            format!("an access of {total} bytes at local address {offset:#x} is out of bounds: a thread has {local_bytes}");
        return Err(Fault::new("SIM010", message).lanes(1 << lane));
    }
    Ok(lane * local_bytes as usize + offset as usize)
}

/// Returns the new value that an atomic operation stores.
pub(crate) fn combine_atomic(op: AtomOp, ty: Type, old: u64, a: u64, b: u64) -> u64 {
    let mask = u64::MAX >> (64 - ty.bits());
    let a = a & mask;
    if op == AtomOp::Exchange {
        return a;
    }
    if op == AtomOp::CompareSwap {
        return if old == a { b & mask } else { old };
    }
    match ty {
        Type::F32 | Type::F64 | Type::F16 | Type::Bf16 => float_combine(op, float_type(ty), old, a),
        Type::F16x2 | Type::Bf16x2 => {
            let combine_half = |shift: u32| float_combine(op, float_type(ty), old >> shift & 0xffff, a >> shift & 0xffff) << shift;
            combine_half(0) | combine_half(16)
        }
        _ => integer_combine(op, ty, old, a) & mask,
    }
}

/// Returns the element type of a float atomic.
fn float_type(ty: Type) -> Scalar {
    match ty {
        Type::F64 => Scalar::F64,
        Type::F16 | Type::F16x2 => Scalar::F16,
        Type::Bf16 | Type::Bf16x2 => Scalar::BF16,
        _ => Scalar::F32,
    }
}

/// Returns the result of a float atomic from the old value and the operand.
fn float_combine(op: AtomOp, ty: Scalar, old: u64, a: u64) -> u64 {
    let (x, y) = (decode(ty, old), decode(ty, a));
    match op {
        AtomOp::Min if y.is_nan() || x <= y => old,
        AtomOp::Max if y.is_nan() || x >= y => old,
        AtomOp::Min | AtomOp::Max => a,
        _ if ty == Scalar::F64 => (x + y).to_bits(),
        _ => encode(ty, add_to_odd(x, y), Rounding::NearestEven, OverflowResult::Ieee),
    }
}

/// Returns the result of an integer atomic from the old value and the operand.
fn integer_combine(op: AtomOp, ty: Type, old: u64, a: u64) -> u64 {
    let shift = 64 - ty.bits();
    let signed = |x: u64| ((x << shift) as i64) >> shift;
    let less = if ty.is_signed() { signed(a) < signed(old) } else { a < old };
    match op {
        AtomOp::Add => old.wrapping_add(a),
        AtomOp::Min => {
            if less {
                a
            } else {
                old
            }
        }
        AtomOp::Max => {
            if less {
                old
            } else {
                a
            }
        }
        AtomOp::And => old & a,
        AtomOp::Or => old | a,
        AtomOp::Xor => old ^ a,
        AtomOp::Increment => {
            if old >= a {
                0
            } else {
                old + 1
            }
        }
        AtomOp::Decrement => {
            if old == 0 || old > a {
                a
            } else {
                old - 1
            }
        }
        AtomOp::Exchange | AtomOp::CompareSwap => a,
    }
}
