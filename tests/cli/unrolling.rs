//! Tests that `perf_model::unrolling` predicts which loops `ptxas` unrolls. The test counts the machine instructions that `ptxas`
//! generates for loops around the limits of the model.

use perf_model::unrolling::{MAX_BODY_INSTRUCTIONS, unrolled_iterations};
use tests::{RunResult, run, temporary_folder, tool};

/// Machine instructions of the loop besides its multiply-adds: the load under a condition, three additions, comparison, branch.
const OTHER_INSTRUCTIONS: u32 = 7;
/// Bytes of a machine instruction.
const INSTRUCTION_BYTES: u64 = 16;

/// A kernel with a loop that loads a value and executes `count` multiply-adds. `trips` is the trip count, or a parameter if `None`.
fn kernel(count: u32, trips: Option<u32>) -> String {
    let arithmetic = "fma.rn.f32 %f1, %f2, %f2, %f1;\n".repeat(count as usize);
    let condition = match trips {
        Some(trips) => format!("setp.ne.u32 %p2, %r4, {trips};"),
        None => "setp.lt.u32 %p2, %r4, %r3;".into(),
    };
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u32 n, .param .u32 m)\n.reqntid 128\n{{\n\
         .reg .b64 %rd<4>;\n.reg .b32 %r<6>;\n.reg .f32 %f<4>;\n.reg .pred %p<4>;\n\
         ld.param.u64 %rd1, [a];\nld.param.u32 %r2, [n];\nld.param.u32 %r3, [m];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\n\
         add.s64 %rd1, %rd1, %rd2;\nmov.u32 %r4, 0;\nmov.f32 %f1, 0f00000000;\n\
         L:\nmov.f32 %f2, 0f00000000;\nsetp.lt.u32 %p1, %r1, %r2;\n@%p1 ld.global.f32 %f2, [%rd1];\n{arithmetic}\
         add.s64 %rd1, %rd1, 512;\nadd.u32 %r1, %r1, 128;\nadd.u32 %r4, %r4, 1;\n{condition}\n@%p2 bra L;\n\
         st.global.f32 [%rd1], %f1;\nret;\n}}\n"
    )
}

/// Machine instructions of the assembled kernel.
fn assembled_instructions(count: u32, trips: Option<u32>) -> u64 {
    let folder = temporary_folder();
    let cubin = folder.path().join("k.cubin").display().to_string();
    let link: RunResult = run("tile-link", &["-", "-o", &cubin], kernel(count, trips).as_bytes());
    link.ok("assemble");
    let report = run("tile-time", &[&cubin], b"").ok("statistics");
    let report = String::from_utf8_lossy(&report).into_owned();
    let bytes = report.split(" bytes of code").next().and_then(|text| text.rsplit(' ').next());
    bytes.expect("the report has the size of the code").parse::<u64>().expect("a number") / INSTRUCTION_BYTES
}

fn ptxas_unrolls_the_loops_that_the_model_takes_as_unrolled() {
    for tool_name in ["tile-link", "tile-time"] {
        tool(tool_name);
    }
    let unknown = MAX_BODY_INSTRUCTIONS as u32 - OTHER_INSTRUCTIONS;
    let cases = [
        (30, None),
        (unknown, None),
        (unknown + 8, None),
        (100, None),
        (16, Some(8)),
        (30, Some(8)),
        (100, Some(8)),
        (40, Some(30)),
    ];
    for (count, trips) in cases {
        let body = count + OTHER_INSTRUCTIONS;
        let unrolled = unrolled_iterations(f64::from(body), trips.map(f64::from)) as u64;
        let found = assembled_instructions(count, trips) / u64::from(count);
        // Without unrolling, the kernel has about 32 instructions besides its multiply-adds. They count as less than one copy in
        // the loops that should not be unrolled. In the other loops they count as at most two, fewer than the expected copies. With
        // an unknown trip count, `ptxas` adds loops for the remaining iterations.
        assert_eq!(
            found >= unrolled.max(2),
            unrolled > 1,
            "{count} multiply-adds, {trips:?} iterations: {found} copies, expected {unrolled}"
        );
    }
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![ptxas_unrolls_the_loops_that_the_model_takes_as_unrolled];
