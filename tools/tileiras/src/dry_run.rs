//! `--dry-run`: formats the commands of a plan as text for a shell.

use crate::pipeline::Step;
use crate::run::{JSON_MESSAGES, as_file};
use crate::targets::Plan;
use std::path::PathBuf;

/// Returns the commands of a plan as shell pipelines, one for each target.
pub(crate) fn planned_commands(plan: &Plan, input: &str, output: &str) -> String {
    if !plan.has_several_targets() {
        return shell_commands(plan.steps(), input, output);
    }
    let commands = plan.targets.iter().map(|target| {
        let name = target.target.map_or("", |target| target.name);
        shell_commands(&target.steps, input, &format!("{output}.{name}.cubin"))
    });
    format!("{}# tileiras puts these cubins and PTX into {output}\n", commands.collect::<String>())
}

/// Returns the commands for one target as a shell pipeline.
fn shell_commands(steps: &[Step], input: &str, output: &str) -> String {
    let mut line = String::new();
    let input_path = as_file(input);
    for (index, step) in steps.iter().map(|step| step.on_input(&input_path)).enumerate() {
        let arguments = step.arguments.iter().filter(|argument| *argument != JSON_MESSAGES);
        let args: Vec<String> = std::iter::once(&step.printed_program).chain(arguments).map(|arg| shell_quote(arg)).collect();
        line += if index == 0 { "" } else { " | " };
        line += &args.join(" ");
        if index == 0 {
            line += &format!(" {}", shell_quote(&as_file(input).to_string_lossy()));
        }
    }
    let output = if output == "-" { PathBuf::from(output) } else { as_file(output) };
    format!("{line} -o {}\n", shell_quote(&output.to_string_lossy()))
}

/// Returns an argument for a shell, with quotes if the argument needs quotes.
pub(crate) fn shell_quote(arg: &str) -> String {
    let needs_no_quotes = |c: char| c.is_ascii_alphanumeric() || "-_./=:+,%@".contains(c);
    if !arg.is_empty() && arg.chars().all(needs_no_quotes) { arg.into() } else { format!("'{}'", arg.replace('\'', r"'\''")) }
}
