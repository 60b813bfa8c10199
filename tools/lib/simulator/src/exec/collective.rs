//! Warp collectives: shuffles, votes, matches, reductions, elections.

use super::{check_defined, memory, wait_for_missing_lanes};
use crate::fault::{Fault, Result};
use crate::lanes::{Lanes, WARP_SIZE, lanes_of, mask_of};
use crate::program::{AtomOp, Op, RegSlot, ShuffleMode, VoteMode};
use crate::warp::Flow;
use crate::warp::Warp;
use numerics::Scalar;
use numerics::float;
use ptx::Type;

/// Returns the mask of the lanes that take part in a collective, or the flow that waits for missing lanes.
fn collective_members(warp: &Warp, mask: u32, members: RegSlot) -> Result<Result<u32, Flow>> {
    check_defined(warp, members, mask, "a member mask")?;
    let lane = mask.trailing_zeros() as usize;
    let members = warp.read(members)[lane] as u32;
    if mask & !members != 0 {
        return Err(Fault::new("SIM052", format!("lanes execute a collective whose member mask {members:#x} excludes them"))
            .lanes(mask & !members));
    }
    if let Some(flow) = wait_for_missing_lanes(warp, mask, members) {
        return Ok(Err(flow));
    }
    Ok(Ok(members & mask))
}

/// Executes an instruction that exchanges data between the lanes of a warp.
pub(super) fn execute_collective(warp: &mut Warp, mask: u32, op: &Op) -> Result<Flow> {
    let members = match op {
        Op::Shuffle { members, .. }
        | Op::Vote { members, .. }
        | Op::Match { members, .. }
        | Op::Reduce { members, .. }
        | Op::Elect { members, .. }
        | Op::WarpSync { members } => match collective_members(warp, mask, *members)? {
            Ok(members) => members,
            Err(flow) => return Ok(flow),
        },
        _ => mask,
    };
    match op {
        Op::Shuffle { mode, dst, predicate, src, lane, clamp, .. } => {
            execute_shuffle(warp, members, *mode, *dst, *predicate, *src, *lane, *clamp)?;
        }
        Op::Vote { mode, dst, src, .. } => execute_vote(warp, members, *mode, *dst, *src)?,
        Op::Match { all, bits, dst, predicate, src, .. } => execute_match(warp, members, *all, *bits, *dst, *predicate, *src),
        Op::Reduce { op, ty, abs, nan, dst, src, .. } => execute_reduce(warp, members, *op, *ty, *abs, *nan, *dst, *src),
        Op::Elect { dst, predicate, .. } => {
            let leader = members.trailing_zeros() as usize;
            warp.write_result(*dst, members, &[leader as u64; WARP_SIZE], 0);
            let elected: Lanes = std::array::from_fn(|lane| u64::from(lane == leader));
            warp.write_result(*predicate, members, &elected, 0);
        }
        Op::ActiveMask { dst } => warp.write_result(*dst, mask, &[mask.into(); WARP_SIZE], 0),
        Op::WarpSync { .. } => {}
        _ => return Err(Fault::unsupported("this instruction is decoded but not implemented")),
    }
    Ok(Flow::Next)
}

/// Executes `shfl.sync`.
fn execute_shuffle(
    warp: &mut Warp,
    mask: u32,
    mode: ShuffleMode,
    dst: RegSlot,
    predicate: Option<RegSlot>,
    src: RegSlot,
    lane_operand: RegSlot,
    clamp: RegSlot,
) -> Result<()> {
    check_defined(warp, lane_operand, mask, "a shuffle's lane")?;
    let (values, undefined) = (*warp.read(src), warp.undefined[src as usize]);
    let (lane_operand, clamp) = (*warp.read(lane_operand), *warp.read(clamp));
    let mut out: Lanes = [0; WARP_SIZE];
    let mut valid: Lanes = [0; WARP_SIZE];
    let mut undefined_lanes = 0;
    let mut inactive = 0;
    for lane in lanes_of(mask) {
        let amount = (lane_operand[lane] & 31) as usize;
        let bound = (clamp[lane] & 31) as usize;
        let segment = (clamp[lane] >> 8 & 31) as usize;
        let max_lane = (lane & segment) | (bound & !segment);
        let min_lane = lane & segment;
        let (from, in_segment) = match mode {
            ShuffleMode::Up => (lane.wrapping_sub(amount), lane as i64 - amount as i64 >= max_lane as i64),
            ShuffleMode::Down => (lane + amount, lane + amount <= max_lane),
            ShuffleMode::Butterfly => (lane ^ amount, lane ^ amount <= max_lane),
            ShuffleMode::Index => {
                let from = min_lane | (amount & !segment);
                (from, from <= max_lane)
            }
        };
        let from = if in_segment { from } else { lane };
        out[lane] = values[from];
        valid[lane] = in_segment.into();
        undefined_lanes |= (undefined >> from & 1) << lane;
        if mask >> from & 1 == 0 {
            inactive |= 1 << lane;
        }
    }
    warp.write_result(dst, mask, &out, undefined_lanes | inactive);
    if let Some(predicate) = predicate {
        warp.write_result(predicate, mask, &valid, 0);
    }
    Ok(())
}

/// Executes `vote.sync`.
fn execute_vote(warp: &mut Warp, mask: u32, mode: VoteMode, dst: RegSlot, src: RegSlot) -> Result<()> {
    check_defined(warp, src, mask, "a vote")?;
    let yes = mask_of(warp.read(src)) & mask;
    let value = match mode {
        VoteMode::All => u64::from(yes == mask),
        VoteMode::Any => u64::from(yes != 0),
        VoteMode::Uniform => u64::from(yes == 0 || yes == mask),
        VoteMode::Ballot => yes.into(),
    };
    warp.write_result(dst, mask, &[value; WARP_SIZE], 0);
    Ok(())
}

/// Executes `match.sync`: returns to each lane the mask of the lanes with an equal value. With `all`, the mask is 0 unless all
/// values are equal.
fn execute_match(warp: &mut Warp, mask: u32, all: bool, bits: u32, dst: RegSlot, predicate: Option<RegSlot>, src: RegSlot) {
    let values = *warp.read(src);
    let value_mask = u64::MAX >> (64 - bits);
    let matching_lanes = |lane: usize| {
        lanes_of(mask).filter(|&other| (values[other] ^ values[lane]) & value_mask == 0).fold(0u32, |m, l| m | 1 << l)
    };
    let mut out: Lanes = [0; WARP_SIZE];
    for lane in lanes_of(mask) {
        let matches = matching_lanes(lane);
        out[lane] = if !all {
            matches.into()
        } else if matches == mask {
            mask.into()
        } else {
            0
        };
    }
    let undefined = warp.undefined[src as usize];
    warp.write_result(dst, mask, &out, undefined);
    if let Some(predicate) = predicate {
        warp.write_result(predicate, mask, &out.map(|value| (value != 0).into()), undefined);
    }
}

/// Executes `redux.sync`: reduces the values of all active lanes.
fn execute_reduce(warp: &mut Warp, mask: u32, op: AtomOp, ty: Type, abs: bool, nan: bool, dst: RegSlot, src: RegSlot) {
    let values = *warp.read(src);
    let value = |lane: usize| if abs { values[lane] & 0x7fff_ffff } else { values[lane] };
    let mut lanes = lanes_of(mask);
    let first = lanes.next().map_or(0, value);
    let result = lanes.map(value).fold(first, |total, value| match ty {
        Type::F32 => min_or_max(op == AtomOp::Max, nan, total, value),
        _ => memory::combine_atomic(op, ty, total, value, 0),
    });
    let undefined = if warp.undefined[src as usize] & mask != 0 { mask } else { 0 };
    warp.write_result(dst, mask, &[result; WARP_SIZE], undefined);
}

/// Returns the smaller or the larger of two f32 numbers. If only one of them is a NaN, returns the number, or a NaN with
/// `propagates_nan`.
fn min_or_max(is_max: bool, propagates_nan: bool, a: u64, b: u64) -> u64 {
    let (x, y) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
    match (x.is_nan(), y.is_nan()) {
        (true, true) => float::nan(Scalar::F32),
        (true, _) | (_, true) if propagates_nan => float::nan(Scalar::F32),
        (true, _) => b,
        (_, true) => a,
        _ if x == y => {
            if x.is_sign_negative() == is_max {
                b
            } else {
                a
            }
        }
        _ => {
            if (x > y) == is_max {
                a
            } else {
                b
            }
        }
    }
}
