//! Agents and pipes: the tables, where the bodies stand, and which op may be in whose body.

use super::{BARRIERS, require};
use crate::Op;
use crate::module::{Agent, AgentInfo, Drain, Fill, Function, FunctionAttrs, Phase, PipeInfo};
use base::ir::Op as OpId;
use base::{Loc, Target, Value};
use numerics::Scalar;
use std::collections::BTreeSet;
use tileas::verify::Part;
use tileas::{MmaAtom, Type};
use vocabulary::core_ops::{Core, Effect};
use vocabulary::rules::Rule;
use vocabulary::tile::Elem;

/// Warps that are given registers, and make products, together.
const GROUP: u32 = 4;
/// Arrivals that a barrier can count.
const MOST_ARRIVALS: u32 = (1 << 20) - 1;
/// Bytes likewise.
const MOST_BYTES: u64 = (1 << 20) - 1;

/// The regions that agents run, with their warps.
pub(super) fn parts(function: &Function) -> Vec<Part> {
    let part = |op: &Op| match op {
        Op::Agent { agent, body } => Some((*body, function.attrs.agents.get(*agent).map_or(0, |info| info.warps))),
        _ => None,
    };
    function.body.ops.values().filter_map(|op| part(&op.kind)).collect()
}

/// Of each op the agent in whose body it is.
pub(super) fn who_runs(function: &Function) -> Vec<Option<Agent>> {
    let mut runs = vec![None; function.body.ops.len()];
    for op in function.body.ops.values() {
        if let Op::Agent { agent, body } = &op.kind {
            function.body.walk(*body).into_iter().for_each(|op| runs[op.0 as usize] = Some(*agent));
        }
    }
    runs
}

pub(super) fn tables(function: &Function, phase: Phase, target: Target) -> Rule {
    let FunctionAttrs { agents, pipes, program, .. } = &function.attrs;
    let there = phase == Phase::Materialize || agents.is_empty() && pipes.is_empty();
    require(there, || format!("there are no agents and no pipes in phase {}", phase.name()))?;
    require((agents.len() as u32) < BARRIERS, || format!("each agent has a barrier, and there are {BARRIERS} with the block's"))?;
    let mut taken = vec![false; program.warps as usize];
    for (agent, info) in agents.iter() {
        require(info.warps > 0, || format!("{agent} has no warps"))?;
        let end = info.first_warp.checked_add(info.warps).filter(|end| *end <= program.warps);
        let end = end.ok_or_else(|| format!("{agent} has warps that the block of {} does not have", program.warps))?;
        for warp in &mut taken[info.first_warp as usize..end as usize] {
            require(!std::mem::replace(warp, true), || format!("{agent} has warps of another agent"))?;
        }
        let names = agents.values().filter(|other| other.name == info.name).count();
        require(names == 1 && !info.name.is_empty(), || format!("{agent} has no name of its own"))?;
    }
    registers(&function.attrs, target)
}

/// Registers are moved by whole groups of four warps, and no more than the block was started with.
fn registers(attrs: &FunctionAttrs, target: Target) -> Rule {
    let given = |warp: u32| attrs.agents.values().find(|info| covers(info, warp)).and_then(|info| info.registers);
    let warps = attrs.program.warps;
    if (0..warps).all(|warp| given(warp).is_none()) {
        return Ok(());
    }
    require(tileas::budget::moves_registers(target), || format!("the registers of {target} cannot be moved between warps"))?;
    let mut sum = 0;
    let launched = attrs.launch_registers(target);
    for first in (0..warps).step_by(GROUP as usize) {
        let group: Vec<Option<u32>> = (first..warps.min(first + GROUP)).map(given).collect();
        let alike = group.len() == GROUP as usize && group.iter().all(|other| *other == group[0]);
        require(alike || group.iter().all(Option::is_none), || {
            format!("warps {first} to {} are not given as many registers as each other", first + GROUP - 1)
        })?;
        let own = group[0].unwrap_or(launched);
        require(group[0].is_none() || own.is_multiple_of(8) && (24..=256).contains(&own), || {
            format!("a thread cannot be given {own} registers, but multiples of 8 from 24 to 256")
        })?;
        sum += own * group.len() as u32;
    }
    let all = launched * warps;
    require(sum <= all, || format!("a block is started with {launched} registers a thread, of which its agents take more"))
}

fn covers(info: &AgentInfo, warp: u32) -> bool {
    (info.first_warp..info.first_warp + info.warps).contains(&warp)
}

/// Every pipe has buffers, slots and barriers of its own; one that threads fill may have no buffers, and only tell.
pub(super) fn pipes(function: &Function, target: Target) -> Rule {
    let attrs = &function.attrs;
    let mut taken: Vec<(u64, u64)> = Vec::new();
    if !attrs.pipes.is_empty() {
        let places = attrs.placements.iter().filter_map(|(buffer, place)| {
            let bytes = u64::from(attrs.program.buffers[buffer].bytes()) * u64::from(place.depth);
            (bytes > 0).then(|| (u64::from(place.offset), u64::from(place.offset) + bytes))
        });
        taken.extend(places);
    }
    crate::block_pairs::refused(function).map_err(|why| format!("the blocks are no pair: {why}"))?;
    let mut piped = BTreeSet::new();
    for (pipe, info) in attrs.pipes.iter() {
        let PipeInfo { buffers, depth, producer, consumers, full, empty, barriers, fill, drain, multicast } = info;
        let may_tell = *fill == Fill::Threads && *drain != Drain::Products;
        require((may_tell || !buffers.is_empty()) && *depth > 0, || format!("{pipe} has no slots"))?;
        let bytes = buffers.iter().filter_map(|buffer| attrs.program.buffers.get(*buffer)).map(|info| u64::from(info.bytes()));
        let counted = *fill != Fill::Boxes || bytes.sum::<u64>() <= MOST_BYTES;
        require(counted, || format!("{pipe}: a barrier counts up to {MOST_BYTES} bytes"))?;
        let of_pair = *fill == Fill::Products || *fill == Fill::Boxes && *drain == Drain::Products && multicast.is_none();
        require(!attrs.is_of_pair(info) || of_pair, || format!("{pipe}: a pair of blocks multiplies what boxes bring to each"))?;
        require(multicast.as_ref().is_none_or(|all| !all.is_empty()), || {
            format!("{pipe}: blocks fill none of its buffers together")
        })?;
        for buffer in multicast.iter().flatten() {
            let own = require(buffers.contains(buffer), || format!("{pipe}: {buffer} is none of its buffers"));
            let can = own.and_then(|()| crate::multicast::refused(function, info, *buffer, target).map_err(Into::into));
            can.map_err(|why| format!("{pipe}: blocks do not fill {buffer} together: {why}"))?;
        }
        for buffer in buffers {
            let place = attrs.placements.get(*buffer).ok_or_else(|| format!("{pipe}: {buffer} is not in the table"))?;
            require(place.depth == *depth, || format!("{pipe} has {depth} slots, and {buffer} has {}", place.depth))?;
            require(piped.insert(*buffer), || format!("{buffer} is in two pipes"))?;
        }
        let known = |agent: &Agent| attrs.agent_threads(*agent).is_some();
        require(known(producer) && consumers.iter().all(known), || format!("{pipe}: an agent is not in the table"))?;
        let distinct = consumers.iter().collect::<BTreeSet<_>>().len() == consumers.len() && !consumers.is_empty();
        require(distinct, || format!("{pipe} has no consumer, or one twice"))?;
        let counted = [full, empty].iter().all(|count| (1..=MOST_ARRIVALS).contains(*count));
        require(counted, || format!("{pipe}: a barrier counts 1 to {MOST_ARRIVALS} arrivals"))?;
        let (start, end) = (u64::from(*barriers), u64::from(*barriers) + u64::from(PipeInfo::BARRIER) * 2 * u64::from(*depth));
        let inside = end <= u64::from(attrs.shared_bytes) && barriers.is_multiple_of(PipeInfo::BARRIER);
        require(inside, || format!("{pipe}: its barriers do not fit the function's {} bytes", attrs.shared_bytes))?;
        let apart = taken.iter().all(|(from, to)| end <= *from || *to <= start);
        require(apart, || format!("{pipe}: its barriers lie where something else does"))?;
        taken.push((start, end));
    }
    Ok(())
}

/// The bodies stand at the end of the function, one for each agent, in the order of the table; what is before them computes scalars
/// and views for all, and what is in them ends at their end.
pub(super) fn bodies(function: &Function) -> std::result::Result<(), (Loc, String)> {
    let (body, agents) = (&function.body, &function.attrs.agents);
    let top = &body.blocks[function.entry()].ops;
    let is_body = |op: &OpId| matches!(body.ops[*op].kind, Op::Agent { .. });
    let all = body.ops.iter().filter(|(id, _)| is_body(id)).count();
    if all == 0 && agents.is_empty() {
        return Ok(());
    }
    let at = |op: OpId, message: &str| (body.ops[op].loc, message.to_string());
    let first = top.len().saturating_sub(agents.len() + 1);
    let in_place = top[first..top.len() - 1]
        .iter()
        .enumerate()
        .all(|(i, op)| matches!(body.ops[*op].kind, Op::Agent { agent, .. } if agent == Agent(i as u32)));
    if all != agents.len() || !in_place {
        return Err((function.loc, "the function does not end in a body for each agent of its table, in order".into()));
    }
    for op in &top[..first] {
        if !body.ops[*op].kind.is_pure() {
            return Err(at(*op, "before the bodies of agents there is only what all of them compute"));
        }
    }
    for op in &top[first..top.len() - 1] {
        let Op::Agent { body: region, .. } = body.ops[*op].kind else { unreachable!("it is a body") };
        let block = body.block_of(region);
        if !body.blocks[block].args.is_empty() || !body.ops[*op].results.is_empty() {
            return Err(at(*op, "the body of an agent takes and gives no values"));
        }
        let last = body.terminator(block);
        for inner in body.walk(region) {
            let kind = &body.ops[inner].kind;
            let leaves = matches!(kind.core(), Some(Core::Return {}));
            if leaves != (Some(inner) == last) {
                return Err(at(inner, "the body of an agent returns at its end, and nowhere else"));
            }
            if kind.effects().other == Effect::Allocates {
                return Err(at(inner, "an agent cannot take memory"));
            }
        }
    }
    Ok(())
}

/// Products of warp groups, and accesses to tensor memory, are made by whole groups.
pub(super) fn program_op(attrs: &FunctionAttrs, op: &tileas::Op, agent: Option<Agent>) -> Rule {
    let Some(agent) = agent else { return Ok(()) };
    let whole = attrs.agents[agent].first_warp.is_multiple_of(GROUP);
    // Four warps together also reach all lanes of tensor memory.
    let together = matches!(
        op,
        tileas::Op::Mma { atom: MmaAtom::Group(_), .. }
            | tileas::Op::TensorLoad { .. }
            | tileas::Op::TensorStore { .. }
            | tileas::Op::TensorScale { .. }
    );
    require(whole || !together, || format!("the warps of {agent} are no whole warp groups"))
}

/// A step of a pipe: by an agent that has that side of it, naming a slot where there are several.
pub(super) fn pipe_op(function: &Function, op: &Op, agent: Option<Agent>) -> Rule {
    let number = |value: &Value| *function.body.ty(*value) == Type::Scalar(Elem::Scalar(Scalar::I32));
    let (pipe, slot, phase, produces) = match op {
        Op::PipeAcquire { pipe, slot, phase } => (pipe, slot, Some(phase), true),
        Op::PipeCommit { pipe, slot } => (pipe, slot, None, true),
        Op::PipeWait { pipe, slot, phase } => (pipe, slot, Some(phase), false),
        Op::PipeRelease { pipe, slot } => (pipe, slot, None, false),
        _ => unreachable!("only steps of pipes come here"),
    };
    let info = function.attrs.pipes.get(*pipe).ok_or_else(|| format!("{pipe} is not in the table"))?;
    require(slot.is_some() == (info.depth > 1), || format!("{pipe} has {}", slots(info)))?;
    require(slot.iter().chain(phase).all(number), || "slot and phase are 32-bit integers".into())?;
    let agent = match function.attrs.agents.is_empty() {
        true => Agent(0),
        false => agent.ok_or("it is in no agent's body")?,
    };
    let fits = if produces { info.producer == agent } else { info.consumers.contains(&agent) };
    require(fits, || format!("{agent} is no {} of {pipe}", if produces { "producer" } else { "consumer" }))
}

fn slots(info: &PipeInfo) -> String {
    match info.depth {
        1 => "one slot, which has no number".into(),
        depth => format!("{depth} slots, and the op does not say which it means"),
    }
}
