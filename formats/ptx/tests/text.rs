//! Tests round trips between text and tree, error positions, and the robustness of the parser against random changes of a valid
//! text.

use base::diag::Place;
use ptx::{Item, Operand, Statement};

/// A module with all kinds of items, statements and operands that the tests change.
const SAMPLE: &str = include_str!("sample.ptx");

#[test]
fn printed_modules_parse_to_equal_trees() {
    let module = ptx::parse(SAMPLE).unwrap();
    let printed = ptx::print(&module);
    assert_eq!(ptx::parse(&printed).unwrap(), module);
    assert_eq!(ptx::print(&ptx::parse(&printed).unwrap()), printed);
    assert_eq!(module.envelope, ["//!tile ptx 1 final", "//!tile target sm_90"]);
    assert_eq!((module.version, module.target.join(" ")), ((9, 4), "sm_90a debug".into()));
}

#[test]
fn the_tree_has_the_contents_of_the_text() {
    let module = ptx::parse(SAMPLE).unwrap();
    let kernel = module.items.iter().find_map(|item| match item {
        Item::Function(function) if function.entry => Some(function),
        _ => None,
    });
    let kernel = kernel.unwrap();
    assert_eq!(kernel.directive("reqntid"), Some(&[128, 1, 1][..]));
    assert!(kernel.params[2].hidden && kernel.params[2].bytes() == Some(128));
    let instructions: Vec<_> = kernel
        .body
        .iter()
        .flatten()
        .filter_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction),
            _ => None,
        })
        .collect();
    let load = instructions.iter().find(|instruction| instruction.full_name() == "ld.global.v4.b32").unwrap();
    assert_eq!(load.line.0, 51);
    assert_eq!(load.space(), Some(ptx::Space::Global));
    assert!(matches!(&load.operands[1], Operand::Address(address) if address.offset == -16));
}

#[test]
fn syntax_errors_have_a_line_and_a_column() {
    let error = ptx::parse(&SAMPLE.replace("[%rd1+-16];", "[%rd1+-16}")).unwrap_err();
    let Some(Place::Text { line, column, excerpt, .. }) = error.place else { panic!("no place") };
    assert_eq!((line, &excerpt[column as usize - 1..]), (51, "}"));
    assert!(error.message.contains("expected ']'"), "{}", error.message);
}

#[test]
fn violations_have_distinct_codes() {
    let codes_after_replacing = |from: &str, to: &str| {
        assert!(SAMPLE.contains(from));
        let violations = ptx::check(&ptx::parse(&SAMPLE.replacen(from, to, 1)).unwrap());
        violations.into_iter().map(|error| error.code).collect::<Vec<_>>()
    };
    let clean = codes_after_replacing("mov.u32", "mov.b32");
    assert!(clean.is_empty(), "{clean:?}");
    assert_eq!(codes_after_replacing("mov.u32 ", "move.u32 "), ["PTX013"]);
    assert_eq!(codes_after_replacing("elect.sync 	%r2|%p1, -1", "elect.sync 	%r2|%p1"), ["PTX014"]);
    assert_eq!(codes_after_replacing("@!%p1 bra", "@!%r1 bra"), ["PTX015"]);
    assert_eq!(codes_after_replacing("[%rd1+-16]", "[%rd8+-16]"), ["PTX016"]);
    assert_eq!(codes_after_replacing("@!%p1 bra 	$L__BB0_2", "@!%p1 bra 	$L__BB0_9"), ["PTX016"]);
    assert_eq!(codes_after_replacing("mov.u32 	%r1, %tid.x;", "add.s32 %r1, %rs1, 1;"), ["PTX017"]);
    assert_eq!(codes_after_replacing("$L__BB0_3:", "$L__BB0_3: $L__BB0_3:"), ["PTX011"]);
}

/// Tests mutants of the sample after one to three random edits. An edit deletes, replaces or inserts a character, or copies a piece
/// of the text. The parser accepts or rejects each mutant without a panic. An accepted mutant survives printing and parsing.
#[test]
fn mutated_text_is_refused_or_parsed() {
    let mut state = 7u64;
    let mut random_below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    let special_characters: Vec<char> = "{}[]()<>,;:.%@!|+-=\"\\/*_0x9é\u{0}\n".chars().collect();
    let text: Vec<char> = SAMPLE.chars().collect();
    let mut accepted_count = 0;
    for _ in 0..1500 {
        let mut mutant = text.clone();
        for _ in 0..1 + random_below(3) {
            let position = random_below(mutant.len() - 60);
            match random_below(4) {
                0 => drop(mutant.drain(position..position + 1 + random_below(50))),
                1 => mutant[position] = special_characters[random_below(special_characters.len())],
                2 => mutant.insert(position, special_characters[random_below(special_characters.len())]),
                _ => {
                    let piece: Vec<char> = mutant[position..position + random_below(50)].to_vec();
                    let to = random_below(mutant.len());
                    mutant.splice(to..to, piece);
                }
            }
        }
        let mutant: String = mutant.into_iter().collect();
        if let Ok(module) = ptx::parse(&mutant) {
            accepted_count += 1;
            ptx::check(&module);
            assert_eq!(ptx::parse(&ptx::print(&module)).unwrap(), module, "{mutant}");
        }
    }
    assert!(accepted_count > 50, "{accepted_count} mutants could be read");
}

#[test]
fn nesting_depth_is_limited() {
    let head = ".version 9.0\n.target sm_80\n.address_size 64\n.entry k()\n{\n";
    for nest in ["{", "mov.b32 {", "@%p1 mov.b32 %r1, ("] {
        let text = format!("{head}{}", nest.repeat(100_000));
        assert!(ptx::parse(&text).is_err());
    }
    assert!(ptx::parse(&format!("{head}mov.b32 %r1, {}", "{".repeat(100_000))).is_err());
}
