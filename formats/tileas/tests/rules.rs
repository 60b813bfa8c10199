//! Tests that the verifier of `.as` rejects violations of its rules with a message.

use base::File;
use tileas::Module;

/// Reads and verifies a file. Returns `accepted`, or the code and message of the error.
fn verdict(text: &str) -> String {
    match File::<Module>::read(text.as_bytes(), "case") {
        Ok(_) => "accepted".into(),
        Err(error) => format!("{}: {}", error.code, error.message),
    }
}

/// Each case has a text, its replacement in the sample (of the first match), and a part of the expected message.
#[test]
fn an_edited_mma_loop_is_rejected() {
    let sample = include_str!("sample.as");
    let cases = [
        ("warps: 4", "warps: 64", "AS003"),
        ("warps: 4", "warps: 3", "AS003"),
        ("lane: [8, 16, 32, 64, 128]", "lane: [8, 16, 32, 64]", "lane bits"),
        (
            "layout #2 = (register: [1, 128, 8], lane: [2, 4, 16, 32, 64], warp: [256, 0])",
            "layout #2 = (register: [1, 2, 512], lane: [4, 8, 16, 32, 64], warp: [128, 256])",
            "twice",
        ),
        ("warps: 4", "warps: 2", "its layout is for 4 warps, not 2"),
        ("tile<32x32xf32, #0>", "tile<32x64xf32, #0>", "AS005"),
        ("offsets: [1, 2, 4", "offsets: [1, 1, 4", "does not give every element one offset"),
        ("offsets: [1, 2, 4, 8, 16, 40", "offsets: [1, 2, 4, 8, 16, 1064", "does not give every element one offset"),
        ("constant(1) : i32", "constant(0x1) : f32", "AS007"),
        ("index: [%41, %51]", "index: [%41]", "it takes 2 indices"),
        ("bytes: 16", "bytes: 32", "no copies of 32 bytes"),
        ("buffer: 1, layout: 1", "buffer: 0, layout: 1", "does not have the type of the copied tile"),
        ("layout: 1, atom", "layout: 2, atom", "vectors of 16 bytes are not contiguous"),
        (
            "strides: [?, 1], scope: 1>, padding: zero>",
            "strides: [?, 1], scope: 1>, dims: [1, 0], padding: zero>",
            "not neighbours in memory",
        ),
        ("buffer: 0, atom: matrix)", "buffer: 0, atom: vector(vector_bits: 3))", "its atom does not fit"),
        ("lhs: registers(%55), rhs: registers(%56)", "lhs: registers(%56), rhs: registers(%55)", "the shapes do not form an MMA"),
        ("mma.m16n8k16.f32", "mma.m16n8k16.f16", "has no MMA of"),
        ("mma.m16n8k16.f32", "mma.m1n1k1", "no atom 'mma.m1n1k1'"),
        (
            "buffer: 0, atom: matrix) : tile<32x16xf16, #2>",
            "buffer: 0, atom: vector(vector_bits: 0)) : tile<32x16xf16, #1>",
            "not those of the fragments",
        ),
        ("mma.m16n8k16.f32", "wgmma.m64k16.f32", "its right operand must be in shared memory"),
        ("mma.m16n8k16.f32", "multiply_add.k4", "FMAs read untransposed operands from buffers"),
        ("mma.m16n8k16.f32", "mma.m16n8k32.mxf8", "takes two tiles of scales"),
        ("rhs: registers(%56)", "rhs: memory(buffer: 0)", "reads its operands from registers"),
        ("mma(lhs", "mma(in_flight: true, lhs", "only wgmma ops are in flight"),
        ("buffer: 0, atom: matrix)", "buffer: 0, stage: %41, atom: matrix)", "one stage in `.as`"),
        ("buffer: 0, atom: matrix)", "buffer: 0, atom: matrix, per_k_step: true)", "only `.sched` can mark a per-K-step load"),
        (
            "atom: vector(vector_bits: 2)) : token @14",
            "atom: vector(vector_bits: 2), versioned: true) : token @14",
            "only `.sched` can mark a versioned access",
        ),
        // An atom without an implementation has no name.
        ("mma.m16n8k16.f32", "tcgen05", "no atom 'tcgen05'"),
        ("warps: 4", "warps: 4, cluster: 4", "the target has no clusters"),
        ("warps: 4", "warps: 4, grid: 4", "grid"),
        ("tile<32x32xf32, #0> @7", "tile<32x32xf32, #4> @7", "AS010"),
        ("continue(values: [%57])", "continue", "AS010"),
        ("  shared_store(x: %50, buffer: 2, atom: vector(vector_bits: 1)) @10\n", "", "AS011"),
        ("tile: %59, view: %58", "tile: %50, view: %58", "do not run along one dimension"),
        ("atom: vector(vector_bits: 2)) : token @14", "atom: vector(vector_bits: 3)) : token @14", "no vectors of 8"),
    ];
    assert_eq!(verdict(sample), "accepted");
    for (from, to, expected) in cases {
        assert!(sample.contains(from), "{from} is not in the sample");
        let message = verdict(&sample.replacen(from, to, 1));
        assert!(message.contains(expected), "{from} -> {to}: {message}");
    }
}

/// The unrolled steps along K must divide the extent, here 4.
#[test]
fn unrolled_steps_divide_the_k_extent() {
    let sample = include_str!("fma.as");
    assert_eq!(verdict(sample), "accepted");
    for k in [1, 2] {
        assert_eq!(verdict(&sample.replace("multiply_add.k4", &format!("multiply_add.k{k}"))), "accepted");
    }
    let message = verdict(&sample.replace("multiply_add.k4", "multiply_add.k8"));
    assert!(
        message.starts_with("AS007") && message.contains("its extent along K is not a multiple of 8 unrolled steps"),
        "{message}"
    );
}

/// Only a store to a buffer may use a value that one thread computes for several warps.
#[test]
fn a_value_of_one_thread_goes_through_a_buffer() {
    let sample = include_str!("single_thread_values.as");
    assert_eq!(verdict(sample), "accepted");
    for (from, to) in [("lhs: %6", "lhs: %4"), ("ptr: %10, value: %7", "ptr: %8, value: %7"), ("x: %13", "x: %11")] {
        assert!(sample.contains(from), "{from} is not in the sample");
        let message = verdict(&sample.replacen(from, to, 1));
        assert!(message.starts_with("AS014"), "{from} -> {to}: {message}");
    }
    // Within a warp, the lanes exchange the value.
    let alone = sample.replace("warps: 4", "warps: 1").replace("warp: [0, 0]", "warp: []").replace("lhs: %6", "lhs: %4");
    assert_eq!(verdict(&alone), "accepted");
}

/// The verifier rejects edits of a loop with TMA loads. The cases are as in `an_edited_mma_loop_is_rejected`.
#[test]
fn edited_tma_copies_are_rejected() {
    let sample = include_str!("tma.as");
    let cases = [
        ("extent: [32, 64]", "extent: [16, 64]", "the TMA tiles of map0 do not divide those of"),
        ("product(param(2), const(2))", "product(param(2), const(4))", "map0 is not the tensor map of"),
        ("base: param(0)", "base: param(9)", "there is no parameter 9"),
        ("extent: [64, 32]", "extent: [64, 0]", "a TMA tile of [64, 0] elements"),
        ("swizzle: bytes64), // map 0", "swizzle: bytes32), // map 0", "a TMA tile of [32, 64] elements of 2 bytes"),
        (", map: 0)", ", map: 7)", "map7 is not in the table"),
        (
            "offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256",
            "offsets: [1, 2, 4, 8, 16, 32, 64, 144, 256",
            "does not have the layout of the TMA tiles of map0",
        ),
        ("align: 512", "align: 256", "does not have the layout of the TMA tiles of map0"),
        ("target sm_120", "target sm_80", "sm_80 has no TMA"),
        ("buffer: 0, map: 0) : token", "buffer: 0, latency: 11, map: 0) : token", "a latency hint is from 1 to 10"),
        (
            "tma_load(view: %11, index: [%17, %3], token: %7, order: (semantics: weak), buffer: 1, map: 1)",
            "tma_store(view: %11, index: [%17, %3], token: %7, order: (semantics: relaxed, scope: device), buffer: 1, map: 1, mode: min)",
            "TMA does not reduce f16 into memory with this mode",
        ),
        (
            "tma_load(view: %11, index: [%17, %3], token: %7, order: (semantics: weak), buffer: 1, map: 1)",
            "tma_store(view: %11, index: [%17, %3], token: %7, order: (semantics: weak), buffer: 1, map: 1, mode: add_f)",
            "the access does not support this ordering",
        ),
        ("padding: zero>", "padding: nan>", "elements outside become zero"),
        ("strides: [?, 1], scope: 1>", "strides: [?, ?], scope: 1>", "strides"),
    ];
    assert_eq!(verdict(sample), "accepted");
    // TMA tiles with fewer rows fill the buffer, too.
    assert_eq!(verdict(&sample.replacen("extent: [32, 64]", "extent: [32, 32]", 1)), "accepted");
    for (from, to, expected) in cases {
        assert!(sample.contains(from), "{from} is not in the sample");
        let message = verdict(&sample.replacen(from, to, 1));
        assert!(message.contains(expected), "{from} -> {to}: {message}");
    }
}

/// The verifier rejects edits of an MMA in tensor memory. The cases are as in `an_edited_mma_loop_is_rejected`.
#[test]
fn an_edited_mma_in_tensor_memory_is_rejected() {
    let sample = include_str!("tensor.as");
    let cases = [
        ("target sm_100", "target sm_90", "sm_90 has no tensor memory for buffer2"),
        (", space: tensor", "", "buffer2 does not have an accumulator layout"),
        (", space: tensor", ", space: other", "is not one of"),
        (
            "64, 128, 256, 512, 1024, 2048], align: 32",
            "64, 128, 256, 512, 2048, 1024], align: 32",
            "does not have an accumulator layout",
        ),
        (
            "64, 128, 256, 512, 1024, 2048], align: 32",
            "0, 64, 128, 256, 512, 1024, 2048], align: 32",
            "does not have an accumulator layout",
        ),
        (
            "offsets: [1, 2, 4, 8, 16, 32, 64, 128,",
            "offsets: [1, 2, 4, 8, 16, 32, 64, 64,",
            "does not give every element one offset",
        ),
        ("offsets: [1, 2, 4, 8, 16, 32, 72, 144", "offsets: [1, 2, 4, 8, 16, 32, 64, 144", "no matrix descriptor can describe"),
        ("tcgen05.k16.f32", "tcgen05.k32.f32", "has no MMA of f16 into f32"),
        ("tcgen05.k16.f32", "wgmma.m64k16.f32", "needs its accumulator in registers"),
        ("acc: memory(buffer: 2)", "acc: memory(buffer: 0)", "buffer0 does not have an accumulator layout"),
        ("acc: memory(buffer: 2)", "acc: registers(%17)", "needs its accumulator in tensor memory"),
        ("rhs: memory(buffer: 1)", "rhs: memory(buffer: 1, transposed: true)", "the shapes do not form an MMA"),
        ("lhs: memory(buffer: 0)", "lhs: registers(%17)", "has no operands in registers"),
        ("rhs: memory(buffer: 1)", "rhs: memory(buffer: 2)", "no matrix descriptor can describe"),
        ("zero_init: %21", "zero_init: %13", "`zero_init` must be a scalar i1"),
        ("zero_init: %21, ", "", "AS011"),
        ("lhs: %16, rhs: %13", "lhs: %16, rhs: %14", "buffer2 is read before anything is written to it"),
        ("predicate: equal, signedness: signed), lhs: %16", "predicate: not_equal, signedness: signed), lhs: %16", "AS011"),
        ("rhs: %13) : i1 @0\n    mma", "rhs: %3) : i1 @0\n    mma", "AS011"),
        ("lower: %13", "lower: %14", "AS011"),
        ("mma(lhs", "mma(in_flight: true, lhs", "only wgmma ops are in flight"),
        ("buffer: 2, from: 0", "buffer: 2, from: 16", "has no slice with the shape of %23 from column 16 on"),
        ("buffer: 2, from: 0", "buffer: 1, from: 0", "buffer1 is not in tensor memory"),
        ("\"32x32b\"", "\"16x256b\"", "'16x256b' does not fit the layouts"),
        ("\"32x32b\"", "\"64x32b\"", "no atom '64x32b'"),
        ("buffer: 1, atom: vector", "buffer: 2, atom: vector", "buffer2 is not in shared memory"),
    ];
    assert_eq!(verdict(sample), "accepted");
    for (from, to, expected) in cases {
        assert!(sample.contains(from), "{from} is not in the sample");
        let message = verdict(&sample.replacen(from, to, 1));
        assert!(message.contains(expected), "{from} -> {to}: {message}");
    }
}

/// An unwritten accumulator is accepted if its `zero_init` predicate is proved to be true at the first MMA.
#[test]
fn zero_initialised_accumulators_need_no_write() {
    let sample = include_str!("tensor.as");
    let compare = "compare(kind: int(predicate: equal, signedness: signed), lhs: %16, rhs: %13) : i1";
    let cases = [
        ("compare(kind: int(predicate: equal, signedness: signed), lhs: %13, rhs: %16) : i1", "accepted"),
        ("compare(kind: int(predicate: equal, signedness: unsigned), lhs: %16, rhs: %13) : i1", "accepted"),
        ("constant(true) : i1", "accepted"),
        ("constant(false) : i1", "AS011"),
    ];
    for (by, expected) in cases {
        let message = verdict(&sample.replacen(compare, by, 1));
        assert!(message.contains(expected), "{by}: {message}");
    }
    // A loop forwards its initial value.
    let carried = sample
        .replace(
            "for(lower: %13, upper: %3, step: %14)",
            "%99 = constant(true) : i1 @0\n  %98 = for(lower: %13, upper: %3, step: %14, init: [%99]) : i1",
        )
        .replacen("(%16: i32)", "(%16: i32, %97: i1)", 1)
        .replacen("zero_init: %21", "zero_init: %97", 1)
        .replacen("    continue @0", "    %96 = constant(false) : i1 @0\n    continue(values: [%96]) @0", 1);
    assert_eq!(verdict(&carried), "accepted");
    assert!(verdict(&carried.replace("%99 = constant(true)", "%99 = constant(false)")).contains("AS011"));
    // A predicate forwarded without an MMA proves nothing about the accumulator.
    let forwarded_values = "%99 = constant(true) : i1 @0\n  %98 = for(lower: %13, upper: %3, step: %14, init: [%99]) : i1 @0 {
    (%97: i32, %96: i1)\n    %95 = constant(false) : i1 @0\n    continue(values: [%95]) @0\n  }\n  for(";
    let message = verdict(&sample.replacen("for(", forwarded_values, 1).replacen("zero_init: %21", "zero_init: %98", 1));
    assert!(message.starts_with("AS011") && message.contains("may be read before it is written"), "{message}");
    // The loop starts at another value than the condition compares, or at an unknown value.
    for by in ["lhs: %14, rhs: %3", "lhs: %13, rhs: %15"] {
        let message = verdict(&sample.replace("signedness: signed), lhs: %13, rhs: %3)", &format!("signedness: signed), {by})")));
        assert!(message.starts_with("AS011") && message.contains("may be read before it is written"), "{by}: {message}");
    }
}

/// A program with one buffer. In `body`, `W` stands for a write of the buffer, and `R` for a read. `%t` is true, `%f` is false;
/// `%n` and `%c` are parameters.
fn program_with_buffer(body: &str) -> String {
    const BUFFER: &str = "(elem: i32, shape: [32], offsets: [1, 2, 4, 8, 16], align: 4)";
    let body = body.replace('W', "shared_store(x: %x, buffer: 0, atom: vector(vector_bits: 0))");
    let mut text = format!("{HEAD}func \"k\"(%n: i32, %c: i1) (warps: 1, buffers: [{BUFFER}]) @0 {{\n");
    text += "%x = iota : tile<32xi32, #0>\n%0z = constant(0) : i32\n%1z = constant(1) : i32\n%4z = constant(4) : i32\n";
    text += "%t = constant(true) : i1\n%f = constant(false) : i1\n";
    for (number, part) in body.split('R').enumerate() {
        let load = format!("%r{number} = shared_load(buffer: 0, atom: vector(vector_bits: 0)) : tile<32xi32, #0>");
        text += &if number == 0 { part.to_string() } else { load + part };
    }
    text + "\nreturn\n}\n"
}

/// A loop that writes the buffer in each of its `%n` iterations, then an `if` on a comparison.
fn after_a_loop(compare: &str, then: &str, otherwise: &str) -> String {
    format!(
        "for(lower: %0z, upper: %n, step: %1z) {{\n(%i: i32)\nW\ncontinue\n}}\n%b = compare(kind: {compare}) : i1
if(cond: %b) {{\n{then}\nyield\n}} {{\n{otherwise}\nyield\n}}"
    )
}

/// The analysis accepts programs that write the buffer on every path to a read, and rejects similar programs that do not.
#[test]
fn every_path_to_a_read_writes_the_buffer() {
    let accepted = [
        "W\nR",
        "W\nif(cond: %c) {\nR\nyield\n} {\nyield\n}",
        "if(cond: %c) {\nW\nyield\n} {\nW\nyield\n}\nR",
        "loop {\nW\nif(cond: %c) {\nbreak\n} {\nyield\n}\ncontinue\n}\nR",
        // A loop that runs at least one iteration.
        "for(lower: %0z, upper: %4z, step: %1z) {\n(%i: i32)\nW\ncontinue\n}\nR",
        "for(lower: %0z, upper: %4z, step: %1z) {\n(%i: i32)\nif(cond: %c) {\nW\ncontinue\n} {\nW\nyield\n}\ncontinue\n}\nR",
        // The branch that the condition excludes does not count.
        "if(cond: %t) {\nW\nyield\n} {\nyield\n}\nR",
        // The condition holds in the first iteration only, or in later iterations only.
        "for(lower: %0z, upper: %n, step: %1z) {\n(%i: i32)
%b = compare(kind: int(predicate: equal, signedness: signed), lhs: %i, rhs: %0z) : i1
if(cond: %b) {\nW\nyield\n} {\nyield\n}\nR\ncontinue\n}",
        "for(lower: %0z, upper: %n, step: %1z) {\n(%i: i32)
%b = compare(kind: int(predicate: not_equal, signedness: signed), lhs: %0z, rhs: %i) : i1
if(cond: %b) {\nyield\n} {\nW\nyield\n}\nR\ncontinue\n}",
    ];
    for body in accepted {
        assert_eq!(verdict(&program_with_buffer(body)), "accepted", "{body}");
    }
    let rejected = [
        "if(cond: %c) {\nW\nyield\n} {\nyield\n}\nR",
        "if(cond: %f) {\nW\nyield\n} {\nyield\n}\nR",
        // The analysis does not relate two tests of one condition.
        "if(cond: %c) {\nW\nyield\n} {\nyield\n}\nif(cond: %c) {\nR\nyield\n} {\nyield\n}",
        "loop {\nif(cond: %c) {\nbreak\n} {\nyield\n}\nW\ncontinue\n}\nR",
        "for(lower: %0z, upper: %n, step: %1z) {\n(%i: i32)\nW\ncontinue\n}\nR",
        "for(lower: %4z, upper: %4z, step: %1z) {\n(%i: i32)\nW\ncontinue\n}\nR",
        "for(lower: %0z, upper: %4z, step: %1z) {\n(%i: i32)\nif(cond: %c) {\ncontinue\n} {\nyield\n}\nW\ncontinue\n}\nR",
        "for(lower: %0z, upper: %n, step: %1z) {\n(%i: i32)
%b = compare(kind: int(predicate: equal, signedness: signed), lhs: %i, rhs: %1z) : i1
if(cond: %b) {\nW\nyield\n} {\nyield\n}\nR\ncontinue\n}",
        // After an `if`, a branch that ends in another terminator still counts.
        "if(cond: %c) {\nW\nyield\n} {\nreturn\n}\nR",
        "loop {\nif(cond: %c) {\nW\nbreak\n} {\ncontinue\n}\ncontinue\n}\nR",
        "for(lower: %0z, upper: %n, step: %1z) {\n(%i: i32)\nif(cond: %c) {\ncontinue\n} {\nW\nyield\n}\nR\ncontinue\n}",
        "if(cond: %c) {\nW\nreturn\n} {\nreturn\n}\nR",
    ];
    for body in rejected {
        let message = verdict(&program_with_buffer(body));
        assert!(message.starts_with("AS011") && message.contains("may be read before it is written"), "{body}: {message}");
    }
    assert!(verdict(&program_with_buffer("R\nW")).ends_with("buffer0 is read before anything is written to it"));
}

/// A condition proves that an earlier loop ran an iteration if it compares the bounds of the loop, with the signedness of the loop.
#[test]
fn a_condition_proves_that_a_loop_ran() {
    let int = |predicate: &str, sign: &str, lhs: &str, rhs: &str| {
        format!("int(predicate: {predicate}, signedness: {sign}), lhs: {lhs}, rhs: {rhs}")
    };
    let cases = [
        ("less_than", ["%0z", "%n"], true),
        ("greater_than", ["%n", "%0z"], true),
        ("greater_than_or_equal", ["%0z", "%n"], false),
        ("less_than_or_equal", ["%n", "%0z"], false),
    ];
    for (predicate, [lhs, rhs], ran_if) in cases {
        let verdict_of = |sign: &str, read_if: bool, lhs: &str, rhs: &str| {
            let [then, otherwise] = if read_if { ["R", ""] } else { ["", "R"] };
            verdict(&program_with_buffer(&after_a_loop(&int(predicate, sign, lhs, rhs), then, otherwise)))
        };
        assert_eq!(verdict_of("signed", ran_if, lhs, rhs), "accepted", "{predicate}");
        assert!(verdict_of("signed", !ran_if, lhs, rhs).starts_with("AS011"), "{predicate}: the other way");
        assert!(verdict_of("unsigned", ran_if, lhs, rhs).starts_with("AS011"), "{predicate}: other numbers");
        assert!(verdict_of("signed", ran_if, rhs, lhs).starts_with("AS011"), "{predicate}: the other way around");
        let other = [lhs, rhs].map(|value| value.replace("%0z", "%1z"));
        assert!(verdict_of("signed", ran_if, &other[0], &other[1]).starts_with("AS011"), "{predicate}: another bound");
    }
    let unsigned =
        after_a_loop(&int("less_than", "unsigned", "%0z", "%n"), "R", "").replace("step: %1z", "step: %1z, unsigned: true");
    assert_eq!(verdict(&program_with_buffer(&unsigned)), "accepted");
    // A loop inside a branch proves nothing after the branch.
    let less = int("less_than", "signed", "%0z", "%n");
    let inside = after_a_loop(&less, "R", "").replacen("for(", "if(cond: %c) {\nfor(", 1);
    let inside = inside.replacen("\n%b", "\nyield\n} {\nyield\n}\n%b", 1);
    assert!(verdict(&program_with_buffer(&inside)).starts_with("AS011"));
}

/// A forwarded predicate can prove that a buffer is written.
#[test]
fn a_forwarded_predicate_proves_a_write() {
    let read = |zero_init: &str| format!("if(cond: {zero_init}) {{\nyield\n}} {{\nR\nyield\n}}");
    let counted = |init: &str, inner: &str, last: &str| {
        format!(
            "%a = for(lower: %0z, upper: %n, step: %1z, init: [{init}]) : i1 {{
(%i: i32, %p: i1)\n{inner}\ncontinue(values: [{last}])\n}}\n"
        )
    };
    let endless = |init: &str, inner: &str, last: &str| {
        let leave = "if(cond: %c) {\nbreak(values: [%p])\n} {\nyield\n}";
        format!("%a = loop(init: [{init}]) : i1 {{\n(%p: i1)\n{leave}\n{inner}\ncontinue(values: [{last}])\n}}\n")
    };
    let branches = |then: &str, yes: &str, no: &str| {
        format!("%a = if(cond: %c) : i1 {{\n{then}\nyield(values: [{yes}])\n}} {{\nyield(values: [{no}])\n}}\n")
    };
    let chosen = |then: &str| format!("{then}%s = select(cond: %c, yes: %t, no: %a) : i1\n{}", read("%s"));
    let nested = counted("%t", &counted("%p", "W", "%f").replace("%a", "%a2").replace("%i", "%i2").replace("%p:", "%p2:"), "%a2");
    let accepted = [
        counted("%t", "W", "%f") + &read("%a"),
        endless("%t", "W", "%f") + &read("%a"),
        branches("W", "%f", "%t") + &read("%a"),
        nested + &read("%a"),
        counted("%t", "if(cond: %c) {\ncontinue(values: [%p])\n} {\nyield\n}\nW", "%f") + &read("%a"),
        chosen(&counted("%t", "W", "%f")),
        // Inside the loop, the predicate proves that an earlier iteration wrote.
        counted("%t", &format!("W\n{}", read("%p")), "%f"),
        // A false predicate proves the write.
        counted("%f", "W", "%t") + "if(cond: %a) {\nR\nyield\n} {\nyield\n}",
    ];
    for body in &accepted {
        assert_eq!(verdict(&program_with_buffer(body)), "accepted", "{body}");
    }
    let rejected = [
        counted("%f", "W", "%f") + &read("%a"),
        counted("%c", "W", "%f") + &read("%a"),
        counted("%t", "W", "%f") + &read("%c"),
        counted("%t", "W", "%f") + "if(cond: %a) {\nR\nyield\n} {\nyield\n}",
        counted("%t", "if(cond: %c) {\ncontinue(values: [%f])\n} {\nyield\n}\nW", "%f") + &read("%a"),
        endless("%f", "W", "%f") + &read("%a"),
        endless("%t", "if(cond: %c) {\ncontinue(values: [%f])\n} {\nyield\n}\nW", "%f") + &read("%a"),
        branches("W", "%f", "%f") + &read("%a"),
        branches("W", "%t", "%f") + &read("%a"),
    ];
    for body in &rejected {
        let message = verdict(&program_with_buffer(body));
        assert!(message.starts_with("AS011") && message.contains("may be read before it is written"), "{body}: {message}");
    }
}

/// Each iteration forwards each predicate to the next loop-carried value. The analysis rejects these chains, and takes less than 20
/// seconds for 200 nested loops.
#[test]
fn the_analysis_of_carried_predicates_terminates() {
    let chain = |count: usize| {
        let list = |of: &dyn Fn(usize) -> String| (0..count).map(of).collect::<Vec<_>>().join(", ");
        let (args, names) = (list(&|at| format!("%p{at}: i1")), list(&|at| format!("%a{at}")));
        let last = list(&|at| if at + 1 < count { format!("%p{}", at + 1) } else { "%f".into() });
        let (init, types) = (list(&|_| "%t".into()), list(&|_| "i1".into()));
        let inner = format!("(%i: i32, {args})\nif(cond: %p0) {{\nyield\n}} {{\nR\nyield\n}}\ncontinue(values: [{last}])");
        format!(
            "if(cond: %c) {{\nW\nyield\n}} {{\nyield\n}}
{names} = for(lower: %0z, upper: %n, step: %1z, init: [{init}]) : {types} {{\n{inner}\n}}"
        )
    };
    for count in [2, 8, 40] {
        assert!(verdict(&program_with_buffer(&chain(count))).starts_with("AS011"), "{count} predicates");
    }
    let mut nest = String::from("if(cond: %p0) {\nyield\n} {\nR\nyield\n}\nW");
    for depth in (0..200).rev() {
        let (init, last) = (if depth == 0 { "%t".into() } else { format!("%p{}", depth - 1) }, "%f");
        let head =
            format!("%a{depth} = for(lower: %0z, upper: %n, step: %1z, init: [{init}]) : i1 {{\n(%i{depth}: i32, %p{depth}: i1)\n");
        let last = if depth == 199 { last.into() } else { format!("%a{}", depth + 1) };
        nest = format!("{head}{nest}\ncontinue(values: [{last}])\n}}");
    }
    let start = std::time::Instant::now();
    let message = verdict(&program_with_buffer(&nest));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    assert!(message.contains("buffer0 is read before anything is written to it"), "{message}");
    assert_eq!(
        verdict(&program_with_buffer(&nest.replacen("R\n", "", 1).replacen(
            "W\n",
            "W\nif(cond: %p0) {\nyield\n} {\nR\nyield\n}\n",
            1
        ))),
        "accepted"
    );
}

/// The header and the layout table of the programs that this file assembles from a body.
const HEAD: &str =
    "//!tile tileas 7 atoms\n//!tile target sm_80\n//!tile option opt-level=3\n//!tile producer test\n//!tile input 00
layout #0 = (register: [], lane: [1, 2, 4, 8, 16], warp: [])
layout #1 = (register: [32], lane: [1, 2, 4, 8, 16], warp: [])
layout #2 = (register: [1], lane: [2, 4, 8, 16, 32], warp: [])
layout #3 = (register: [], lane: [16, 8, 4, 2, 1], warp: [])
layout #4 = (register: [], lane: [0, 0, 0, 0, 0], warp: [])
layout #5 = (register: [], lane: [1, 2, 0, 0, 0], warp: [])
layout #6 = (register: [], lane: [1, 2, 4, 0, 0], warp: [])
";

/// Each case is a body and a part of the expected message.
#[test]
fn incompatible_layouts_are_rejected() {
    let sum = "{\n(%a: i32, %b: i32)\n%c = binary(kind: add_i(overflow: none), lhs: %a, rhs: %b) : i32\nyield(values: [%c])\n}";
    let reduce = |op: &str, ty: &str| format!("%y = {op}(operands: [%x], dim: 0, body: {{}}) : {ty} {sum}");
    let with_iota = |ty: &str, rest: &str| format!("%x = iota : {ty}\n{rest}");
    let cases = [
        (with_iota("tile<32xi32, #0>", "%y = convert_layout(x: %x, route: registers) : tile<32xi32, #3>"), "between threads"),
        (with_iota("tile<32xi32, #0>", "%y = convert_layout(x: %x, route: shuffle) : tile<32xi32, #3>"), "accepted"),
        (with_iota("tile<32xi32, #0>", "%y = convert_layout(x: %x, route: shuffle) : tile<32xi64, #3>"), "wrong types"),
        (with_iota("tile<32xi32, #0>", "%y = unary(kind: abs_i, x: %x) : tile<32xi32, #3>"), "in different layouts"),
        (with_iota("tile<32xi32, #0>", "%y = reshape(x: %x) : tile<4x8xi32, #3>"), "between threads"),
        (with_iota("tile<32xi32, #0>", "%y = reshape(x: %x) : tile<4x8xi32, #0>"), "accepted"),
        (with_iota("tile<32xi32, #0>", "%y = cat(lhs: %x, rhs: %x, dim: 0) : tile<64xi32, #1>"), "accepted"),
        (with_iota("tile<32xi32, #0>", "%y = cat(lhs: %x, rhs: %x, dim: 0) : tile<64xi32, #2>"), "halves"),
        (with_iota("tile<64xi16, #2>", "%y = reinterpret(x: %x) : tile<32xi32, #0>"), "accepted"),
        (with_iota("tile<64xi16, #1>", "%y = reinterpret(x: %x) : tile<32xi32, #0>"), "neighbouring registers"),
        (
            with_iota("tile<64xi32, #1>", "%i = constant(1) : i32\n%y = extract(x: %x, indices: [%i]) : tile<32xi32, #0>"),
            "accepted",
        ),
        (
            with_iota("tile<64xi32, #2>", "%i = constant(1) : i32\n%y = extract(x: %x, indices: [%i]) : tile<32xi32, #0>"),
            "between threads",
        ),
        ("%x = coordinate(dim: 1) : tile<32xi32, #0>".into(), "no such dimension"),
        ("%x = coordinate(dim: 0) : tile<32xf32, #0>".into(), "integer that holds every coordinate"),
        (with_iota("tile<64xi32, #2>", &reduce("reduce_registers", "tile<32xi32, #0>")), "accepted"),
        (with_iota("tile<64xi32, #2>", &reduce("reduce_registers", "tile<32xi32, #3>")), "layout of the reduced operand"),
        (with_iota("tile<64xi32, #2>", &reduce("reduce_registers", "tile<16xi32, #0>")), "AS005"),
        (with_iota("tile<32xi32, #0>", &reduce("reduce_lanes", "tile<1xi32, #4>")), "accepted"),
        (with_iota("tile<32xi32, #0>", &reduce("reduce_lanes", "tile<4xi32, #5>")), "does not fit its operand"),
        (
            with_iota("tile<32xi32, #0>", &format!("%y = scan(operands: [%x], dim: 0, body: {{}}) : tile<32xi32, #0> {sum}")),
            "accepted",
        ),
        (
            with_iota("tile<32xi32, #3>", &format!("%y = scan(operands: [%x], dim: 0, body: {{}}) : tile<32xi32, #3> {sum}")),
            "in order",
        ),
        ("%y = shared_load(buffer: 0, atom: vector(vector_bits: 0)) : tile<32xi32, #0>".into(), "buffer0 is not in the table"),
    ];
    for (body, expected) in cases {
        let text = format!("{HEAD}func \"k\"() (warps: 1) @0 {{\n{body}\nreturn\n}}\n");
        let message = verdict(&text);
        assert!(message.contains(expected), "{body}: {message}");
    }
}
