//! Tests of the passes: each test runs all passes on a small function and checks lines of the result.

use super::PASSES;
use base::{File, Payload};
use tileaa::Module;

/// Runs all passes on a function with this body and the parameters `%p`, `%n`, `%c` and `%q`. Returns the lines of the result's
/// body, without locations.
fn optimised(body: &str) -> Vec<String> {
    let text = format!("//!tile tileaa 4 lowered\nfunc \"k\"(%p: ptr<f32>, %n: i32, %c: i1, %q: ptr<i32>) () {{\n{body}\n}}\n");
    let mut file = File::<Module>::read(text.as_bytes(), "k").unwrap_or_else(|error| panic!("{error:?}"));
    for pass in PASSES {
        (pass.run)(&mut file).unwrap();
        file.payload.verify(&file.envelope).unwrap_or_else(|error| panic!("after {}: {error:?}", pass.name));
    }
    let printed = file.payload.print(&file.envelope, base::Locations::Named);
    let lines = printed.lines().skip(1).map(|line| line.trim().replace(" @0", ""));
    lines.filter(|line| line != "}").collect()
}

#[test]
fn constants_and_identities_fold() {
    let lines = optimised(
        "%1 = constant(3) : i32
         %2 = constant(4) : i32
         %3 = binary(kind: mul_i(overflow: none), lhs: %1, rhs: %2) : i32
         %4 = binary(kind: add_i(overflow: none), lhs: %3, rhs: %n) : i32
         %5 = binary(kind: add_i(overflow: none), lhs: %4, rhs: %1) : i32
         %6 = constant(0) : i32
         %7 = binary(kind: or, lhs: %5, rhs: %6) : i32
         %8 = store(ptr: %q, value: %7, order: (semantics: weak)) : token
         return",
    );
    assert_eq!(
        lines,
        [
            "%4 = constant(15) : i32",
            "%5 = binary(kind: add_i(overflow: none), lhs: %1, rhs: %4) : i32",
            "%6 = store(ptr: %3, value: %5, order: (semantics: weak)) : token",
            "return",
        ]
    );
}

#[test]
fn floor_division_of_non_negative_values_needs_no_correction() {
    let lines = optimised(
        "%1 = block_id(axis: 0) : i32
         %2 = constant(6) : i32
         %z = constant(0) : i32
         %3 = binary(kind: rem_i(signedness: signed), lhs: %1, rhs: %2) : i32
         %4 = compare(kind: int(predicate: less_than, signedness: signed), lhs: %3, rhs: %z) : i1
         %5 = compare(kind: int(predicate: less_than, signedness: signed), lhs: %2, rhs: %z) : i1
         %6 = binary(kind: xor, lhs: %4, rhs: %5) : i1
         %7 = compare(kind: int(predicate: not_equal, signedness: signed), lhs: %3, rhs: %z) : i1
         %8 = binary(kind: and, lhs: %6, rhs: %7) : i1
         %9 = binary(kind: add_i(overflow: none), lhs: %3, rhs: %2) : i32
         %10 = select(cond: %8, yes: %9, no: %3) : i32
         %11 = store(ptr: %q, value: %10, order: (semantics: weak)) : token
         return",
    );
    assert_eq!(lines[2], "%6 = binary(kind: rem_i(signedness: unsigned), lhs: %4, rhs: %5) : i32");
    assert_eq!(lines.len(), 5);
}

#[test]
fn operands_with_different_broadcasts_meet_in_the_smallest_shape() {
    let lines = optimised(
        "%1 = iota : tile<16xi32>
         %2 = reshape(x: %1) : tile<16x1xi32>
         %3 = broadcast(x: %2) : tile<16x32xi32>
         %4 = reshape(x: %n) : tile<1x1xi32>
         %5 = broadcast(x: %4) : tile<16x32xi32>
         %6 = binary(kind: add_i(overflow: none), lhs: %3, rhs: %5) : tile<16x32xi32>
         %7 = broadcast(x: %q) : tile<16x32xptr<i32>>
         %8 = store(ptr: %7, value: %6, order: (semantics: weak)) : token
         return",
    );
    assert!(lines.contains(&"%7 = binary(kind: add_i(overflow: none), lhs: %5, rhs: %6) : tile<16x1xi32>".into()), "{lines:#?}");
}

#[test]
fn constant_masks_fold_and_tokens_stay() {
    let lines = optimised(
        "%t = make_token : token
         %0 = constant(false) : i1
         %1 = constant(true) : i1
         %a = store(ptr: %q, value: %n, mask: %1, token: %t, order: (semantics: weak)) : token
         %b = store(ptr: %q, value: %n, mask: %0, token: %a, order: (semantics: weak)) : token
         %j = join_tokens(tokens: [%t, %b, %a]) : token
         %d = store(ptr: %q, value: %n, token: %j, order: (semantics: weak)) : token
         return",
    );
    assert_eq!(
        lines,
        [
            "%4 = make_token : token",
            "%5 = store(ptr: %3, value: %1, token: %4, order: (semantics: weak)) : token",
            "%6 = store(ptr: %3, value: %1, token: %5, order: (semantics: weak)) : token",
            "return",
        ]
    );
}

#[test]
fn dead_loop_carried_values_are_removed() {
    let lines = optimised(
        "%z = constant(0) : i32
         %s = constant(1) : i32
         %t = make_token : token
         %a, %b, %e = for(lower: %z, upper: %n, step: %s, init: [%z, %z, %t]) : i32, i32, token {
           (%i: i32, %x: i32, %y: i32, %u: token)
           %1 = binary(kind: add_i(overflow: none), lhs: %x, rhs: %i) : i32
           %2 = binary(kind: add_i(overflow: none), lhs: %y, rhs: %n) : i32
           %3 = store(ptr: %q, value: %1, token: %u, order: (semantics: weak)) : token
           continue(values: [%1, %2, %3])
         }
         return",
    );
    assert!(lines.iter().any(|line| line.contains("init: [%4, %6]")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("continue") && line.matches('%').count() == 2), "{lines:#?}");
}

#[test]
fn constant_branches_fold_and_scalar_branches_become_selects() {
    let lines = optimised(
        "%1 = constant(true) : i1
         %2 = constant(7) : i32
         %3 = if(cond: %1) : i32 {
           %4 = binary(kind: add_i(overflow: none), lhs: %n, rhs: %2) : i32
           yield(values: [%4])
         } {
           yield(values: [%n])
         }
         %5 = if(cond: %c) : i32 {
           yield(values: [%3])
         } {
           yield(values: [%n])
         }
         %6 = store(ptr: %q, value: %5, order: (semantics: weak)) : token
         return",
    );
    assert_eq!(
        lines,
        [
            "%4 = constant(7) : i32",
            "%5 = binary(kind: add_i(overflow: none), lhs: %1, rhs: %4) : i32",
            "%6 = select(cond: %2, yes: %5, no: %1) : i32",
            "%7 = store(ptr: %3, value: %6, order: (semantics: weak)) : token",
            "return",
        ]
    );
}

#[test]
fn invariant_scalars_are_hoisted_except_divisions_that_may_trap() {
    let lines = optimised(
        "%z = constant(0) : i32
         %s = constant(1) : i32
         for(lower: %z, upper: %n, step: %s) {
           (%i: i32)
           %1 = binary(kind: mul_i(overflow: none), lhs: %n, rhs: %n) : i32
           %2 = binary(kind: div_i(signedness: signed, rounding: zero), lhs: %1, rhs: %n) : i32
           %3 = binary(kind: add_i(overflow: none), lhs: %2, rhs: %i) : i32
           %4 = store(ptr: %q, value: %3, order: (semantics: weak)) : token
           continue
         }
         return",
    );
    let line_of = |word: &str| lines.iter().position(|line| line.contains(word)).unwrap();
    assert!(line_of("mul_i") < line_of("for(") && line_of("for(") < line_of("div_i"), "{lines:#?}");
}

#[test]
fn comparisons_of_sign_extended_values_are_narrowed() {
    let lines = optimised(
        "%1 = iota : tile<32xi32>
         %2 = convert(kind: ext_i(signedness: signed), x: %1) : tile<32xi64>
         %3 = convert(kind: ext_i(signedness: signed), x: %n) : i64
         %4 = broadcast(x: %3) : tile<32xi64>
         %5 = compare(kind: int(predicate: less_than, signedness: unsigned), lhs: %2, rhs: %4) : tile<32xi1>
         %6 = broadcast(x: %q) : tile<32xptr<i32>>
         %7 = store(ptr: %6, value: %1, mask: %5, order: (semantics: weak)) : token
         return",
    );
    assert!(!lines.iter().any(|line| line.contains("i64")), "{lines:#?}");
}

#[test]
fn additions_that_cannot_wrap_get_no_wrap_flags() {
    let lines = optimised(
        "%1 = block_id(axis: 0) : i32
         %2 = constant(256) : i32
         %3 = binary(kind: mul_i(overflow: none), lhs: %1, rhs: %2) : i32
         %4 = iota : tile<256xi32>
         %5 = broadcast(x: %3) : tile<256xi32>
         %6 = binary(kind: add_i(overflow: none), lhs: %5, rhs: %4) : tile<256xi32>
         %7 = broadcast(x: %q) : tile<256xptr<i32>>
         %8 = store(ptr: %7, value: %6, order: (semantics: weak)) : token
         return",
    );
    assert!(lines.iter().any(|line| line.contains("mul_i(overflow: none)")), "2^24 blocks of 256 do not fit: {lines:#?}");
    assert!(lines.iter().any(|line| line.contains("add_i(overflow: no_wrap)")), "{lines:#?}");
}

#[test]
fn induction_variables_derive_from_the_loop_counter() {
    let lines = optimised(
        "%l = constant(0) : i32
         %s = constant(64) : i32
         %1 = constant(1) : i32
         %5 = constant(5) : i32
         %2 = for(lower: %l, upper: %n, step: %s, init: [%5]) : i32 {
           (%i: i32, %k: i32)
           %3 = offset(ptr: %q, offset: %k) : ptr<i32>
           %4 = store(ptr: %3, value: %i, order: (semantics: weak)) : token
           %6 = binary(kind: add_i(overflow: none), lhs: %k, rhs: %1) : i32
           continue(values: [%6])
         }
         return",
    );
    let body: Vec<&str> = lines.iter().skip_while(|line| !line.starts_with('(')).map(String::as_str).collect();
    assert_eq!(body[0], "(%7: i32)", "nothing is carried: {lines:#?}");
    assert!(lines.iter().any(|line| line.contains("div_i(signedness: unsigned")), "{lines:#?}");
}

#[test]
fn variable_with_the_loop_step_as_increment_needs_no_division() {
    let lines = optimised(
        "%l = constant(3) : i32
         %s = constant(132) : i32
         %2 = for(lower: %l, upper: %n, step: %s, init: [%n]) : i32 {
           (%i: i32, %k: i32)
           %3 = offset(ptr: %q, offset: %k) : ptr<i32>
           %4 = store(ptr: %3, value: %i, order: (semantics: weak)) : token
           %6 = binary(kind: add_i(overflow: none), lhs: %k, rhs: %s) : i32
           continue(values: [%6])
         }
         return",
    );
    assert!(lines.iter().any(|line| line.starts_with("for(")), "nothing is carried: {lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("div_i")), "{lines:#?}");
}

#[test]
fn loop_carried_index_tiles_derive_from_the_loop_counter() {
    let lines = optimised(
        "%l = constant(0) : i32
         %1 = constant(1) : i32
         %o = iota : tile<16xi64>
         %b = broadcast(x: %q) : tile<16xptr<i32>>
         %x = constant(7) : tile<16xi32>
         %far = constant(16) : tile<16xi64>
         %2 = for(lower: %l, upper: %n, step: %1, init: [%o]) : tile<16xi64> {
           (%i: i32, %k: tile<16xi64>)
           %3 = offset(ptr: %b, offset: %k) : tile<16xptr<i32>>
           %4 = store(ptr: %3, value: %x, order: (semantics: weak)) : token
           %5 = binary(kind: add_i(overflow: none), lhs: %k, rhs: %far) : tile<16xi64>
           continue(values: [%5])
         }
         return",
    );
    assert!(lines.iter().any(|line| line.starts_with("for(") && !line.contains("init")), "nothing is carried: {lines:#?}");
    // The iteration number is extended before the multiplication. In 32 bits, the product could wrap although the sum does not.
    assert!(lines.iter().any(|line| line.contains("ext_i(signedness: unsigned)") && line.ends_with(": i64")), "{lines:#?}");
}

#[test]
fn loop_carried_pointers_derive_from_the_loop_counter() {
    let lines = optimised(
        "%l = constant(0) : i32
         %1 = constant(1) : i32
         %o = iota : tile<16xi32>
         %b = broadcast(x: %q) : tile<16xptr<i32>>
         %x = constant(7) : tile<16xi32>
         %0 = offset(ptr: %b, offset: %o) : tile<16xptr<i32>>
         %2 = for(lower: %l, upper: %n, step: %1, init: [%0]) : tile<16xptr<i32>> {
           (%i: i32, %k: tile<16xptr<i32>>)
           %4 = store(ptr: %k, value: %x, order: (semantics: weak)) : token
           %m = binary(kind: mul_i(overflow: none), lhs: %n, rhs: %n) : i32
           %5 = broadcast(x: %m) : tile<16xi32>
           %6 = offset(ptr: %k, offset: %5) : tile<16xptr<i32>>
           continue(values: [%6])
         }
         return",
    );
    assert!(lines.iter().any(|line| line.starts_with("for(")), "nothing is carried: {lines:#?}");
    assert!(lines.iter().any(|line| line.contains("broadcast") && line.ends_with("tile<16xi64>")), "{lines:#?}");
}
