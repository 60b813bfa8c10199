//! Compares the cycles of CTA-pair MMAs (`cta_group::2`) with measurements, by shape.

use crate::rates::{assert_near, cycles_per_repetition};
use crate::support::Kernel;

/// Returns a kernel with `count` MMAs of a CTA pair, which the first thread of the first CTA issues.
fn kernel(m: u32, n: u32, count: usize) -> Kernel {
    let descriptor = 1 << 4 | (n >> 3) << 17 | (m >> 4) << 24;
    let prologue = format!(
        "mov.u32 %r1, buffer;\nadd.s32 %r2, %r1, 8;\nmov.u32 %r3, %tid.x;\nmov.u32 %r6, %cluster_ctarank;\n\
         tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], 512;\nld.shared.b32 %r20, [%r1];\n\
         mov.b32 %r22, {descriptor};\nmov.b64 %rd8, 4611756662317416448;\nsetp.eq.s32 %p2, 0, 0;\n\
         barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nor.b32 %r7, %r3, %r6;\nsetp.ne.s32 %p1, %r7, 0;\n\
         @%p1 bra DONE;\nmbarrier.init.shared.b64 [%r2], 1;\n"
    );
    let mma_text = "tcgen05.mma.cta_group::2.kind::f16 [%r20], %rd8, %rd8, %r22, %p2;\n".repeat(count);
    let after = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%r2];\n\
         WAIT:\nmbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0;\n@!%p3 bra WAIT;\nDONE:\nbar.warp.sync -1;\n\
         barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n\
         tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r20, 512;\n";
    Kernel::new("sm_100a", 32).prologue(&prologue).body(mma_text + after).cluster(2).grid(2)
}

#[test]
fn cta_pair_mma_cycles_by_shape() {
    for (m, n, cycles) in
        [(256, 64, 43.0), (256, 96, 49.4), (256, 128, 64.0), (256, 256, 128.0), (128, 64, 26.0), (128, 128, 32.0), (128, 256, 64.0)]
    {
        assert_near(
            &format!("pair m{m} n{n}"),
            cycles_per_repetition("b200", |count| kernel(m, n, count), (32, 160)),
            cycles,
            0.04,
        );
    }
}
