//! Round-trip properties of file formats, for the tests of every format crate.
//!
//! Every form reads back equal to the written file, the same file always gives the same bytes, and no input makes a reader panic:
//! it returns a file or an error.

use base::envelope::{Form, MAGIC};
use base::{File, Payload};
use std::fmt::Debug;

const FORMS: [Form; 3] = [Form::Binary, Form::Ron, Form::Text];

/// Checks all properties of a file, whatever its form is, and returns the parsed file. Panics if a property is violated; the
/// message names the property.
pub fn check<P: Payload + PartialEq + Debug>(bytes: &[u8]) -> File<P> {
    let file = read_file::<P>(bytes).unwrap_or_else(|error| panic!("the example does not read: {error:?}"));
    for form in FORMS {
        let written = file.write(form).expect("a file that was read can be written");
        let reread = read_file::<P>(&written).unwrap_or_else(|error| panic!("{form:?} does not read back: {error:?}"));
        assert_eq!(reread, file, "{form:?} does not read back equal");
        assert_eq!(reread.write(form).expect("it was just written"), written, "{form:?} is not deterministic");
        check_damaged_files::<P>(form, &written);
    }
    file
}

fn read_file<P: Payload>(bytes: &[u8]) -> base::diag::Result<File<P>> {
    File::read(bytes, "example")
}

/// Changes bytes of a file at random, 400 times. A reader always detects a damaged binary. In other forms, and in a binary with a
/// recomputed hash, a change may give another file, which must be valid enough to be written.
fn check_damaged_files<P: Payload>(form: Form, bytes: &[u8]) {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for _ in 0..400 {
        let mut damaged = bytes.to_vec();
        let at = random.below(damaged.len());
        match random.below(4) {
            0 => damaged.truncate(at),
            1 => damaged[at] ^= 1 << random.below(8),
            2 => damaged[at] = random.below(256) as u8,
            _ => {
                let from = random.below(damaged.len());
                damaged.insert(at, bytes[from]);
            }
        }
        if damaged == bytes {
            continue;
        }
        let result = read_file::<P>(&damaged);
        assert!(form != Form::Binary || result.is_err(), "a damaged binary file was accepted");
        check_writable(result);
        if form == Form::Binary {
            check_writable(read_file::<P>(&with_matching_hash(damaged)));
        }
    }
}

fn check_writable<P: Payload>(result: base::diag::Result<File<P>>) {
    if let Ok(file) = result {
        FORMS.iter().for_each(|form| drop(file.write(*form).expect("what was read can be written")));
    }
}

/// The bytes with a length and hash that match their contents.
fn with_matching_hash(mut bytes: Vec<u8>) -> Vec<u8> {
    let header = MAGIC.len() + 8 + 32;
    if bytes.len() > header {
        let (head, rest) = bytes.split_at_mut(header);
        head[..8].copy_from_slice(&MAGIC);
        head[8..16].copy_from_slice(&(rest.len() as u64).to_le_bytes());
        head[16..].copy_from_slice(blake3::hash(rest).as_bytes());
    }
    bytes
}

/// A small generator with a fixed seed: tests apply the same changes every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}
