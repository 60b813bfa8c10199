//! `--dry-run`: formats the commands of a plan as text for a shell.

use crate::pipeline::{JSON_MESSAGES, Step};
use crate::run::as_file;
use crate::shell::shell_quote;
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
