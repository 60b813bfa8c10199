//! Loops over tile blocks that a block takes over (launch control). A thread of one warp_role requests for the next block while this one is
//! worked on, and all warp_roles read the response at the end of a iteration: which block it is, or that none is left.
//!
//! Answers are in turn in two stages (`sched::clc_responses`), each with a barrier that says the response is there and one that says all have read
//! it, so that warp_roles may be a iteration apart. The blocks of a cluster take the same tile blocks: the first one requests for all, each has the response
//! in its own memory, and all tell the first one when they have read it.

use super::Emitter;
use super::control::{ControlFrame, FrameKind};
use super::warp_roles_ptx::Side;
use base::diag::Result;
use base::ir::Op as OpId;
use base::{Region, Value};
use core_dialect::persistent_loops::is_clc_loop;
use inkwell::IntPredicate;
use inkwell::values::IntValue;
use sched::clc_responses::{CLC_RESPONSE_BYTES, STAGES};
use sched::{Op, PipelineInfo, WarpRole, clc_responses};

/// The tile block that is worked on, in iterations of which this is the counter.
#[derive(Clone, Copy)]
pub(super) struct ClcLoop<'c> {
    iteration: Value,
    index: [IntValue<'c>; 3],
}

/// An warp_role that reads clc_responses.
struct Reader {
    warp_role: WarpRole,
    /// Warps, of each of which one thread says that it has read one.
    warps: u32,
    /// Whether it is one thread.
    is_alone: bool,
    /// The blocks of a cluster in which there is such an warp_role.
    blocks: u32,
}

/// From the barrier of a stage that says its response is there to the one that says it was read.
const TO_EMPTY: u32 = STAGES * PipelineInfo::BARRIER;

impl<'c> Emitter<'c, '_> {
    pub(super) fn clc_block_id(&mut self, iteration: Value, axis: u32, result: Value) {
        let taken =
            self.taken.filter(|taken| taken.iteration == iteration).expect("the verifier holds that this is in a iteration");
        self.set(result, vec![taken.index[axis as usize].into()]);
    }

    pub(super) fn clc_loop(&mut self, init: &[Value], body: Region, results: &[Value]) -> Result<()> {
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
        let taken = ClcLoop { iteration: args[0], index: index.map(|phi| phi.as_basic_value().into_int_value()) };
        let outside = self.taken.replace(taken);
        let iteration = start.counter();
        self.request(iteration);
        self.frames.push(ControlFrame { kind: FrameKind::For { next: next.clone() }, join: join.clone() });
        self.block(inner)?;
        self.close();
        self.taken = outside;
        ir.builder.position_at_end(next.block);
        let (is_clc, there) = self.response(iteration);
        let (carried, after) = (next.values(ir), ir.here());
        start.arrive(ir, &[vec![vec![ir.add(iteration, ir.const32(1)).into()]], carried.clone()].concat());
        index.iter().zip(there).for_each(|(phi, there)| phi.add_incoming(&[(&there, after)]));
        join.arrive(ir, &carried);
        ir.branch(is_clc, start.block, join.block);
        ir.builder.position_at_end(join.block);
        self.bind(results, &join);
        Ok(())
    }

    /// The barriers of all clc_responses, before any thread uses them.
    pub(super) fn start_clc_responses(&self) {
        let Some(memory) = clc_responses::memory(self.function) else { return };
        // Without a loop nobody waits for them.
        let readers = self.readers().iter().map(|reader| reader.warps * reader.blocks).sum::<u32>().max(1);
        self.guarded(Some(self.first_thread()), &[], |e| {
            for stage in 0..STAGES {
                for (side, count) in [(Side::Full, 1), (Side::Empty, readers)] {
                    let at = memory + barrier(stage, side);
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

    /// Agents with such a loop; without warp_roles the block is one.
    fn readers(&self) -> Vec<Reader> {
        let (attrs, body) = (&self.function.attrs, &self.function.body);
        let blocks = self.clc_ctas();
        let repeats = |region: Region| {
            body.blocks[body.block_of(region)].ops.iter().any(|op| is_clc_loop(body, body.ops[*op].kind.core(), Op::core))
        };
        let of_warp_role = |op: &OpId| match &body.ops[*op].kind {
            Op::WarpRole { role: warp_role, body: region } if repeats(*region) => {
                let is_alone = self.is_of_first_thread(*region);
                let blocks = if is_alone && self.is_of_leader(*region) { 1 } else { blocks };
                Some(Reader {
                    warp_role: *warp_role,
                    warps: if is_alone { 1 } else { attrs.warp_roles[*warp_role].warps },
                    is_alone,
                    blocks,
                })
            }
            _ => None,
        };
        match attrs.warp_roles.is_empty() {
            true => vec![Reader { warp_role: WarpRole(0), warps: attrs.program.warps, is_alone: false, blocks }],
            false => body.blocks[self.function.entry()].ops.iter().filter_map(of_warp_role).collect(),
        }
    }

    /// The blocks that take over others together.
    pub(super) fn clc_ctas(&self) -> u32 {
        self.function.attrs.program.cluster.unwrap_or(1)
    }

    /// Whether the warp_role that is being written requests: the first one that is one thread of each block, which is ahead of the others; else
    /// the first one.
    fn requests(&self) -> bool {
        let all = self.readers();
        let ahead = all.iter().find(|reader| reader.is_alone && reader.blocks == self.clc_ctas());
        ahead.or(all.first()).is_some_and(|reader| reader.warp_role == self.warp_role.unwrap_or(WarpRole(0)))
    }

    /// One thread requests for the next tile block, as soon as all have read the response before the last one.
    fn request(&self, iteration: IntValue<'c>) {
        let Some(memory) = clc_responses::memory(self.function).filter(|_| self.requests()) else { return };
        let alone = (!self.thread.is_const()).then(|| self.first_thread());
        self.guarded(alone, &[], |e| {
            let ir = e.ir;
            let (response, barriers) = e.places(memory, e.stage(iteration));
            let of_all = e.clc_ctas() > 1;
            // Each block's barrier has to know what comes, the first one's before it requests.
            let first = of_all.then(|| ir.icmp(IntPredicate::EQ, e.rank(), ir.const32(0)));
            e.guarded(first, &[], |e| {
                let free = ir.xor(e.phase(iteration), ir.const32(1));
                e.wait_at(barriers, TO_EMPTY, free, if of_all { ".acquire.cluster" } else { "" });
                Vec::new()
            });
            let expects = "{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [$0], 16; }";
            ir.asm(None, expects, "r", &[barriers.into()], true);
            e.guarded(first, &[], |_| {
                let to = if of_all { ".multicast::cluster::all" } else { "" };
                let requests =
                    format!("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{to}.b128 [$0], [$1];");
                ir.asm(None, &requests, "r,r", &[response.into(), barriers.into()], true);
                Vec::new()
            });
            Vec::new()
        });
    }

    /// Waits for the response: whether there is another tile block, and which.
    fn response(&self, iteration: IntValue<'c>) -> (IntValue<'c>, [IntValue<'c>; 3]) {
        let ir = self.ir;
        let memory = clc_responses::memory(self.function).expect("the function has a loop over tile blocks that are taken");
        let (response, barriers) = self.places(memory, self.stage(iteration));
        self.wait_at(barriers, 0, self.phase(iteration), "");
        let word = ir.context.i32_type().into();
        let results = [ir.context.bool_type().into(), word, word, word];
        let text = "{ .reg .b128 response; .reg .b64 low, high; ld.shared.v2.b64 {low, high}, [$4]; mov.b128 response, {low, high}; \
             clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 $0, response; mov.b32 $1, 0; mov.b32 $2, 0; mov.b32 $3, 0; \
             @$0 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {$1, $2, $3, _}, response; \
             fence.proxy.async.shared::cta; }";
        let read = ir.asm_many(&results, text, "=&b,=&r,=&r,=&r,r", &[response.into()], true);
        let [is_clc, x, y, z] = [0, 1, 2, 3].map(|at| read[at].into_int_value());
        self.signal_read(barriers);
        // Blocks of a cluster follow each other along the first axis, and tile blocks are counted by cluster.
        let x = ir.shr(x, ir.const32(self.clc_ctas().ilog2()), false);
        (is_clc, [x, y, z])
    }

    /// Who requests overwrites an response when all have read it.
    fn signal_read(&self, barriers: IntValue<'c>) {
        let ir = self.ir;
        let (before, arrive) = match self.clc_ctas() {
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

    /// The stage of a iteration, and how often before it has been used, as the parity of a barrier's phase.
    fn stage(&self, iteration: IntValue<'c>) -> IntValue<'c> {
        self.ir.and(iteration, self.ir.const32(STAGES - 1))
    }
    fn phase(&self, iteration: IntValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        ir.and(ir.shr(iteration, ir.const32(STAGES.ilog2()), false), ir.const32(1))
    }

    /// The addresses of a stage's response, and of the barrier that says it is there.
    fn places(&self, memory: u32, stage: IntValue<'c>) -> (IntValue<'c>, IntValue<'c>) {
        let (ir, base) = (self.ir, self.shared_address());
        let at = |first: u32, each: u32| ir.add(ir.add(base, ir.const32(memory + first)), ir.mul(stage, ir.const32(each)));
        (at(0, CLC_RESPONSE_BYTES), at(barrier(0, Side::Full), PipelineInfo::BARRIER))
    }
}

/// Where a barrier of a stage lies behind the start of all clc_responses.
fn barrier(stage: u32, side: Side) -> u32 {
    let first = if side == Side::Full { 0 } else { TO_EMPTY };
    STAGES * CLC_RESPONSE_BYTES + first + stage * PipelineInfo::BARRIER
}

// Slots are told apart by the lowest bits of a iteration.
const _: () = assert!(STAGES.is_power_of_two());
