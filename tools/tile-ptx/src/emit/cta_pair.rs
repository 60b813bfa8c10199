//! CTA pairs (`cta_group::2`). Both CTAs hold parts of the accumulator.
//! The first thread of the leading CTA's MMA role issues the MMAs. The leading CTA's barriers receive the arrivals of both CTAs,
//! and `tcgen05.commit` arrives at the barriers of both.
//! See also: CUTLASS 2SM MMA.

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

    /// The CTAs of an MMA. All `tcgen05` instructions of a kernel must use the same `cta_group`.
    pub(super) fn group(&self) -> u32 {
        if self.is_cta_pair() { CTA_PAIR } else { 1 }
    }

    pub(super) fn rank(&self) -> IntValue<'c> {
        self.ir.intrinsic_value("llvm.nvvm.read.ptx.sreg.cluster.ctarank", &[], &[]).into_int_value()
    }

    /// Whether this is the leading CTA of a pair; none without a pair or if the answer is statically true.
    pub(super) fn leads(&self) -> Option<IntValue<'c>> {
        let requests = self.is_cta_pair() && !self.is_leader;
        requests.then(|| self.ir.icmp(IntPredicate::EQ, self.rank(), self.ir.const32(0)))
    }

    /// The thread that issues this role's MMAs, waits for their operands and commits them.
    pub(super) fn mma_thread(&self) -> IntValue<'c> {
        self.both(Some(self.first_thread()), self.leads()).expect("there is a first thread")
    }

    /// Whether a role's body waits and arrives only for the leading CTA of a pair.
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

    /// For a pipeline between TMA and MMAs of a pair: the shared-memory address of the leading CTA, which has the full barriers.
    pub(super) fn leaders_memory(&self, base: IntValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        if common::fault_injected("ptx.leader") {
            return base;
        }
        let there = ir.asm(Some(ir.i32().into()), "mapa.shared::cluster.u32 $0, $1, 0;", "=r,r", &[base.into()], false);
        there.expect("the assembly returns a value").into_int_value()
    }

    /// Arrives at a stage's barrier, in both CTAs of a pair, when all MMAs issued by this thread are complete.
    pub(super) fn commit_to(&self, info: &PipelineInfo, (address, offset): (IntValue<'c>, u32)) {
        let to_all = self.function.attrs.is_of_cta_pair(info) || info.multicast.is_some();
        let group = self.group();
        let commit = format!("tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster");
        let alone = common::fault_injected("ptx.commit") && self.is_cta_pair();
        let (text, letters, args): (String, &str, Vec<Val<'c>>) = match to_all && !alone {
            true => (format!("{commit}.multicast::cluster.b64 [$0+{offset}], $1;"), "r,h", vec![address.into(), self.all_ctas()]),
            false => (format!("{commit}.b64 [$0+{offset}];"), "r", vec![address.into()]),
        };
        self.guarded(Some(self.mma_thread()), &[], |e| {
            e.ir.asm(None, &text, letters, &args, true);
            Vec::new()
        });
    }
}
