//! Statistics of the kernels in a cubin: registers, stack, shared memory and occupancy. If nvdisasm is installed, `listing` adds
//! instruction statistics.

mod listing;

use crate::registers::Registers;
use crate::resident_ctas::occupancy;
use base::diag::{Diagnostic, Result};
use common::{child, toolkit};
use listing::InstructionStatistics;
use perf_model::Machine;
use serde::Serialize;
use std::fmt::Write;

/// The statistics of a cubin.
#[derive(Serialize)]
pub(crate) struct CubinStatistics {
    pub(crate) target: String,
    pub(crate) kernels: Vec<Kernel>,
    /// The reason why there are no instruction statistics; `None` if nvdisasm disassembled the cubin.
    #[serde(skip_serializing_if = "Option::is_none")]
    disassembly_error: Option<String>,
}

/// The statistics of one kernel of a cubin.
#[derive(Serialize)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) registers: u32,
    /// Stack bytes per thread: spilled registers and local arrays.
    pub(crate) stack_bytes: u32,
    pub(crate) shared_bytes: u64,
    pub(crate) code_bytes: u64,
    /// Threads per CTA; unknown if neither the kernel nor `--block` states them.
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    occupancy: Option<Occupancy>,
    /// Instruction statistics, if nvdisasm is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    instruction_statistics: Option<InstructionStatistics>,
}

/// The number of resident CTAs of a kernel per SM, and the resource that limits it.
#[derive(Serialize)]
struct Occupancy {
    gpu: String,
    /// Number of CTAs that one SM holds at once.
    resident_ctas: usize,
    limited_by: &'static str,
}

impl CubinStatistics {
    /// Reads a cubin. `block` is the CTA size in threads of kernels that do not declare one. `dynamic_shared` is in bytes, and adds
    /// to the declared shared memory.
    pub(crate) fn read(bytes: &[u8], name: &str, block: Option<[u32; 3]>, dynamic_shared: u32) -> Result<CubinStatistics> {
        let cubin = cubin::read(bytes, name)?;
        if cubin.kernels.is_empty() {
            return Err(Diagnostic::invalid("TIM005", format!("{name} has no kernel")));
        }
        let (mut statistics_by_kernel, disassembly_error) = match disassemble(bytes) {
            Ok(statistics) => (statistics, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let kernels = cubin.kernels.into_iter().map(|kernel| Kernel {
            threads: kernel
                .required_threads
                .or(block)
                .map(|extents| extents.iter().fold(1u32, |all, &one| all.saturating_mul(one))),
            occupancy: None,
            instruction_statistics: statistics_by_kernel
                .iter()
                .position(|(name, _)| *name == kernel.name)
                .map(|at| statistics_by_kernel.swap_remove(at).1),
            registers: kernel.registers,
            stack_bytes: kernel.stack_bytes,
            shared_bytes: kernel.shared_bytes + u64::from(dynamic_shared),
            code_bytes: kernel.code_bytes,
            name: kernel.name,
        });
        Ok(CubinStatistics { target: cubin.target, kernels: kernels.collect(), disassembly_error })
    }

    /// Computes the occupancy of the kernels with a known thread count.
    pub(crate) fn compute_occupancy(&mut self, machine: &Machine) {
        for kernel in &mut self.kernels {
            let Some(threads) = kernel.threads.filter(|&threads| threads > 0) else { continue };
            let shared_bytes = kernel.shared_bytes as f64;
            // A cubin does not record the number of TMEM columns.
            let (resident_ctas, limited_by) = occupancy(threads, shared_bytes, kernel.registers, 0, 0, machine);
            kernel.occupancy = Some(Occupancy { gpu: machine.name.clone(), resident_ctas, limited_by });
        }
    }

    /// Returns the register count, the stack size and the number of spill instructions of a kernel. The number of spill
    /// instructions is 0 if the cubin was not disassembled.
    pub(crate) fn registers(&self, entry: &str) -> Result<Registers> {
        let kernel = self.kernels.iter().find(|kernel| kernel.name == entry);
        let missing = || Diagnostic::invalid("TIM005", format!("the cubin lacks the kernel '{entry}' of the PTX"));
        let kernel = kernel.ok_or_else(missing)?;
        let spill_instructions = kernel.instruction_statistics.as_ref().map_or(0, InstructionStatistics::spill_instructions);
        Ok(Registers { count: kernel.registers, stack_bytes: kernel.stack_bytes, spill_instructions, ..Registers::default() })
    }

    /// Returns the report as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text).expect("a string can be written to");
        text
    }

    /// Appends the statistics of each kernel to `text`.
    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        for kernel in &self.kernels {
            writeln!(text, "{}: machine code for {}", kernel.name, self.target)?;
            let Kernel { registers, stack_bytes, shared_bytes, code_bytes, .. } = kernel;
            writeln!(
                text,
                "  {registers} registers, {stack_bytes} bytes of stack, {shared_bytes} bytes of shared memory, {code_bytes} bytes of code"
            )?;
            match (kernel.threads, &kernel.occupancy) {
                (Some(threads), Some(Occupancy { gpu, resident_ctas, limited_by })) => {
                    writeln!(text, "  an SM of {gpu} holds {resident_ctas} CTAs of {threads} threads, limited by {limited_by}")?
                }
                _ => writeln!(text, "  the number of threads is unknown; pass --block for the occupancy")?,
            }
            if let Some(statistics) = &kernel.instruction_statistics {
                statistics.write_text(text)?;
            }
        }
        if let Some(reason) = &self.disassembly_error {
            writeln!(text, "no instruction statistics: {reason}")?;
        }
        Ok(())
    }
}

/// Disassembles a cubin with nvdisasm. Returns the name and the instruction statistics of each kernel, or the reason why there are
/// none.
fn disassemble(bytes: &[u8]) -> std::result::Result<Vec<(String, InstructionStatistics)>, String> {
    let tool = toolkit::nvdisasm().map_err(|diagnostic| diagnostic.message.clone())?;
    let io_error_text = |error: std::io::Error| format!("{} cannot be executed: {error}", tool.path.display());
    let file = tempfile::Builder::new().prefix("tile-time-").suffix(".cubin").tempfile().map_err(io_error_text)?;
    std::fs::write(file.path(), bytes).map_err(io_error_text)?;
    let output = child::command(&tool.path).args(["-c", "-hex"]).arg(file.path()).output().map_err(io_error_text)?;
    if !output.status.success() {
        let reported = String::from_utf8_lossy(&output.stderr);
        return Err(format!("nvdisasm rejects the file: {}", reported.lines().next().unwrap_or("no reason given")));
    }
    Ok(listing::parse(&String::from_utf8_lossy(&output.stdout)))
}
