//! Work-stealing loops with cluster launch control (CLC).
//! One thread of one warp role requests the next tile block while the CTA processes the current one. At the end of an iteration all
//! warp roles read the response: the next tile block, or none left.
//!
//! Responses alternate between two stages (`sched::clc_responses`). Each stage has a full barrier (response present) and an empty
//! barrier (all readers done), so warp roles may be one iteration apart.
//! The CTAs of a cluster process the same tile blocks: the first CTA requests for all, each CTA receives the response in its own
//! shared memory, and all arrive at the first CTA's empty barrier.
//! See also: CUTLASS `PersistentTileSchedulerSm100`.

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

/// The current tile block, and the loop counter whose iteration it belongs to.
#[derive(Clone, Copy)]
pub(super) struct ClcLoop<'c> {
    iteration: Value,
    index: [IntValue<'c>; 3],
}

/// A warp role that reads CLC responses.
struct Reader {
    warp_role: WarpRole,
    /// Warps of the role; one thread of each arrives at the empty barrier.
    warps: u32,
    /// Whether a single thread executes the role.
    is_alone: bool,
    /// The number of CTAs of the cluster that execute the role.
    blocks: u32,
}

/// Offset from the full barrier of a stage to its empty barrier.
const TO_EMPTY: u32 = STAGES * PipelineInfo::BARRIER;

impl<'c> Emitter<'c, '_> {
    pub(super) fn clc_block_id(&mut self, iteration: Value, axis: u32, result: Value) {
        let taken =
            self.taken.filter(|taken| taken.iteration == iteration).expect("the verifier checks that this is in an iteration");
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
        let index = own.map(|_| ir.builder.build_phi(ir.context.i32_type(), "").expect("the builder is at the start of a block"));
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

    /// Initialises the barriers of the CLC responses before their first use.
    pub(super) fn start_clc_responses(&self) {
        let Some(memory) = clc_responses::memory(self.function) else { return };
        // Without a CLC loop no thread waits for the barriers.
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

    /// The warp roles with a CLC loop; without warp roles, the CTA counts as one.
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

    /// The CTAs that steal work together.
    pub(super) fn clc_ctas(&self) -> u32 {
        self.function.attrs.program.cluster.unwrap_or(1)
    }

    /// Whether the current warp role issues the requests. This is the first single-thread role that every CTA executes, since it
    /// runs ahead; otherwise the first role.
    fn requests(&self) -> bool {
        let all = self.readers();
        let ahead = all.iter().find(|reader| reader.is_alone && reader.blocks == self.clc_ctas());
        ahead.or(all.first()).is_some_and(|reader| reader.warp_role == self.warp_role.unwrap_or(WarpRole(0)))
    }

    /// One thread requests the next tile block once all readers have read the response of this stage.
    fn request(&self, iteration: IntValue<'c>) {
        let Some(memory) = clc_responses::memory(self.function).filter(|_| self.requests()) else { return };
        let alone = (!self.thread.is_const()).then(|| self.first_thread());
        self.guarded(alone, &[], |e| {
            let ir = e.ir;
            let (response, barriers) = e.places(memory, e.stage(iteration));
            let of_all = e.clc_ctas() > 1;
            // Each CTA's barrier must expect the bytes before they arrive; the first CTA does this before it issues the request.
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

    /// Waits for the response: whether there is another tile block, and its index.
    fn response(&self, iteration: IntValue<'c>) -> (IntValue<'c>, [IntValue<'c>; 3]) {
        let ir = self.ir;
        let memory = clc_responses::memory(self.function).expect("the function has a CLC loop over tile blocks");
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
        // The CTAs of a cluster are consecutive along x, and tile blocks are numbered by cluster.
        let x = ir.shr(x, ir.const32(self.clc_ctas().ilog2()), false);
        (is_clc, [x, y, z])
    }

    /// Arrives at the empty barrier: the requesting thread may overwrite a response after all readers have arrived.
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

    /// The stage of an iteration; `phase` is the parity of its earlier uses.
    fn stage(&self, iteration: IntValue<'c>) -> IntValue<'c> {
        self.ir.and(iteration, self.ir.const32(STAGES - 1))
    }
    fn phase(&self, iteration: IntValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        ir.and(ir.shr(iteration, ir.const32(STAGES.ilog2()), false), ir.const32(1))
    }

    /// The addresses of a stage's response and of its full barrier.
    fn places(&self, memory: u32, stage: IntValue<'c>) -> (IntValue<'c>, IntValue<'c>) {
        let (ir, base) = (self.ir, self.shared_address());
        let at = |first: u32, each: u32| ir.add(ir.add(base, ir.const32(memory + first)), ir.mul(stage, ir.const32(each)));
        (at(0, CLC_RESPONSE_BYTES), at(barrier(0, Side::Full), PipelineInfo::BARRIER))
    }
}

/// The offset of a stage's barrier from the start of the CLC responses.
fn barrier(stage: u32, side: Side) -> u32 {
    let first = if side == Side::Full { 0 } else { TO_EMPTY };
    STAGES * CLC_RESPONSE_BYTES + first + stage * PipelineInfo::BARRIER
}

// The lowest bits of the iteration select the stage.
const _: () = assert!(STAGES.is_power_of_two());
