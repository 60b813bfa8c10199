//! The ops of a kernel of any format in program order, as the debugger displays them.

use base::ir::Operation;
use base::{Block, Body, Loc, Op, Region, Value};

/// An op and its position in the listing.
#[derive(Clone, Debug)]
pub struct ListingRow {
    pub op: Op,
    pub mnemonic: &'static str,
    pub operands: Vec<Value>,
    pub results: Vec<Value>,
    /// Whether at least one result is not a token.
    pub defines_value: bool,
    pub loc: Loc,
    /// The number of ops whose regions contain this op.
    pub depth: usize,
    /// The row of the op whose region contains this op. `None` for an op in the body of the kernel itself.
    pub owner: Option<usize>,
    pub block: Block,
    /// The arguments of `block`: the function's parameters, or the induction variable and the loop-carried values.
    pub arguments: Vec<Value>,
}

/// The ops of a kernel.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub rows: Vec<ListingRow>,
    /// Number of SSA values of the function. Every value id is less than this number.
    pub value_count: usize,
    /// The row of each op, by the index of the op.
    rows_by_op: Vec<usize>,
}

impl Listing {
    pub(crate) fn new<O: Operation, T>(body: &Body<O, T>, region: Region, is_token: impl Fn(&T) -> bool) -> Listing {
        let mut listing =
            Listing { rows: Vec::new(), value_count: body.values.len(), rows_by_op: vec![usize::MAX; body.ops.len()] };
        // The stack is explicit because the input controls the nesting depth.
        let mut stack: Vec<(Op, Block, usize, Option<usize>)> = Vec::new();
        let push = |stack: &mut Vec<_>, region: Region, depth: usize, owner: Option<usize>| {
            for block in body.regions[region].blocks.iter().rev() {
                stack.extend(body.blocks[*block].ops.iter().rev().map(|op| (*op, *block, depth, owner)));
            }
        };
        push(&mut stack, region, 0, None);
        while let Some((op, block, depth, owner)) = stack.pop() {
            let node = &body.ops[op];
            let row = listing.rows.len();
            listing.rows_by_op[op.0 as usize] = row;
            for inner in node.kind.regions().into_iter().rev() {
                push(&mut stack, inner, depth + 1, Some(row));
            }
            listing.rows.push(ListingRow {
                op,
                mnemonic: node.kind.mnemonic(),
                operands: node.kind.operands().to_vec(),
                results: node.results.to_vec(),
                defines_value: node.results.iter().any(|result| !is_token(body.ty(*result))),
                loc: node.loc,
                depth,
                owner,
                block,
                arguments: body.blocks[block].args.clone(),
            });
        }
        listing
    }

    /// Returns the index of the row of an op.
    pub fn row(&self, op: Op) -> usize {
        self.rows_by_op[op.0 as usize]
    }

    /// Returns the values that are in scope at a row, in definition order.
    pub fn visible_values(&self, row: usize) -> Vec<Value> {
        let mut scopes = Vec::new();
        let mut enclosing_row = Some(row);
        while let Some(row) = enclosing_row {
            let ListingRow { owner, block, arguments, .. } = &self.rows[row];
            let first = owner.map_or(0, |owner| owner + 1);
            let earlier_results = self.rows[first..row].iter().filter(|other| other.block == *block).flat_map(|row| &row.results);
            scopes.push(arguments.iter().chain(earlier_results).copied().collect::<Vec<_>>());
            enclosing_row = *owner;
        }
        scopes.into_iter().rev().flatten().collect()
    }

    /// Formats the op of a row as one line: results, mnemonic and operands.
    pub fn op_text(&self, row: usize) -> String {
        let list = |values: &[Value]| values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
        let ListingRow { mnemonic, operands, results, .. } = &self.rows[row];
        let result_list = if results.is_empty() { String::new() } else { format!("{} = ", list(results)) };
        let operand_list = if operands.is_empty() { String::new() } else { format!(" {}", list(operands)) };
        format!("{result_list}{mnemonic}{operand_list}")
    }
}
