//! Copies that use tensor maps. The maps come from recipes in the PTX, or from the callback of a host object.

mod support;

use support::{Case, Outcome, counting_words, kernel};

/// PTX that copies a TMA tile of 8 columns and 4 rows of words, at column 4 of row 2, to the start of the output.
const COPY: &str = "setp.ne.b32 %p1, %r1, 0;\nmov.b32 %r3, 1;\n@!%p1 mbarrier.init.shared.b64 [smem+512], %r3;\nbar.sync 0;\n\
    mov.b32 %r9, 128;\nmov.b64 %rd5, k_param_1;\ncvta.param.u64 %rd6, %rd5;\n@%p1 bra W;\n\
    mbarrier.arrive.expect_tx.shared.b64 _, [smem+512], %r9;\n\
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [smem], [%rd6, {4, 2}], [smem+512];\n\
    W:\nmov.b32 %r4, 0;\nmbarrier.try_wait.parity.shared.b64 %p2, [smem+512], %r4;\n@!%p2 bra W;\n\
    shl.b32 %r5, %r1, 2;\nadd.s32 %r6, %r2, %r5;\nld.shared.b32 %r7, [%r6];\ncvt.u64.u32 %rd7, %r5;\nadd.s64 %rd8, %rd1, %rd7;\n\
    st.global.b32 [%rd8], %r7;";

/// Returns the PTX of a kernel that executes `COPY`. The hidden second parameter of the kernel is the tensor map.
fn copy_kernel(recipe: &str) -> String {
    let hidden = "(.param .u64 k_param_0, .hidden .param .align 64 .b8 k_param_1[128])";
    format!("{recipe}{}", kernel("sm_90a", 32, 1024, COPY).replace("(.param .u64 k_param_0)", hidden))
}

fn run(ptx: &str, options: &[&str], files: &[(&str, Vec<u8>)]) -> Outcome {
    Case { ptx, grid: [1, 1, 1], buffer: counting_words(256), options, files }.run()
}

/// Checks the copied tile of a tensor with `columns` columns, whose rows start 16 words apart. The tile starts at word 36. Its
/// elements outside the tensor are zero.
fn expect_tma_tile(outcome: &Outcome, columns: u32) {
    assert_eq!(outcome.code, 0, "{}", outcome.errors);
    for at in 0..32u32 {
        let word = u32::from_le_bytes(outcome.out[4 * at as usize..][..4].try_into().unwrap());
        let column = 4 + at % 8;
        assert_eq!(word, if column < columns { (2 + at / 8) * 16 + column } else { 0 }, "word {at}");
    }
}

/// The header lines that make the PTX a stage file, whose recipes `tile-sim` reads.
const ENVELOPE: &str = "//!tile ptx 1 final\n//!tile target sm_90\n";
/// A recipe for the hidden parameter: the first argument as a tensor of 16 rows and 10 columns, with 64 bytes between rows.
const RECIPE: &str = "//!tile tensor-map (entry:\"k\",param:\"k_param_1\",map:(base:param(0),element:int32,dims:[const(10),const(16)],\
    strides:[const(64)],extent:[8,4],swizzle:none,tf32:false))\n";

#[test]
fn recipes_in_the_ptx_define_tensor_maps() {
    let ptx = copy_kernel(&format!("{ENVELOPE}{RECIPE}"));
    for delivery in ["early", "late"] {
        expect_tma_tile(&run(&ptx, &["--delivery", delivery], &[]), 10);
    }
    let refused = |ptx: &str, what: &str| {
        let outcome = run(ptx, &[], &[]);
        assert!(outcome.code == 1 && outcome.errors.contains(what), "{}", outcome.errors);
    };
    refused(&copy_kernel(""), "the PTX has no recipe for it");
    refused(&copy_kernel(&format!("{ENVELOPE}{}", RECIPE.replace("k_param_1", "k_param_2"))), "the PTX has no recipe for it");
    refused(&copy_kernel(&format!("{ENVELOPE}{}", RECIPE.replace("const(64)", "const(60)"))), "a stride is 60 bytes");
    refused(&copy_kernel(&format!("{ENVELOPE}{}", RECIPE.replace("dims:[", "dims:("))), "cannot parse");
}

/// C code of a callback with the interface of callbacks that a compiler generates. The callback reads the buffer address at offset
/// 0 of the parameters, and writes the tensor map at offset 48. In the constant bank, this offset is a multiple of 64 bytes.
const CALLBACK: &str = r#"
#include <stdint.h>
static int changed(void *a, void *b, void *c, uint8_t *params) {
    uint64_t *map = (uint64_t *)(params + 48);
    map[0] = *(uint64_t *)params;
    map[1] = 0x40112 | 4ull << 32;
    map[4] = 15 | 15ull << 32;
    map[6] = 7ull << 56;
    map[7] = 3;
    return LOOP;
}
static const uint64_t entry[8] = {(uint64_t)"k", 0, 0, 0, 0, (uint64_t)changed, 0, 0};
uint64_t __CUDA_TILEIR_CALLBACKS[9] = {2, 0, 0, 0, 64, (uint64_t)entry, 1, 2, 0};
"#;

/// Compiles `CALLBACK`, whose function returns the C expression `result`. Returns the object file, or `None` without a C compiler.
fn compile_callback(result: &str) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("callback.c"), CALLBACK.replace("LOOP", result)).unwrap();
    let compiled = std::process::Command::new("cc").args(["-c", "callback.c"]).current_dir(folder.path()).status();
    compiled.is_ok_and(|status| status.success()).then(|| std::fs::read(folder.path().join("callback.o")).unwrap())
}

#[test]
fn callbacks_run_only_with_allow_native() {
    let Some(good) = compile_callback("0") else {
        eprintln!("skipped: no C compiler");
        return;
    };
    let ptx = copy_kernel("");
    let options = ["--host-object", "host.o", "--allow-native"];
    expect_tma_tile(&run(&ptx, &options, &[("host.o", good.clone())]), 16);
    assert_eq!(run(&ptx, &options[..2], &[("host.o", good.clone())]).code, 2);
    let failing = run(&ptx, &options, &[("host.o", compile_callback("1").unwrap())]);
    assert!(failing.code == 4 && failing.errors.contains("callback failed: it exited"), "{}", failing.errors);
    let other = run(&ptx.replace("entry k(", "entry q(").replace("k_param", "q_param"), &options, &[("host.o", good)]);
    assert!(other.errors.contains("the object has no kernel 'q'"), "{}", other.errors);
    let broken = run(&ptx, &options, &[("host.o", b"no object".to_vec())]);
    assert!(broken.errors.contains("linking failed"), "{}", broken.errors);
}

/// The kernel has a hidden pointer parameter for drivers without per-CTA memory. The callback dereferences its first three
/// arguments. A callback of a compiler does so to query the size of per-CTA memory.
#[test]
fn callbacks_of_kernels_with_per_cta_memory() {
    let Some(object) = compile_callback("*(int *)a | *(int *)b | *(int *)c") else {
        eprintln!("skipped: no C compiler");
        return;
    };
    let both = ".hidden .param .u64 .ptr .global .align 1 k_param_2, .hidden .param .align 64 .b8 k_param_1[128]";
    let ptx = copy_kernel("").replace(".hidden .param .align 64 .b8 k_param_1[128]", both);
    let ptx = ptx.replace(".reqntid", ".minperctamemory 128\n.reqntid");
    expect_tma_tile(&run(&ptx, &["--host-object", "host.o", "--allow-native"], &[("host.o", object)]), 16);
}
