//! Pairs of blocks (`cta_group::2`): the first thread of the first block's warp_role requests for mmas that both have the accumulators of, and its
//! barriers are told of what either has done; it signals those of both.

use super::Emitter;
use crate::ir::Val;
use base::Region;
use inkwell::IntPredicate;
use inkwell::values::IntValue;
use sched::{Fill, Op, PipelineInfo};
use tileas::tensor_memory::CTA_PAIR;

impl<'c> Emitter<'c, '_> {
    fn is_cta_pair(&self) -> bool {
        self.function.attrs.program.cta_pair
    }

    /// Blocks that make a mma together, of which all instructions of a kernel about tensor memory are told alike.
    pub(super) fn group(&self) -> u32 {
        if self.is_cta_pair() { CTA_PAIR } else { 1 }
    }

    pub(super) fn rank(&self) -> IntValue<'c> {
        self.ir.intrinsic_value("llvm.nvvm.read.ptx.sreg.cluster.ctarank", &[], &[]).into_int_value()
    }

    /// Whether this is the first block of a pair; none where there is no pair, or it is known that it is.
    pub(super) fn leads(&self) -> Option<IntValue<'c>> {
        let requests = self.is_cta_pair() && !self.is_leader;
        requests.then(|| self.ir.icmp(IntPredicate::EQ, self.rank(), self.ir.const32(0)))
    }

    /// The thread that requests for mmas of this warp_role, waits for what they need and signals when they are complete.
    pub(super) fn multiplying_thread(&self) -> IntValue<'c> {
        self.both(Some(self.first_thread()), self.leads()).expect("there is a first thread")
    }

    /// Whether all that is told and waited for in an warp_role's body is for the first block of a pair.
    pub(super) fn is_of_leader(&self, body: Region) -> bool {
        let attrs = &self.function.attrs;
        let of_leader = |op: &Op| match op {
            Op::PipelineAcquire { pipeline, .. } | Op::PipelineCommit { pipeline, .. } => {
                attrs.pipelines[*pipeline].fill == Fill::Mma
            }
            Op::PipelineWait { pipeline, .. } | Op::PipelineRelease { pipeline, .. } => attrs.pipelines[*pipeline].drains_alone(),
            _ => true,
        };
        self.is_cta_pair() && self.function.body.walk(body).into_iter().all(|op| of_leader(&self.function.body.ops[op].kind))
    }

    /// Of a pipeline between tma_tiles and mmas of a pair: the shared memory of the first block, which has the barriers of filled stages.
    pub(super) fn leaders_memory(&self, base: IntValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        if common::fault_injected("ptx.leader") {
            return base;
        }
        let there = ir.asm(Some(ir.i32().into()), "mapa.shared::cluster.u32 $0, $1, 0;", "=r,r", &[base.into()], false);
        there.expect("the assembly gives a value").into_int_value()
    }

    /// Tells a stage's barrier, in both blocks of a pair, when all mmas that this thread has made are complete.
    pub(super) fn commit_to(&self, info: &PipelineInfo, (address, offset): (IntValue<'c>, u32)) {
        let to_all = self.function.attrs.is_of_cta_pair(info) || info.multicast.is_some();
        let group = self.group();
        let commit = format!("tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster");
        let alone = common::fault_injected("ptx.commit") && self.is_cta_pair();
        let (text, letters, args): (String, &str, Vec<Val<'c>>) = match to_all && !alone {
            true => (format!("{commit}.multicast::cluster.b64 [$0+{offset}], $1;"), "r,h", vec![address.into(), self.all_ctas()]),
            false => (format!("{commit}.b64 [$0+{offset}];"), "r", vec![address.into()]),
        };
        self.guarded(Some(self.multiplying_thread()), &[], |e| {
            e.ir.asm(None, &text, letters, &args, true);
            Vec::new()
        });
    }
}
