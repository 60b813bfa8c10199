//! Clusters on all cores, where the program allows it.
//!
//! It does when its clusters have no way to speak to one another: no atomic operations on global memory, no loads or stores with an
//! order, no device allocation, no clock. Then the grid is cut into chunks; each runs on a copy of global memory, and what the chunks
//! wrote is put together in their order. The cut depends on the program and its memory alone, so a run is the same on every machine.

use crate::fault::Result;
use crate::machine::{ClusterIds, Machine};
use crate::program::{Op, Program};
use rayon::prelude::*;

const CHUNKS: u64 = 16;
/// Bytes that all copies of global memory may take.
const COPIES: u64 = 256 << 20;

/// The chunks of the grid, when there is use in more than one.
pub(crate) fn chunks(machine: &Machine, all: &ClusterIds) -> Option<Vec<ClusterIds>> {
    let chunks = CHUNKS.min(all.end);
    // A byte, and whether it was written.
    let fits = machine.global.size().checked_mul(2 * chunks).is_some_and(|bytes| bytes <= COPIES);
    if chunks < 2 || !fits || !allows(machine.program) {
        return None;
    }
    let start = |chunk: u64| all.end * chunk / chunks;
    Some((0..chunks).map(|chunk| ClusterIds { next: start(chunk), end: start(chunk + 1), ..all.clone() }).collect())
}

fn allows(program: &Program) -> bool {
    const WORDS: &[&str] =
        &["volatile", "mmio", "relaxed", "acquire", "release", "acq_rel", "sc", "gpu", "sys", "reduce", "clusterlaunchcontrol"];
    // Memory of CTAs is allocated as they start.
    program.cta_memory == 0
        && program.code.iter().all(|instr| {
            let mut words = program.names[instr.name as usize].split('.');
            let first = words.next().unwrap_or("");
            let shared = |name: &str| name.contains(".shared");
            let name = &program.names[instr.name as usize];
            match (&instr.op, first) {
                (Op::Clock { .. } | Op::Call { .. }, _) => false,
                (_, "atom" | "red" | "multimem") => shared(name),
                (_, "ld" | "st" | "ldu") => shared(name) || !words.any(|word| WORDS.contains(&word)),
                (_, "cp" | "clusterlaunchcontrol") => !name.contains("reduce") && first == "cp",
                _ => true,
            }
        })
}

/// Runs the chunks and puts them together.
pub(crate) fn run(machine: &mut Machine, chunks: Vec<ClusterIds>) -> Result<()> {
    let results: Vec<(Machine, Result<()>)> = chunks
        .into_par_iter()
        .enumerate()
        .map(|(number, chunk)| {
            let mut own = machine.chunk(number as u64);
            let result = own.run_clusters(chunk);
            (own, result)
        })
        .collect();
    for (chunk, result) in results {
        machine.take(chunk);
        result?;
    }
    Ok(())
}
