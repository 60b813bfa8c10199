//! `--trace`: each op's result as it is computed, on standard error.

use crate::exec::BlockPosition;
use crate::observe::{Moment, Observer};
use crate::print::shortened;
use crate::value::Value;
use base::Value as Id;
use base::diag::Result;
use std::io::Write as _;

/// Filter for the ops to print. All given criteria must match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    op: Option<String>,
    block: Option<Vec<u32>>,
    /// The file and line criteria, from `loc=[FILE:]LINE`.
    file: Option<String>,
    line: Option<u32>,
}

impl Trace {
    /// Parses a filter such as `op=addf,block=0:1,loc=kernel.py:12`.
    pub fn parse(text: &str) -> Result<Trace, String> {
        let mut trace = Trace::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("op", name)) => trace.op = Some(name.into()),
                Some(("block", index)) => {
                    let index: Result<Vec<u32>, _> = index.split(':').map(str::parse).collect();
                    trace.block = Some(index.map_err(|_| format!("'{part}' is not block=X[:Y[:Z]]"))?);
                }
                Some(("loc", place)) => {
                    let (file, line) = place.rsplit_once(':').map_or((place, None), |(file, line)| (file, line.parse().ok()));
                    trace.line = line.or_else(|| place.parse().ok());
                    trace.file = (trace.line.is_none() || line.is_some()).then(|| file.to_string());
                }
                _ => return Err(format!("'{part}' is not op=NAME, block=X[:Y[:Z]] or loc=[FILE:]LINE")),
            }
        }
        Ok(trace)
    }

    pub fn selected_op(&self) -> Option<&str> {
        self.op.as_deref()
    }

    fn print_op(&self, place: BlockPosition, position: Option<(&str, u32, u32)>, name: &str, ids: &[Id], results: &[Value]) {
        if results.is_empty() {
            return;
        }
        let [x, y, z] = place.index;
        let at = position.map_or(String::new(), |(file, line, column)| format!("{file}:{line}:{column}: "));
        let shown = ids.iter().zip(results).filter_map(|(id, value)| match value {
            Value::Token(_) => None,
            Value::Tile(tile) => Some(format!("{id} = {}", shortened(tile))),
            Value::Tensor(tensor) => {
                let (sizes, strides) = (&tensor.sizes, &tensor.strides);
                Some(format!("{id} = {} at {:#x}, sizes {sizes:?}, strides {strides:?}", tensor.elem, tensor.base))
            }
            Value::View(view) => Some(format!("{id} = tiles of {:?} in {:?}", &view.tile[..], view.index_space())),
        });
        let shown: Vec<_> = shown.collect();
        // The run continues if standard error is closed.
        let _ = writeln!(std::io::stderr(), "[{x}, {y}, {z}] {at}{name}: {}", shown.join("; "));
    }

    fn matches(&self, place: BlockPosition, position: Option<(&str, u32, u32)>, name: &str) -> bool {
        let file = |file: &String| position.is_some_and(|(path, _, _)| path.ends_with(file.as_str()));
        self.op.as_deref().is_none_or(|op| op == name)
            && self.block.as_deref().is_none_or(|block| place.index.starts_with(block))
            && self.file.as_ref().is_none_or(file)
            && self.line.is_none_or(|line| position.is_some_and(|(_, at, _)| at == line))
    }
}

impl Observer for Trace {
    fn after(&mut self, moment: &Moment<'_>, results: &[Value]) -> Result<()> {
        let position = moment.debug().position(moment.loc());
        if self.matches(moment.block_position(), position, moment.mnemonic()) {
            let ids = moment.results();
            let results: Vec<Value> = ids.iter().zip(results).map(|(id, value)| moment.shown(*id, value)).collect();
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
        let place = BlockPosition::new(1, [4, 1, 1], 1);
        let shows = |text: &str| Trace::parse(text).unwrap().matches(place, Some(("dir/k.py", 12, 3)), "addf");
        assert!(shows("") && shows("op=addf") && shows("block=1") && shows("block=1:0:0"));
        assert!(shows("loc=12") && shows("loc=k.py:12") && shows("loc=k.py") && shows("op=addf,loc=12"));
        assert!(!shows("op=mulf") && !shows("block=0") && !shows("loc=13") && !shows("loc=j.py"));
        assert!(Trace::parse("x").is_err() && Trace::parse("block=x").is_err());
    }
}
