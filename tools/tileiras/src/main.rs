//! The `tileiras` executable; see the library.

fn main() -> std::process::ExitCode {
    tileiras::main()
}
