//! Emits the parts of the code that are special in CTA pairs (`cta_group::2`): two CTAs that execute each MMA together, each with a
//! part of the accumulator. The first thread of the MMA role in the leading CTA issues the MMAs. The mbarriers of the leading CTA
//! receive the arrivals of both CTAs, and `tcgen05.commit` arrives at the mbarriers of both CTAs.
//! See also: CUTLASS 2SM MMA.

use super::Emitter;
use crate::ir::Val;
use base::Region;
use inkwell::IntPredicate;
use inkwell::values::IntValue;
use sched::{Fill, Op, PipelineInfo};
use tileas::tensor_memory::CTA_PAIR;

impl<'c> Emitter<'c, '_> {
    /// Returns whether two CTAs execute the kernel as a pair.
    fn is_cta_pair(&self) -> bool {
        self.function.attrs.program.cta_pair
    }

    /// The `cta_group` of `tcgen05` instructions: the number of CTAs that execute one MMA. All `tcgen05` instructions of a kernel
    /// must have the same `cta_group`.
    pub(super) fn cta_group(&self) -> u32 {
        if self.is_cta_pair() { CTA_PAIR } else { 1 }
    }

    /// Emits the rank of the CTA in its cluster.
    pub(super) fn cluster_rank(&self) -> IntValue<'c> {
        self.ir.intrinsic_value("llvm.nvvm.read.ptx.sreg.cluster.ctarank", &[], &[]).into_int_value()
    }

    /// Whether this CTA is the leading CTA of a pair. `None` if the test is unnecessary: without a pair, or if only the leading CTA
    /// executes the current code.
    pub(super) fn is_leading_cta(&self) -> Option<IntValue<'c>> {
        let needs_test = self.is_cta_pair() && !self.in_leading_cta;
        needs_test.then(|| self.ir.icmp(IntPredicate::EQ, self.cluster_rank(), self.ir.const32(0)))
    }

    /// Whether this thread issues the MMAs of the current role, waits for their operands, and commits them.
    pub(super) fn is_mma_thread(&self) -> IntValue<'c> {
        self.conjunction(Some(self.is_first_thread()), self.is_leading_cta()).expect("there is a first thread")
    }

    /// Whether only the leading CTA of a pair executes the pipeline ops in the body of a warp role.
    pub(super) fn runs_in_leading_cta(&self, body: Region) -> bool {
        let attrs = &self.function.attrs;
        let is_in_leading_cta = |op: &Op| {
            op.pipeline_step().is_none_or(|step| {
                let info = &attrs.pipelines[step.pipeline];
                if step.is_of_producer() { info.fill == Fill::Mma } else { info.drains_alone() }
            })
        };
        self.is_cta_pair()
            && self.function.body.walk(body).into_iter().all(|op| is_in_leading_cta(&self.function.body.ops[op].kind))
    }

    /// Maps a shared-memory address of this CTA to the same address in the leading CTA of the pair. Reason: TMA copies of both CTAs
    /// arrive at the full barriers of the leading CTA.
    pub(super) fn address_in_leading_cta(&self, base: IntValue<'c>) -> IntValue<'c> {
        let ir = self.ir;
        let leading_address = ir.asm(Some(ir.i32().into()), "mapa.shared::cluster.u32 $0, $1, 0;", "=r,r", &[base.into()], false);
        leading_address.expect("the assembly returns a value").into_int_value()
    }

    /// Emits a `tcgen05.commit` to the mbarrier at `address + offset`. The arrival happens when all MMAs that this thread has
    /// issued are complete. For pipelines of a CTA pair or with multicast, the commit arrives at this mbarrier in all CTAs of the
    /// cluster.
    pub(super) fn emit_tcgen05_commit(&self, info: &PipelineInfo, address: IntValue<'c>, offset: u32) {
        let to_all = self.function.attrs.is_of_cta_pair(info) || info.multicast.is_some();
        let cta_group = self.cta_group();
        let commit = format!("tcgen05.commit.cta_group::{cta_group}.mbarrier::arrive::one.shared::cluster");
        let (text, letters, args): (String, &str, Vec<Val<'c>>) = match to_all {
            true => (format!("{commit}.multicast::cluster.b64 [$0+{offset}], $1;"), "r,h", vec![address.into(), self.all_ctas()]),
            false => (format!("{commit}.b64 [$0+{offset}];"), "r", vec![address.into()]),
        };
        self.emit_guarded(Some(self.is_mma_thread()), &[], |e| {
            e.ir.asm(None, &text, letters, &args, true);
            Vec::new()
        });
    }
}
