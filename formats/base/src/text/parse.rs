//! Parses functions in the text form.

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
    // The types of parameters may refer to the type table, which comes later in the text. The parser therefore skips the
    // parameters, and reads the parameters after the table.
    let parameters = reader.position();
    skip_parameters(reader)?;
    let attrs = reader.value()?;
    let loc = read_loc(reader, debug, line)?;
    reader.expect("{")?;
    while reader.accept("type !") {
        reader.define_type()?;
    }
    reader.at_position(parameters, |reader| read_args(reader, &mut body, block))?;
    // The open blocks, from outer to inner. Each has the later regions of the same op, whose braces follow the block.
    let mut open = vec![(block, Vec::<Region>::new())];
    while let Some((block, following_regions)) = open.last_mut() {
        let block = *block;
        if !reader.accept("}") {
            let regions = read_op(reader, &mut body, block, debug)?;
            if let Some((first, rest)) = regions.split_first() {
                reader.expect("{")?;
                let inner = open_region(reader, &mut body, *first)?;
                open.push((inner, rest.to_vec()));
            }
            continue;
        }
        if following_regions.is_empty() {
            open.pop();
            continue;
        }
        let next = following_regions.remove(0);
        let rest = std::mem::take(following_regions);
        open.pop();
        reader.expect("{")?;
        let inner = open_region(reader, &mut body, next)?;
        open.push((inner, rest));
    }
    let function = Function { name, attrs, loc, region, body };
    function.body.verify_structure(function.region).map_err(|message| reader.error(message))?;
    // The ids may be out of program order, because a person may have inserted ops. The format crate renumbers the ids with
    // `compact`.
    Ok(function)
}

/// Creates the block of a region and reads its arguments. The cursor is after the opening brace.
fn open_region<O: OpText, T: TypeText>(reader: &mut Reader<'_>, body: &mut Body<O, T>, region: Region) -> Result<Block> {
    let block = body.new_block(region);
    if reader.peek("(") {
        read_args(reader, body, block)?;
    }
    Ok(block)
}

/// Moves the cursor after the parameters in parentheses.
fn skip_parameters(reader: &mut Reader<'_>) -> Result<()> {
    reader.expect("(")?;
    while !reader.accept(")") {
        let before = reader.position();
        reader.read_until(&[',', ')']);
        reader.accept(",");
        if reader.position() == before {
            return Err(reader.error("expected ')'"));
        }
    }
    Ok(())
}

/// Reads `(%name: type, …)` and adds the arguments to a block.
fn read_args<O: OpText, T: TypeText>(reader: &mut Reader<'_>, body: &mut Body<O, T>, block: Block) -> Result<()> {
    reader.expect("(")?;
    while !reader.accept(")") {
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

/// Reads a type, up to one of the characters `stops` outside brackets.
fn read_type<T: TypeText>(reader: &mut Reader<'_>, stops: &[char]) -> Result<T> {
    let text = reader.read_until(stops);
    let expanded = reader.expand_type(text)?;
    T::parse(&expanded).ok_or_else(|| reader.error(format!("'{text}' is not a type")))
}

/// Skips the location number, if the text has one. Returns `line` if the reader uses line numbers as locations. Otherwise returns
/// the location number, or the unknown location if there is no number.
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

/// The part of an op before its result types.
enum OpStart<O> {
    Op(O),
    /// A constant whose numbers are at this position in the text. The parser reads the numbers after the type, which determines
    /// their bits.
    Constant(usize),
}

/// Reads an op without the content of its regions. Returns the regions, whose braces follow the cursor.
fn read_op<O: OpText, T: TypeText>(
    reader: &mut Reader<'_>,
    body: &mut Body<O, T>,
    block: Block,
    debug: &DebugInfo,
) -> Result<Vec<Region>> {
    let mut name_positions = Vec::new();
    let line = reader.line_as_location().map(Loc);
    if reader.peek("%") {
        loop {
            name_positions.push(reader.position());
            reader.accept("%");
            reader.read_word();
            if !reader.accept(",") {
                break;
            }
        }
        reader.expect("=")?;
    }
    let op_start = read_op_start::<O>(reader)?;
    while body.regions.len() < reader.regions as usize {
        body.new_region();
    }
    let mut types: Vec<T> = Vec::new();
    if !name_positions.is_empty() {
        reader.expect(":")?;
        loop {
            types.push(read_type(reader, &[',', '@', '{', '}'])?);
            if !reader.accept(",") {
                break;
            }
        }
    }
    if types.len() != name_positions.len() {
        return Err(reader.error(format!("{} results have {} types", name_positions.len(), types.len())));
    }
    let kind = match op_start {
        OpStart::Op(kind) => kind,
        OpStart::Constant(position) => match types.first() {
            Some(ty) => O::from_constant(reader.at_position(position, |reader| read_literals(reader, ty))?),
            None => return Err(reader.error("a constant has a result")),
        },
    };
    let loc = read_loc(reader, debug, line)?;
    let regions = kind.regions().to_vec();
    let first_value = body.values.len() as u32;
    for (i, name) in name_positions.into_iter().enumerate() {
        reader.define_at(name, first_value + i as u32)?;
    }
    let op = body.append(block, kind, types, loc);
    debug_assert!(
        body.ops[op].results.iter().all(|value| body.values[*value].def == Def::Result { op, index: value.0 - first_value })
    );
    Ok(regions)
}

/// Reads an op up to its result types.
fn read_op_start<O: OpText>(reader: &mut Reader<'_>) -> Result<OpStart<O>> {
    if !reader.accept("constant(") {
        return reader.value().map(OpStart::Op);
    }
    let position = reader.position();
    reader.read_until(&[')']);
    reader.expect(")")?;
    Ok(OpStart::Constant(position))
}

/// Reads the numbers of a constant: one number for all elements, or a list in brackets.
fn read_literals<T: TypeText>(reader: &mut Reader<'_>, ty: &T) -> Result<Dense> {
    let read_number = |reader: &mut Reader<'_>, stops: &[char]| {
        let text = reader.read_until(stops);
        ty.literal_bits(text).ok_or_else(|| reader.error(format!("'{text}' is not a number of type {}", ty.print())))
    };
    if !reader.accept("[") {
        return read_number(reader, &[')']).map(Dense::Splat);
    }
    let mut elements = Vec::new();
    while !reader.accept("]") {
        if !elements.is_empty() {
            reader.expect(",")?;
        }
        elements.push(read_number(reader, &[',', ']'])?);
    }
    Ok(Dense::Elements(elements))
}
