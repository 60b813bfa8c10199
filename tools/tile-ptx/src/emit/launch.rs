//! Loops over tile blocks that a block takes over (launch control). A thread of one agent asks for the next block while this one is
//! worked on, and all agents read the answer at the end of a round: which block it is, or that none is left.
//!
//! Answers are in turn in two slots (`sched::answers`), each with a barrier that says the answer is there and one that says all have read
//! it, so that agents may be a round apart. The blocks of a cluster take the same tile blocks: the first one asks for all, each has the answer
//! in its own memory, and all tell the first one when they have read it.

use super::Emitter;
use super::agents::Side;
use super::control::{Frame, FrameKind};
use base::diag::Result;
use base::ir::Op as OpId;
use base::{Region, Value};
use inkwell::IntPredicate;
use inkwell::values::IntValue;
use sched::answers::{ANSWER, SLOTS};
use sched::{Agent, Op, PipeInfo, answers};
use vocabulary::loops::takes_blocks;

/// The tile block that is worked on, in rounds of which this is the counter.
#[derive(Clone, Copy)]
pub(super) struct Taken<'c> {
    round: Value,
    index: [IntValue<'c>; 3],
}

/// An agent that reads answers.
struct Reader {
    agent: Agent,
    /// Warps, of each of which one thread says that it has read one.
    warps: u32,
    /// Whether it is one thread.
    is_alone: bool,
    /// The blocks of a cluster in which there is such an agent.
    blocks: u32,
}

/// From the barrier of a slot that says its answer is there to the one that says it was read.
const TO_EMPTY: u32 = SLOTS * PipeInfo::BARRIER;

impl<'c> Emitter<'c, '_> {
    pub(super) fn taken_block(&mut self, round: Value, axis: u32, result: Value) {
        let taken = self.taken.filter(|taken| taken.round == round).expect("the verifier holds that this is in a round");
        self.set(result, vec![taken.index[axis as usize].into()]);
    }

    pub(super) fn taken_loop(&mut self, init: &[Value], body: Region, results: &[Value]) -> Result<()> {
        let ir = self.ir;
        let inner = self.function.body.block_of(body);
        let args = self.function.body.blocks[inner].args.clone();
        let (start, join) = (self.target(&args, "body"), self.target(results, "join"));
        let next = self.target(&args[1..], "next");
        let own = [0, 1, 2].map(|axis| self.grid_register(axis, true));
        start.arrive(ir, &[vec![vec![ir.const32(0).into()]], self.registers(init)].concat());
        let before = ir.here();
        ir.go(start.block);
        ir.builder.position_at_end(start.block);
        let index = own.map(|_| ir.builder.build_phi(ir.context.i32_type(), "").expect("the block has only begun"));
        index.iter().zip(own).for_each(|(phi, own)| phi.add_incoming(&[(&own, before)]));
        self.bind(&args, &start);
        let taken = Taken { round: args[0], index: index.map(|phi| phi.as_basic_value().into_int_value()) };
        let outside = self.taken.replace(taken);
        let round = start.counter();
        self.ask(round);
        self.frames.push(Frame { kind: FrameKind::For { next: next.clone() }, join: join.clone() });
        self.block(inner)?;
        self.close();
        self.taken = outside;
        ir.builder.position_at_end(next.block);
        let (is_taken, there) = self.answer(round);
        let (carried, after) = (next.values(ir), ir.here());
        start.arrive(ir, &[vec![vec![ir.add(round, ir.const32(1)).into()]], carried.clone()].concat());
        index.iter().zip(there).for_each(|(phi, there)| phi.add_incoming(&[(&there, after)]));
        join.arrive(ir, &carried);
        ir.branch(is_taken, start.block, join.block);
        ir.builder.position_at_end(join.block);
        self.bind(results, &join);
        Ok(())
    }

    /// The barriers of all answers, before any thread uses them.
    pub(super) fn start_answers(&self) {
        let Some(memory) = answers::memory(self.function) else { return };
        // Without a loop nobody waits for them.
        let readers = self.readers().iter().map(|reader| reader.warps * reader.blocks).sum::<u32>().max(1);
        self.guarded(Some(self.first_thread()), &[], |e| {
            for slot in 0..SLOTS {
                for (side, count) in [(Side::Full, 1), (Side::Empty, readers)] {
                    let at = memory + barrier(slot, side);
                    e.ir.asm(
                        None,
                        &format!("mbarrier.init.shared.b64 [$0+{at}], {count};"),
                        "r",
                        &[e.shared_address().into()],
                        true,
                    );
                }
            }
            Vec::new()
        });
    }

    /// Agents with such a loop; without agents the block is one.
    fn readers(&self) -> Vec<Reader> {
        let (attrs, body) = (&self.function.attrs, &self.function.body);
        let blocks = self.blocks_that_take();
        let repeats = |region: Region| {
            body.blocks[body.block_of(region)].ops.iter().any(|op| takes_blocks(body, body.ops[*op].kind.core(), Op::core))
        };
        let of_agent = |op: &OpId| match &body.ops[*op].kind {
            Op::Agent { agent, body: region } if repeats(*region) => {
                let is_alone = self.is_of_first_thread(*region);
                let blocks = if is_alone && self.is_of_leader(*region) { 1 } else { blocks };
                Some(Reader { agent: *agent, warps: if is_alone { 1 } else { attrs.agents[*agent].warps }, is_alone, blocks })
            }
            _ => None,
        };
        match attrs.agents.is_empty() {
            true => vec![Reader { agent: Agent(0), warps: attrs.program.warps, is_alone: false, blocks }],
            false => body.blocks[self.function.entry()].ops.iter().filter_map(of_agent).collect(),
        }
    }

    /// The blocks that take over others together.
    pub(super) fn blocks_that_take(&self) -> u32 {
        self.function.attrs.program.cluster.unwrap_or(1)
    }

    /// Whether the agent that is being written asks: the first one that is one thread of each block, which is ahead of the others; else
    /// the first one.
    fn asks(&self) -> bool {
        let all = self.readers();
        let ahead = all.iter().find(|reader| reader.is_alone && reader.blocks == self.blocks_that_take());
        ahead.or(all.first()).is_some_and(|reader| reader.agent == self.agent.unwrap_or(Agent(0)))
    }

    /// One thread asks for the next tile block, as soon as all have read the answer before the last one.
    fn ask(&self, round: IntValue<'c>) {
        let Some(memory) = answers::memory(self.function).filter(|_| self.asks()) else { return };
        let alone = (!self.thread.is_const()).then(|| self.first_thread());
        self.guarded(alone, &[], |e| {
            let ir = e.ir;
            let (answer, barriers) = e.places(memory, e.slot(round));
            let of_all = e.blocks_that_take() > 1;
            // Each block's barrier has to know what comes, the first one's before it asks.
            let first = of_all.then(|| ir.icmp(IntPredicate::EQ, e.rank(), ir.const32(0)));
            e.guarded(first, &[], |e| {
                let free = ir.xor(e.phase(round), ir.const32(1));
                e.wait_at(barriers, TO_EMPTY, free, if of_all { ".acquire.cluster" } else { "" });
                Vec::new()
            });
            let expects = "{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [$0], 16; }";
            ir.asm(None, expects, "r", &[barriers.into()], true);
            e.guarded(first, &[], |_| {
                let to = if of_all { ".multicast::cluster::all" } else { "" };
                let asks =
                    format!("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{to}.b128 [$0], [$1];");
                ir.asm(None, &asks, "r,r", &[answer.into(), barriers.into()], true);
                Vec::new()
            });
            Vec::new()
        });
    }

    /// Waits for the answer: whether there is another tile block, and which.
    fn answer(&self, round: IntValue<'c>) -> (IntValue<'c>, [IntValue<'c>; 3]) {
        let ir = self.ir;
        let memory = answers::memory(self.function).expect("the function has a loop over tile blocks that are taken");
        let (answer, barriers) = self.places(memory, self.slot(round));
        self.wait_at(barriers, 0, self.phase(round), "");
        let word = ir.context.i32_type().into();
        let results = [ir.context.bool_type().into(), word, word, word];
        let text = "{ .reg .b128 answer; .reg .b64 low, high; ld.shared.v2.b64 {low, high}, [$4]; mov.b128 answer, {low, high}; \
             clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 $0, answer; mov.b32 $1, 0; mov.b32 $2, 0; mov.b32 $3, 0; \
             @$0 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {$1, $2, $3, _}, answer; \
             fence.proxy.async.shared::cta; }";
        let read = ir.asm_many(&results, text, "=&b,=&r,=&r,=&r,r", &[answer.into()], true);
        let [is_taken, x, y, z] = [0, 1, 2, 3].map(|at| read[at].into_int_value());
        self.tell_read(barriers);
        // Blocks of a cluster follow each other along the first axis, and tile blocks are counted by cluster.
        let x = ir.shr(x, ir.const32(self.blocks_that_take().ilog2()), false);
        (is_taken, [x, y, z])
    }

    /// Who asks overwrites an answer when all have read it.
    fn tell_read(&self, barriers: IntValue<'c>) {
        let ir = self.ir;
        let (before, arrive) = match self.blocks_that_take() {
            1 => (".reg .b64 state;".into(), format!("mbarrier.arrive.shared.b64 state, [$0+{TO_EMPTY}];")),
            _ => (
                format!(".reg .b32 there; add.u32 there, $0, {TO_EMPTY}; mapa.shared::cluster.u32 there, there, 0;"),
                "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];".into(),
            ),
        };
        match self.thread.is_const() {
            true => _ = ir.asm(None, &format!("{{ {before} {arrive} }}"), "r", &[barriers.into()], true),
            false => self.by_first_lane(&before, &arrive, barriers),
        }
    }

    /// The slot of a round, and how often before it has been used, as the parity of a barrier's phase.
    fn slot(&self, round: IntValue<'c>) -> IntValue<'c> {
        self.ir.and(round, self.ir.const32(SLOTS - 1))
    }
    fn phase(&self, round: IntValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        ir.and(ir.shr(round, ir.const32(SLOTS.ilog2()), false), ir.const32(1))
    }

    /// The addresses of a slot's answer, and of the barrier that says it is there.
    fn places(&self, memory: u32, slot: IntValue<'c>) -> (IntValue<'c>, IntValue<'c>) {
        let (ir, base) = (self.ir, self.shared_address());
        let at = |first: u32, each: u32| ir.add(ir.add(base, ir.const32(memory + first)), ir.mul(slot, ir.const32(each)));
        (at(0, ANSWER), at(barrier(0, Side::Full), PipeInfo::BARRIER))
    }
}

/// Where a barrier of a slot lies behind the start of all answers.
fn barrier(slot: u32, side: Side) -> u32 {
    let first = if side == Side::Full { 0 } else { TO_EMPTY };
    SLOTS * ANSWER + first + slot * PipeInfo::BARRIER
}

// Slots are told apart by the lowest bits of a round.
const _: () = assert!(SLOTS.is_power_of_two());
