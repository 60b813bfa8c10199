//! Work-stealing loops with cluster launch control (CLC). One thread of one warp role requests the next tile block while the CTA
//! processes the current one. At the end of an iteration all warp roles read the response: the index of the next tile block, or the
//! information that no tile block is left.
//!
//! Responses alternate between two stages (`sched::clc_responses`), so that warp roles may be one iteration apart. Each stage has a
//! full barrier (the response has arrived) and an empty barrier (all readers have read the response). The CTAs of a cluster process
//! the same tile blocks. The first CTA issues the requests for all CTAs. Each CTA receives the response in its own shared memory,
//! and all CTAs arrive at the first CTA's empty barrier.
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
use sched::clc_responses::{CLC_RESPONSE_BYTES, RESPONSE_STAGES};
use sched::{Op, PipelineInfo, WarpRole, clc_responses};

/// The current tile block of a CLC loop: its index along the three axes. `iteration` is the loop's counter.
#[derive(Clone, Copy)]
pub(super) struct ClcTileBlock<'c> {
    iteration: Value,
    index: [IntValue<'c>; 3],
}

/// A warp role whose threads read the CLC responses.
struct Reader {
    warp_role: WarpRole,
    /// Number of warps of the role. One thread of each warp arrives at the empty barrier.
    warp_count: u32,
    /// Whether a single thread executes the role.
    is_single_thread: bool,
    /// The number of CTAs of the cluster that execute the role.
    ctas: u32,
}

/// Distance from the full barrier of a stage to its empty barrier, in bytes.
const FULL_TO_EMPTY_BYTES: u32 = RESPONSE_STAGES * PipelineInfo::BARRIER_BYTES;

impl<'c> Emitter<'c, '_> {
    /// Sets `result` to the index of the current tile block along an axis. `iteration` is the counter of the enclosing CLC loop.
    pub(super) fn clc_block_id(&mut self, iteration: Value, axis: u32, result: Value) {
        let tile_block = self
            .clc_tile_block
            .filter(|tile_block| tile_block.iteration == iteration)
            .expect("the verifier checks that this is in an iteration");
        self.set_registers(result, vec![tile_block.index[axis as usize].into()]);
    }

    /// Emits a persistent loop that gets its next tile block by cluster launch control.
    pub(super) fn emit_clc_loop(&mut self, init: &[Value], body: Region, results: &[Value]) -> Result<()> {
        let ir = self.ir;
        let body_block = self.function.body.block_of(body);
        let args = self.function.body.blocks[body_block].args.clone();
        let (start, join) = (self.block_with_phis(&args, "body"), self.block_with_phis(results, "join"));
        let next = self.block_with_phis(&args[1..], "next");
        let cta_index = [0, 1, 2].map(|axis| self.grid_register(axis, true));
        start.add_incoming(ir, &[vec![vec![ir.const32(0).into()]], self.registers(init)].concat());
        let block_before = ir.current_block();
        ir.jump(start.block);
        ir.builder.position_at_end(start.block);
        let index_phis =
            cta_index.map(|_| ir.builder.build_phi(ir.context.i32_type(), "").expect("the builder is at the start of a block"));
        index_phis.iter().zip(cta_index).for_each(|(phi, cta_index)| phi.add_incoming(&[(&cta_index, block_before)]));
        self.bind_to_phis(&args, &start);
        let current_tile_block =
            ClcTileBlock { iteration: args[0], index: index_phis.map(|phi| phi.as_basic_value().into_int_value()) };
        let outer_tile_block = self.clc_tile_block.replace(current_tile_block);
        let iteration = start.counter();
        self.emit_request(iteration);
        self.frames.push(ControlFrame { kind: FrameKind::For { next: next.clone() }, join: join.clone() });
        self.emit_block(body_block)?;
        self.close_frame();
        self.clc_tile_block = outer_tile_block;
        ir.builder.position_at_end(next.block);
        let (has_next, next_index) = self.wait_for_response(iteration);
        let (carried_values, block_after) = (next.values(ir), ir.current_block());
        start.add_incoming(ir, &[vec![vec![ir.add(iteration, ir.const32(1)).into()]], carried_values.clone()].concat());
        index_phis.iter().zip(next_index).for_each(|(phi, next_index)| phi.add_incoming(&[(&next_index, block_after)]));
        join.add_incoming(ir, &carried_values);
        ir.conditional_branch(has_next, start.block, join.block);
        ir.builder.position_at_end(join.block);
        self.bind_to_phis(results, &join);
        Ok(())
    }

    /// Initialises the mbarriers of the CLC responses, if the kernel has CLC loops.
    pub(super) fn initialise_clc_barriers(&self) {
        let Some(memory) = clc_responses::responses_address(self.function) else { return };
        // Without a CLC loop no thread uses the empty barriers, so an arrival count of 1 is valid.
        let arrivals = self.response_readers().iter().map(|reader| reader.warp_count * reader.ctas).sum::<u32>().max(1);
        self.emit_guarded(Some(self.is_first_thread()), &[], |e| {
            for stage in 0..RESPONSE_STAGES {
                for (side, count) in [(Side::Full, 1), (Side::Empty, arrivals)] {
                    let at = memory + barrier_offset(stage, side);
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

    /// The warp roles that execute a CLC loop. Without warp roles, the whole CTA counts as one role.
    fn response_readers(&self) -> Vec<Reader> {
        let (attrs, body) = (&self.function.attrs, &self.function.body);
        let ctas = self.clc_ctas();
        let has_clc_loop = |region: Region| {
            body.blocks[body.block_of(region)].ops.iter().any(|op| is_clc_loop(body, body.ops[*op].kind.core(), Op::core))
        };
        let reader_of = |op: &OpId| match &body.ops[*op].kind {
            Op::WarpRole { role: warp_role, body: region } if has_clc_loop(*region) => {
                let is_single_thread = self.is_of_first_thread(*region);
                let ctas = if is_single_thread && self.runs_in_leading_cta(*region) { 1 } else { ctas };
                Some(Reader {
                    warp_role: *warp_role,
                    warp_count: if is_single_thread { 1 } else { attrs.warp_roles[*warp_role].warps },
                    is_single_thread,
                    ctas,
                })
            }
            _ => None,
        };
        match attrs.warp_roles.is_empty() {
            true => vec![Reader { warp_role: WarpRole(0), warp_count: attrs.program.warps, is_single_thread: false, ctas }],
            false => body.blocks[self.function.entry()].ops.iter().filter_map(reader_of).collect(),
        }
    }

    /// The number of CTAs that steal work together: the CTAs of a cluster.
    pub(super) fn clc_ctas(&self) -> u32 {
        self.function.attrs.program.cluster.unwrap_or(1)
    }

    /// Whether the current warp role issues the requests. This is the first single-thread role that every CTA executes, because
    /// such a role runs ahead of the other roles. Without such a role, it is the first reader.
    fn issues_requests(&self) -> bool {
        let all = self.response_readers();
        let preferred_reader = all.iter().find(|reader| reader.is_single_thread && reader.ctas == self.clc_ctas());
        preferred_reader.or(all.first()).is_some_and(|reader| reader.warp_role == self.warp_role.unwrap_or(WarpRole(0)))
    }

    /// Emits the request for the next tile block. One thread issues it after all readers have read the previous response of the
    /// stage.
    fn emit_request(&self, iteration: IntValue<'c>) {
        let Some(memory) = clc_responses::responses_address(self.function).filter(|_| self.issues_requests()) else { return };
        let only_first_thread = (!self.thread_index.is_const()).then(|| self.is_first_thread());
        self.emit_guarded(only_first_thread, &[], |e| {
            let ir = e.ir;
            let (response, barriers) = e.stage_addresses(memory, e.stage_of(iteration));
            let in_cluster = e.clc_ctas() > 1;
            // The full barrier of each CTA must expect the response bytes. The first CTA sets this before it issues the request.
            let is_first_cta = in_cluster.then(|| ir.icmp(IntPredicate::EQ, e.cluster_rank(), ir.const32(0)));
            e.emit_guarded(is_first_cta, &[], |e| {
                let free_parity = ir.xor(e.phase_of(iteration), ir.const32(1));
                e.wait_for_mbarrier_parity(
                    barriers,
                    FULL_TO_EMPTY_BYTES,
                    free_parity,
                    if in_cluster { ".acquire.cluster" } else { "" },
                );
                Vec::new()
            });
            let expect_bytes = "{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [$0], 16; }";
            ir.asm(None, expect_bytes, "r", &[barriers.into()], true);
            e.emit_guarded(is_first_cta, &[], |_| {
                let to = if in_cluster { ".multicast::cluster::all" } else { "" };
                let request_text =
                    format!("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{to}.b128 [$0], [$1];");
                ir.asm(None, &request_text, "r,r", &[response.into(), barriers.into()], true);
                Vec::new()
            });
            Vec::new()
        });
    }

    /// Waits for the response of an iteration. Returns whether there is another tile block, and the tile block's index.
    fn wait_for_response(&self, iteration: IntValue<'c>) -> (IntValue<'c>, [IntValue<'c>; 3]) {
        let ir = self.ir;
        let memory = clc_responses::responses_address(self.function).expect("the function has a CLC loop over tile blocks");
        let (response, barriers) = self.stage_addresses(memory, self.stage_of(iteration));
        self.wait_for_mbarrier_parity(barriers, 0, self.phase_of(iteration), "");
        let i32_type = ir.context.i32_type().into();
        let result_types = [ir.context.bool_type().into(), i32_type, i32_type, i32_type];
        let text = "{ .reg .b128 response; .reg .b64 low, high; ld.shared.v2.b64 {low, high}, [$4]; mov.b128 response, {low, high}; \
             clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 $0, response; mov.b32 $1, 0; mov.b32 $2, 0; mov.b32 $3, 0; \
             @$0 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {$1, $2, $3, _}, response; \
             fence.proxy.async.shared::cta; }";
        let fields = ir.asm_many(&result_types, text, "=&b,=&r,=&r,=&r,r", &[response.into()], true);
        let [has_next, x, y, z] = [0, 1, 2, 3].map(|at| fields[at].into_int_value());
        self.signal_response_read(barriers);
        // The CTAs of a cluster are consecutive along x, and tile blocks are numbered by cluster.
        let x = ir.shr(x, ir.const32(self.clc_ctas().ilog2()), false);
        (has_next, [x, y, z])
    }

    /// Arrives at the empty barrier of a stage. After all readers have arrived, the requesting thread may overwrite the response.
    fn signal_response_read(&self, barriers: IntValue<'c>) {
        let ir = self.ir;
        let (all_lanes, arrive) = match self.clc_ctas() {
            1 => (".reg .b64 state;".into(), format!("mbarrier.arrive.shared.b64 state, [$0+{FULL_TO_EMPTY_BYTES}];")),
            _ => (
                format!(".reg .b32 there; add.u32 there, $0, {FULL_TO_EMPTY_BYTES}; mapa.shared::cluster.u32 there, there, 0;"),
                "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];".into(),
            ),
        };
        match self.thread_index.is_const() {
            true => _ = ir.asm(None, &format!("{{ {all_lanes} {arrive} }}"), "r", &[barriers.into()], true),
            false => self.emit_by_first_lane(&all_lanes, &arrive, barriers),
        }
    }

    /// The index of the response stage that an iteration uses.
    fn stage_of(&self, iteration: IntValue<'c>) -> IntValue<'c> {
        self.ir.and(iteration, self.ir.const32(RESPONSE_STAGES - 1))
    }
    /// The mbarrier phase parity of an iteration: the parity of the number of earlier iterations that used the same response stage.
    fn phase_of(&self, iteration: IntValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        ir.and(ir.shr(iteration, ir.const32(RESPONSE_STAGES.ilog2()), false), ir.const32(1))
    }

    /// The shared-memory addresses of a stage's response and of its full barrier.
    fn stage_addresses(&self, memory: u32, stage: IntValue<'c>) -> (IntValue<'c>, IntValue<'c>) {
        let (ir, base) = (self.ir, self.shared_address());
        let stage_address =
            |first: u32, each: u32| ir.add(ir.add(base, ir.const32(memory + first)), ir.mul(stage, ir.const32(each)));
        (stage_address(0, CLC_RESPONSE_BYTES), stage_address(barrier_offset(0, Side::Full), PipelineInfo::BARRIER_BYTES))
    }
}

/// The offset of the full or empty barrier of a response stage from the start of the CLC responses, in bytes.
fn barrier_offset(stage: u32, side: Side) -> u32 {
    let side_offset = if side == Side::Full { 0 } else { FULL_TO_EMPTY_BYTES };
    RESPONSE_STAGES * CLC_RESPONSE_BYTES + side_offset + stage * PipelineInfo::BARRIER_BYTES
}

// `stage_of` and `phase_of` take the stage from the lowest bits of the iteration.
const _: () = assert!(RESPONSE_STAGES.is_power_of_two());
