//! How many registers a thread needs: what the assembler reports, or, when there is none, an estimate from what is live where.

use crate::code::Code;
use common::toolkit;
use simulator::program::{Op, Program};
use std::process::Command;

/// What an assembler uses beside the values of the program.
const OVERHEAD: u32 = 12;

/// What `ptxas` says of an entry; nothing when it is not found or refuses the file.
pub(crate) fn reported(text: &str, module: &ptx::Module, entry: &str) -> Option<u32> {
    let ptxas = toolkit::ptxas().ok()?;
    let folder = tempfile::Builder::new().prefix("tile-time-").tempdir().ok()?;
    let input = folder.path().join("k.ptx");
    std::fs::write(&input, text).ok()?;
    let output =
        Command::new(ptxas.path).args(["-v", "-arch", module.target.first()?, "-o", "/dev/null"]).arg(&input).output().ok()?;
    let report = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    // "Compiling entry function 'name' ..." comes some lines before "Used 40 registers, ...".
    let after = report.split_once(&format!("'{entry}'"))?.1;
    let words: Vec<&str> = after.split_once("Used ")?.1.split_whitespace().take(1).collect();
    words.first()?.parse().ok()
}

pub(crate) fn estimate(program: &Program, code: &Code) -> u32 {
    let words = (program.slots as usize).div_ceil(64);
    let blocks: Vec<std::ops::Range<usize>> = code.blocks.windows(2).map(|pair| pair[0] as usize..pair[1] as usize).collect();
    let block_of = |pc: u32| code.blocks.binary_search(&pc).unwrap_or(blocks.len());
    let successors: Vec<Vec<usize>> = blocks
        .iter()
        .enumerate()
        .map(|(index, block)| {
            let last = block.end.checked_sub(1).and_then(|pc| program.code.get(pc));
            match last.map(|instr| (&instr.op, instr.guard)) {
                Some((Op::Branch { target }, None)) => vec![block_of(*target)],
                Some((Op::Branch { target }, _)) => vec![block_of(*target), index + 1],
                Some((Op::BranchIndirect { targets, .. }, _)) => targets.iter().map(|&target| block_of(target)).collect(),
                Some((Op::Exit | Op::Trap, None)) => vec![],
                _ => vec![index + 1],
            }
        })
        .collect();
    let mut live_in = vec![vec![0u64; words]; blocks.len() + 1];
    // Constants and special registers have no register of their own.
    let mut counted = vec![true; program.slots as usize];
    program.constants.iter().for_each(|&(slot, _)| counted[slot as usize] = false);
    program.specials.iter().for_each(|&(slot, _)| counted[slot as usize] = false);
    let step = |live: &mut [u64], pc: usize| {
        let (reads, writes) = &code.operands[pc];
        if program.code[pc].guard.is_none() {
            writes.iter().for_each(|&slot| live[slot as usize / 64] &= !(1 << (slot % 64)));
        }
        for &slot in reads.iter().filter(|&&slot| counted[slot as usize]) {
            live[slot as usize / 64] |= 1 << (slot % 64);
        }
    };
    let out = |live_in: &[Vec<u64>], index: usize| {
        let mut live = vec![0u64; words];
        for &next in &successors[index] {
            live.iter_mut().zip(&live_in[next.min(live_in.len() - 1)]).for_each(|(to, from)| *to |= from);
        }
        live
    };
    for _ in 0..64 {
        let mut changed = false;
        for index in (0..blocks.len()).rev() {
            let mut live = out(&live_in, index);
            blocks[index].clone().rev().for_each(|pc| step(&mut live, pc));
            changed |= live != live_in[index];
            live_in[index] = live;
        }
        if !changed {
            break;
        }
    }
    let weight: Vec<u32> = program
        .bits
        .iter()
        .map(|&bits| match bits {
            1 => 0,
            0..=32 => 1,
            _ => 2,
        })
        .collect();
    let mut most = 0;
    for index in 0..blocks.len() {
        let mut live = out(&live_in, index);
        for pc in blocks[index].clone().rev() {
            step(&mut live, pc);
            let mut sum = 0;
            for (word, &bits) in live.iter().enumerate() {
                let mut rest = bits;
                while rest != 0 {
                    sum += weight[word * 64 + rest.trailing_zeros() as usize];
                    rest &= rest - 1;
                }
            }
            most = most.max(sum);
        }
    }
    (most + OVERHEAD).next_multiple_of(8).clamp(16, 255)
}
