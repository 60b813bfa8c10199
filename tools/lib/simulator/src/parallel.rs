//! Parallel simulation of clusters on all cores.
//!
//! It requires that clusters cannot communicate: no atomics on global memory, no ordered loads or stores, no device allocation and
//! no clock reads. The grid is split into chunks. Each runs on a copy of global memory, and the chunks' writes are merged in order.
//! The split depends only on the program, the grid and the memory size, so the result is the same on every machine.

use crate::fault::Result;
use crate::machine::{ClusterIds, Machine};
use crate::program::{Op, Program};
use rayon::prelude::*;

const MAX_CHUNKS: u64 = 16;
/// Upper bound on the bytes of all copies of global memory.
const MAX_COPIED_BYTES: u64 = 256 << 20;

/// Splits the grid into chunks. Returns `None` if parallel simulation is not allowed or not useful.
pub(crate) fn split_grid(machine: &Machine, all: &ClusterIds) -> Option<Vec<ClusterIds>> {
    let chunks = MAX_CHUNKS.min(all.end);
    // Each byte of a copy needs a written flag.
    let fits = machine.global.size().checked_mul(2 * chunks).is_some_and(|bytes| bytes <= MAX_COPIED_BYTES);
    if chunks < 2 || !fits || !is_parallelizable(machine.program) {
        return None;
    }
    let start = |chunk: u64| all.end * chunk / chunks;
    Some((0..chunks).map(|chunk| ClusterIds { next: start(chunk), end: start(chunk + 1), ..all.clone() }).collect())
}

fn is_parallelizable(program: &Program) -> bool {
    const ORDERED_MODIFIERS: &[&str] =
        &["volatile", "mmio", "relaxed", "acquire", "release", "acq_rel", "sc", "gpu", "sys", "reduce", "clusterlaunchcontrol"];
    // Per-CTA memory is allocated at the start of each CTA, which serialises CTAs.
    program.cta_memory == 0
        && program.code.iter().all(|instr| {
            let mut words = program.names[instr.name as usize].split('.');
            let first = words.next().unwrap_or("");
            let shared = |name: &str| name.contains(".shared");
            let name = &program.names[instr.name as usize];
            match (&instr.op, first) {
                (Op::Clock { .. } | Op::Call { .. }, _) => false,
                (_, "atom" | "red" | "multimem") => shared(name),
                (_, "ld" | "st" | "ldu") => shared(name) || !words.any(|word| ORDERED_MODIFIERS.contains(&word)),
                (_, "cp" | "clusterlaunchcontrol") => !name.contains("reduce") && first == "cp",
                _ => true,
            }
        })
}

/// Runs the chunks and merges their effects.
pub(crate) fn run(machine: &mut Machine, chunks: Vec<ClusterIds>) -> Result<()> {
    let results: Vec<(Machine, Result<()>)> = chunks
        .into_par_iter()
        .enumerate()
        .map(|(number, chunk)| {
            let mut own = machine.machine_for_chunk(number as u64);
            let result = own.run_clusters(chunk);
            (own, result)
        })
        .collect();
    for (chunk, result) in results {
        machine.merge_chunk(chunk);
        result?;
    }
    Ok(())
}
