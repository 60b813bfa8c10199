//! The program of a loaded module.

use executor::ProgramFile;

/// The program that a launch executes: Tile IR or a stage file, or PTX.
pub(crate) enum Source {
    Program(Box<ProgramFile>),
    Ptx { module: Box<ptx::Module>, text: String },
}
