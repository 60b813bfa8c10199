//! CTA pairs (`cta_group::2`). Both CTAs hold parts of the accumulator.
//! The first thread of the MMA role in the leading CTA issues the MMAs. The mbarriers of the leading CTA receive the arrivals of
//! both CTAs, and `tcgen05.commit` arrives at the mbarriers of both CTAs.
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

    /// The `cta_group` of MMAs: the number of CTAs that execute one MMA. All `tcgen05` instructions of a kernel must use the same
    /// value.
    pub(super) fn cta_group(&self) -> u32 {
        if self.is_cta_pair() { CTA_PAIR } else { 1 }
    }

    pub(super) fn cluster_rank(&self) -> IntValue<'c> {
        self.ir.intrinsic_value("llvm.nvvm.read.ptx.sreg.cluster.ctarank", &[], &[]).into_int_value()
    }

    /// Whether this is the leading CTA of a pair. `None` without a pair, or if the current role runs only in the leading CTA.
    pub(super) fn is_leading_cta(&self) -> Option<IntValue<'c>> {
        let needs_test = self.is_cta_pair() && !self.in_leading_cta;
        needs_test.then(|| self.ir.icmp(IntPredicate::EQ, self.cluster_rank(), self.ir.const32(0)))
    }

    /// The condition for the thread that issues this role's MMAs, waits for their operands and commits them.
    pub(super) fn mma_thread(&self) -> IntValue<'c> {
        self.conjunction(Some(self.first_thread()), self.is_leading_cta()).expect("there is a first thread")
    }

    /// Whether all pipeline ops of a role's body are executed only in the leading CTA of a pair.
    pub(super) fn runs_in_leading_cta(&self, body: Region) -> bool {
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

    /// For a pipeline between TMA and the MMAs of a pair: the shared-memory address in the leading CTA, which has the full
    /// barriers.
    pub(super) fn address_in_leading_cta(&self, base: IntValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        if common::fault_injected("ptx.leader") {
            return base;
        }
        let there = ir.asm(Some(ir.i32().into()), "mapa.shared::cluster.u32 $0, $1, 0;", "=r,r", &[base.into()], false);
        there.expect("the assembly returns a value").into_int_value()
    }

    /// Arrives at a stage's mbarrier when all MMAs issued by this thread are complete. In a pair it arrives in both CTAs.
    pub(super) fn commit_to(&self, info: &PipelineInfo, (address, offset): (IntValue<'c>, u32)) {
        let to_all = self.function.attrs.is_of_cta_pair(info) || info.multicast.is_some();
        let group = self.cta_group();
        let commit = format!("tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster");
        let only_in_this_cta = common::fault_injected("ptx.commit") && self.is_cta_pair();
        let (text, letters, args): (String, &str, Vec<Val<'c>>) = match to_all && !only_in_this_cta {
            true => (format!("{commit}.multicast::cluster.b64 [$0+{offset}], $1;"), "r,h", vec![address.into(), self.all_ctas()]),
            false => (format!("{commit}.b64 [$0+{offset}];"), "r", vec![address.into()]),
        };
        self.guarded(Some(self.mma_thread()), &[], |e| {
            e.ir.asm(None, &text, letters, &args, true);
            Vec::new()
        });
    }
}
