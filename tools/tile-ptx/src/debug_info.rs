//! Source lines as LLVM debug metadata: for each instruction, the line of the user's program.
//!
//! With `--lineinfo`, the PTX needs only `.file` and `.loc` directives. LLVM also prints debug sections, which make ptxas stop
//! optimising; [`crate::finish`] removes these sections.

use crate::ir::Ir;
use base::{Envelope, Loc};
use inkwell::debug_info::{
    AsDIScope, DICompileUnit, DIFile, DIFlagsConstants, DIScope, DISubprogram, DWARFEmissionKind, DWARFSourceLanguage,
    DebugInfoBuilder,
};
use inkwell::module::FlagBehavior;
use inkwell::values::FunctionValue;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The debug metadata of a module under construction.
pub(crate) struct DebugLines<'c, 'a> {
    builder: DebugInfoBuilder<'c>,
    unit: DICompileUnit<'c>,
    envelope: &'a Envelope,
    files: RefCell<BTreeMap<String, DIFile<'c>>>,
}

/// The scopes of one kernel.
pub(crate) struct KernelDebugLines<'c, 'a> {
    lines: &'a DebugLines<'c, 'a>,
    subprogram: DISubprogram<'c>,
    /// Scopes for lines in files other than the kernel's file.
    scopes: RefCell<BTreeMap<String, DIScope<'c>>>,
    file: String,
}

impl<'c, 'a> DebugLines<'c, 'a> {
    /// Returns `None` if no option requests line information.
    pub(crate) fn new(ir: &Ir<'c>, envelope: &'a Envelope, file: &str) -> Option<Self> {
        let options = &envelope.options;
        let full = options.flag("device-debug");
        if !full && !options.flag("lineinfo") {
            return None;
        }
        let version = ir.const32(inkwell::debug_info::debug_metadata_version());
        ir.module.add_basic_value_flag("Debug Info Version", FlagBehavior::Warning, version);
        let kind = if full { DWARFEmissionKind::Full } else { DWARFEmissionKind::LineTablesOnly };
        let optimized = options.opt_level() > 0;
        let file = &writable(file);
        let (builder, unit) = ir.module.create_debug_info_builder(
            true,
            DWARFSourceLanguage::C,
            file,
            "",
            "tile-ptx",
            optimized,
            "",
            0,
            "",
            kind,
            0,
            false,
            false,
            "",
            "",
        );
        Some(DebugLines { builder, unit, envelope, files: RefCell::default() })
    }

    fn file(&self, name: &str) -> DIFile<'c> {
        let name = writable(name);
        *self.files.borrow_mut().entry(name.clone()).or_insert_with(|| self.builder.create_file(&name, ""))
    }

    /// Creates the scopes of a kernel.
    pub(crate) fn kernel(&'a self, name: &str, loc: Loc, function: FunctionValue<'c>) -> KernelDebugLines<'c, 'a> {
        let (file, line, _) = self.envelope.debug.position(loc).unwrap_or(("unknown", 0, 0));
        let di_file = self.file(file);
        let ty = self.builder.create_subroutine_type(di_file, None, &[], inkwell::debug_info::DIFlags::PUBLIC);
        let optimized = self.envelope.options.opt_level() > 0;
        let subprogram = self.builder.create_function(
            self.unit.as_debug_info_scope(),
            name,
            None,
            di_file,
            line,
            ty,
            false,
            true,
            line,
            inkwell::debug_info::DIFlags::PUBLIC,
            optimized,
        );
        function.set_subprogram(subprogram);
        KernelDebugLines { lines: self, subprogram, scopes: RefCell::default(), file: file.into() }
    }

    /// Finalizes the metadata. Call it after the last kernel.
    pub(crate) fn finish(&self) {
        self.builder.finalize();
    }
}

impl<'c> KernelDebugLines<'c, '_> {
    /// Sets the source location of the instructions that are built from now on.
    pub(crate) fn enter(&self, ir: &Ir<'c>, loc: Loc) {
        let Some((file, line, column)) = self.lines.envelope.debug.position(loc) else {
            // The location of an op without a line is the kernel.
            let scope = self.subprogram.as_debug_info_scope();
            ir.builder.set_current_debug_location(self.lines.builder.create_debug_location(ir.context, 0, 0, scope, None));
            return;
        };
        let scope = self.scope(file);
        let location = self.lines.builder.create_debug_location(ir.context, line, column, scope, None);
        ir.builder.set_current_debug_location(location);
    }

    fn scope(&self, file: &str) -> DIScope<'c> {
        let kernel = self.subprogram.as_debug_info_scope();
        if file == self.file {
            return kernel;
        }
        let make = || self.lines.builder.create_lexical_block(kernel, self.lines.file(file), 0, 0).as_debug_info_scope();
        *self.scopes.borrow_mut().entry(file.into()).or_insert_with(make)
    }
}

/// Removes the characters that PTX strings cannot contain.
fn writable(path: &str) -> String {
    path.chars().filter(|c| *c != '"' && !c.is_control()).collect()
}

/// Removes the debug sections and the `debug` flag of `.target`.
pub(crate) fn without_sections(ptx: &str) -> String {
    let mut out = String::with_capacity(ptx.len());
    let mut depth = 0;
    let mut in_section = false;
    for line in ptx.lines() {
        if line.trim_start().starts_with(".section") {
            in_section = true;
        }
        if in_section {
            depth += line.matches('{').count() as i32 - line.matches('}').count() as i32;
            in_section = depth > 0 || !line.contains('}') && !line.contains('{');
            continue;
        }
        let line = if line.starts_with(".target ") { line.trim_end_matches(", debug") } else { line };
        out.push_str(line);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn sections_go_and_files_stay() {
        let ptx = ".target sm_80, debug\n.entry k() {\n.loc 1 2 3\nret;\n}\n.file 1 \"a.py\"\n.section .debug_abbrev\n{\n.b8 1\n}\n\
                   .section .debug_macinfo { }\n// end\n";
        let kept = ".target sm_80\n.entry k() {\n.loc 1 2 3\nret;\n}\n.file 1 \"a.py\"\n// end\n";
        assert_eq!(super::without_sections(ptx), kept);
    }
}
