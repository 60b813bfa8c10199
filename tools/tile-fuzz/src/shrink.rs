//! Makes a program that goes wrong smaller: ops are dropped one after the other, and what they gave becomes a constant, as long as
//! the program goes wrong in the same way.

use crate::compare::{Bench, Outcome};
use crate::program::Program;
use base::Loc;
use base::diag::Result;
use base::ir::{self, Operation};
use std::path::Path;
use tileir::module::Constant;
use tileir::{Element, Module, Op, Type};

/// What stays the same of a message: the stage, and what goes wrong there, without numbers.
fn kind(message: &str) -> String {
    message.chars().filter(|c| !c.is_ascii_digit()).take(60).collect()
}

pub(crate) fn shrink(program: Program, message: &str, bench: &Bench, folder: &Path) -> Result<Program> {
    let wanted = kind(message);
    let Program { mut module, launch, data, outputs } = program;
    let mut program = Program { module: module.clone(), launch, data, outputs };
    loop {
        let before = module.functions[0].body.blocks.values().map(|block| block.ops.len()).sum::<usize>();
        let mut ops: Vec<ir::Op> = module.functions[0].body.blocks.values().flat_map(|block| block.ops.to_vec()).collect();
        ops.reverse();
        for op in ops {
            let Some(smaller) = without(&module, op) else { continue };
            program.module = smaller;
            // A program that is not well formed any more goes wrong in another way.
            if let Ok(Outcome::Wrong(message)) = bench.compare(&program, folder)
                && kind(&message) == wanted
            {
                module = program.module.clone();
            }
        }
        if module.functions[0].body.blocks.values().map(|block| block.ops.len()).sum::<usize>() == before {
            program.module = module;
            return Ok(program);
        }
    }
}

/// The program without an op; tiles of numbers that are still needed are ones.
fn without(module: &Module, op: ir::Op) -> Option<Module> {
    let mut module = module.clone();
    let body = &module.functions[0].body;
    let node = &body.ops[op];
    if node.kind.is_terminator() {
        return None;
    }
    let results = node.results.to_vec();
    let mut used = vec![false; results.len()];
    let placed: Vec<ir::Op> = body.blocks.values().flat_map(|block| block.ops.to_vec()).collect();
    for user in &placed {
        body.ops[*user].kind.for_each_operand(&mut |value| {
            if let Some(i) = results.iter().position(|result| *result == value) {
                used[i] = true;
            }
        });
    }
    if matches!(node.kind, Op::Constant { .. }) && used.contains(&true) {
        return None;
    }
    let (block, at) = body.blocks.iter().find_map(|(id, block)| Some((id, block.ops.iter().position(|o| *o == op)?)))?;
    let mut replaced = Vec::new();
    for (result, _) in results.iter().zip(&used).filter(|(_, used)| **used) {
        let ty = module.functions[0].body.values[*result].ty;
        let constant = match &module.types[ty] {
            Type::Tile { element: Element::Scalar(scalar), .. } => {
                let bits = if scalar.is_int() { 1 } else { crate::program::encode(*scalar, 1.0) };
                let bits = if *scalar == numerics::Scalar::I1 { 0xff } else { bits };
                let size = tileir::module::stored_bytes(*scalar);
                let bits = if *scalar == numerics::Scalar::TF32 { bits >> 13 } else { bits };
                let data = bits.to_le_bytes()[..size].into();
                Op::Constant { value: module.constants.push(Constant { data }) }
            }
            Type::Token => Op::MakeToken {},
            _ => return None,
        };
        let body = &mut module.functions[0].body;
        let made = body.append(block, constant, [ty], Loc::UNKNOWN);
        body.blocks[block].ops.pop();
        replaced.push((*result, body.ops[made].results[0], made));
    }
    let body = &mut module.functions[0].body;
    body.blocks[block].ops.remove(at);
    for (i, (_, _, made)) in replaced.iter().enumerate() {
        body.blocks[block].ops.insert(at + i, *made);
    }
    for user in placed {
        body.ops[user].kind.for_each_operand_mut(&mut |value| {
            if let Some((_, to, _)) = replaced.iter().find(|(from, _, _)| from == value) {
                *value = *to;
            }
        });
    }
    Some(module)
}
