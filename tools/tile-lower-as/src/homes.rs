//! Decides the home layout of every tile value; changes nothing.
//!
//! Loads have the layout of their widest access, and what is computed from them stays there. Values that cost nothing to make
//! (constants, iotas, broadcasts, and what is computed from only such) have no home: each use makes them in the layout it wants.

use crate::access::{Accesses, default_layout};
use base::core_ops::Core;
use base::ir::Op as OpId;
use base::{Region, Value};
use tileaa::{Function, Op};
use tileas::Layout;
use tileas::layout::Strides;

pub(crate) struct Homes {
    layouts: Vec<Option<Layout>>,
    warp_bits: usize,
}

impl Homes {
    pub(crate) fn of(function: &Function, accesses: &Accesses, warp_bits: usize) -> Homes {
        let mut homes = Homes { layouts: vec![None; function.body.values.len()], warp_bits };
        homes.region(function, accesses, function.region);
        homes
    }

    pub(crate) fn get(&self, value: Value) -> Option<&Layout> {
        self.layouts[value.0 as usize].as_ref()
    }

    /// The home, or for a value without one the layout in which a use that does not care makes it.
    pub(crate) fn or_default(&self, function: &Function, value: Value) -> Layout {
        let (elem, shape) = function.body.ty(value).tile().expect("only tiles have layouts");
        self.get(value).cloned().unwrap_or_else(|| default_layout(shape, elem.bytes(), self.warp_bits))
    }

    fn set(&mut self, value: Value, layout: Option<Layout>) -> bool {
        let slot = &mut self.layouts[value.0 as usize];
        let news = slot.is_none() && layout.is_some();
        if news {
            *slot = layout;
        }
        news
    }

    fn region(&mut self, function: &Function, accesses: &Accesses, region: Region) {
        for &op in &function.body.blocks[function.body.block_of(region)].ops {
            self.op(function, accesses, op);
        }
    }

    fn op(&mut self, function: &Function, accesses: &Accesses, op: OpId) {
        let body = &function.body;
        let node = &body.ops[op];
        let is_tile = |value: Value| body.ty(value).tile().is_some_and(|(_, shape)| !shape.is_empty());
        let results: Vec<Value> = node.results.iter().copied().filter(|value| is_tile(*value)).collect();
        match &node.kind {
            Op::Core(Core::If { then, otherwise, .. }) => {
                self.region(function, accesses, *then);
                self.region(function, accesses, *otherwise);
                for (i, &result) in node.results.iter().enumerate().filter(|(_, result)| is_tile(**result)) {
                    let home = [*then, *otherwise].into_iter().find_map(|region| {
                        let values = leaving_values(function, region, |op| matches!(op, Op::Core(Core::Yield { .. })));
                        values.into_iter().find_map(|values| self.get(values[i]).cloned())
                    });
                    self.set(result, Some(home.unwrap_or_else(|| self.or_default(function, result))));
                }
            }
            Op::Core(Core::For { init, body: inner, .. }) => {
                let args = &body.blocks[body.block_of(*inner)].args[1..];
                self.carried(function, accesses, init, args, *inner);
                for (&arg, &result) in args.iter().zip(&node.results) {
                    self.set(result, self.get(arg).cloned());
                }
            }
            Op::Core(Core::Loop { init, body: inner }) => {
                let args = &body.blocks[body.block_of(*inner)].args;
                self.carried(function, accesses, init, args, *inner);
                for (i, &result) in node.results.iter().enumerate().filter(|(_, result)| is_tile(**result)) {
                    let breaks = leaving_values(function, *inner, |op| matches!(op, Op::Core(Core::Break { .. })));
                    let home = breaks.into_iter().find_map(|values| self.get(values[i]).cloned());
                    self.set(result, Some(home.unwrap_or_else(|| self.or_default(function, result))));
                }
            }
            kind => {
                for &result in &results {
                    let home = self.result_home(function, accesses, op, kind, result);
                    self.set(result, home);
                }
            }
        }
    }

    /// A carried value lives where its first value does; when that has no home, where the body computes the next one.
    fn carried(&mut self, function: &Function, accesses: &Accesses, init: &[Value], args: &[Value], inner: Region) {
        let is_tile = |value: Value| function.body.ty(value).tile().is_some_and(|(_, shape)| !shape.is_empty());
        for (&init, &arg) in init.iter().zip(args) {
            self.set(arg, self.get(init).cloned());
        }
        // Each round gives at least one more argument its home, so this ends.
        loop {
            self.region(function, accesses, inner);
            let nexts = leaving_values(function, inner, |op| matches!(op, Op::Core(Core::Continue { .. })));
            let mut news = false;
            for (i, &arg) in args.iter().enumerate().filter(|(_, arg)| is_tile(**arg)) {
                let next = nexts.iter().find_map(|values| self.get(values[i]).cloned());
                news |= self.set(arg, next);
            }
            if !news {
                break;
            }
        }
        for &arg in args.iter().filter(|arg| is_tile(**arg)) {
            let home = self.or_default(function, arg);
            if self.set(arg, Some(home)) {
                self.region(function, accesses, inner);
            }
        }
    }

    fn result_home(&self, function: &Function, accesses: &Accesses, op: OpId, kind: &Op, result: Value) -> Option<Layout> {
        let body = &function.body;
        let shape = |value: Value| body.ty(value).tile().map(|(_, shape)| shape.clone()).unwrap_or_default();
        match kind {
            Op::LoadView { .. } => accesses.get(op).map(|access| access.layout.clone()),
            Op::Core(core) if core.is_elementwise() => {
                let operands = base::ir::Operation::operands(core);
                operands.iter().find_map(|operand| self.get(*operand).cloned())
            }
            Op::Core(Core::Reshape { x }) => self.get(*x).cloned(),
            Op::Core(Core::Permute { x, order }) => {
                // The inverse order takes the operand's layout to the result's.
                let mut inverse = vec![0; order.len()];
                order.iter().enumerate().for_each(|(k, &dim)| inverse[dim as usize] = k as u32);
                self.get(*x).map(|layout| layout.unpermute(&shape(*x), &inverse))
            }
            Op::Core(Core::Constant { .. } | Core::Iota {} | Core::Broadcast { .. }) => None,
            Op::Reduce { operands, dim, .. } => {
                let from = shape(operands[0]);
                let layout = operands.iter().find_map(|operand| self.get(*operand).cloned());
                let layout = layout.unwrap_or_else(|| self.or_default(function, operands[0]));
                Some(without_dim(&layout, &from, *dim as usize))
            }
            _ => Some(self.or_default(function, result)),
        }
    }
}

/// The layout of what remains when a dimension is reduced: its lanes and warps hold copies.
pub(crate) fn without_dim(layout: &Layout, shape: &[u32], dim: usize) -> Layout {
    let strides = Strides::of(shape);
    layout.map(|basis| {
        let low = basis & ((1 << strides.shift[dim]) - 1);
        let high = basis >> (strides.shift[dim] + strides.bits[dim]) << strides.shift[dim];
        low | high
    })
}

/// The operands of every op under `region` that leaves it, without those of inner loops.
fn leaving_values(function: &Function, region: Region, leaves: impl Fn(&Op) -> bool) -> Vec<Vec<Value>> {
    let mut found = Vec::new();
    let mut stack = vec![region];
    while let Some(region) = stack.pop() {
        for &op in &function.body.blocks[function.body.block_of(region)].ops {
            let kind = &function.body.ops[op].kind;
            if leaves(kind) {
                found.push(base::ir::Operation::operands(kind).to_vec());
            }
            if let Op::Core(Core::If { then, otherwise, .. }) = kind
                && !leaves(&Op::Core(Core::Yield { values: Vec::new() }))
            {
                stack.extend([*then, *otherwise]);
            }
        }
    }
    found
}
