//! Purpose: adds the parts of the PTX text that LLVM cannot print: the PTX version, the `.language` of tile kernels, `.hidden`
//! parameters for tensor maps, and the envelope as leading comments.

use crate::emit::map_parameter_name;
use crate::ptx_peephole;
use base::diag::Result;
use base::{Envelope, Target};
use ptx::tensor_map::Recipe;
use std::borrow::Cow;
use std::fmt::Write as _;

/// The number that identifies Tile IR in the PTX directive `.language`.
const TILE_IR_LANGUAGE_ID: u32 = 7;

/// Returns the final PTX for the PTX text of LLVM. `producer` is this program's name in the envelope.
pub(crate) fn complete_ptx(ptx: &str, module: &sched::Module, envelope: &Envelope, producer: &str) -> Result<String> {
    let target = envelope.target()?;
    let ptx_envelope =
        Envelope { format: "ptx".into(), version: 1, phase: "final".into(), producer: producer.into(), ..envelope.clone() };
    let mut out = ptx_envelope.to_lines();
    for function in &module.functions {
        let _ = writeln!(out, "//!tile kernel {}", base::text::to_text(&function.name));
        for (map_index, map) in function.attrs.program.maps.values().enumerate() {
            let param = map_parameter_name(function, map_index);
            out += &Recipe { entry: function.name.clone(), param, map: map.clone() }.to_line();
        }
    }
    let line_table_only = envelope.options.flag("lineinfo") && !envelope.options.flag("device-debug");
    let ptx = if line_table_only { Cow::Owned(crate::debug_info::without_debug_sections(ptx)) } else { Cow::Borrowed(ptx) };
    for line in ptx_peephole::simplify_branches(&ptx) {
        edit_line(&line, target, &mut out);
    }
    Ok(out)
}

/// Appends a line of LLVM's PTX to `out`, with the changes that tile kernels need.
fn edit_line(line: &str, target: Target, out: &mut String) {
    if let Some(map) = line.strip_prefix("\t.param .align 64 .b8 ") {
        // Tensor maps are the only array parameters, so this is a hidden parameter.
        let _ = writeln!(out, "\t.hidden .param .align 64 .b8 {map}");
    } else if line.starts_with(".version ") {
        let _ = writeln!(out, ".version {}", target.ptx_version);
    } else if line.starts_with(".target ") {
        let debug_flag = if line.ends_with(", debug") { ", debug" } else { "" };
        let _ = writeln!(out, ".target {}{debug_flag}", target.ptx_target);
    } else if line.starts_with(".reqntid ") {
        let _ = writeln!(out, "{line}\n.language {TILE_IR_LANGUAGE_ID}");
    } else {
        out.push_str(line);
        out.push('\n');
    }
}
