//! The terminal front end: executes one command per line. The lines come from `--execute`, then from a user or from piped input.

use crate::debuggee::Debuggee;
use crate::engine::{FrontEnd, Resume, ResumeKind, RunEnd};
use crate::expression::{self, Datum};
use crate::scene::{Scene, Stop, StopReason};
use crate::session_settings::{Control, DIFFERENCE, FAULTS};
use crate::values;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The commands, each with its names, its arguments and its description. The first name identifies the command in the code.
const COMMANDS: &[(&[&str], &str, &str)] = &[
    (&["continue", "c"], "", "continue to the next breakpoint or fault"),
    (&["next", "n"], "", "step to the next line, over calls"),
    (&["step", "s"], "", "step to the next line, into calls"),
    (&["out", "finish"], "", "continue until the function returns to its caller"),
    (&["op", "si"], "", "step to the next op"),
    (&["back", "bn"], "[line|op|into|out|continue]", "step or continue backwards [default: line]"),
    (&["reverse", "rc"], "", "continue backwards to the previous breakpoint or fault"),
    (&["goto", "g"], "N", "go to moment N, as shown at each stop; moments count ops, one before and one after each"),
    (&["restart", "r"], "", "go to the first op"),
    (&["break", "b"], "[FILE:]LINE|FUNCTION [if EXPR]", "stop at the line, or at the first line of the function"),
    (&["watch", "w"], "EXPR", "stop when the value of an expression changes"),
    (&["log"], "[FILE:]LINE TEXT", "print TEXT at the line, with {expressions} evaluated, without stopping"),
    (&["delete", "d"], "[N]", "delete breakpoint or watch N, or all"),
    (&["print", "p"], "EXPR", "a value: acc, %7, %7[0:4, 3], arg0[:16], sum(%7), block.x"),
    (&["variables", "v"], "", "show the source variables"),
    (&["values"], "", "show all visible values"),
    (&["memory", "m"], "", "show the buffers of the launch"),
    (&["where", "bt"], "", "show the call stack"),
    (&["up"], "", "select the calling frame"),
    (&["down"], "", "select the called frame"),
    (&["list", "l"], "[LINE]", "the source"),
    (&["ops"], "", "show the ops around the current op"),
    (&["block"], "[X[:Y[:Z]]|all]", "debug one tile block from its first op, or all tile blocks"),
    (&["ignore"], "[KIND]", "toggle stopping at a kind of fault"),
    (&["breakpoints", "info"], "", "list all breakpoints and watches"),
    (&["help", "h"], "", "this"),
    (&["quit", "q"], "", "end"),
];

/// Number of lines or ops that `list` and `ops` show on either side of the current one.
const CONTEXT_LINES: u32 = 4;

/// The state of the terminal front end.
pub(crate) struct Terminal<'a> {
    debuggee: &'a Debuggee<'a>,
    /// The commands of `--execute` that are not executed yet.
    pending_commands: VecDeque<String>,
    /// Whether the user pressed the interrupt key while the kernel was running.
    interrupted: Arc<AtomicBool>,
    /// The command that an empty line repeats.
    last_command: String,
    /// The source line at which the next `list` starts: the line after those that the previous `list` showed.
    next_listed_line: Option<u32>,
    /// The line editor with history; none if input or output is not a terminal.
    editor: Option<rustyline::DefaultEditor>,
    /// The number of frames between the innermost visible frame and the frame that `up` and `down` selected.
    frames_up: usize,
}

impl<'a> Terminal<'a> {
    /// Prepares the terminal. `commands` are executed before the first prompt.
    pub(crate) fn new(debuggee: &'a Debuggee<'a>, commands: &[String]) -> Terminal<'a> {
        let interrupted = Arc::new(AtomicBool::new(false));
        if std::io::stdin().is_terminal() {
            // If registration fails, the interrupt key ends the program as usual.
            let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted.clone());
        }
        let at_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let editor = if at_terminal { rustyline::DefaultEditor::new().ok() } else { None };
        let pending_commands = commands.iter().cloned().collect();
        Terminal {
            debuggee,
            pending_commands,
            interrupted,
            last_command: String::new(),
            next_listed_line: None,
            editor,
            frames_up: 0,
        }
    }

    /// Prints a text and a newline.
    pub(crate) fn print(&self, text: &str) {
        // Standard output may be closed; reading the next command then ends the run.
        let _ = writeln!(std::io::stdout(), "{text}").and_then(|()| std::io::stdout().flush());
    }

    /// Reads the next command. Returns `None` at the end of the input.
    fn read_command(&mut self) -> Option<String> {
        let line = match self.pending_commands.pop_front() {
            Some(line) => {
                self.print(&format!("> {line}"));
                line
            }
            None if self.editor.is_some() => self.read_edited_line()?,
            None => {
                if std::io::stdin().is_terminal() {
                    let _ = write!(std::io::stdout(), "(tile) ").and_then(|()| std::io::stdout().flush());
                }
                let mut line = String::new();
                let read = std::io::stdin().lock().read_line(&mut line);
                if !matches!(read, Ok(1..)) {
                    return None;
                }
                line
            }
        };
        self.interrupted.store(false, Ordering::Relaxed);
        let line = line.trim();
        if !line.is_empty() {
            self.last_command = line.to_string();
        }
        Some(self.last_command.clone())
    }

    /// Reads a line with the line editor. Returns `None` at the end of the input. The interrupt key clears the line.
    fn read_edited_line(&mut self) -> Option<String> {
        let editor = self.editor.as_mut()?;
        loop {
            match editor.readline("(tile) ") {
                Ok(line) => {
                    if !line.trim().is_empty() {
                        let _ = editor.add_history_entry(line.as_str());
                    }
                    return Some(line);
                }
                Err(rustyline::error::ReadlineError::Interrupted) => {}
                Err(_) => return None,
            }
        }
    }

    /// Executes a command. Returns how the run resumes; `None` if the command does not resume the run.
    fn execute(&mut self, line: &str, control: &mut Control, scene: Option<&Scene<'_>>) -> Option<Resume> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let Some((names, ..)) = COMMANDS.iter().find(|(names, ..)| names.contains(&word)) else {
            let names = COMMANDS.iter().flat_map(|(names, ..)| names.iter().copied());
            if !word.is_empty() {
                self.print(&format!(
                    "there is no command '{word}'{}; help lists all commands",
                    base::nearest::did_you_mean(word, names)
                ));
            }
            return None;
        };
        let forward = |kind: ResumeKind| scene.is_some().then_some(Resume::Forward(kind));
        let resume = match names[0] {
            "continue" => forward(ResumeKind::Continue),
            "next" => forward(ResumeKind::StepOver),
            "step" => forward(ResumeKind::StepInto),
            "out" => forward(ResumeKind::StepOut),
            "op" => forward(ResumeKind::StepOp),
            "back" => match rest {
                "" | "line" => Some(Resume::Back(ResumeKind::StepOver)),
                "op" => Some(Resume::Back(ResumeKind::StepOp)),
                "into" => Some(Resume::Back(ResumeKind::StepInto)),
                "out" => Some(Resume::Back(ResumeKind::StepOut)),
                "continue" => Some(Resume::Back(ResumeKind::Continue)),
                _ => return self.print_usage(names[0]),
            },
            "reverse" => Some(Resume::Back(ResumeKind::Continue)),
            "restart" => Some(Resume::Forward(ResumeKind::Restart)),
            "quit" => Some(Resume::Quit),
            "goto" => match rest.parse() {
                Ok(event_count) => Some(Resume::ToMoment(event_count)),
                Err(_) => return self.print_usage(names[0]),
            },
            "block" => return self.select_block(rest, control),
            _ => {
                self.execute_query(names[0], rest, control, scene);
                return None;
            }
        };
        if resume.is_none() {
            self.print("the kernel has ended; use back, reverse, goto or restart");
        }
        resume
    }

    /// Prints the usage of a command. Returns none, because the command does not resume the run.
    fn print_usage(&self, name: &str) -> Option<Resume> {
        if let Some((names, arguments, description)) = COMMANDS.iter().find(|(names, ..)| names[0] == name) {
            self.print(&format!("{} {arguments}: {description}", names.join(" or ")));
        }
        None
    }

    /// Executes a command that does not resume the kernel.
    fn execute_query(&mut self, name: &str, rest: &str, control: &mut Control, scene: Option<&Scene<'_>>) {
        match (name, scene) {
            ("help", _) => self.print_help(),
            ("break" | "log", _) => self.add_breakpoint(name, rest, control),
            ("delete", _) => {
                let requested = rest.parse().ok();
                control.breakpoints.retain(|breakpoint| requested.is_some_and(|id: u64| breakpoint.id != id));
                control.watches.retain(|watched| requested.is_some_and(|id: u64| watched.id != id));
            }
            ("breakpoints", _) => self.print_breakpoints(control),
            ("watch", Some(scene)) if !rest.is_empty() => self.add_watch(rest, control, scene),
            ("watch", _) => {
                self.print_usage(name);
            }
            ("ignore", _) => self.toggle_ignored_fault(rest, control),
            ("list", _) => self.list_source(rest, scene),
            ("up" | "down", Some(scene)) => self.select_frame(name, scene),
            (_, None) => self.print("the kernel is at its end; its values are gone. back goes to the line before"),
            ("print", Some(scene)) => {
                let value_text = expression::evaluate(rest, scene).and_then(|datum| values::describe(&datum, scene));
                self.print(&value_text.unwrap_or_else(|error| error));
            }
            ("variables", Some(scene)) => self.print_variables(scene),
            ("values", Some(scene)) => self.print_values(scene),
            ("memory", Some(scene)) => {
                for array in &self.debuggee.arrays {
                    let line = values::describe(&Datum::Array(array.clone()), scene).unwrap_or_else(|error| error);
                    self.print(&format!("  {} = {line}", array.name));
                }
            }
            ("where", Some(scene)) => {
                for (depth, frame) in scene.frames().iter().rev().enumerate() {
                    self.print(&format!("  {depth} {} at {}:{}", frame.function, self.debuggee.file_name(frame.file), frame.line));
                }
                self.print(&format!("  in {}", scene.block_and_role_text()));
            }
            ("ops", Some(scene)) => self.print_ops(scene),
            _ => {}
        }
    }

    /// Executes `help`: prints all commands.
    fn print_help(&self) {
        let width = COMMANDS.iter().map(|(names, arguments, _)| names.join(", ").len() + arguments.len()).max().unwrap_or(0) + 1;
        for (names, arguments, description) in COMMANDS {
            self.print(&format!("  {:width$}  {description}", format!("{} {arguments}", names.join(", "))));
        }
    }

    /// Executes `breakpoints`: prints breakpoints and watches.
    fn print_breakpoints(&self, control: &Control) {
        for breakpoint in &control.breakpoints {
            let condition = breakpoint.condition.as_ref().map_or(String::new(), |condition| format!(" if {condition}"));
            let message = breakpoint.message.as_ref().map_or(String::new(), |message| format!(" prints {message}"));
            self.print(&format!("  {} {}:{}{condition}{message}", breakpoint.id, breakpoint.file, breakpoint.line));
        }
        for watched in &control.watches {
            self.print(&format!("  {} watch {}", watched.id, watched.expression));
        }
    }

    /// Executes `watch`.
    fn add_watch(&self, rest: &str, control: &mut Control, scene: &Scene<'_>) {
        let current_value = expression::evaluate(rest, scene).and_then(|datum| values::describe(&datum, scene));
        let role_id = (scene.moment.block_position().linear, scene.moment.warp_role());
        let value_text = current_value.clone().unwrap_or_else(|error| error);
        let id = control.add_watch(rest, current_value.ok().map(|value| (role_id, value)));
        self.print(&format!("watch {id}: {rest} is {value_text}"));
    }

    /// Executes `up` and `down`: selects another function of the call stack.
    fn select_frame(&mut self, name: &str, scene: &Scene<'_>) {
        let frame_count = scene.stop.call_depth + self.frames_up;
        let requested = if name == "up" { self.frames_up + 1 } else { self.frames_up.saturating_sub(1) };
        if requested == self.frames_up || requested >= frame_count {
            self.print(if name == "up" { "no function called this one" } else { "the kernel stands in this function" });
            return;
        }
        self.frames_up = requested;
        self.next_listed_line = None;
        if let Some(frame) = self.debuggee.frames[scene.stop.row].get(frame_count - 1 - requested) {
            let line = self.debuggee.source_line(frame.file, frame.line).unwrap_or_default();
            self.print(&format!("{} at {}:{}\n  {line}", frame.function, self.debuggee.file_name(frame.file), frame.line));
        }
    }

    /// Executes `values`.
    fn print_values(&self, scene: &Scene<'_>) {
        for id in scene.visible_values() {
            if let Ok(value) = scene.value(id) {
                let name = scene.variable_name(id).map_or(String::new(), |name| format!(" ({name})"));
                self.print(&format!("  {id}{name} = {}", values::format_value(&value, scene)));
            }
        }
    }

    /// Executes `ops`: prints the ops around the current op.
    fn print_ops(&self, scene: &Scene<'_>) {
        let row = scene.stop.row;
        for other_row in
            row.saturating_sub(CONTEXT_LINES as usize)..(row + CONTEXT_LINES as usize + 1).min(self.debuggee.listing.rows.len())
        {
            let marker = if other_row == row { "->" } else { "  " };
            let depth = "  ".repeat(self.debuggee.listing.rows[other_row].depth);
            self.print(&format!(
                "{marker} {depth}{}  ({})",
                self.debuggee.listing.op_text(other_row),
                self.debuggee.location_text(other_row)
            ));
        }
    }

    /// Executes `variables`: prints the source variables that have a value.
    fn print_variables(&self, scene: &Scene<'_>) {
        let variables = scene.variables();
        if variables.is_empty() {
            self.print("no variable of the source has a value here; values lists all by number");
        }
        for (name, id) in variables {
            if let Ok(value) = scene.value(id) {
                self.print(&format!("  {name} = {}", values::format_value(&value, scene)));
            }
        }
    }

    /// Executes `break` or `log`: adds a breakpoint or a logpoint.
    fn add_breakpoint(&self, name: &str, rest: &str, control: &mut Control) {
        let (location, text_after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let (file, line) = location.rsplit_once(':').unwrap_or(("", location));
        let by_line = line.parse().ok().and_then(|line| self.debuggee.line_with_code(file, line));
        let Some((file_index, line)) = by_line.or_else(|| self.debuggee.line_of_function(location)) else {
            self.print(&format!("no op comes from '{location}' or a line after it"));
            return;
        };
        let breakpoint = control.add_breakpoint(&self.debuggee.files[file_index].name, line);
        let text_after = text_after.trim();
        match (name, text_after.strip_prefix("if ")) {
            ("log", _) => breakpoint.message = Some(text_after.to_string()),
            (_, Some(condition)) => breakpoint.condition = Some(condition.to_string()),
            (_, None) if !text_after.is_empty() => {
                control.breakpoints.pop();
                self.print(&format!("'{text_after}' is not understood; a condition begins with 'if'"));
                return;
            }
            _ => {}
        }
        let text = self.debuggee.source_line(file_index, line).unwrap_or_default().trim();
        let id = control.breakpoints.last().map_or(0, |breakpoint| breakpoint.id);
        self.print(&format!("breakpoint {id} at {}:{line}: {text}", self.debuggee.file_name(file_index)));
    }

    /// Executes `ignore`: toggles whether the debugger stops at a kind of fault, and prints the state of all kinds.
    fn toggle_ignored_fault(&self, rest: &str, control: &mut Control) {
        let keywords: Vec<&str> = FAULTS.iter().map(|(_, keyword, _)| *keyword).chain([DIFFERENCE]).collect();
        if keywords.contains(&rest) && !control.ignored_faults.remove(rest) {
            control.ignored_faults.insert(rest.into());
        }
        for keyword in keywords {
            let reaction = if control.ignored_faults.contains(keyword) { "does not stop" } else { "stops" };
            self.print(&format!("  {keyword} {reaction}"));
        }
    }

    /// Executes `block`: starts a new run that debugs another tile block, or all tile blocks.
    fn select_block(&mut self, rest: &str, control: &mut Control) -> Option<Resume> {
        match crate::parse_block(rest, self.debuggee.call.grid) {
            Ok(block) => {
                control.block = block;
                Some(Resume::Forward(ResumeKind::Restart))
            }
            Err(error) => {
                self.print(&error);
                None
            }
        }
    }

    /// Executes `list`: prints source lines around a line or around the current line, or continues the previous list.
    fn list_source(&mut self, rest: &str, scene: Option<&Scene<'_>>) {
        let frame = scene.and_then(|scene| scene.frames().last());
        let file = frame.map_or(0, |frame| frame.file);
        let Some((path, lines)) = self.debuggee.files.get(file).and_then(|file| file.path_and_lines.as_ref()) else {
            self.print("the source was not found; pass its folder with --source FOLDER, or show ops with --lines=ops");
            return;
        };
        let start = match rest.parse::<u32>() {
            Ok(line) => line.saturating_sub(CONTEXT_LINES),
            Err(_) => self.next_listed_line.unwrap_or_else(|| frame.map_or(1, |frame| frame.line.saturating_sub(CONTEXT_LINES))),
        };
        let start = start.max(1);
        let end = (start + 2 * CONTEXT_LINES + 1).min(lines.len() as u32 + 1);
        if self.next_listed_line.is_none() {
            self.print(&path.display().to_string());
        }
        for line in start..end {
            let marker = if frame.is_some_and(|frame| frame.line == line) { "->" } else { "  " };
            self.print(&format!("{marker} {line:4} {}", lines[line as usize - 1]));
        }
        self.next_listed_line = Some(end);
    }
}

impl FrontEnd for Terminal<'_> {
    fn kernel_stopped(&mut self, control: &mut Control, scene: &Scene<'_>) -> Resume {
        self.next_listed_line = None;
        let mut text = String::new();
        if !matches!(scene.stop.reason, StopReason::Step) {
            let _ = writeln!(text, "{}", scene.stop.reason.describe());
        }
        let block_text = scene.block_and_role_text();
        match scene.frames().last() {
            Some(frame) => {
                let line = self.debuggee.source_line(frame.file, frame.line).unwrap_or_default();
                let _ = write!(
                    text,
                    "{}:{}, {block_text}, moment {}\n  {line}",
                    self.debuggee.file_name(frame.file),
                    frame.line,
                    scene.stop.event_count
                );
            }
            None => {
                let _ = write!(
                    text,
                    "{block_text}, moment {}\n  {}",
                    scene.stop.event_count,
                    self.debuggee.listing.op_text(scene.stop.row)
                );
            }
        }
        self.print(&text);
        self.frames_up = 0;
        loop {
            let Some(line) = self.read_command() else { return Resume::Quit };
            // `print` and `variables` use the frame that `up` selected. A step still starts at the frame of the stop.
            let stop = Stop { call_depth: scene.stop.call_depth.saturating_sub(self.frames_up), ..scene.stop.clone() };
            let selected_scene = Scene { stop: &stop, ..*scene };
            if let Some(resume) = self.execute(&line, control, Some(&selected_scene)) {
                return resume;
            }
        }
    }

    fn kernel_ended(&mut self, control: &mut Control, end: &RunEnd<'_>) -> Resume {
        let fault_text = match end.fault_count {
            0 => String::new(),
            1 => ", with a fault".into(),
            count => format!(", with {count} faults"),
        };
        match end.failure {
            Some(failure) => {
                self.print(&format!("the kernel ends after moment {} in a failure: {}", end.event_count, failure.message))
            }
            None => self.print(&format!("the kernel ends after moment {}{fault_text}", end.event_count)),
        }
        loop {
            let Some(line) = self.read_command() else { return Resume::Quit };
            if let Some(resume) = self.execute(&line, control, None) {
                return resume;
            }
        }
    }

    fn show_output(&mut self, text: &str) {
        let _ = write!(std::io::stdout(), "{text}").and_then(|()| std::io::stdout().flush());
    }

    fn should_pause(&mut self, _control: &mut Control) -> bool {
        self.interrupted.swap(false, Ordering::Relaxed)
    }
}
