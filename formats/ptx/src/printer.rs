//! Prints the syntax tree as PTX text.

use crate::ast::*;
use std::fmt::Write as _;

/// Prints a module. Parsing the text gives an equal module.
pub fn print(module: &Module) -> String {
    let mut out = String::new();
    for line in &module.envelope {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, ".version {}.{}", module.version.0, module.version.1);
    let _ = writeln!(out, ".target {}", module.target.join(", "));
    let _ = writeln!(out, ".address_size {}\n", module.address_size);
    for item in &module.items {
        print_item(&mut out, item);
    }
    out
}

/// Joins the texts of the parts, with the separator between them.
fn join_texts<T>(parts: &[T], separator: &str, text: impl Fn(&T) -> String) -> String {
    parts.iter().map(text).collect::<Vec<_>>().join(separator)
}

/// Quotes the strings and joins them with commas.
fn quote_strings(strings: &[String]) -> String {
    join_texts(strings, ", ", |string| format!("\"{string}\""))
}

fn print_item(out: &mut String, item: &Item) {
    let _ = match item {
        Item::File { index, name, numbers } => {
            let numbers: String = numbers.iter().map(|number| format!(", {number}")).collect();
            writeln!(out, ".file {index} \"{name}\"{numbers}")
        }
        Item::Variable(variable) => writeln!(out, "{};", variable_text(variable)),
        Item::Function(function) => return print_function(out, function),
        Item::Section { name, lines } => return print_section(out, name, lines),
        Item::IntermediateSource { ir_name, file, text } => writeln!(
            out,
            ".nv_intermediate_source_section {{\n  .code_block {{\n    .ir_name: \"{ir_name}\"\n    .sourceFileName: {file}\n    \
             .source_begin{text}.source_end\n  }}\n}}"
        ),
        Item::Pragma(strings) => writeln!(out, ".pragma {};", quote_strings(strings)),
        Item::Alias { name, target } => writeln!(out, ".alias {name}, {target};"),
    };
}

/// Prints a debug section.
fn print_section(out: &mut String, name: &str, lines: &[SectionLine]) {
    let _ = writeln!(out, ".section {name}\n{{");
    for line in lines {
        let _ = match line {
            SectionLine::Label(label) => writeln!(out, "{label}:"),
            SectionLine::Data { ty, values } => writeln!(out, ".{ty} {}", join_texts(values, ", ", value_text)),
        };
    }
    out.push_str("}\n");
}

/// Returns the linkage directive with a space after it, or nothing.
fn linkage_text(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::None => "",
        Linkage::Visible => ".visible ",
        Linkage::Extern => ".extern ",
        Linkage::Weak => ".weak ",
        Linkage::Common => ".common ",
    }
}

/// Returns the declaration of a variable or parameter, without the separator after it.
fn variable_text(variable: &Variable) -> String {
    let mut text = linkage_text(variable.linkage).to_owned();
    if variable.hidden {
        text.push_str(".hidden ");
    }
    let _ = write!(text, ".{} ", variable.space);
    if let (Some(align), None) = (variable.align, variable.pointer) {
        let _ = write!(text, ".align {align} ");
    }
    if let Some(length) = variable.vector {
        let _ = write!(text, ".v{length} ");
    }
    let _ = write!(text, ".{} ", variable.ty);
    if let Some(pointer) = variable.pointer {
        text.push_str(".ptr ");
        if let Some(space) = pointer.space {
            let _ = write!(text, ".{space} ");
        }
        if let Some(align) = pointer.align {
            let _ = write!(text, ".align {align} ");
        }
        if let Some(align) = variable.align {
            let _ = write!(text, ".align {align} ");
        }
    }
    text.push_str(&variable.name);
    for dim in &variable.dims {
        let _ = write!(text, "[{}]", dim.map(|dim| dim.to_string()).unwrap_or_default());
    }
    if variable.braced {
        let _ = write!(text, " = {{{}}}", join_texts(&variable.init, ", ", value_text));
    } else if let [value] = &*variable.init {
        let _ = write!(text, " = {}", value_text(value));
    }
    text
}

/// Returns `+offset`, or nothing for 0.
fn offset_text(offset: i64) -> String {
    if offset == 0 { String::new() } else { format!("+{offset}") }
}

/// Returns the text of an element of an initialiser or debug section.
fn value_text(value: &Value) -> String {
    match value {
        Value::Integer(value) => value.to_string(),
        Value::F32(bits) => format!("0f{bits:08X}"),
        Value::F64(bits) => format!("0d{bits:016X}"),
        Value::Symbol { name, offset } => format!("{name}{}", offset_text(*offset)),
        Value::Generic { name, offset } => format!("generic({name}){}", offset_text(*offset)),
        Value::Difference { end, start } => format!("{end}-{start}"),
    }
}

fn print_function(out: &mut String, function: &Function) {
    out.push_str(linkage_text(function.linkage));
    out.push_str(if function.entry { ".entry " } else { ".func " });
    let parameter_list = |list: &[Variable]| match list {
        [] => "()".into(),
        _ => format!("(\n\t{}\n)", join_texts(list, ",\n\t", variable_text)),
    };
    if !function.returns.is_empty() {
        let _ = write!(out, "{} ", parameter_list(&function.returns));
    }
    let _ = writeln!(out, "{}{}", function.name, parameter_list(&function.params));
    for directive in &function.directives {
        let mut values: Vec<String> = directive.values.iter().map(i64::to_string).collect();
        values.extend(directive.strings.iter().map(|string| format!("\"{string}\"")));
        let end = if directive.name == "pragma" { ";" } else { "" };
        let _ = writeln!(out, ".{} {}{end}", directive.name, values.join(", "));
    }
    match &function.body {
        None => out.push_str(";\n"),
        Some(body) => print_block(out, body, 0),
    }
}

/// Prints statements in braces, at an indentation depth.
fn print_block(out: &mut String, statements: &[Statement], depth: usize) {
    let indent = "\t".repeat(depth);
    let _ = writeln!(out, "{indent}{{");
    for statement in statements {
        let _ = match statement {
            Statement::Label { name, .. } => writeln!(out, "{indent}{name}:"),
            Statement::Instruction(instruction) => writeln!(out, "{indent}\t{}", instruction_text(instruction)),
            Statement::Registers { ty, names } => {
                let names = join_texts(names, ", ", |register| match register.count {
                    Some(count) => format!("{}<{count}>", register.name),
                    None => register.name.clone(),
                });
                writeln!(out, "{indent}\t.reg .{ty} {names};")
            }
            Statement::Variable(variable) => writeln!(out, "{indent}\t{};", variable_text(variable)),
            Statement::Block(inner) => {
                print_block(out, inner, depth + 1);
                Ok(())
            }
            Statement::Location(location) => writeln!(out, "{indent}\t{}", location_text(location)),
            Statement::Pragma(strings) => writeln!(out, "{indent}\t.pragma {};", quote_strings(strings)),
            Statement::BranchTargets { name, targets } => writeln!(out, "{indent}\t{name}: .branchtargets {};", targets.join(", ")),
            Statement::Prototype { name, returns, params } => {
                let list = |list: &[Variable]| format!("({})", join_texts(list, ", ", variable_text));
                let returns = if returns.is_empty() { String::new() } else { list(returns) };
                writeln!(out, "{indent}\t{name}: .callprototype {returns} _ {};", list(params))
            }
        };
    }
    let _ = writeln!(out, "{indent}}}");
}

fn location_text(location: &Location) -> String {
    let name = if location.intermediate { ".loc_intermediate" } else { ".loc" };
    let inlined = location.inlined.as_ref().map_or(String::new(), |inlined| {
        let function = format!("{}{}", inlined.function, offset_text(inlined.offset));
        format!(", function_name {function}, inlined_at {} {} {}", inlined.file, inlined.row, inlined.column)
    });
    format!("{name} {} {} {}{inlined}", location.file, location.row, location.column)
}

fn instruction_text(instruction: &Instruction) -> String {
    let mut text = String::new();
    if let Some(guard) = &instruction.guard {
        let _ = write!(text, "@{}{} ", if guard.negated { "!" } else { "" }, guard.register);
    }
    text.push_str(&instruction.full_name());
    if !instruction.operands.is_empty() {
        let _ = write!(text, " {}", join_texts(&instruction.operands, ", ", operand_text));
    }
    text.push(';');
    text
}

fn operand_text(operand: &Operand) -> String {
    match operand {
        Operand::Name(name) => name.clone(),
        Operand::Offset { name, offset } => format!("{name}+{offset}"),
        Operand::Integer(value) => value.to_string(),
        Operand::F32(bits) => format!("0f{bits:08X}"),
        Operand::F64(bits) => format!("0d{bits:016X}"),
        Operand::Not(name) => format!("!{name}"),
        Operand::Pair(first, second) => format!("{}|{}", operand_text(first), operand_text(second)),
        Operand::Vector(parts) => format!("{{{}}}", join_texts(parts, ", ", operand_text)),
        Operand::List(parts) => format!("({})", join_texts(parts, ", ", operand_text)),
        Operand::Address(address) => {
            let base = match &address.base {
                Some(base) => format!("{base}{}", offset_text(address.offset)),
                None => address.offset.to_string(),
            };
            let trailing_text: String = address.trailing_operands.iter().map(|part| format!(", {}", operand_text(part))).collect();
            format!("[{base}{trailing_text}]")
        }
    }
}
