//! Parallel simulation of clusters on all cores.
//!
//! The simulator runs clusters in parallel only if clusters cannot communicate. The program must not contain atomics or reducing
//! copies on global memory, ordered loads or stores, or work stealing. It also must not call built-in functions, use per-CTA memory
//! or read clocks.
//!
//! The simulator splits the grid into chunks, and runs each chunk on a copy of global memory. It then merges the writes of the
//! chunks in the order of the chunks. The split depends only on the program, the grid and the memory size. The result is therefore
//! the same on every machine.

use crate::fault::Result;
use crate::machine::{ClusterIds, Machine};
use crate::program::{Op, Program};
use rayon::prelude::*;

/// Maximum number of chunks of a grid.
const MAX_CHUNKS: u64 = 16;
/// Maximum host memory of all copies of global memory together, in bytes.
const MAX_COPIED_BYTES: u64 = 256 << 20;

impl Machine<'_> {
    /// Runs clusters: in parallel chunks if [`split_grid`] permits it, otherwise on this machine.
    pub(crate) fn run_chunks(&mut self, clusters: ClusterIds) -> Result<()> {
        match split_grid(self, &clusters) {
            Some(chunks) => run(self, chunks),
            None => self.run_clusters(clusters),
        }
    }
}

/// Splits the grid into chunks. Returns `None` if clusters may communicate, if there is only one cluster, or if the copies of
/// global memory are too large.
pub(crate) fn split_grid(machine: &Machine, all: &ClusterIds) -> Option<Vec<ClusterIds>> {
    let chunks = MAX_CHUNKS.min(all.end);
    // Each byte of a copy has a flag byte that records a write, so a copy takes two bytes per byte.
    let fits = machine.global.size().checked_mul(2 * chunks).is_some_and(|bytes| bytes <= MAX_COPIED_BYTES);
    if chunks < 2 || !fits || !is_parallelizable(machine.program) {
        return None;
    }
    let start = |chunk: u64| all.end * chunk / chunks;
    Some((0..chunks).map(|chunk| ClusterIds { next: start(chunk), end: start(chunk + 1), ..all.clone() }).collect())
}

/// Returns whether clusters can run in parallel: no instruction of the program has a result that depends on the order of clusters.
fn is_parallelizable(program: &Program) -> bool {
    const ORDERED_MODIFIERS: &[&str] = &["volatile", "mmio", "relaxed", "acquire", "release", "acq_rel", "sc", "gpu", "sys"];
    // The machine allocates per-CTA memory from one heap at the start of each CTA, so the addresses depend on the order of the
    // CTAs.
    program.cta_memory_bytes == 0
        && program.code.iter().all(|instr| {
            let mut words = program.opcodes[instr.opcode as usize].split('.');
            let family = words.next().unwrap_or("");
            let is_shared = |opcode: &str| opcode.contains(".shared");
            let opcode = &program.opcodes[instr.opcode as usize];
            match (&instr.op, family) {
                (Op::Clock { .. } | Op::Call { .. }, _) => false,
                (_, "atom" | "red" | "multimem") => is_shared(opcode),
                (_, "ld" | "st" | "ldu") => is_shared(opcode) || !words.any(|word| ORDERED_MODIFIERS.contains(&word)),
                (_, "cp" | "clusterlaunchcontrol") => !opcode.contains("reduce") && family == "cp",
                _ => true,
            }
        })
}

/// Runs the chunks and merges their effects.
pub(crate) fn run(machine: &mut Machine, chunks: Vec<ClusterIds>) -> Result<()> {
    let results: Vec<(Machine, Result<()>)> = chunks
        .into_par_iter()
        .enumerate()
        .map(|(chunk_index, chunk)| {
            let mut chunk_machine = machine.machine_for_chunk(chunk_index as u64);
            let result = chunk_machine.run_clusters(chunk);
            (chunk_machine, result)
        })
        .collect();
    for (chunk, result) in results {
        machine.merge_chunk(chunk);
        result?;
    }
    Ok(())
}
