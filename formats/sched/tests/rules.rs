//! The verifier of `.sched` refuses what V-SCHED forbids, and says why.

use base::File;
use sched::Module;

/// Each line is an edit of the sample (the first place where the text stands) and a part of what the verifier says then.
#[test]
fn an_edited_schedule_is_refused() {
    let sample = include_str!("sample.sched");
    let cases = [
        ("sched 3 materialize", "sched 3 done", "SC001"),
        ("sched 3 materialize", "sched 3 alloc", "no access names a slot in phase alloc"),
        ("(offset: 4096, depth: 4)", "(offset: 4096, depth: 5)", "does not fit"),
        ("(offset: 4096, depth: 4)", "(offset: 4000, depth: 4)", "does not fit"),
        ("(offset: 4096, depth: 4)", "(offset: 4096, depth: 0)", "has no slot"),
        (", (offset: 4096, depth: 4)", "", "2 of 3 buffers have a place"),
        ("shared_bytes: 8192", "shared_bytes: 1000000", "bytes of shared memory"),
        ("barrier(id: 0, threads: 128)", "barrier(id: 0, threads: 64)", "barrier 0 is for all threads"),
        ("barrier(id: 0, threads: 128)", "barrier(id: 16, threads: 128)", "there are 16 barriers"),
        ("barrier(id: 0, threads: 128)", "barrier(id: 1, threads: 40)", "not for whole warps"),
        ("buffer: 0, slot: %65", "buffer: 0, slot: %15", "not the number of a slot"),
        ("buffer: 0, slot: %87", "buffer: 0", "does not say which slot"),
        ("buffer: 2, ", "buffer: 2, slot: %41, ", "not the number of a slot"),
        // The program keeps the rules of .as.
        ("atom: async(bytes: 16)", "atom: async(bytes: 12)", "AS007"),
    ];
    File::<Module>::read(sample.as_bytes(), "sample").expect("the sample is sound");
    for (from, to, wanted) in cases {
        assert!(sample.contains(from), "{from} is not in the sample");
        let error = File::<Module>::read(sample.replacen(from, to, 1).as_bytes(), "case").expect_err(to);
        let message = format!("{}: {}", error.code, error.message);
        assert!(message.contains(wanted), "{from} -> {to}: {message}");
    }
}
