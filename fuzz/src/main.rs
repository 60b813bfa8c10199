//! Runs libFuzzer on the fuzz target that the environment variable `FUZZ_TARGET` names. Half of the mutations come
//! from `mutate_input`, which edits the lines and words of a text input. libFuzzer chooses the other mutations.

#![no_main]

use fuzz_targets::{MAX_INPUT_BYTES, Target, mutate::mutate_input};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use std::sync::LazyLock;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    Target::by_name(&name).unwrap_or_else(|| panic!("FUZZ_TARGET names no target: '{name}'"))
});

fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed % 2 == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let edited = mutate_input(TARGET.form, &data[..size], u64::from(seed) << 20);
    let count = edited.len().min(max_size).min(MAX_INPUT_BYTES);
    data[..count].copy_from_slice(&edited[..count]);
    count
});
