//! Parses functions.

use super::{Function, OpText, Reader, TypeText};
use crate::diag::Result;
use crate::ir::{Block, Body, Def, Dense, Region};
use crate::{DebugInfo, Loc};
use serde::de::DeserializeOwned;

/// Parses the output of [`super::print_function`].
pub fn read_function<O: OpText, T: TypeText, A: DeserializeOwned>(
    reader: &mut Reader<'_>,
    debug: &DebugInfo,
) -> Result<Function<O, T, A>> {
    reader.new_function();
    let line = reader.line_as_location().map(Loc);
    reader.expect("func")?;
    let name: String = reader.value()?;
    let mut body = Body::default();
    let region = body.new_region();
    let block = body.new_block(region);
    reader.regions = 1;
    // Parameter types may refer to the type table, which comes later; they are parsed after it.
    let parameters = reader.clone_position();
    skip_parameters(reader)?;
    let attrs = reader.value()?;
    let loc = read_loc(reader, debug, line)?;
    reader.expect("{")?;
    while reader.eat("type !") {
        reader.define_type()?;
    }
    reader.at_position(parameters, |reader| read_args(reader, &mut body, block))?;
    // Open blocks, and the regions of the braces that follow the current op.
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
    // A person may insert ops in any order; files need program order.
    Ok(function)
}

fn open_region<O: OpText, T: TypeText>(reader: &mut Reader<'_>, body: &mut Body<O, T>, region: Region) -> Result<Block> {
    let block = body.new_block(region);
    if reader.peek("(") {
        read_args(reader, body, block)?;
    }
    Ok(block)
}

fn skip_parameters(reader: &mut Reader<'_>) -> Result<()> {
    reader.expect("(")?;
    while !reader.eat(")") {
        let before = reader.clone_position();
        reader.until(&[',', ')']);
        reader.eat(",");
        if reader.clone_position() == before {
            return Err(reader.error("expected ')'"));
        }
    }
    Ok(())
}

fn read_args<O: OpText, T: TypeText>(reader: &mut Reader<'_>, body: &mut Body<O, T>, block: Block) -> Result<()> {
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
    let in_full = reader.in_full(text)?;
    T::parse(&in_full).ok_or_else(|| reader.error(format!("'{text}' is not a type")))
}

/// The location number of the text, or the line as location if the reader requests that.
fn read_loc(reader: &mut Reader<'_>, debug: &DebugInfo, line: Option<Loc>) -> Result<Loc> {
    if !reader.peek("@") {
        return Ok(line.unwrap_or(Loc::UNKNOWN));
    }
    let loc: Loc = reader.value()?;
    if let Some(line) = line {
        return Ok(line);
    }
    if debug.locs.get(loc).is_none() {
        return Err(reader.error(format!("location {loc} is not in the table of the file")));
    }
    Ok(loc)
}

/// The part of an op before its types.
enum Start<O> {
    Op(O),
    /// Numbers from this position on; the type determines their bits.
    Constant(usize),
}

fn read_op<O: OpText, T: TypeText>(
    reader: &mut Reader<'_>,
    body: &mut Body<O, T>,
    block: Block,
    debug: &DebugInfo,
) -> Result<Vec<Region>> {
    let mut names = Vec::new();
    let line = reader.line_as_location().map(Loc);
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
    let start = read_start::<O>(reader)?;
    while body.regions.len() < reader.regions as usize {
        body.new_region();
    }
    let mut types: Vec<T> = Vec::new();
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
    let kind = match start {
        Start::Op(kind) => kind,
        Start::Constant(at) => match types.first() {
            Some(ty) => O::from_constant(reader.at_position(at, |reader| read_literals(reader, ty))?),
            None => return Err(reader.error("a constant has a result")),
        },
    };
    let loc = read_loc(reader, debug, line)?;
    let regions = kind.regions().to_vec();
    let first = body.values.len() as u32;
    for (i, name) in names.into_iter().enumerate() {
        reader.define_at(name, first + i as u32)?;
    }
    let op = body.append(block, kind, types, loc);
    debug_assert!(body.ops[op].results.iter().all(|value| body.values[*value].def == Def::Result { op, index: value.0 - first }));
    Ok(regions)
}

fn read_start<O: OpText>(reader: &mut Reader<'_>) -> Result<Start<O>> {
    if !reader.eat("constant(") {
        return reader.value().map(Start::Op);
    }
    let at = reader.clone_position();
    reader.until(&[')']);
    reader.expect(")")?;
    Ok(Start::Constant(at))
}

/// One number, or a list of them in brackets.
fn read_literals<T: TypeText>(reader: &mut Reader<'_>, ty: &T) -> Result<Dense> {
    let number = |reader: &mut Reader<'_>, stops: &[char]| {
        let text = reader.until(stops);
        ty.bits(text).ok_or_else(|| reader.error(format!("'{text}' is not a number of type {}", ty.print())))
    };
    if !reader.eat("[") {
        return number(reader, &[')']).map(Dense::Splat);
    }
    let mut all = Vec::new();
    while !reader.eat("]") {
        if !all.is_empty() {
            reader.expect(",")?;
        }
        all.push(number(reader, &[',', ']'])?);
    }
    Ok(Dense::Elements(all))
}
