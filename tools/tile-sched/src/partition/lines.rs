//! Shares the products in tensor memory out to two agents, where one would make them late: an agent asks for products in their order,
//! so the first of a round would come after the last of the round before. In attention that is the product of which the threads compute
//! an operand of the last, and would wait for again.
//!
//! Requires: a function with its loops, woven or not. Only decides.

use super::Why;
use super::groups::Groups;
use crate::{columns, tensor};
use base::Block;
use base::ir::Op as OpId;
use sched::{Function, Op};
use std::collections::{BTreeMap, BTreeSet};
use tileas::{Buffer, Space};

/// The agents that ask for products in tensor memory, at most.
pub(super) const MOST: usize = 2;

/// The sums that a product in tensor memory adds to.
fn sums(op: &Op) -> Option<Buffer> {
    tileas::verify::Program::program(op).and_then(tileas::strands::sums)
}

/// Which of the agents asks for a product: by the sums that it adds to.
#[derive(Clone, Default)]
pub(super) struct Lines {
    later: BTreeSet<Buffer>,
    /// Who computes: where that are two agents, each has products of its own.
    pub(super) groups: Groups,
}

impl Lines {
    /// Two agents: what all products of a round wait for is computed by the second one's. Or why one is enough.
    pub(super) fn of(function: &Function) -> Result<Lines, Why> {
        let rounds = Rounds::of(function);
        let late = rounds.products.iter().filter(|product| !rounds.is_first(product));
        let lines = Lines { later: late.map(|product| product.sums).collect(), groups: Groups::default() };
        let first = |product: &&Product| !lines.later.contains(&product.sums);
        let ahead: Vec<&Product> = rounds.products.iter().filter(first).collect();
        if !ahead.iter().any(|product| rounds.has_follower(product)) {
            return Err("no product of a round waits for what threads compute from another one of the round".into());
        }
        match ahead.iter().any(|product| lines.meets(function, product.sums)) {
            true => Err("operands lie in the place of the sums that would be made meanwhile".into()),
            false => Ok(lines),
        }
    }

    /// Two agents, each for what one of those that compute has multiplied; or why there is one.
    pub(super) fn in_groups(function: &Function) -> Result<Lines, Why> {
        Ok(Lines { later: BTreeSet::new(), groups: Groups::of(function)? })
    }

    /// The agents that they make.
    pub(super) fn count(&self) -> usize {
        if self.later.is_empty() { self.groups.count() } else { MOST }
    }

    /// Whose a product is.
    pub(super) fn of_product(&self, op: &Op) -> usize {
        let Some(buffer) = sums(op) else { return 0 };
        usize::from(self.later.contains(&buffer)).max(self.groups.of_sums(buffer))
    }

    /// Whether an operand of the second agent's products has columns of the sums of the first one's.
    fn meets(&self, function: &Function, sums: Buffer) -> bool {
        let is_placed = |buffer: Buffer| function.attrs.placements.get(buffer).is_some();
        let in_tensor_memory = |buffer: &Buffer| function.attrs.program.buffers[*buffer].space == Space::Tensor;
        let late = function.body.walk(function.region).into_iter().map(|op| &function.body.ops[op].kind);
        let mut read = late.filter(|op| tensor::is_product(op) && self.of_product(op) > 0).flat_map(tensor::operands).flatten();
        read.any(|operand| is_placed(operand) && in_tensor_memory(&operand) && columns::may_meet(function, sums, operand))
    }
}

/// A product in tensor memory, and the round that it is of.
struct Product {
    sums: Buffer,
    operands: BTreeSet<Buffer>,
    block: Block,
}

/// What a round does with tensor memory, and with operands that threads store: by the block that is the body of a loop.
struct Rounds {
    products: Vec<Product>,
    /// What threads store in a round, and the sums from which they compute it.
    stored: BTreeMap<(Block, Buffer), BTreeSet<Buffer>>,
}

impl Rounds {
    fn of(function: &Function) -> Rounds {
        let (body, blocks) = (&function.body, function.body.op_blocks());
        let mut rounds = Rounds { products: Vec::new(), stored: BTreeMap::new() };
        for op in body.walk(function.region) {
            let (kind, Some(block)) = (&body.ops[op].kind, blocks[op.0 as usize]) else { continue };
            if block == function.entry() {
                continue;
            }
            if let Some(sums) = sums(kind) {
                let operands = tensor::operands(kind).into_iter().flatten().collect();
                rounds.products.push(Product { sums, operands, block });
            }
            if let Op::Core(
                tileas::Op::SharedStore { buffer, .. }
                | tileas::Op::TensorStore { buffer, .. }
                | tileas::Op::TensorScale { buffer, .. },
            ) = kind
            {
                rounds.stored.entry((block, *buffer)).or_default().extend(loaded(function, op));
            }
        }
        rounds
    }

    /// Whether threads have nothing to do in a round before a product of it.
    fn is_first(&self, product: &Product) -> bool {
        !product.operands.iter().chain([&product.sums]).any(|buffer| self.stored.contains_key(&(product.block, *buffer)))
    }

    /// Whether another product of the round waits for what threads compute from a product's sums.
    fn has_follower(&self, product: &Product) -> bool {
        let follows = |other: &Product| {
            let from =
                |operand: &Buffer| self.stored.get(&(product.block, *operand)).is_some_and(|from| from.contains(&product.sums));
            other.block == product.block && other.operands.iter().any(from)
        };
        self.products.iter().any(follows)
    }
}

/// The sums in tensor memory from which an op computes, by way of shared memory too.
fn loaded(function: &Function, op: OpId) -> BTreeSet<Buffer> {
    let body = &function.body;
    let (mut sums, mut seen, mut work) = (BTreeSet::new(), BTreeSet::new(), vec![op]);
    while let Some(op) = work.pop() {
        for source in columns::sources(function, op) {
            match body.ops[source].kind {
                Op::Core(tileas::Op::TensorLoad { buffer, .. }) => _ = sums.insert(buffer),
                Op::Core(tileas::Op::SharedLoad { buffer, .. }) if seen.insert(buffer) => {
                    let stores = |op: &OpId| matches!(body.ops[*op].kind, Op::Core(tileas::Op::SharedStore { buffer: other, .. }) if other == buffer);
                    work.extend(body.walk(function.region).into_iter().filter(stores));
                }
                _ => {}
            }
        }
    }
    sums
}
