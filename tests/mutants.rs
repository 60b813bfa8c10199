//! Stage files edited at random: either the verifier refuses them, or the stages after it get along with them. None may end by a
//! panic (exit code 101) or a signal.
//!
//! The files are the examples of `tests/run`, lowered and printed; an edit changes a name, type, number, layout or line of the text.
//! The mutants are the same in every run; `TILEWORKS_MUTANTS` says how many of each format, and which is the first.

use base::{File, Payload};
use std::path::Path;
use tests::{folders, for_each, root, run};

/// Per format, in the test command.
const MUTANTS: u64 = 400;

/// A small generator that is the same everywhere (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) as usize % bound.max(1)
    }
    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

/// The stages after `.tile`, with what they write.
const STAGES: [(&str, &str); 4] = [("tile-lower-aa", "aa"), ("tile-lower-as", "as"), ("tile-sched", "sched"), ("tile-ptx", "ptx")];

/// The files of a format, as text, for two targets where there is one.
fn files(stages: usize, phase: &str) -> Vec<String> {
    let mut files = Vec::new();
    for case in folders(&root().join("tests/run")) {
        let targets: &[&str] = if stages > 1 { &["sm_80", "sm_120"] } else { &["sm_80"] };
        for target in targets {
            files.extend(lowered(&case, target, stages, phase));
        }
    }
    assert!(files.len() > 10, "only {} examples could be lowered", files.len());
    files
}

/// None when a stage does not take the example to this target. The last one stops after the phase, where one is named.
fn lowered(case: &Path, target: &str, stages: usize, phase: &str) -> Option<String> {
    let text = case.join("kernel.tile");
    let program = if text.is_file() { text } else { case.join("kernel.tileirbc") };
    let mut file = run("tile-read", &[&program], b"").ok(&program.display().to_string());
    for (i, (tool, _)) in STAGES[..stages].iter().enumerate() {
        let mut arguments = arguments(tool, target);
        if i + 1 == stages {
            arguments.push("--format=text");
            arguments.extend((!phase.is_empty()).then_some(["--stop-after", phase]).into_iter().flatten());
        }
        let ran = run(tool, &arguments, &file);
        if ran.code == Some(3) {
            return None;
        }
        file = ran.ok(tool);
    }
    Some(String::from_utf8(file).expect("text is UTF-8"))
}

fn arguments<'a>(tool: &str, target: &'a str) -> Vec<&'a str> {
    if tool == "tile-lower-as" { vec!["--gpu-name", target] } else { Vec::new() }
}

/// Where the words of a line are: names, numbers, and values and layouts with their signs.
fn words(line: &str) -> Vec<(usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '%' | '#' | '.');
    let mut words = Vec::new();
    let mut at = 0;
    for piece in line.split_inclusive(|c: char| !is_word(c)) {
        let word = piece.trim_end_matches(|c: char| !is_word(c));
        if !word.is_empty() {
            words.push((at, word));
        }
        at += piece.len();
    }
    words
}

/// What a word could also have been: something like it from elsewhere in the file, or a number at an edge.
fn other_word(word: &str, all: &[&str], random: &mut Random) -> String {
    let first = word.chars().next().unwrap_or(' ');
    if let Ok(number) = word.parse::<u64>() {
        let near =
            [number.wrapping_add(1), number.wrapping_sub(1), number.wrapping_mul(2), number / 2, 0, 1, 31, 1 << 31, u64::MAX];
        return near[random.below(near.len())].to_string();
    }
    let alike: Vec<&str> = all.iter().copied().filter(|other| other.starts_with(first) || first.is_alphabetic()).collect();
    let like_number = alike.iter().copied().filter(|other| !other.chars().all(char::is_numeric)).collect::<Vec<_>>();
    if like_number.is_empty() { word.into() } else { random.pick(&like_number).into() }
}

/// One to three edits of the lines behind the head.
fn edited(text: &str, random: &mut Random) -> String {
    let head = text.lines().take_while(|line| line.starts_with("//!")).count();
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    for _ in 0..1 + random.below(3) {
        let at = head + random.below(lines.len() - head);
        match random.below(10) {
            0 => drop(lines.remove(at)),
            1 => {
                let to = head + random.below(lines.len() - head);
                lines.swap(at, to);
            }
            2 => {
                let copy = lines[at].clone();
                lines.insert(head + random.below(lines.len() - head), copy);
            }
            choice => {
                let line = lines[at].clone();
                let found = words(&line);
                if found.is_empty() {
                    continue;
                }
                let (start, word) = found[random.below(found.len())];
                // Two words of one line change places, or one becomes something else.
                let new = if choice < 5 {
                    found[random.below(found.len())].1.to_string()
                } else {
                    let near = lines[head + random.below(lines.len() - head)].clone();
                    other_word(word, &words(&near).iter().chain(&found).map(|(_, word)| *word).collect::<Vec<_>>(), random)
                };
                lines[at].replace_range(start..start + word.len(), &new);
            }
        }
        if lines.len() <= head {
            break;
        }
    }
    lines.join("\n") + "\n"
}

/// How many mutants, and the number of the first.
fn amount() -> (u64, u64) {
    let Ok(text) = std::env::var("TILEWORKS_MUTANTS") else { return (MUTANTS, 0) };
    let mut numbers = text.split(',').map(|number| number.parse().expect("TILEWORKS_MUTANTS is a count, or count,first"));
    (numbers.next().unwrap_or(MUTANTS), numbers.next().unwrap_or(0))
}

fn hold<P: Payload>(stages: usize, phase: &str) {
    let files = files(stages, phase);
    // A stage goes on from its own file of an earlier phase.
    let next = if phase.is_empty() { stages } else { stages - 1 };
    let (count, first) = amount();
    let numbers: Vec<u64> = (first..first + count).collect();
    let taken = std::sync::atomic::AtomicUsize::new(0);
    for_each(&numbers, |number| {
        let mut random = Random(0x5EED ^ (number + 1) << 20);
        random.below(2);
        let text = edited(&files[*number as usize % files.len()], &mut random);
        if File::<P>::read(text.as_bytes(), "mutant").is_err() {
            return Ok(());
        }
        taken.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut file = text.clone().into_bytes();
        for (tool, _) in &STAGES[next..] {
            let ran = run(tool, &arguments(tool, "sm_80"), &file);
            match ran.code {
                Some(0) => file = ran.stdout,
                Some(1 | 3 | 4) => break,
                code => {
                    let kept = std::env::temp_dir().join(format!("mutant-{phase}{number}.{}", STAGES[stages - 1].1));
                    std::fs::write(&kept, &text).map_err(|error| error.to_string())?;
                    let how = code.map_or("by a signal".into(), |code| format!("with {code}"));
                    return Err(format!("mutant {number} ends {tool} {how}, see {}: {}", kept.display(), ran.stderr.trim()));
                }
            }
        }
        Ok(())
    });
    let taken = taken.into_inner();
    println!("{taken} of {count} mutants were still programs");
    assert!(taken as u64 > count / 100, "only {taken} of {count} mutants were still programs");
}

#[test]
fn edited_aa_files_are_refused_or_lowered() {
    hold::<tileaa::Module>(1, "");
}

#[test]
fn edited_as_files_are_refused_or_scheduled() {
    hold::<tileas::Module>(2, "");
}

#[test]
fn edited_sched_files_are_refused_or_emitted() {
    hold::<sched::Module>(3, "");
}

#[test]
fn edited_schedules_are_refused_or_carried_out() {
    hold::<sched::Module>(3, "analysis");
}

#[test]
fn edited_placements_are_refused_or_carried_out() {
    hold::<sched::Module>(3, "alloc");
}
