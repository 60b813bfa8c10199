//! Tests grids of more than one wave. In a short sequence of waves, a partial last wave takes as long as a full wave.

use crate::rates::assert_near;
use crate::support::{Kernel, repeat};

/// Returns a kernel of which an SM holds `ctas_per_sm` CTAs. A CTA takes about 20,000 cycles by itself.
fn chain_kernel(ctas_per_sm: u32, grid: u32) -> Kernel {
    let chain = repeat(64, |_| "add.s32 %r9, %r9, %r9;".into());
    let body = format!(
        "mov.b32 %r9, 0;\nmov.b32 %r10, 0;\nNEXT:\n{chain}add.s32 %r10, %r10, 1;\nsetp.lt.s32 %p1, %r10, 80;\n@%p1 bra NEXT;\n"
    );
    Kernel::new("sm_100", 128).body(body).shared_bytes(220 * 1024 / ctas_per_sm).grid(grid)
}

#[test]
fn time_of_a_grid_is_proportional_to_its_waves() {
    for ctas_per_sm in [1, 2] {
        let one_wave = chain_kernel(ctas_per_sm, 148).cycles("b200");
        let ctas_per_wave = 148 * ctas_per_sm;
        for (ctas, waves) in [
            (ctas_per_wave, 1.0),
            (ctas_per_wave + 1, 2.0),
            (2 * ctas_per_wave, 2.0),
            (3 * ctas_per_wave - 20, 3.0),
            (10 * ctas_per_wave, 10.0),
        ] {
            assert_near(
                &format!("{ctas} CTAs, {ctas_per_sm} resident"),
                chain_kernel(ctas_per_sm, ctas).cycles("b200") / one_wave,
                waves,
                0.05,
            );
        }
        // In a long sequence of waves, CTAs do not end together, so a partial wave takes only its fraction of a full wave.
        let many = chain_kernel(ctas_per_sm, 100 * ctas_per_wave + ctas_per_wave / 4).cycles("b200") / one_wave;
        assert_near("a hundred waves and a quarter", many, 100.25, 0.05);
    }
}

/// A persistent kernel has as many CTAs as the GPU holds at once, and each CTA processes tiles in turn. The CTA with the most tiles
/// determines the time; it processes at most one tile more than the other CTAs.
#[test]
fn time_of_persistent_ctas_is_proportional_to_the_longest_cta() {
    let kernel = |tiles: u32| {
        let chain = repeat(64, |_| "add.s32 %r9, %r9, %r9;".into());
        let body = format!(
            "mov.u32 %r8, %ctaid.x;\nmov.b32 %r9, 0;\nTILE:\nmov.b32 %r10, 0;\nNEXT:\n{chain}add.s32 %r10, %r10, 1;\nsetp.lt.s32 %p1, %r10, 80;\n\
             @%p1 bra NEXT;\nadd.s32 %r8, %r8, 148;\nsetp.lt.s32 %p2, %r8, {tiles};\n@%p2 bra TILE;\n"
        );
        Kernel::new("sm_100", 128).body(body).shared_bytes(220 * 1024).grid(148).sample_blocks(&[0, 74, 147])
    };
    let single_wave_cycles = kernel(148).cycles("b200");
    for (tiles, waves) in [(149, 2.0), (296, 2.0), (444, 3.0), (600, 5.0)] {
        assert_near(&format!("{tiles} tiles"), kernel(tiles).cycles("b200") / single_wave_cycles, waves, 0.05);
    }
}

/// A CTA that allocates all TMEM columns of an SM delays the other CTA, although the shared memory of both fits on the SM.
#[test]
fn tmem_allocation_limits_resident_ctas() {
    let kernel = |columns: u32| {
        let chain = repeat(64, |_| "add.s32 %r9, %r9, %r9;".into());
        let prologue = format!(
            "mov.u32 %r1, buffer;\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], {columns};\nld.shared.b32 %r20, [%r1];\n\
             mov.b32 %r9, 0;\nmov.b32 %r10, 0;\n"
        );
        let body = format!(
            "NEXT:\n{chain}add.s32 %r10, %r10, 1;\nsetp.lt.s32 %p1, %r10, 80;\n@%p1 bra NEXT;\n\
             tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, {columns};\n"
        );
        Kernel::new("sm_100a", 32).prologue(&prologue).body(body).shared_bytes(1024).grid(148 * 2)
    };
    assert_near("a CTA that allocates all columns", kernel(512).cycles("b200") / kernel(256).cycles("b200"), 2.0, 0.05);
}

/// An SM of compute capability 9.0 and later has 228 KiB of shared memory, of which the driver reserves 1 KiB for each CTA (CUDA C++
/// Programming Guide, compute capabilities).
#[test]
fn reserved_shared_memory_counts_once_for_each_cta() {
    let body = "mov.b32 %r9, 0;\n";
    for (shared_bytes, resident) in [(113 * 1024, 2), (113 * 1024 + 16, 1), (75 * 1024, 3), (75 * 1024 + 16, 2)] {
        let report = Kernel::new("sm_100", 128).body(body).shared_bytes(shared_bytes).grid(148 * 8).report("b200");
        assert_eq!(report["resident_ctas"], resident, "{shared_bytes} bytes");
    }
}
