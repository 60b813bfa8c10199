//! Work-stealing loops with cluster launch control (CLC).
//! One thread of one warp role requests the next tile block while the CTA processes the current one. At the end of an iteration
//! all warp roles read the response: the next tile block, or that none is left.
//!
//! Responses alternate between two stages (`sched::clc_responses`). Each stage has a full barrier (the response has arrived) and
//! an empty barrier (all readers have read it), so warp roles may be one iteration apart.
//! The CTAs of a cluster process the same tile blocks. The first CTA issues the requests for all of them. Each CTA receives the
//! response in its own shared memory, and all CTAs arrive at the first CTA's empty barrier.
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

/// The current tile block of a CLC loop. `iteration` is the loop's counter.
#[derive(Clone, Copy)]
pub(super) struct ClcTileBlock<'c> {
    iteration: Value,
    index: [IntValue<'c>; 3],
}

/// A warp role that reads CLC responses.
struct Reader {
    warp_role: WarpRole,
    /// Number of warps of the role. One thread of each warp arrives at the empty barrier.
    warps: u32,
    /// Whether a single thread executes the role.
    is_single_thread: bool,
    /// The number of CTAs of the cluster that execute the role.
    ctas: u32,
}

/// Offset from the full barrier of a stage to its empty barrier.
const TO_EMPTY: u32 = STAGES * PipelineInfo::BARRIER;

impl<'c> Emitter<'c, '_> {
    pub(super) fn clc_block_id(&mut self, iteration: Value, axis: u32, result: Value) {
        let tile_block = self
            .clc_tile_block
            .filter(|tile_block| tile_block.iteration == iteration)
            .expect("the verifier checks that this is in an iteration");
        self.set(result, vec![tile_block.index[axis as usize].into()]);
    }

    pub(super) fn clc_loop(&mut self, init: &[Value], body: Region, results: &[Value]) -> Result<()> {
        let ir = self.ir;
        let inner = self.function.body.block_of(body);
        let args = self.function.body.blocks[inner].args.clone();
        let (start, join) = (self.block_with_phis(&args, "body"), self.block_with_phis(results, "join"));
        let next = self.block_with_phis(&args[1..], "next");
        let cta_index = [0, 1, 2].map(|axis| self.grid_register(axis, true));
        start.add_incoming(ir, &[vec![vec![ir.const32(0).into()]], self.registers(init)].concat());
        let before = ir.current_block();
        ir.jump(start.block);
        ir.builder.position_at_end(start.block);
        let index =
            cta_index.map(|_| ir.builder.build_phi(ir.context.i32_type(), "").expect("the builder is at the start of a block"));
        index.iter().zip(cta_index).for_each(|(phi, cta_index)| phi.add_incoming(&[(&cta_index, before)]));
        self.bind(&args, &start);
        let taken = ClcTileBlock { iteration: args[0], index: index.map(|phi| phi.as_basic_value().into_int_value()) };
        let outside = self.clc_tile_block.replace(taken);
        let iteration = start.counter();
        self.request(iteration);
        self.frames.push(ControlFrame { kind: FrameKind::For { next: next.clone() }, join: join.clone() });
        self.block(inner)?;
        self.close();
        self.clc_tile_block = outside;
        ir.builder.position_at_end(next.block);
        let (has_next, next_index) = self.response(iteration);
        let (carried, after) = (next.values(ir), ir.current_block());
        start.add_incoming(ir, &[vec![vec![ir.add(iteration, ir.const32(1)).into()]], carried.clone()].concat());
        index.iter().zip(next_index).for_each(|(phi, next_index)| phi.add_incoming(&[(&next_index, after)]));
        join.add_incoming(ir, &carried);
        ir.branch(has_next, start.block, join.block);
        ir.builder.position_at_end(join.block);
        self.bind(results, &join);
        Ok(())
    }

    /// Initialises the barriers of the CLC responses. It runs before their first use.
    pub(super) fn start_clc_responses(&self) {
        let Some(memory) = clc_responses::memory(self.function) else { return };
        // Without a CLC loop no thread waits for the barriers, so their count may be 1.
        let readers = self.readers().iter().map(|reader| reader.warps * reader.ctas).sum::<u32>().max(1);
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

    /// The warp roles with a CLC loop. Without warp roles, the CTA counts as one role.
    fn readers(&self) -> Vec<Reader> {
        let (attrs, body) = (&self.function.attrs, &self.function.body);
        let ctas = self.clc_ctas();
        let has_clc_loop = |region: Region| {
            body.blocks[body.block_of(region)].ops.iter().any(|op| is_clc_loop(body, body.ops[*op].kind.core(), Op::core))
        };
        let of_warp_role = |op: &OpId| match &body.ops[*op].kind {
            Op::WarpRole { role: warp_role, body: region } if has_clc_loop(*region) => {
                let is_single_thread = self.is_of_first_thread(*region);
                let ctas = if is_single_thread && self.runs_in_leading_cta(*region) { 1 } else { ctas };
                Some(Reader {
                    warp_role: *warp_role,
                    warps: if is_single_thread { 1 } else { attrs.warp_roles[*warp_role].warps },
                    is_single_thread,
                    ctas,
                })
            }
            _ => None,
        };
        match attrs.warp_roles.is_empty() {
            true => vec![Reader { warp_role: WarpRole(0), warps: attrs.program.warps, is_single_thread: false, ctas }],
            false => body.blocks[self.function.entry()].ops.iter().filter_map(of_warp_role).collect(),
        }
    }

    /// The number of CTAs that steal work together: those of a cluster.
    pub(super) fn clc_ctas(&self) -> u32 {
        self.function.attrs.program.cluster.unwrap_or(1)
    }

    /// Whether the current warp role issues the requests. The first single-thread role that every CTA executes does, because it
    /// runs ahead of the other roles. If there is none, the first role does.
    fn issues_requests(&self) -> bool {
        let all = self.readers();
        let ahead = all.iter().find(|reader| reader.is_single_thread && reader.ctas == self.clc_ctas());
        ahead.or(all.first()).is_some_and(|reader| reader.warp_role == self.warp_role.unwrap_or(WarpRole(0)))
    }

    /// Emits the request for the next tile block, by one thread, after all readers have read the previous response of this stage.
    fn request(&self, iteration: IntValue<'c>) {
        let Some(memory) = clc_responses::memory(self.function).filter(|_| self.issues_requests()) else { return };
        let only_first_thread = (!self.thread.is_const()).then(|| self.first_thread());
        self.guarded(only_first_thread, &[], |e| {
            let ir = e.ir;
            let (response, barriers) = e.addresses(memory, e.stage(iteration));
            let in_cluster = e.clc_ctas() > 1;
            // Each CTA's barrier must expect the bytes before they arrive; the first CTA does this before it issues the request.
            let is_first_cta = in_cluster.then(|| ir.icmp(IntPredicate::EQ, e.cluster_rank(), ir.const32(0)));
            e.guarded(is_first_cta, &[], |e| {
                let free = ir.xor(e.phase(iteration), ir.const32(1));
                e.wait_at(barriers, TO_EMPTY, free, if in_cluster { ".acquire.cluster" } else { "" });
                Vec::new()
            });
            let expects = "{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [$0], 16; }";
            ir.asm(None, expects, "r", &[barriers.into()], true);
            e.guarded(is_first_cta, &[], |_| {
                let to = if in_cluster { ".multicast::cluster::all" } else { "" };
                let request =
                    format!("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{to}.b128 [$0], [$1];");
                ir.asm(None, &request, "r,r", &[response.into(), barriers.into()], true);
                Vec::new()
            });
            Vec::new()
        });
    }

    /// Waits for the response. Returns whether there is another tile block, and its index.
    fn response(&self, iteration: IntValue<'c>) -> (IntValue<'c>, [IntValue<'c>; 3]) {
        let ir = self.ir;
        let memory = clc_responses::memory(self.function).expect("the function has a CLC loop over tile blocks");
        let (response, barriers) = self.addresses(memory, self.stage(iteration));
        self.wait_at(barriers, 0, self.phase(iteration), "");
        let word = ir.context.i32_type().into();
        let results = [ir.context.bool_type().into(), word, word, word];
        let text = "{ .reg .b128 response; .reg .b64 low, high; ld.shared.v2.b64 {low, high}, [$4]; mov.b128 response, {low, high}; \
             clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 $0, response; mov.b32 $1, 0; mov.b32 $2, 0; mov.b32 $3, 0; \
             @$0 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {$1, $2, $3, _}, response; \
             fence.proxy.async.shared::cta; }";
        let read = ir.asm_many(&results, text, "=&b,=&r,=&r,=&r,r", &[response.into()], true);
        let [has_next, x, y, z] = [0, 1, 2, 3].map(|at| read[at].into_int_value());
        self.signal_read(barriers);
        // The CTAs of a cluster are consecutive along x, and tile blocks are numbered by cluster.
        let x = ir.shr(x, ir.const32(self.clc_ctas().ilog2()), false);
        (has_next, [x, y, z])
    }

    /// Arrives at the empty barrier. The requesting thread may overwrite a response after all readers have arrived.
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

    /// The stage of an iteration.
    fn stage(&self, iteration: IntValue<'c>) -> IntValue<'c> {
        self.ir.and(iteration, self.ir.const32(STAGES - 1))
    }
    /// The parity of the number of earlier uses of the iteration's stage.
    fn phase(&self, iteration: IntValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        ir.and(ir.shr(iteration, ir.const32(STAGES.ilog2()), false), ir.const32(1))
    }

    /// The addresses of a stage's response and of its full barrier.
    fn addresses(&self, memory: u32, stage: IntValue<'c>) -> (IntValue<'c>, IntValue<'c>) {
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
