//! Robustness test of the simulator with mutated programs. A mutant is a valid PTX program with up to three random edits. The
//! simulator must reject a mutant, or run it until it ends or reaches its instruction limit. It must not panic, hang or exhaust
//! memory.
//!
//! `MUTANTS=folder cargo test -p simulator --release mutants` mutates all `.ptx` files of a folder.

use crate::decode::{LaunchSizes, decode};
use crate::machine::{Delivery, ExecutionMode, Machine, Options, Races};
use crate::memory::DeviceGlobalMemory;
use std::time::{Duration, Instant};

/// The valid programs from which the mutants come.
const SEEDS: &[&str] = &[
    include_str!("../tests/seeds/many_instructions.ptx"),
    include_str!("../tests/seeds/warp_group.ptx"),
    include_str!("../tests/seeds/tensor_memory.ptx"),
    include_str!("../tests/seeds/cluster_launch_control.ptx"),
    include_str!("../tests/seeds/matmul_f16_sm_80.ptx"),
    include_str!("../tests/seeds/softmax_sm_120.ptx"),
];

/// Time limit per mutant. A mutant that reaches its instruction limit takes far less, even on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The state of a xorshift random number generator.
struct Random(u64);

impl Random {
    /// Returns a random number less than `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
    /// Returns a random element of a slice.
    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// Splits the text into words and punctuation. Mutations act on whole tokens, so that many mutants remain valid programs.
fn split_into_tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '%' | '$');
    for c in text.chars() {
        match tokens.last_mut() {
            Some(last) if is_word(c) && last.chars().all(is_word) => last.push(c),
            _ => tokens.push(c.into()),
        }
    }
    tokens
}

/// Tokens that a mutation inserts: boundary values, operands and modifiers.
const BOUNDARY_TOKENS: &[&str] = &[
    "0",
    "1",
    "-1",
    "7",
    "31",
    "33",
    "4095",
    "65536",
    "2147483647",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "0x8000000000000000",
    "-9223372036854775808",
    "0f7FC00000",
    "0dFFF0000000000000",
    "%tid",
    "%r1",
    "%rd1",
    "%p1",
    "%r299",
    "smem",
    "b8",
    "b32",
    "b64",
    "f16",
    "f64",
    "u16",
    "s64",
    "pred",
    "x1",
    "x128",
    "global",
    "shared",
    "local",
    "param",
    "sync",
    "{",
    "}",
    "[",
    "]",
    "(",
    ";",
    ",",
    "@",
    "!",
    "+",
    ":",
    "_",
    "",
];

/// Returns the kind of a token: `0` for a number, the register class such as `rd` for a register, or `word`.
fn token_kind(token: &str) -> &str {
    match token.strip_prefix('%') {
        _ if token.starts_with(|c: char| c.is_ascii_digit()) => "0",
        Some(register) => register.trim_end_matches(|c: char| c.is_ascii_digit()),
        None => "word",
    }
}

/// Returns the program with one to three random changes of its tokens.
fn mutate(random: &mut Random, seed: &[String]) -> String {
    let mut tokens = seed.to_vec();
    for _ in 0..1 + random.below(3) {
        let token_index = random.below(tokens.len());
        match random.below(12) {
            0 => drop(tokens.remove(token_index)),
            1 => tokens[token_index] = random.pick(BOUNDARY_TOKENS).to_string(),
            2 => tokens.insert(token_index, random.pick(BOUNDARY_TOKENS).to_string()),
            // Replace a token by another of the same kind.
            3..=6 => {
                let chosen_kind = *random.pick(&["0", "0", "r", "rd", "p", "word"]);
                let same_kind: Vec<usize> = (0..tokens.len()).filter(|&index| token_kind(&tokens[index]) == chosen_kind).collect();
                if !same_kind.is_empty() {
                    let (to, from) = (*random.pick(&same_kind), *random.pick(&same_kind));
                    let number = random.below(18);
                    tokens[to] =
                        if chosen_kind == "0" && number < 12 { BOUNDARY_TOKENS[number].into() } else { tokens[from].clone() };
                }
            }
            // Duplicate, delete or swap lines.
            kind => {
                let mut lines: Vec<Vec<String>> = tokens.split_inclusive(|token| token == "\n").map(<[String]>::to_vec).collect();
                let (line, other) = (random.below(lines.len()), random.below(lines.len()));
                match kind {
                    7 | 8 => lines.insert(other, lines[line].clone()),
                    9 => drop(lines.remove(line)),
                    _ => lines.swap(line, other),
                }
                tokens = lines.concat();
            }
        }
        if tokens.is_empty() {
            break;
        }
    }
    tokens.concat()
}

/// Runs a mutant. Returns whether the text was a valid program.
fn run_mutant(text: &str, delivery: Delivery, seed: u64) -> bool {
    let Ok(module) = ptx::parse(text) else { return false };
    if !ptx::check(&module).is_empty() {
        return false;
    }
    assert_eq!(ptx::parse(&ptx::print(&module)).as_ref(), Ok(&module));
    let sizes = LaunchSizes { dynamic_shared: Some(4096), ..LaunchSizes::default() };
    let Ok(program) = decode(&module, None, sizes) else { return false };
    let mut global = DeviceGlobalMemory::default();
    global.add("data", 65536, (0..=255).cycle().take(1 << 16).collect::<Vec<u8>>());
    program.globals.iter().for_each(|variable| global.add(&variable.name, variable.address, variable.data.clone()));
    // Every visible parameter is the address of the data. Every hidden parameter is a tensor map of the data: 16 by 14 words with
    // tiles of 8 by 4.
    let mut params: Vec<u8> = 65536u64.to_le_bytes().into_iter().cycle().take(program.param_bytes as usize).collect();
    let tensor_map = [65536u64, 0x40112 | 4 << 32, 0, 0, 15 | 13 << 32, 0, 7 << 56, 3].map(u64::to_le_bytes).concat();
    for param in program.hidden_params() {
        for (byte, &value) in params[param.offset as usize..].iter_mut().zip(&tensor_map) {
            *byte = value;
        }
    }
    let options = Options {
        delivery,
        races: Races::Warn,
        seed: Some(seed),
        mode: ExecutionMode::Full,
        instruction_limit: 20_000,
        deadline: None,
    };
    let mut machine = Machine::new(&program, options, [2, 1, 1], params, global);
    let _ = machine.run();
    true
}

/// Runs `count` mutants of a program. A mutant must neither panic nor exceed the time limit. Returns the number of valid mutants.
fn try_mutants(name: &str, start: usize, text: &str, count: usize) -> usize {
    let seed = split_into_tokens(text);
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ start as u64);
    let mut valid_count = 0;
    for number in 0..count {
        let mutant = mutate(&mut random, &seed);
        let begin = Instant::now();
        let delivery = [Delivery::Early, Delivery::Late][number % 2];
        let result = std::panic::catch_unwind(|| run_mutant(&mutant, delivery, number as u64));
        if result.is_err() || begin.elapsed() > TIME_LIMIT {
            let path = std::env::temp_dir().join("tile-sim-mutant.ptx");
            std::fs::write(&path, &mutant).unwrap();
            panic!("mutant {number} of {name} is in {}; it took {:?}", path.display(), begin.elapsed());
        }
        valid_count += usize::from(result.unwrap_or(false));
    }
    valid_count
}

#[test]
fn mutants_do_not_panic_or_hang() {
    if let Some(folder) = std::env::var_os("MUTANTS") {
        let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for (number, path) in paths.iter().enumerate().filter(|(_, path)| path.extension().is_some_and(|end| end == "ptx")) {
            try_mutants(&path.display().to_string(), number + 1, &std::fs::read_to_string(path).unwrap(), 5);
        }
        return;
    }
    for (number, text) in SEEDS.iter().enumerate() {
        assert!(run_mutant(text, Delivery::Early, 1), "seed {number} is a program");
        let valid_count = try_mutants(&format!("seed {number}"), 0, text, 60);
        assert!(valid_count > 12, "{valid_count} mutants of seed {number} are programs");
    }
}
