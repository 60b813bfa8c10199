//! `--trace`: prints the results of each op to standard error when the op has computed them.

use crate::cta_state::BlockPosition;
use crate::observe::{Moment, Observer};
use crate::print::format_tile;
use crate::value::Value;
use base::Value as Id;
use base::diag::Result;
use std::io::Write as _;

/// The observer of `--trace`, with the filter for the ops to print. An op must match all criteria of the filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The mnemonic of the op.
    op: Option<String>,
    /// The first coordinates of the tile block: x, x and y, or all three.
    block: Option<Vec<u32>>,
    /// The end of the source file's path, from `loc=FILE` or `loc=FILE:LINE`.
    file: Option<String>,
    /// The source line, from `loc=LINE` or `loc=FILE:LINE`.
    line: Option<u32>,
}

impl Trace {
    /// Parses a filter such as `op=addf,block=0:1,loc=kernel.py:12`.
    pub fn parse(text: &str) -> Result<Trace, String> {
        let mut trace = Trace::default();
        for criterion in text.split(',').filter(|criterion| !criterion.is_empty()) {
            match criterion.split_once('=') {
                Some(("op", name)) => trace.op = Some(name.into()),
                Some(("block", index)) => {
                    let index: Result<Vec<u32>, _> = index.split(':').map(str::parse).collect();
                    trace.block = Some(index.map_err(|_| format!("'{criterion}' is not block=X[:Y[:Z]]"))?);
                }
                Some(("loc", location)) => {
                    let (file, line) = location.rsplit_once(':').map_or((location, None), |(file, line)| (file, line.parse().ok()));
                    trace.line = line.or_else(|| location.parse().ok());
                    trace.file = (trace.line.is_none() || line.is_some()).then(|| file.to_string());
                }
                _ => return Err(format!("'{criterion}' is not op=NAME, block=X[:Y[:Z]] or loc=[FILE:]LINE")),
            }
        }
        Ok(trace)
    }

    /// Returns the mnemonic that the filter requires. `None` if the filter accepts all ops.
    pub fn selected_op(&self) -> Option<&str> {
        self.op.as_deref()
    }

    /// Prints the results of an op, except tokens, as one line on standard error. Prints nothing for an op without results.
    fn print_op(
        &self,
        block_position: BlockPosition,
        position: Option<(&str, u32, u32)>,
        name: &str,
        ids: &[Id],
        results: &[Value],
    ) {
        if results.is_empty() {
            return;
        }
        let [x, y, z] = block_position.index;
        let location_text = position.map_or(String::new(), |(file, line, column)| format!("{file}:{line}:{column}: "));
        let texts = ids.iter().zip(results).filter_map(|(id, value)| match value {
            Value::Token(_) => None,
            Value::Tile(tile) => Some(format!("{id} = {}", format_tile(tile))),
            Value::Tensor(tensor) => {
                let (sizes, strides) = (&tensor.sizes, &tensor.strides);
                Some(format!("{id} = {} at {:#x}, sizes {sizes:?}, strides {strides:?}", tensor.elem, tensor.base))
            }
            Value::View(view) => Some(format!("{id} = tiles of {:?} in {:?}", &view.tile[..], view.index_space())),
        });
        let texts: Vec<_> = texts.collect();
        // The run continues if standard error is closed.
        let _ = writeln!(std::io::stderr(), "[{x}, {y}, {z}] {location_text}{name}: {}", texts.join("; "));
    }

    /// Returns whether an op at a position of a tile block matches all criteria of the filter.
    fn matches(&self, block_position: BlockPosition, position: Option<(&str, u32, u32)>, name: &str) -> bool {
        let is_in_file = |file: &String| position.is_some_and(|(path, _, _)| path.ends_with(file.as_str()));
        self.op.as_deref().is_none_or(|op| op == name)
            && self.block.as_deref().is_none_or(|block| block_position.index.starts_with(block))
            && self.file.as_ref().is_none_or(is_in_file)
            && self.line.is_none_or(|line| position.is_some_and(|(_, at, _)| at == line))
    }
}

impl Observer for Trace {
    fn after_op(&mut self, moment: &Moment<'_>, results: &[Value]) -> Result<()> {
        let position = moment.debug().position(moment.loc());
        if self.matches(moment.block_position(), position, moment.mnemonic()) {
            let ids = moment.results();
            let results: Vec<Value> = ids.iter().zip(results).map(|(id, value)| moment.display_value(*id, value)).collect();
            self.print_op(moment.block_position(), position, moment.mnemonic(), ids, &results);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_by_op_block_and_location() {
        let block_position = BlockPosition::new(1, [4, 1, 1], 1);
        let selects = |text: &str| Trace::parse(text).unwrap().matches(block_position, Some(("dir/k.py", 12, 3)), "addf");
        assert!(selects("") && selects("op=addf") && selects("block=1") && selects("block=1:0:0"));
        assert!(selects("loc=12") && selects("loc=k.py:12") && selects("loc=k.py") && selects("op=addf,loc=12"));
        assert!(!selects("op=mulf") && !selects("block=0") && !selects("loc=13") && !selects("loc=j.py"));
        assert!(Trace::parse("x").is_err() && Trace::parse("block=x").is_err());
    }
}
