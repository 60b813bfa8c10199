//! Robustness against damaged files (mutants). Reading any mutant terminates quickly, in little memory and without a panic. The
//! test also prints every sixteenth mutant that the reader accepts, and writes and reads it again. The mutants are the same in
//! every run.

#![allow(unsafe_code, reason = "the test counts the bytes in an allocator, and the traits of allocators are unsafe")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tileir::bytecode::Features;

/// The number of damaged files per run.
const MUTANTS: usize = 200_000;
/// The maximum number of live heap bytes while the reader reads a file of `size` bytes: linear in the size, as the reader promises.
fn heap_limit(size: usize) -> usize {
    (1 << 20) + 64 * size
}

/// Counts the live heap bytes and their peak.
struct CountingAllocator;

/// The number of live heap bytes.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// The maximum of [`LIVE`] since the test last reset it.
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn count_growth(size: usize) {
    let live = LIVE.fetch_add(size, Relaxed) + size;
    PEAK.fetch_max(live, Relaxed);
}

unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_growth(layout.size());
        // SAFETY: the caller passes the layout and upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: pointer and layout are those of an earlier `alloc`, which went to the same allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() {
            count_growth(size - layout.size());
        } else {
            LIVE.fetch_sub(layout.size() - size, Relaxed);
        }
        // SAFETY: pointer and layout are those of an earlier `alloc`, and the caller upholds the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The counters cover the entire process, so tests run one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Waits until no other test of this file runs. No other test starts until the caller drops the result.
fn run_alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(|error| error.into_inner())
}

/// A small generator with the same sequence on every machine (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit.max(1)
    }
}

/// Encoded edge values of counts, indices and lengths.
const EDGE_VALUES: [&[u8]; 12] = [
    &[0],
    &[1],
    &[0x7F],
    &[0x80, 0x01],
    &[0xFF, 0x7F],
    &[0xFF, 0xFF, 0x03],
    &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F],
    &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01],
    &[0, 0, 0, 0, 0, 0, 0, 0x80],
    &[0xFF, 0xFF, 0xFF, 0xFF],
    &[13],
    &[16],
];

/// Applies one mutation. It flips a bit, or sets a random byte. It replaces a byte by an edge value, or inserts an edge value. It
/// removes or repeats a piece, or copies a piece from another file. Or it truncates the file.
fn mutate(bytes: &mut Vec<u8>, donor: &[u8], random: &mut Random) {
    // The mutation is after the magic and version, because the reader rejects damage there immediately.
    let start = 12.min(bytes.len());
    let at = start + random.below(bytes.len() - start);
    let length = 1 + random.below(16);
    let end = (at + length).min(bytes.len());
    match random.below(9) {
        0 | 1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        2 if at < bytes.len() => bytes[at] = random.next() as u8,
        3 => drop(bytes.splice(at..(at + 1).min(bytes.len()), EDGE_VALUES[random.below(EDGE_VALUES.len())].iter().copied())),
        4 => drop(bytes.splice(at..at, EDGE_VALUES[random.below(EDGE_VALUES.len())].iter().copied())),
        5 => drop(bytes.drain(at..end)),
        6 => {
            let piece = bytes[at..end].to_vec();
            drop(bytes.splice(at..at, piece));
        }
        7 => {
            let from = random.below(donor.len());
            let piece = donor[from..(from + length).min(donor.len())].to_vec();
            let end = (at + piece.len()).min(bytes.len());
            drop(bytes.splice(at..end, piece));
        }
        _ => bytes.truncate(at),
    }
}

#[test]
fn reading_a_mutant_is_quick_and_takes_little_memory() {
    let _alone = run_alone();
    let files = common::bytecode_files();
    let mut random = Random(0x5EED);
    let mut accepted_count = 0;
    for number in 0..MUTANTS {
        let mut bytes = files[number % files.len()].1.clone();
        let donor = random.below(files.len());
        for _ in 0..1 + random.below(3) {
            mutate(&mut bytes, &files[donor].1, &mut random);
        }
        let live_before = LIVE.load(Relaxed);
        PEAK.store(live_before, Relaxed);
        let started = Instant::now();
        let outcome = tileir::bytecode::read(&bytes, Features::ALL);
        assert!(started.elapsed() < Duration::from_secs(1), "mutant {number} took {:?}", started.elapsed());
        let used_bytes = PEAK.load(Relaxed) - live_before;
        assert!(
            used_bytes <= heap_limit(bytes.len()),
            "mutant {number} of {} bytes took {used_bytes} bytes of memory",
            bytes.len()
        );
        let Ok(read) = outcome else { continue };
        accepted_count += 1;
        if accepted_count % 16 == 0 {
            check_reads_back(&read, number);
        }
    }
    assert!(accepted_count > MUTANTS / 100, "only {accepted_count} of {MUTANTS} mutants were still programs");
}

/// Writes an accepted program as bytecode, and checks that the bytecode reads back to the same text. Accepts a program that
/// bytecode cannot express.
fn check_reads_back(read: &tileir::bytecode::DecodedProgram, number: usize) {
    let text = tileir::text::print(&read.module, Some(&read.debug));
    let Ok(bytes) = tileir::bytecode::write(&read.module, &read.debug, read.module.version) else { return };
    let reread = tileir::bytecode::read(&bytes, Features::ALL).unwrap_or_else(|error| panic!("mutant {number} written: {error:?}"));
    assert_eq!(tileir::text::print(&reread.module, Some(&reread.debug)), text, "mutant {number}");
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let _alone = run_alone();
    // Each level is an `if` with an empty else part: condition, one block, one op.
    const DEPTH: usize = 100_000;
    let mut text = String::from("entry @deep(%c: tile<i1>) {\n");
    text.push_str(&"if %c {\n".repeat(DEPTH));
    text.push_str(&"}\n".repeat(DEPTH));
    text.push_str("return\n}\n");
    let (module, debug) = common::parse("deep", &text);
    tileir::verify::check_references(&module, &debug).expect("the program is a tree");
    let bytes = tileir::bytecode::write(&module, &debug, tileir::Version::V13_1).expect("nesting has no limit");
    let read = tileir::bytecode::read(&bytes, Features::ALL).expect("it was just written");
    // The test does not print the text: its indentation is quadratic in the depth.
    assert_eq!(read.module.functions[0].body.ops.len(), 2 * DEPTH + 1);
}

#[test]
fn damaged_text_causes_no_panic() {
    let _alone = run_alone();
    let mut random = Random(7);
    for (name, text, _) in common::PROGRAMS {
        for _ in 0..MUTANTS / 2000 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..1 + random.below(3) {
                mutate(&mut bytes, text.as_bytes(), &mut random);
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let mut debug = base::DebugInfo::default();
            if let Ok(module) = tileir::text::parse(&text, name, 1, &mut debug) {
                let has_valid_references = tileir::verify::check_references(&module, &debug).is_ok();
                if has_valid_references && tileir::verify::verify(&module, &debug).is_ok() {
                    tileir::text::print(&module, Some(&debug));
                }
            }
        }
    }
}
