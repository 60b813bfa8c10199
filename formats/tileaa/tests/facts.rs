//! Tests the facts that the analysis derives for small functions.

use base::{File, Value};
use tileaa::facts::{AxisInfo, Facts};
use tileaa::{Function, Module};

/// A function with the parameters `%p`, `%n` and `%b`, and the given ops.
fn function(body: &str) -> Function {
    let text = format!("//!tile tileaa 4 lowered\nfunc \"k\"(%p: ptr<f32>, %n: i32, %b: i1) () {{\n{body}\nreturn\n}}\n");
    File::<Module>::read(text.as_bytes(), "k").unwrap_or_else(|error| panic!("{error:?}")).payload.functions.remove(0)
}

/// The last value that the function defines outside loops and branches.
fn last_value(function: &Function) -> Value {
    let block = &function.body.blocks[function.entry()];
    let ops = block.ops.iter().rev().map(|op| &function.body.ops[*op]);
    ops.flat_map(|op| op.results.first()).next().copied().unwrap()
}

/// The facts along a dimension with this contiguity, divisibility and constancy.
fn axis(contiguity: u64, divisibility: u64, constancy: u64) -> AxisInfo {
    AxisInfo { contiguity, divisibility, constancy }
}

#[test]
fn assumptions_and_constants_become_divisors_and_ranges() {
    let f = function(
        "%0 = assume(value: %n, fact: bounded(low: 0)) : i32
         %1 = assume(value: %0, fact: div_by(divisor: 16)) : i32
         %2 = constant(6) : i32
         %3 = binary(kind: mul_i(overflow: none), lhs: %1, rhs: %2) : i32",
    );
    let facts = Facts::derive(&f);
    assert_eq!(facts.divisor(last_value(&f)), 32);
    assert_eq!(facts.range(last_value(&f)), (i32::MIN.into(), i32::MAX.into()), "the multiplication by six may wrap");
}

#[test]
fn pointers_of_a_block_of_elements_are_contiguous_and_aligned() {
    let f = function(
        "%0 = assume(value: %p, fact: div_by(divisor: 16)) : ptr<f32>
         %1 = block_id(axis: 0) : i32
         %2 = constant(128) : i32
         %3 = binary(kind: mul_i(overflow: none), lhs: %1, rhs: %2) : i32
         %4 = iota : tile<128xi32>
         %5 = reshape(x: %3) : tile<1xi32>
         %6 = broadcast(x: %5) : tile<128xi32>
         %7 = binary(kind: add_i(overflow: none), lhs: %6, rhs: %4) : tile<128xi32>
         %8 = convert(kind: ext_i(signedness: signed), x: %7) : tile<128xi64>
         %9 = reshape(x: %0) : tile<1xptr<f32>>
         %10 = broadcast(x: %9) : tile<128xptr<f32>>
         %11 = offset(ptr: %10, offset: %8) : tile<128xptr<f32>>",
    );
    assert_eq!(Facts::derive(&f).axis(last_value(&f), 0), axis(128, 16, 1));
}

#[test]
fn a_bounds_mask_is_constant_in_groups_that_divide_the_bound() {
    let f = function(
        "%0 = assume(value: %n, fact: div_by(divisor: 8)) : i32
         %1 = broadcast(x: %0) : tile<64xi32>
         %2 = iota : tile<64xi32>
         %3 = compare(kind: int(predicate: less_than, signedness: signed), lhs: %2, rhs: %1) : tile<64xi1>",
    );
    assert_eq!(Facts::derive(&f).axis(last_value(&f), 0).constancy, 8);
}

#[test]
fn shape_ops_keep_facts_along_each_dimension() {
    let f = function(
        "%0 = iota : tile<64xi32>
         %1 = reshape(x: %0) : tile<1x64xi32>
         %2 = broadcast(x: %1) : tile<16x64xi32>
         %3 = permute(x: %2, order: [1, 0]) : tile<64x16xi32>",
    );
    let facts = Facts::derive(&f);
    assert_eq!(facts.axis(last_value(&f), 0).contiguity, 64);
    assert_eq!(facts.axis(last_value(&f), 1).constancy, 16);
    let f = function("%0 = iota : tile<64xi32>\n%1 = reshape(x: %0) : tile<4x16xi32>");
    let facts = Facts::derive(&f);
    assert_eq!(facts.axis(last_value(&f), 1), axis(16, 16, 1));
    assert_eq!(facts.axis(last_value(&f), 0), axis(1, 1, 1));
}

#[test]
fn remainders_are_contiguous_up_to_the_divisor() {
    let remainder_function = |signedness: &str, definition: &str| {
        function(&format!(
            "%0 = assume(value: %n, fact: div_by(divisor: 16)) : i32
             {definition}
             %2 = constant(128) : i32
             %3 = binary(kind: mul_i(overflow: none), lhs: %1, rhs: %2) : i32
             %4 = iota : tile<128xi32>
             %5 = broadcast(x: %3) : tile<128xi32>
             %6 = binary(kind: add_i(overflow: none), lhs: %5, rhs: %4) : tile<128xi32>
             %7 = broadcast(x: %0) : tile<128xi32>
             %8 = binary(kind: rem_i(signedness: {signedness}), lhs: %6, rhs: %7) : tile<128xi32>"
        ))
    };
    let f = remainder_function("signed", "%1 = block_id(axis: 0) : i32");
    assert_eq!(Facts::derive(&f).axis(last_value(&f), 0), axis(16, 16, 1));
    assert_eq!(Facts::derive(&f).range(last_value(&f)).0, 0);
    let f = remainder_function("unsigned", "%1 = assume(value: %n, fact: div_by(divisor: 1)) : i32");
    assert_eq!(Facts::derive(&f).axis(last_value(&f), 0), axis(16, 16, 1));
    // Among negative numbers, a multiple of the divisor ends a group instead of starting it.
    let f = remainder_function("signed", "%1 = assume(value: %n, fact: div_by(divisor: 1)) : i32");
    assert_eq!(Facts::derive(&f).axis(last_value(&f), 0).contiguity, 1);
    // Different divisors leave different remainders.
    let f = function(
        "%0 = iota : tile<64xi32>
         %1 = constant(16) : tile<64xi32>
         %2 = binary(kind: add_i(overflow: none), lhs: %0, rhs: %1) : tile<64xi32>
         %3 = binary(kind: mul_i(overflow: none), lhs: %2, rhs: %1) : tile<64xi32>
         %4 = binary(kind: rem_i(signedness: signed), lhs: %0, rhs: %3) : tile<64xi32>",
    );
    assert_eq!(Facts::derive(&f).axis(last_value(&f), 0).contiguity, 1);
}

#[test]
fn division_by_a_power_of_two_gives_groups_of_equal_numbers() {
    let f = function(
        "%0 = iota : tile<64xi32>
         %1 = constant(16) : tile<64xi32>
         %2 = binary(kind: div_i(signedness: signed, rounding: zero), lhs: %0, rhs: %1) : tile<64xi32>",
    );
    let facts = Facts::derive(&f);
    assert_eq!((facts.axis(last_value(&f), 0).constancy, facts.range(last_value(&f))), (16, (0, 3)));
    let f = function(
        "%0 = iota : tile<64xi32>
         %1 = constant(16) : tile<64xi32>
         %2 = binary(kind: rem_i(signedness: signed), lhs: %0, rhs: %1) : tile<64xi32>",
    );
    assert_eq!(Facts::derive(&f).axis(last_value(&f), 0).contiguity, 16);
}

#[test]
fn numbers_that_may_wrap_are_contiguous_only_up_to_their_alignment() {
    let f = function(
        "%0 = broadcast(x: %n) : tile<64xi32>
         %1 = iota : tile<64xi32>
         %2 = binary(kind: add_i(overflow: none), lhs: %0, rhs: %1) : tile<64xi32>
         %3 = convert(kind: ext_i(signedness: signed), x: %2) : tile<64xi64>",
    );
    assert_eq!(Facts::derive(&f).axis(last_value(&f), 0).contiguity, 1);
}

#[test]
fn loops_keep_facts_that_every_iteration_confirms() {
    let f = function(
        "%z = constant(0) : i32
         %s = constant(32) : i32
         %l = assume(value: %n, fact: bounded(low: 0, high: 1000)) : i32
         %r, %q = for(lower: %z, upper: %l, step: %s, init: [%z, %z]) : i32, i32 {
           (%i: i32, %c: i32, %d: i32)
           %x = binary(kind: add_i(overflow: none), lhs: %c, rhs: %s) : i32
           %y = binary(kind: max_i(signedness: signed), lhs: %d, rhs: %i) : i32
           continue(values: [%x, %y])
         }",
    );
    let facts = Facts::derive(&f);
    let outer = &f.body.blocks[f.entry()].ops;
    let for_op = &f.body.ops[outer[outer.len() - 2]];
    assert_eq!(facts.divisor(for_op.results[0]), 32);
    assert_eq!(facts.range(for_op.results[1]), (0, 999));
}

#[test]
fn memrefs_collect_the_facts_of_their_operands() {
    let f = function(
        "%0 = assume(value: %p, fact: div_by(divisor: 256)) : ptr<f32>
         %1 = assume(value: %n, fact: div_by(divisor: 4)) : i32
         %2 = make_memref(base: %0, sizes: [%n], strides: [%1]) : memref<?x8xf32, strides: [?, 1], scope: 1>",
    );
    let memref = Facts::derive(&f).memref(last_value(&f)).unwrap();
    assert_eq!((memref.base_divisor, &memref.size_divisors[..], &memref.stride_divisors[..]), (256, &[1, 8][..], &[4, 1][..]));
}

#[test]
fn the_analysis_of_deep_loop_nests_terminates() {
    let depth = 150;
    let mut body = String::from("%z = constant(0) : i32\n%s = constant(64) : i32\n");
    for level in 0..depth {
        let init = if level == 0 { "%z".to_string() } else { format!("%c{}", level - 1) };
        body += &format!(
            "%r{level} = for(lower: %z, upper: %n, step: %s, init: [{init}], body: {{}}) : i32 {{\n(%i{level}: i32, %c{level}: i32)\n"
        );
    }
    body += &format!("%x = binary(kind: add_i(overflow: none), lhs: %c{}, rhs: %s) : i32\ncontinue(values: [%x])\n}}\n", depth - 1);
    for level in (0..depth - 1).rev() {
        body += &format!("continue(values: [%r{}])\n}}\n", level + 1);
    }
    let f = function(&body);
    let divisor = Facts::derive(&f).divisor(last_value(&f));
    assert!(divisor == 64 || divisor == 1);
}
