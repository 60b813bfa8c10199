//! Which values ops with regions hand on: into a loop, from iteration to iteration, out of a loop, out of a branch.

use crate::Function;
use base::ir::{Op as OpId, Operation};
use base::{Region, Value};
use core_dialect::core_ops::Core;

/// Which values an op with regions hands on as which others, unchanged.
pub(crate) fn forwarded_values(function: &Function, op: OpId) -> Vec<(Value, Value)> {
    let body = &function.body;
    let results = &body.ops[op].results;
    let pairs = |from: &[Value], to: &[Value]| from.iter().copied().zip(to.iter().copied()).collect::<Vec<_>>();
    let all = |all: Vec<&[Value]>, to: &[Value]| all.into_iter().flat_map(|from| pairs(from, to)).collect::<Vec<_>>();
    match body.ops[op].kind.core() {
        Some(Core::If { then, otherwise, .. }) => {
            let yields = |region: &Region| match body.ops[body.terminator(body.block_of(*region))?].kind.core() {
                Some(Core::Yield { values }) => Some(values.as_slice()),
                _ => None,
            };
            all([then, otherwise].into_iter().filter_map(yields).collect(), results)
        }
        Some(Core::For { init, body: inner, .. }) => {
            let args = &body.blocks[body.block_of(*inner)].args[1..];
            let Ends { continued, .. } = Ends::of(function, *inner);
            [pairs(init, args), pairs(init, results), all(continued.clone(), args), all(continued, results)].concat()
        }
        Some(Core::Loop { init, body: inner }) => {
            let args = &body.blocks[body.block_of(*inner)].args;
            let Ends { continued, left } = Ends::of(function, *inner);
            [pairs(init, args), all(continued, args), all(left, results)].concat()
        }
        _ => Vec::new(),
    }
}

/// What a loop goes on with and what it is left with, wherever in its body it is.
pub(crate) struct Ends<'a> {
    pub(crate) continued: Vec<&'a [Value]>,
    left: Vec<&'a [Value]>,
}

impl<'a> Ends<'a> {
    pub(crate) fn of(function: &'a Function, region: Region) -> Ends<'a> {
        let body = &function.body;
        let (mut ends, mut work) = (Ends { continued: Vec::new(), left: Vec::new() }, vec![region]);
        while let Some(region) = work.pop() {
            for &op in &body.blocks[body.block_of(region)].ops {
                match body.ops[op].kind.core() {
                    Some(Core::Continue { values }) => ends.continued.push(values),
                    Some(Core::Break { values }) => ends.left.push(values),
                    // What ends in there is a iteration of another loop.
                    Some(Core::For { .. } | Core::Loop { .. }) => {}
                    _ => work.extend(body.ops[op].kind.regions()),
                }
            }
        }
        ends
    }
}
