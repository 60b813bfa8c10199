//! Prints functions in the text form.

use super::line_breaks::break_into_lines;
use super::{Function, OpText, TypeText, to_text};
use crate::ir::{Block, Body, Dense, Op, Value};
use crate::{DebugInfo, Loc, Locations};
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum characters of a line of parameters.
const MAX_WIDTH: usize = 120;

/// Returns the text of a function, whose ids must be in program order.
pub fn print_function<O: OpText, T: TypeText, A: Serialize>(
    function: &Function<O, T, A>,
    debug: &DebugInfo,
    locations: Locations,
) -> String {
    let mut printer =
        Printer { body: &function.body, debug, locations, types: TypeTable::collect(&function.body), out: String::new(), depth: 0 };
    printer.print_head(function);
    printer.print_block(function.entry());
    printer.out.push_str("}\n");
    printer.out
}

/// The type table at the head of a function: all composite types, each printed once.
struct TypeTable {
    /// The row number of each type. The key is the type's full text, without row numbers.
    rows: BTreeMap<String, usize>,
    /// The text of each row, by row number. A row may refer to earlier rows.
    row_texts: Vec<String>,
}

impl TypeTable {
    fn collect<O, T: TypeText>(body: &Body<O, T>) -> TypeTable {
        let mut table = TypeTable { rows: BTreeMap::new(), row_texts: Vec::new() };
        for value in body.values.values() {
            for part in value.ty.table_types() {
                if !table.rows.contains_key(&part) {
                    let line = table.with_row_numbers(&part);
                    table.rows.insert(part, table.row_texts.len());
                    table.row_texts.push(line);
                }
            }
        }
        table
    }

    /// Returns `text` with each type of this table replaced by `!` and the row number of the type.
    fn with_row_numbers(&self, text: &str) -> String {
        match self.rows.get(text) {
            Some(row) => format!("!{row}"),
            // The longest type is replaced first, because the text of a type may contain the text of another type.
            None => {
                let mut contained: Vec<(&String, &usize)> =
                    self.rows.iter().filter(|(part, _)| text.contains(part.as_str())).collect();
                contained.sort_by_key(|(part, _)| std::cmp::Reverse(part.len()));
                contained.into_iter().fold(text.to_string(), |text, (part, row)| text.replace(part.as_str(), &format!("!{row}")))
            }
        }
    }
}

/// The state of printing a function.
struct Printer<'a, O, T> {
    body: &'a Body<O, T>,
    debug: &'a DebugInfo,
    locations: Locations,
    types: TypeTable,
    out: String,
    /// The nesting depth of the current region. Each level is indented by two spaces.
    depth: usize,
}

/// A piece of text that remains to be printed.
enum PendingPiece {
    Op(Op),
    Arguments(Block),
    CloseRegion,
    /// Closes a region and opens the next region of the same op.
    NextRegion,
}

impl<O: OpText, T: TypeText> Printer<'_, O, T> {
    /// Prints the name, the parameters, the attributes and the type table of the function.
    fn print_head<A: Serialize>(&mut self, function: &Function<O, T, A>) {
        self.out.push_str(&format!("func {}(", to_text(&function.name)));
        let mut column = self.out.len();
        for (i, arg) in self.body.blocks[function.entry()].args.iter().enumerate() {
            let text = format!("{arg}: {}", self.type_text(*arg));
            let separator = if i == 0 { "" } else { ", " };
            if column + text.len() > MAX_WIDTH {
                self.out.push_str(separator.trim_end());
                self.out.push_str("\n    ");
                column = 4;
            } else {
                self.out.push_str(separator);
                column += separator.len();
            }
            column += text.len();
            self.out.push_str(&text);
        }
        self.out.push_str(&format!(") {}", break_into_lines(&to_text(&function.attrs))));
        self.end_line(function.loc, " {");
        for (row, line) in self.types.row_texts.iter().enumerate() {
            self.out.push_str(&format!("  type !{row} = {line}\n"));
        }
    }

    /// Returns the text of a value's type, with row numbers of the type table.
    fn type_text(&self, value: Value) -> String {
        self.types.with_row_numbers(&self.body.ty(value).print())
    }

    fn type_list(&self, values: &[Value]) -> String {
        values.iter().map(|value| self.type_text(*value)).collect::<Vec<_>>().join(", ")
    }

    /// Ends a line with the location, the opening brace `brace`, and the source line as a comment. `brace` is empty if no region
    /// follows.
    fn end_line(&mut self, loc: Loc, brace: &str) {
        if self.locations == Locations::Named {
            self.out.push_str(&format!(" {loc}"));
        }
        self.out.push_str(brace);
        if let Some((file, line, _)) = self.debug.position(loc) {
            let name: String = file.rsplit('/').next().unwrap_or(file).chars().filter(|c| !c.is_control()).collect();
            self.out.push_str(&format!(" // {name}:{line}"));
        }
        self.out.push('\n');
    }

    fn indent(&mut self) {
        self.out.push_str(&"  ".repeat(self.depth));
    }

    /// Prints the ops of a block and of its nested regions. The stack is explicit because the input decides the nesting depth.
    fn print_block(&mut self, block: Block) {
        self.depth = 1;
        let ops = |block: Block| self.body.blocks[block].ops.iter().rev().map(|op| PendingPiece::Op(*op));
        let mut stack: Vec<PendingPiece> = ops(block).collect();
        while let Some(piece) = stack.pop() {
            match piece {
                PendingPiece::CloseRegion | PendingPiece::NextRegion => {
                    self.depth -= 1;
                    self.indent();
                    self.out.push('}');
                    if matches!(piece, PendingPiece::NextRegion) {
                        self.out.push_str(" {");
                        self.depth += 1;
                    }
                    self.out.push('\n');
                }
                PendingPiece::Arguments(block) => {
                    self.indent();
                    let args: Vec<String> =
                        self.body.blocks[block].args.iter().map(|arg| format!("{arg}: {}", self.type_text(*arg))).collect();
                    self.out.push_str(&format!("({})\n", args.join(", ")));
                }
                PendingPiece::Op(op) => {
                    self.print_op(op);
                    let regions = self.body.ops[op].kind.regions();
                    for (i, region) in regions.iter().enumerate().rev() {
                        stack.push(if i + 1 == regions.len() { PendingPiece::CloseRegion } else { PendingPiece::NextRegion });
                        let block = self.body.block_of(*region);
                        stack.extend(ops(block));
                        if !self.body.blocks[block].args.is_empty() {
                            stack.push(PendingPiece::Arguments(block));
                        }
                    }
                }
            }
        }
    }

    /// Prints the line of an op, up to the opening brace of its first region.
    fn print_op(&mut self, op: Op) {
        let node = &self.body.ops[op];
        self.indent();
        if !node.results.is_empty() {
            let names: Vec<String> = node.results.iter().map(Value::to_string).collect();
            self.out.push_str(&format!("{} = ", names.join(", ")));
        }
        let literal = node.results.first().and_then(|result| literal(node.kind.constant()?, self.body.ty(*result)));
        let text = literal.map_or_else(|| to_text(&node.kind), |literal| format!("{}({literal})", node.kind.mnemonic()));
        self.out.push_str(&text);
        if !node.results.is_empty() {
            self.out.push_str(&format!(" : {}", self.type_list(&node.results)));
        }
        let has_regions = !node.kind.regions().is_empty();
        self.end_line(node.loc, if has_regions { " {" } else { "" });
        self.depth += usize::from(has_regions);
    }
}

/// Returns the text of a constant as numbers, or `None` if numbers of its type have no text.
fn literal<T: TypeText>(value: &Dense, ty: &T) -> Option<String> {
    match value {
        Dense::Splat(bits) => ty.literal(*bits),
        Dense::Elements(elements) => {
            let numbers: Option<Vec<String>> = elements.iter().map(|bits| ty.literal(*bits)).collect();
            Some(format!("[{}]", numbers?.join(", ")))
        }
    }
}
