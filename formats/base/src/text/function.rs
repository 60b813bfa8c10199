//! Functions in the text form, and the program order that their ids keep.

use super::{Reader, TypeText, to_text};
use crate::diag::Result;
use crate::ir::{Block, Body, Def, Op, Operation, Region, Value};
use crate::{DebugInfo, Loc};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A function of an IR format. `attrs` is what the format knows of a function besides its body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "O: Serialize, T: Serialize, A: Serialize",
    deserialize = "O: DeserializeOwned, T: DeserializeOwned, A: DeserializeOwned"
))]
pub struct Function<O, T, A> {
    pub name: String,
    pub attrs: A,
    pub loc: Loc,
    /// The region whose one block has the parameters as arguments.
    pub region: Region,
    pub body: Body<O, T>,
}

/// The bounds that generic code on functions needs.
pub trait Signature: Clone + Serialize + DeserializeOwned {}
impl<A: Clone + Serialize + DeserializeOwned> Signature for A {}

impl<O: Operation, T, A> Function<O, T, A> {
    /// A function with an empty body of one block.
    pub fn new(name: &str, attrs: A, loc: Loc) -> Self {
        let mut body = Body::default();
        let region = body.new_region();
        body.new_block(region);
        Function { name: name.into(), attrs, loc, region, body }
    }
    pub fn entry(&self) -> Block {
        self.body.block_of(self.region)
    }
    pub fn params(&self) -> &[Value] {
        &self.body.blocks[self.entry()].args
    }
}

/// The function with unreachable entities dropped and all ids in program order, as files have it.
pub fn compact<O: Operation + Clone, T: Clone, A: Clone>(function: &Function<O, T, A>) -> Function<O, T, A> {
    compact_with_map(function).0
}

/// As [`compact`], with the new id of each old value, for tables beside the body.
pub fn compact_with_map<O: Operation + Clone, T: Clone, A: Clone>(
    function: &Function<O, T, A>,
) -> (Function<O, T, A>, Vec<Option<Value>>) {
    let mut compacter = Compacter { from: &function.body, to: Body::default(), values: vec![None; function.body.values.len()] };
    let region = compacter.to.new_region();
    compacter.region(function.region, region);
    let (attrs, name) = (function.attrs.clone(), function.name.clone());
    (Function { name, attrs, loc: function.loc, region, body: compacter.to }, compacter.values)
}

struct Compacter<'a, O, T> {
    from: &'a Body<O, T>,
    to: Body<O, T>,
    values: Vec<Option<Value>>,
}

enum Work {
    Region(Region, Region),
    Op(Op, Block),
}

impl<O: Operation + Clone, T: Clone> Compacter<'_, O, T> {
    fn region(&mut self, from: Region, to: Region) {
        let mut stack = vec![Work::Region(from, to)];
        while let Some(work) = stack.pop() {
            match work {
                Work::Region(from, to) => {
                    for &block in &self.from.regions[from].blocks {
                        let new = self.to.new_block(to);
                        for &arg in &self.from.blocks[block].args {
                            let value = self.to.add_argument(new, self.from.values[arg].ty.clone());
                            self.values[arg.0 as usize] = Some(value);
                        }
                        stack.extend(self.from.blocks[block].ops.iter().rev().map(|op| Work::Op(*op, new)));
                    }
                }
                Work::Op(op, block) => self.op(op, block, &mut stack),
            }
        }
    }

    fn op(&mut self, op: Op, block: Block, stack: &mut Vec<Work>) {
        let node = &self.from.ops[op];
        let mut kind = node.kind.clone();
        kind.for_each_operand_mut(&mut |value| {
            *value = self.values[value.0 as usize].expect("a verified body defines before it uses")
        });
        let mut regions = Vec::new();
        let to = &mut self.to;
        kind.for_each_region_mut(&mut |region| {
            let new = to.new_region();
            regions.push(Work::Region(*region, new));
            *region = new;
        });
        stack.extend(regions.into_iter().rev());
        let new = self.to.append(block, kind, node.results.iter().map(|value| self.from.values[*value].ty.clone()), node.loc);
        for (old, new) in node.results.iter().zip(&self.to.ops[new].results) {
            self.values[old.0 as usize] = Some(*new);
        }
    }
}

/// Whether all ids are in program order and nothing is unreachable, as [`compact`] leaves a function. Its structure must be sound.
pub fn is_compact<O: Operation, T, A>(function: &Function<O, T, A>) -> bool {
    enum Piece {
        Region(Region),
        Op(Op),
    }
    let body = &function.body;
    let (mut ops, mut values, mut blocks, mut regions) = (0, 0, 0, 1);
    let is_next = |id: u32, count: &mut u32| {
        *count += 1;
        id + 1 == *count
    };
    let mut ordered = function.region == Region(0);
    let mut stack = vec![Piece::Region(function.region)];
    while let Some(piece) = stack.pop() {
        match piece {
            Piece::Region(region) => {
                for &block in &body.regions[region].blocks {
                    ordered &= is_next(block.0, &mut blocks);
                    body.blocks[block].args.iter().for_each(|arg| ordered &= is_next(arg.0, &mut values));
                    stack.extend(body.blocks[block].ops.iter().rev().map(|op| Piece::Op(*op)));
                }
            }
            Piece::Op(op) => {
                ordered &= is_next(op.0, &mut ops);
                body.ops[op].results.iter().for_each(|result| ordered &= is_next(result.0, &mut values));
                let inner = body.ops[op].kind.regions();
                inner.iter().for_each(|region| ordered &= is_next(region.0, &mut regions));
                stack.extend(inner.into_iter().rev().map(Piece::Region));
            }
        }
    }
    let counts = [body.ops.len(), body.values.len(), body.blocks.len(), body.regions.len()];
    ordered && counts == [ops, values, blocks, regions].map(|count| count as usize)
}

/// The function as text. Its ids must be in program order.
pub fn print_function<O: Operation + Serialize, T: TypeText, A: Serialize>(function: &Function<O, T, A>) -> String {
    let body = &function.body;
    let args = |block: Block| -> String {
        let args: Vec<String> = body.blocks[block].args.iter().map(|arg| format!("{arg}: {}", body.ty(*arg).print())).collect();
        args.join(", ")
    };
    let mut out =
        format!("func {}({}) {} {} {{\n", to_text(&function.name), args(function.entry()), to_text(&function.attrs), function.loc);
    enum Piece {
        Block(Block),
        Op(Op),
        Text(String),
    }
    let mut depth = 1;
    let mut stack = vec![Piece::Text("}\n".into()), Piece::Block(function.entry())];
    while let Some(piece) = stack.pop() {
        match piece {
            Piece::Text(text) => {
                if text.starts_with('}') {
                    depth -= 1;
                }
                out.push_str(&"  ".repeat(depth));
                out.push_str(&text);
                if text.ends_with("{\n") {
                    depth += 1;
                }
            }
            Piece::Block(block) => stack.extend(body.blocks[block].ops.iter().rev().map(|op| Piece::Op(*op))),
            Piece::Op(op) => {
                let node = &body.ops[op];
                out.push_str(&"  ".repeat(depth));
                if !node.results.is_empty() {
                    let names: Vec<String> = node.results.iter().map(Value::to_string).collect();
                    out.push_str(&format!("{} = ", names.join(", ")));
                }
                out.push_str(&to_text(&node.kind));
                if !node.results.is_empty() {
                    let types: Vec<String> = node.results.iter().map(|value| body.ty(*value).print()).collect();
                    out.push_str(&format!(" : {}", types.join(", ")));
                }
                out.push_str(&format!(" {}", node.loc));
                let regions = node.kind.regions();
                if regions.is_empty() {
                    out.push('\n');
                    continue;
                }
                out.push_str(" {\n");
                depth += 1;
                let last = regions.len() - 1;
                for (i, region) in regions.iter().enumerate().rev() {
                    stack.push(Piece::Text(if i == last { "}\n".into() } else { "} {\n".into() }));
                    let block = body.block_of(*region);
                    stack.push(Piece::Block(block));
                    if !body.blocks[block].args.is_empty() {
                        stack.push(Piece::Text(format!("({})\n", args(block))));
                    }
                }
            }
        }
    }
    out
}

/// Reads what [`print_function`] wrote.
pub fn read_function<O: Operation + DeserializeOwned, T: TypeText, A: DeserializeOwned>(
    reader: &mut Reader<'_>,
    debug: &DebugInfo,
) -> Result<Function<O, T, A>> {
    reader.clear_values();
    reader.expect("func")?;
    let name: String = reader.value()?;
    let mut body = Body::default();
    let region = body.new_region();
    let block = body.new_block(region);
    reader.regions = 1;
    read_args(reader, &mut body, block)?;
    let attrs = reader.value()?;
    let loc = read_loc(reader, debug)?;
    reader.expect("{")?;
    // Blocks being filled, and the regions that the braces after the current op will fill.
    let mut open = vec![(block, Vec::<Region>::new())];
    while let Some((block, waiting)) = open.last_mut() {
        let block = *block;
        if !reader.eat("}") {
            let regions = read_op(reader, &mut body, block, debug)?;
            if let Some((first, rest)) = regions.split_first() {
                reader.expect("{")?;
                let inner = open_region(reader, &mut body, *first)?;
                open.push((inner, rest.to_vec()));
            }
            continue;
        }
        if waiting.is_empty() {
            open.pop();
            continue;
        }
        let next = waiting.remove(0);
        let rest = std::mem::take(waiting);
        open.pop();
        reader.expect("{")?;
        let inner = open_region(reader, &mut body, next)?;
        open.push((inner, rest));
    }
    let function = Function { name, attrs, loc, region, body };
    function.body.verify_structure(function.region).map_err(|message| reader.error(message))?;
    // A person may have inserted ops anywhere; files keep program order.
    Ok(function)
}

fn open_region<O: Operation, T: TypeText>(reader: &mut Reader<'_>, body: &mut Body<O, T>, region: Region) -> Result<Block> {
    let block = body.new_block(region);
    if reader.peek("(") {
        read_args(reader, body, block)?;
    }
    Ok(block)
}

fn read_args<O: Operation, T: TypeText>(reader: &mut Reader<'_>, body: &mut Body<O, T>, block: Block) -> Result<()> {
    reader.expect("(")?;
    while !reader.eat(")") {
        if !body.blocks[block].args.is_empty() {
            reader.expect(",")?;
        }
        reader.define(body.values.len() as u32)?;
        reader.expect(":")?;
        let ty = read_type(reader, &[',', ')'])?;
        body.add_argument(block, ty);
    }
    Ok(())
}

fn read_type<T: TypeText>(reader: &mut Reader<'_>, stops: &[char]) -> Result<T> {
    let text = reader.until(stops);
    T::parse(text).ok_or_else(|| reader.error(format!("'{text}' is not a type")))
}

fn read_loc(reader: &mut Reader<'_>, debug: &DebugInfo) -> Result<Loc> {
    if !reader.peek("@") {
        return Ok(Loc::UNKNOWN);
    }
    let loc: Loc = reader.value()?;
    if debug.locs.get(loc).is_none() {
        return Err(reader.error(format!("location {loc} is not in the table at the head of the file")));
    }
    Ok(loc)
}

fn read_op<O: Operation + DeserializeOwned, T: TypeText>(
    reader: &mut Reader<'_>,
    body: &mut Body<O, T>,
    block: Block,
    debug: &DebugInfo,
) -> Result<Vec<Region>> {
    let mut names = Vec::new();
    if reader.peek("%") {
        loop {
            names.push(reader.clone_position());
            reader.eat("%");
            reader.word();
            if !reader.eat(",") {
                break;
            }
        }
        reader.expect("=")?;
    }
    let kind: O = reader.value()?;
    while body.regions.len() < reader.regions as usize {
        body.new_region();
    }
    let mut types = Vec::new();
    if !names.is_empty() {
        reader.expect(":")?;
        loop {
            types.push(read_type(reader, &[',', '@', '{', '}'])?);
            if !reader.eat(",") {
                break;
            }
        }
    }
    if types.len() != names.len() {
        return Err(reader.error(format!("{} results have {} types", names.len(), types.len())));
    }
    let loc = read_loc(reader, debug)?;
    let regions = kind.regions().to_vec();
    let first = body.values.len() as u32;
    for (i, name) in names.into_iter().enumerate() {
        reader.define_at(name, first + i as u32)?;
    }
    let op = body.append(block, kind, types, loc);
    debug_assert!(body.ops[op].results.iter().all(|value| body.values[*value].def == Def::Result { op, index: value.0 - first }));
    Ok(regions)
}
