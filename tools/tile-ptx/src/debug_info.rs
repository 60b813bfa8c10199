//! Attaches source locations to LLVM instructions as debug metadata: the file, line and column of the user's program.
//!
//! With `--lineinfo`, the PTX needs only `.file` and `.loc` directives. LLVM also prints debug sections, and ptxas does not
//! optimise PTX with debug sections. [`crate::finish`] therefore removes them.

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

/// The debug scopes of one kernel.
pub(crate) struct KernelDebugLines<'c, 'a> {
    lines: &'a DebugLines<'c, 'a>,
    subprogram: DISubprogram<'c>,
    /// By file name, the scopes of lines in files other than the kernel's file.
    scopes: RefCell<BTreeMap<String, DIScope<'c>>>,
    file: String,
}

impl<'c, 'a> DebugLines<'c, 'a> {
    /// Starts the debug metadata of a module. `file` is its main source file. Returns `None` if neither `--lineinfo` nor
    /// `--device-debug` is set.
    pub(crate) fn new(ir: &Ir<'c>, envelope: &'a Envelope, file: &str) -> Option<Self> {
        let options = &envelope.options;
        let is_full = options.flag("device-debug");
        if !is_full && !options.flag("lineinfo") {
            return None;
        }
        let version = ir.const32(inkwell::debug_info::debug_metadata_version());
        ir.module.add_basic_value_flag("Debug Info Version", FlagBehavior::Warning, version);
        let kind = if is_full { DWARFEmissionKind::Full } else { DWARFEmissionKind::LineTablesOnly };
        let is_optimized = options.opt_level() > 0;
        let file = &without_invalid_characters(file);
        let (builder, unit) = ir.module.create_debug_info_builder(
            true,
            DWARFSourceLanguage::C,
            file,
            "",
            "tile-ptx",
            is_optimized,
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

    /// Returns the debug-information entry of a file. Creates it on first use.
    fn di_file(&self, name: &str) -> DIFile<'c> {
        let name = without_invalid_characters(name);
        *self.files.borrow_mut().entry(name.clone()).or_insert_with(|| self.builder.create_file(&name, ""))
    }

    /// Creates the debug scope of a kernel.
    pub(crate) fn add_kernel(&'a self, name: &str, loc: Loc, function: FunctionValue<'c>) -> KernelDebugLines<'c, 'a> {
        let (file, line, _) = self.envelope.debug.position(loc).unwrap_or(("unknown", 0, 0));
        let di_file = self.di_file(file);
        let ty = self.builder.create_subroutine_type(di_file, None, &[], inkwell::debug_info::DIFlags::PUBLIC);
        let is_optimized = self.envelope.options.opt_level() > 0;
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
            is_optimized,
        );
        function.set_subprogram(subprogram);
        KernelDebugLines { lines: self, subprogram, scopes: RefCell::default(), file: file.into() }
    }

    /// Finalizes the metadata. Call it after the last kernel.
    pub(crate) fn finalize(&self) {
        self.builder.finalize();
    }
}

impl<'c> KernelDebugLines<'c, '_> {
    /// Sets the source location of the instructions that the builder emits from now on.
    pub(crate) fn set_location(&self, ir: &Ir<'c>, loc: Loc) {
        let Some((file, line, column)) = self.lines.envelope.debug.position(loc) else {
            // An op without a source line gets line 0 in the scope of the kernel.
            let scope = self.subprogram.as_debug_info_scope();
            ir.builder.set_current_debug_location(self.lines.builder.create_debug_location(ir.context, 0, 0, scope, None));
            return;
        };
        let scope = self.scope_of_file(file);
        let location = self.lines.builder.create_debug_location(ir.context, line, column, scope, None);
        ir.builder.set_current_debug_location(location);
    }

    /// Returns the scope of locations in a file: the kernel, or a lexical block if the file differs from the kernel's file.
    fn scope_of_file(&self, file: &str) -> DIScope<'c> {
        let kernel = self.subprogram.as_debug_info_scope();
        if file == self.file {
            return kernel;
        }
        let new_scope = || self.lines.builder.create_lexical_block(kernel, self.lines.di_file(file), 0, 0).as_debug_info_scope();
        *self.scopes.borrow_mut().entry(file.into()).or_insert_with(new_scope)
    }
}

/// Removes characters that a PTX string cannot contain.
fn without_invalid_characters(path: &str) -> String {
    path.chars().filter(|c| *c != '"' && !c.is_control()).collect()
}

/// Removes the debug sections, and the `debug` flag of `.target`, from PTX text.
pub(crate) fn without_debug_sections(ptx: &str) -> String {
    let mut out = String::with_capacity(ptx.len());
    let mut brace_depth = 0;
    let mut in_section = false;
    for line in ptx.lines() {
        if line.trim_start().starts_with(".section") {
            in_section = true;
        }
        if in_section {
            brace_depth += line.matches('{').count() as i32 - line.matches('}').count() as i32;
            in_section = brace_depth > 0 || !line.contains('}') && !line.contains('{');
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
    fn debug_sections_are_removed_and_file_directives_stay() {
        let ptx = ".target sm_80, debug\n.entry k() {\n.loc 1 2 3\nret;\n}\n.file 1 \"a.py\"\n.section .debug_abbrev\n{\n.b8 1\n}\n\
                   .section .debug_macinfo { }\n// end\n";
        let expected = ".target sm_80\n.entry k() {\n.loc 1 2 3\nret;\n}\n.file 1 \"a.py\"\n// end\n";
        assert_eq!(super::without_debug_sections(ptx), expected);
    }
}
