//! Semantic checks of a parsed module.
//!
//! Rules:
//! - Every instruction exists and has a valid operand count.
//! - Every name is declared once, and visible where it is used.
//! - A label is used only in its own function.
//! - A guard is a predicate.
//! - In plain arithmetic (`add`, `and`, `shl`, …), register operands have as many bits as the instruction's type.
//! - An entry returns nothing.
//! - Addresses have 64 bits.

use crate::ast::*;
use crate::table::opcode;
use crate::types::Type;
use base::diag::{Diagnostic, Place};
use std::collections::BTreeMap;

/// Returns the violations of the rules above. Errors of global declarations come first, then the errors of each function.
pub fn check(module: &Module) -> Vec<Diagnostic> {
    let mut checker = Checker { errors: Vec::new(), globals: BTreeMap::new() };
    if module.address_size != 64 {
        checker.errors.push(*Diagnostic::unsupported("PTX010", "only 64-bit addresses are supported"));
    }
    for item in &module.items {
        match item {
            Item::Variable(variable) => checker.declare_global(&variable.name, variable.line, variable.linkage == Linkage::Extern),
            Item::Function(function) => checker.declare_global(&function.name, function.line, function.body.is_none()),
            _ => {}
        }
    }
    for item in &module.items {
        if let Item::Function(function) = item {
            checker.check_function(function);
        }
    }
    checker.errors
}

/// The state of the checks of one module.
struct Checker {
    /// The errors found so far.
    errors: Vec<Diagnostic>,
    /// The global names. The value is true if the module declares the name but has not defined it so far.
    globals: BTreeMap<String, bool>,
}

/// The kind of object that a name refers to in a function.
#[derive(Clone, Copy, PartialEq)]
enum NameKind {
    /// A register, with its type.
    Register(Type),
    /// A variable, parameter or function.
    Variable,
    /// A label, or a table of branch targets or call prototype.
    Label,
}

/// The names of the open scopes, from outer to inner.
type Scopes = Vec<BTreeMap<String, NameKind>>;

impl Checker {
    /// Records an error at a line of the module.
    fn report(&mut self, line: Line, code: &str, message: String) {
        let place = Place::Source { file: "ptx".into(), line: line.0, column: 0, in_full: String::new() };
        self.errors.push(*Diagnostic::invalid(code, message).at(place));
    }
    /// Records a declaration or definition of a global name. A declaration may precede or follow a definition, but a second
    /// definition is an error.
    fn declare_global(&mut self, name: &str, line: Line, declared_only: bool) {
        let earlier = self.globals.insert(name.to_owned(), declared_only);
        if earlier == Some(false) && !declared_only {
            self.report(line, "PTX011", format!("'{name}' is defined twice"));
        }
    }

    /// Checks that an entry returns nothing, and that the statements of the body are valid.
    fn check_function(&mut self, function: &Function) {
        if function.entry && !function.returns.is_empty() {
            self.report(function.line, "PTX012", format!("entry '{}' returns a value", function.name));
        }
        let Some(body) = &function.body else { return };
        let mut scope = BTreeMap::new();
        for variable in function.params.iter().chain(&function.returns) {
            scope.insert(variable.name.clone(), NameKind::Variable);
        }
        self.check_block(body, &mut vec![scope]);
    }

    /// Checks the statements of a block, in a scope of its own.
    fn check_block(&mut self, statements: &[Statement], scopes: &mut Scopes) {
        scopes.push(BTreeMap::new());
        for statement in statements {
            self.declare_statement(statement, scopes);
        }
        for statement in statements {
            match statement {
                Statement::Block(inner) => self.check_block(inner, scopes),
                Statement::Instruction(instruction) => self.check_instruction(instruction, scopes),
                _ => {}
            }
        }
        scopes.pop();
    }
    /// Adds the names that a statement declares to the innermost scope.
    fn declare_statement(&mut self, statement: &Statement, scopes: &mut Scopes) {
        let (line, name, kind) = match statement {
            Statement::Label { line, name } => (*line, name, NameKind::Label),
            Statement::BranchTargets { name, .. } | Statement::Prototype { name, .. } => (Line(0), name, NameKind::Label),
            Statement::Variable(variable) => (variable.line, &variable.name, NameKind::Variable),
            Statement::Registers { ty, names: registers } => {
                let scope = scopes.last_mut().expect("a scope");
                for register in registers {
                    match register.count {
                        None => drop(scope.insert(register.name.clone(), NameKind::Register(*ty))),
                        Some(count) => drop(scope.insert(format!("{}<{count}>", register.name), NameKind::Register(*ty))),
                    }
                }
                return;
            }
            _ => return,
        };
        if scopes.last_mut().expect("a scope").insert(name.clone(), kind).is_some() {
            self.report(line, "PTX011", format!("'{name}' is defined twice"));
        }
    }

    /// Finds the innermost declaration of a name, which may be a register of a range such as `%r<9>`.
    fn find_name(&self, name: &str, scopes: &Scopes) -> Option<NameKind> {
        let digits_start = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (stem, number) = (&name[..digits_start], name[digits_start..].parse::<u32>().ok());
        for scope in scopes.iter().rev() {
            if let Some(kind) = scope.get(name) {
                return Some(*kind);
            }
            // The key of a register range is `stem<count>`.
            let register_range = scope.range(format!("{stem}<")..format!("{stem}=")).next();
            if let (Some(number), Some((key, kind))) = (number, register_range) {
                let count: u32 = key[stem.len() + 1..key.len() - 1].parse().unwrap_or(0);
                if number < count {
                    return Some(*kind);
                }
            }
        }
        self.globals.contains_key(name).then_some(NameKind::Variable)
    }

    /// Checks the opcode, operand count, guard and operands of an instruction.
    fn check_instruction(&mut self, instruction: &Instruction, scopes: &Scopes) {
        let line = instruction.line;
        let operand_count = instruction.operands.len();
        match opcode(&instruction.opcode) {
            None => self.report(line, "PTX013", format!("there is no instruction '{}'", instruction.opcode)),
            Some(row) if !(row.min_operands..=row.max_operands).contains(&operand_count) => {
                let valid_count = if row.min_operands == row.max_operands {
                    row.min_operands.to_string()
                } else {
                    format!("{} to {}", row.min_operands, row.max_operands)
                };
                self.report(line, "PTX014", format!("'{}' takes {valid_count} operands, not {operand_count}", instruction.opcode));
            }
            Some(_) => {}
        }
        if let Some(guard) = &instruction.guard {
            match self.find_name(&guard.register, scopes) {
                Some(NameKind::Register(Type::Pred)) => {}
                _ => self.report(line, "PTX015", format!("'{}' is not a predicate", guard.register)),
            }
        }
        for operand in &instruction.operands {
            self.check_operand(instruction, operand, scopes);
        }
        self.check_widths(instruction, scopes);
    }
    /// Checks that every name in an operand is declared.
    fn check_operand(&mut self, instruction: &Instruction, operand: &Operand, scopes: &Scopes) {
        match operand {
            Operand::Name(name) | Operand::Offset { name, .. } | Operand::Not(name) => {
                self.check_declared(instruction, name, scopes)
            }
            Operand::Pair(first, second) => {
                self.check_operand(instruction, first, scopes);
                self.check_operand(instruction, second, scopes);
            }
            Operand::Vector(parts) | Operand::List(parts) => {
                parts.iter().for_each(|part| self.check_operand(instruction, part, scopes))
            }
            Operand::Address(address) => {
                if let Some(base) = &address.base {
                    self.check_declared(instruction, base, scopes);
                }
                address.trailing_operands.iter().for_each(|part| self.check_operand(instruction, part, scopes));
            }
            Operand::Integer(_) | Operand::F32(_) | Operand::F64(_) => {}
        }
    }
    /// Checks that a name is declared, or that it is a special register or `_`.
    fn check_declared(&mut self, instruction: &Instruction, name: &str, scopes: &Scopes) {
        if name == "_" || is_special_register(name) || self.find_name(name, scopes).is_some() {
            return;
        }
        self.report(instruction.line, "PTX016", format!("'{name}' is not declared"));
    }

    /// Checks that the register operands of plain arithmetic have as many bits as the type of the instruction. The rule does not
    /// apply to shift counts and to the predicate of `selp`.
    fn check_widths(&mut self, instruction: &Instruction, scopes: &Scopes) {
        /// The opcodes whose register operands have the type of the instruction.
        const PLAIN_ARITHMETIC: &[&str] =
            &["add", "sub", "and", "or", "xor", "not", "neg", "min", "max", "fma", "selp", "shl", "shr"];
        let mut types = instruction.types();
        let (Some(ty), None) = (types.next(), types.next()) else { return };
        if !PLAIN_ARITHMETIC.contains(&&*instruction.opcode) {
            return;
        }
        let checked_count = if instruction.opcode.starts_with("sh") { 2 } else { instruction.operands.len() };
        let checked_count = if instruction.opcode == "selp" { 3 } else { checked_count };
        for operand in &instruction.operands[..checked_count.min(instruction.operands.len())] {
            let Operand::Name(name) = operand else { continue };
            if let Some(NameKind::Register(register_type)) = self.find_name(name, scopes)
                && register_type.bits() != ty.bits()
            {
                let message =
                    format!("'{name}' has {} bits where '{}' wants {}", register_type.bits(), instruction.full_name(), ty.bits());
                self.report(instruction.line, "PTX017", message);
            }
        }
    }
}

/// Returns whether the name is a special register (`%tid.x`, `%clock`), which needs no declaration.
fn is_special_register(name: &str) -> bool {
    /// Special registers without components.
    const SCALAR_REGISTERS: &[&str] = &[
        "%laneid",
        "%warpid",
        "%nwarpid",
        "%smid",
        "%nsmid",
        "%gridid",
        "%clock",
        "%clock_hi",
        "%clock64",
        "%globaltimer",
        "%globaltimer_lo",
        "%globaltimer_hi",
        "%lanemask_eq",
        "%lanemask_le",
        "%lanemask_lt",
        "%lanemask_ge",
        "%lanemask_gt",
        "%cluster_ctarank",
        "%cluster_nctarank",
        "%is_explicit_cluster",
        "%total_smem_size",
        "%aggr_smem_size",
        "%dynamic_smem_size",
        "%current_graph_exec",
        "%perctamemoryoffset",
        "%perctamemorysize",
        "%reserved_smem_offset_begin",
        "%reserved_smem_offset_end",
        "%reserved_smem_offset_cap",
        "WARP_SZ",
    ];
    /// Special registers with the components `.x`, `.y`, `.z` and `.w`.
    const VECTOR_REGISTERS: &[&str] =
        &["%tid", "%ntid", "%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid"];
    let is_component =
        name.split_once('.').is_some_and(|(base, part)| VECTOR_REGISTERS.contains(&base) && ["x", "y", "z", "w"].contains(&part));
    is_component || SCALAR_REGISTERS.contains(&name) || name.starts_with("%envreg")
}
