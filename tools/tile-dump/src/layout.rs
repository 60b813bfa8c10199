//! The option `--layout`, which draws a layout of a stage file as text.

use base::File;
use base::diag::{Diagnostic, Result};
use base::envelope::{Sniffed, sniff};
use common::{Colour, Input};
use layout_drawing::layouts::UsesByLayout;
use tileas::{Layout, LayoutId};

/// Draws a layout once for each tile type that uses the layout. `name` is the id of the layout, such as `#2`. The drawings use
/// colours only on a terminal.
pub(crate) fn draw(input: &Input, name: &str, to_terminal: bool) -> Result<String> {
    let mut uses = UsesByLayout::default();
    let layouts: Vec<(LayoutId, Layout)> = match sniff(&input.bytes) {
        Sniffed::Stage { format, .. } if format == "tileas" => {
            let module = File::<tileas::Module>::read(&input.bytes, &input.name)?.payload;
            module.functions.iter().for_each(|function| uses.add(&function.body, &function.attrs));
            module.layouts.iter().map(|(id, layout)| (id, layout.clone())).collect()
        }
        Sniffed::Stage { format, .. } if format == "sched" => {
            let module = File::<sched::Module>::read(&input.bytes, &input.name)?.payload;
            module.functions.iter().for_each(|function| uses.add(&function.body, &function.attrs.program));
            module.layouts.iter().map(|(id, layout)| (id, layout.clone())).collect()
        }
        other => {
            let message = format!("{} is {}; layouts are in .as and .sched", input.name, other.describe());
            return Err(Diagnostic::usage("DMP002", message));
        }
    };
    let id_text = name.trim_start_matches('#');
    let Some((id, layout)) = layouts.iter().find(|(id, _)| id.0.to_string() == id_text) else {
        let known_ids: Vec<String> = layouts.iter().map(|(id, _)| id.to_string()).collect();
        return Err(Diagnostic::usage("DMP003", format!("there is no layout '{name}'; there are {}", known_ids.join(", "))));
    };
    let colour = to_terminal && Colour::for_stdout() == Colour::Yes;
    let drawings: Vec<String> = uses
        .of_layout(*id)
        .iter()
        .map(|tile_type| layout_drawing::terminal::draw(&id.to_string(), layout, tile_type, colour))
        .collect();
    Ok(if drawings.is_empty() { format!("no value has layout {id}\n") } else { drawings.join("\n") })
}
