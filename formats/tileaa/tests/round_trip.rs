//! Tests that `.aa` files satisfy the round-trip properties of all formats, and that the verifier rejects violations of its rules.

use base::File;
use tileaa::Module;

/// The header of the files that the tests read.
const HEAD: &str = "//!tile tileaa 4 lowered\n//!tile option opt-level=3\n//!tile producer test\n//!tile input 00\n";

/// A function with views, a loop, a reduction, a branch and accesses through pointers.
const SAMPLE: &str = r#"
global (name: "table", elem: i32, count: 4, value: elements([1, 2, 3, 4]), align: 16, constant: true, loc: @0)
func "sample"(%0: ptr<f32>, %1: i32, %2: i1) (hints: [(target: "sm_90", spec: (occupancy: 2))]) @0 {
  %3 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f32>
  %4 = make_memref(base: %3, sizes: [%1]) : memref<?xf32, strides: [1], scope: 1>
  %5 = make_view(memref: %4) : view<64, memref<?xf32, strides: [1], scope: 1>, padding: zero>
  %6 = make_token : token
  %7 = constant(0) : i32
  %8 = constant(1) : i32
  %9 = constant(0.0) : f32
  %10 = for(lower: %7, upper: %1, step: %8, init: [%9]) : f32 {
    (%11: i32, %12: f32)
    %13, %14 = load_view(view: %5, index: [%11], token: %6, order: (semantics: weak)) : tile<64xf32>, token
    %15 = reduce(operands: [%13], identities: [0], dim: 0) : f32 {
      (%16: f32, %17: f32)
      %18 = binary(kind: add_f(rounding: nearest_even), lhs: %16, rhs: %17) : f32
      yield(values: [%18])
    }
    %19 = if(cond: %2) : f32 {
      yield(values: [%15])
    } {
      yield(values: [%12])
    }
    continue(values: [%19])
  }
  %20 = store(ptr: %3, value: %10, token: %6, order: (semantics: relaxed, scope: device)) : token
  %21 = global_address(name: "table") : ptr<i32>
  return
}
fact (value: %3, divisor: 16)
fact (value: %11, range: <0, 2147483646>)
"#;

#[test]
fn the_sample_round_trips() {
    let file = round_trip::check::<Module>((HEAD.to_string() + SAMPLE).as_bytes());
    assert_eq!(file.payload.functions.len(), 1);
}

/// Each case is a body that the reader or the verifier rejects, and a part of the message.
#[test]
fn invalid_bodies_are_rejected() {
    let cases = [
        ("%1 = binary(kind: add_f(rounding: nearest_even), lhs: %0, rhs: %0) : f32\nreturn", "another type"),
        ("%1 = binary(kind: add_f(rounding: nearest_even), lhs: %0, rhs: %0) : i32\nreturn", "not defined on elements"),
        ("%1 = constant([1, 2]) : tile<4xi32>\nreturn", "data has bits"),
        ("%1 = constant(256) : i8\nreturn", "not a number of type i8"),
        ("%1 = constant(0) : tile<3xi32>\nreturn", "power of two"),
        ("%1 = iota : tile<4xi32>\n%2 = reshape(x: %1) : tile<8xi32>\nreturn", "do not fit"),
        ("%1 = make_token : token\n%2 = join_tokens(tokens: [%1]) : token\nreturn", "two tokens"),
        ("%1 = if(cond: %0) : i32 {\nyield(values: [%0])\n} {\nyield(values: [%0])\n}\nreturn", "another type"),
        ("loop {\nyield\n}\nreturn", "yielded to"),
        ("break\n", "not in a loop"),
        ("%1 = constant(0) : i32", "terminator"),
        ("%1 = int_to_ptr(x: %0) : ptr<i32>\nreturn", "not defined on elements"),
        ("%1 = global_address(name: \"x\") : ptr<i32>\nreturn", "no global"),
    ];
    for (body, expected) in cases {
        let text = format!("{HEAD}func \"k\"(%0: i32) () @0 {{\n{body}\n}}\n");
        let error = File::<Module>::read(text.as_bytes(), "case").expect_err(body);
        assert!(error.message.contains(expected), "{body}: {}", error.message);
    }
}

/// The verifier requires ids in program order. The reader of the text form renumbers the ids of hand-written text.
#[test]
fn ids_must_be_in_program_order() {
    let text = format!("{HEAD}func \"k\"(%0: i32) () @0 {{\n%7 = unary(kind: abs_i, x: %0) : i32\nreturn\n}}\n");
    let mut file = File::<Module>::read(text.as_bytes(), "case").unwrap();
    let function = &mut file.payload.functions[0];
    let block = function.entry();
    function.body.blocks[block].ops.remove(0);
    let error = file.write(base::envelope::Form::Binary).unwrap_err();
    assert_eq!(error.code, "AA003");
    file.payload.functions[0] = base::text::compact(&file.payload.functions[0]);
    file.write(base::envelope::Form::Binary).unwrap();
}

/// A table of facts in a file may claim less than the analysis derives. The verifier rejects a table that claims more.
#[test]
fn the_verifier_derives_facts_again() {
    let text = |fact: &str| {
        format!(
            "{HEAD}func \"k\"(%0: i32) () @0 {{\n%a = assume(value: %0, fact: div_by(divisor: 8)) : i32\nreturn\n}}\nfact {fact}\n"
        )
    };
    let file = File::<Module>::read(text("(value: %a, divisor: 4)").as_bytes(), "case").unwrap();
    assert_eq!(file.payload.functions[0].attrs.facts[0].value, base::Value(1));
    let error = File::<Module>::read(text("(value: %a, divisor: 16)").as_bytes(), "case").unwrap_err();
    assert_eq!(error.code, "AA008");
    let error = File::<Module>::read(text("(value: %0, range: <0, 5>)").as_bytes(), "case").unwrap_err();
    assert_eq!(error.code, "AA008");
}
