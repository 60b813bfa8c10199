//! The definitions of a module: globals, functions and functions without a body.

use super::{BodyReader, ModuleReader, Tables, parse_symbol};
use crate::enums::Visibility;
use crate::module::{Function, Global, Module};
use crate::ops::Op;
use crate::preview::Extern;
use crate::types::{StringId, Type};
use crate::version::Version;
use base::diag::Result;
use base::{Body, Loc};
use std::collections::HashMap;

impl<'a> ModuleReader<'a, '_> {
    pub(super) fn parse_module(&mut self) -> Result<Module> {
        let (version, preview, producer) = self.parse_header()?;
        let has_module = self.cursor.skip_if_next("cuda_tile.module") || self.cursor.skip_if_next("module");
        if has_module {
            self.parse_symbol()?;
            self.cursor.expect("{")?;
        }
        let (mut globals, mut functions, mut externs) = (Vec::new(), Vec::new(), Vec::new());
        while !(self.cursor.is_end() || has_module && self.cursor.continues_with("}")) {
            match self.cursor.peek() {
                Some('#') => self.skip_definition(),
                _ if self.cursor.skip_if_next("preview$func") => {
                    self.cursor.expect("extern")?;
                    externs.push(self.parse_external(false, functions.len())?);
                }
                _ if self.cursor.skip_if_next("preview$extern_impl") => externs.push(self.parse_external(true, functions.len())?),
                _ => {
                    self.cursor.skip_if_next("cuda_tile.");
                    match self.cursor.peek_word() {
                        "global" => globals.push(self.parse_global()?),
                        "entry" => functions.push(self.parse_function()?),
                        _ => return Err(self.cursor.error("expected 'entry', 'global' or a definition such as #loc = …")),
                    }
                }
            }
        }
        if has_module {
            self.cursor.expect("}")?;
        }
        let Tables { strings, types, constants, .. } = std::mem::take(&mut self.tables);
        // In text without the header comment, the functions and ops show whether the program has preview content.
        let has_preview_call = |function: &Function| function.body.ops.values().any(|op| matches!(op.kind, Op::PreviewCall { .. }));
        let preview = preview || !externs.is_empty() || functions.iter().any(has_preview_call);
        Ok(Module { version, preview, producer, strings, types, constants, globals, functions, externs })
    }

    /// Parses the comment with properties that the disassembly lacks, see [`crate::text::header`].
    fn parse_header(&mut self) -> Result<(Version, bool, Option<StringId>)> {
        const PREFIX: &str = "//!tileir ";
        let text = self.cursor.rest();
        let comments = text.split_inclusive('\n').take_while(|line| line.starts_with("//") && !line.starts_with(PREFIX));
        let comment_bytes = comments.map(str::len).sum();
        let Some(line) = text[comment_bytes..].strip_prefix(PREFIX) else { return Ok((Version::LATEST, false, None)) };
        let start = text.len() - line.len();
        self.cursor.set_offset(self.cursor.offset() + start);
        self.cursor.expect("version")?;
        let offset = self.cursor.offset();
        let (major, minor) =
            (self.cursor.integer("a version")?, self.cursor.expect(".").and_then(|()| self.cursor.integer("a version"))?);
        let version = Version::new(major as u8, minor as u8);
        let version =
            version.ok_or_else(|| self.cursor.error_at(offset, format!("there is no bytecode version {major}.{minor}")))?;
        let preview = self.cursor.skip_if_next("preview");
        let mut producer = None;
        if self.cursor.skip_if_next("producer") {
            let text = self.cursor.string()?;
            producer = Some(self.tables.intern_string(&text));
        }
        Ok((version, preview, producer))
    }

    /// Skips a definition. `DebugParser::new` has found the definition, and the first use of its name parses the definition.
    fn skip_definition(&mut self) {
        let line_length = self.cursor.rest().find('\n').unwrap_or(self.cursor.rest().len());
        self.cursor.set_offset(self.cursor.offset() + line_length);
    }

    pub(in crate::text) fn parse_symbol(&mut self) -> Result<StringId> {
        let name = parse_symbol(&mut self.cursor)?;
        Ok(self.tables.intern_string(&name))
    }

    /// Parses a function without a body. `implements` is true for an implementation, and false for a declaration. `after` is the
    /// number of entry functions before the function.
    fn parse_external(&mut self, implements: bool, after: usize) -> Result<Extern> {
        let name = self.parse_symbol()?;
        let mut external = self.tables.parse_extern(&mut self.cursor, name, implements, after as u32)?;
        external.loc = self.debug.parse_optional_loc(&mut self.cursor)?.unwrap_or(Loc::UNKNOWN);
        Ok(external)
    }

    fn parse_global(&mut self) -> Result<Global> {
        self.cursor.expect("global")?;
        let visibility = if self.cursor.skip_if_next("private") { Visibility::Private } else { Visibility::Public };
        self.cursor.skip_if_next("public");
        let constant = self.cursor.skip_if_next("constant");
        let name = self.parse_symbol()?;
        let mut alignment = 0;
        if self.cursor.skip_if_next("alignment") {
            self.cursor.expect("=")?;
            alignment = self.cursor.integer("an alignment")? as u64;
        }
        let (value, ty) = self.tables.parse_constant(&mut self.cursor)?;
        let loc = self.debug.parse_optional_loc(&mut self.cursor)?.unwrap_or(Loc::UNKNOWN);
        Ok(Global { name, ty, value, alignment, visibility, constant, loc })
    }

    fn parse_function(&mut self) -> Result<Function> {
        self.cursor.expect("entry")?;
        let name = self.parse_symbol()?;
        let mut body = Body::default();
        let region = body.new_region();
        let block = body.new_block(region);
        let mut reader = BodyReader { module: self, body, names: HashMap::new(), defined_names: Vec::new() };
        let arg_attrs = reader.parse_arguments(block)?;
        let hints = match reader.module.cursor.skip_if_next("optimization_hints") {
            true => {
                reader.module.cursor.expect("=")?;
                Some(reader.module.tables.parse_hints(&mut reader.module.cursor)?)
            }
            false => None,
        };
        reader.parse_body(block)?;
        let body = reader.body;
        let mut visibility = Visibility::Public;
        if self.cursor.skip_if_next("{") {
            for token in ["sym_visibility", "=", "\"private\"", "}"] {
                self.cursor.expect(token)?;
            }
            visibility = Visibility::Private;
        }
        let loc = self.debug.parse_optional_loc(&mut self.cursor)?.unwrap_or(Loc::UNKNOWN);
        let inputs = body.blocks[block].args.iter().map(|arg| *body.ty(*arg)).collect();
        let ty = self.tables.intern(Type::Function { inputs, results: Box::default() });
        Ok(Function { name, ty, visibility, hints, arg_attrs, body, region, loc })
    }
}
