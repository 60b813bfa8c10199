//! Tests the hazard checker on warp roles whose pipeline steps depend on loaded values: all roles must compute each condition
//! alike.

use base::File;
use sched::Module;

/// Two warp roles that execute the pipeline steps of an iteration only if the number which they load in this iteration is large
/// enough.
const CONDITIONAL_STEPS: &str = include_str!("warp_roles/conditions.sched");

/// Reads a file, which includes the hazard check. The error has the code and the message of the first violation.
fn hazard_checked(text: &str) -> Result<(), String> {
    File::<Module>::read(text.as_bytes(), "case").map(drop).map_err(|error| format!("{}: {}", error.code, error.message))
}

/// The text with the only match of `from` replaced.
fn edited(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "{from} in\n{text}");
    text.replacen(from, to, 1)
}

/// Checks that the hazard checker refuses a text with a message that contains `expected`.
fn assert_refused(text: &str, expected: &str) {
    let message = hazard_checked(text).expect_err(expected);
    assert!(message.contains(expected), "{message}, not {expected}");
}

#[test]
fn roles_that_repeat_a_load_take_the_same_path() {
    hazard_checked(CONDITIONAL_STEPS).expect("both roles evaluate the same condition");
}

#[test]
fn roles_that_compute_different_conditions_are_refused() {
    let load = "load_view(view: %4, index: [%42]";
    for different_load in ["load_view(view: %6, index: [%42]", "load_view(view: %4, index: [%7]"] {
        assert_refused(&edited(CONDITIONAL_STEPS, load, different_load), "SC133");
    }
    let compared = "lhs: %42, rhs: %47";
    assert_refused(&edited(CONDITIONAL_STEPS, compared, "lhs: %47, rhs: %42"), "SC133");
    assert_refused(
        &edited(CONDITIONAL_STEPS, "signedness: signed), lhs: %42, rhs: %47", "signedness: unsigned), lhs: %42, rhs: %47"),
        "SC133",
    );
}

#[test]
fn loads_that_tokens_order_with_writes_are_refused_as_equal_conditions() {
    let loop_start = "    %20, %21 = for(lower: %7, upper: %2, step: %8, init: [%7, %7])";
    let store_and_barrier = concat!(
        "    %60 = constant(0) : tile<1xi32, #0> @0\n",
        "    %61 = store_view(tile: %60, view: %4, index: [%8], token: %10, order: (semantics: weak), ",
        "atom: vector(vector_bits: 0)) : token @0\n",
        "    barrier(id: 1, threads: 128) @0\n"
    );
    let ordered = edited(CONDITIONAL_STEPS, loop_start, &format!("{store_and_barrier}{loop_start}"));
    let ordered = edited(&ordered, "index: [%22], token: %10", "index: [%22], token: %61");
    assert_refused(&ordered, "SC133");
}

#[test]
fn paths_that_break_the_stage_order_are_refused() {
    let skipped = "        yield(values: [%43, %44]) @0";
    assert_refused(
        &edited(CONDITIONAL_STEPS, skipped, "        yield(values: [%8, %44]) @0"),
        "pipeline0 is not the next one of warp role 'load'",
    );
    assert_refused(&edited(CONDITIONAL_STEPS, skipped, "        yield(values: [%43, %8]) @0"), "SC130");
    let step = "        pipeline_commit(pipeline: 0, stage: %43) @0\n";
    assert_refused(&edited(CONDITIONAL_STEPS, step, ""), "SC13");
    let both = edited(
        CONDITIONAL_STEPS,
        skipped,
        &format!("        pipeline_acquire(pipeline: 0, stage: %43, phase: %44) @0\n{step}{skipped}"),
    );
    assert_refused(&both, "SC13");
}
