//! Forwarded values of ops with regions: into a loop, between iterations, out of a loop, out of a branch.

use crate::Function;
use base::ir::{Op as OpId, Operation};
use base::{Region, Value};
use core_dialect::core_ops::Core;

/// Pairs of values that an op with regions forwards unchanged: source and destination.
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

/// The values with which a loop continues, and with which it ends, anywhere in its body.
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
                    // Ends in there belong to another loop.
                    Some(Core::For { .. } | Core::Loop { .. }) => {}
                    _ => work.extend(body.ops[op].kind.regions()),
                }
            }
        }
        ends
    }
}
