//! Measures how the time of reading scales with the file size. The program generates bytecode of 1, 4 and 16 MB. It prints the
//! times to decode the bytecode, to verify the module, and to encode the module as `.tile`.
//!
//!     cargo run --release -p tileir --example scaling

use base::{DebugInfo, Envelope, File, envelope::Form};
use std::fmt::Write as _;
use std::time::Instant;
use tileir::bytecode::Features;
use tileir::{Module, Version, bytecode, text};

fn main() {
    println!("{:>9} {:>12} {:>12} {:>12} {:>12}", "bytes", "decode ms", "verify ms", "encode ms", "ns per byte");
    for megabytes in [1, 4, 16] {
        let bytes = generate(megabytes << 20);
        let start = Instant::now();
        let program = bytecode::read(&bytes, Features::default()).expect("the generated program is valid");
        let decode_time = start.elapsed();
        let start = Instant::now();
        tileir::verify::verify(&program.module, &program.debug).expect("the generated program is valid");
        let verify_time = start.elapsed();
        let mut envelope = Envelope::new::<Module>("read", "scaling", &bytes);
        envelope.debug = program.debug;
        let file = File { envelope, payload: program.module };
        let start = Instant::now();
        let encoded_size = file.write(Form::Binary).expect("the program was verified").len();
        let encode_time = start.elapsed();
        let ns_per_byte = (decode_time + encode_time).as_nanos() as f64 / bytes.len() as f64;
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        println!(
            "{:>9} {:>12.1} {:>12.1} {:>12.1} {:>12.1}   (.tile: {encoded_size} bytes)",
            bytes.len(),
            ms(decode_time),
            ms(verify_time),
            ms(encode_time),
            ns_per_byte
        );
    }
}

/// The measured size of one generated function in bytecode, in bytes.
const BYTES_PER_FUNCTION: usize = 1723;

/// Generates bytecode of about `size` bytes: entry functions, each with a loop of 300 additions.
fn generate(size: usize) -> Vec<u8> {
    let mut program = String::new();
    let function_count = size / BYTES_PER_FUNCTION;
    for function in 0..function_count {
        let _ = writeln!(program, "entry @f{function}(%n: tile<i32>) {{");
        program.push_str("%z = constant <i32: 0> : tile<i32>\n%o = constant <i32: 1> : tile<i32>\n%v0 = iota : tile<128xi32>\n");
        program.push_str("%r = for %i in (%z to %n, step %o) : tile<i32> iter_values(%a0 = %v0) -> (tile<128xi32>) {\n");
        for op in 0..300 {
            let _ = writeln!(program, "%a{} = addi %a{op}, %v0 : tile<128xi32>", op + 1);
        }
        program.push_str("continue %a300 : tile<128xi32>\n}\nreturn\n}\n");
    }
    let module = text::parse(&program, "generated", 1, &mut DebugInfo::default()).expect("the generated text is valid");
    bytecode::write(&module, &DebugInfo::default(), Version::V13_1).expect("13.1 has all of it")
}
