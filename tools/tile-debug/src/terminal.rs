//! The terminal front end: one command per line, from the command line, a user or a pipe.

use crate::engine::{Control, DIFFERENCE, End, FAULTS, Front, Motion, Resume};
use crate::expression::{self, Datum};
use crate::scene::{Scene, Stop, Why};
use crate::subject::Subject;
use crate::values;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Commands: names, arguments, description.
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

/// Context lines of the source on either side.
const AROUND: u32 = 4;

pub(crate) struct Terminal<'a> {
    subject: &'a Subject<'a>,
    /// Pending commands of the command line.
    waiting: VecDeque<String>,
    interrupted: Arc<AtomicBool>,
    /// The command that an empty line repeats.
    last: String,
    /// The last listed source line.
    listed: Option<u32>,
    /// The line editor with history, on a terminal.
    editor: Option<rustyline::DefaultEditor>,
    /// The selected frame, as a number of calls above the current one.
    above: usize,
}

impl<'a> Terminal<'a> {
    pub(crate) fn new(subject: &'a Subject<'a>, commands: &[String]) -> Terminal<'a> {
        let interrupted = Arc::new(AtomicBool::new(false));
        if std::io::stdin().is_terminal() {
            // If registration fails, the interrupt key ends the program as usual.
            let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted.clone());
        }
        let at_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let editor = if at_terminal { rustyline::DefaultEditor::new().ok() } else { None };
        let waiting = commands.iter().cloned().collect();
        Terminal { subject, waiting, interrupted, last: String::new(), listed: None, editor, above: 0 }
    }

    pub(crate) fn print(&self, text: &str) {
        // Standard output may be closed; reading the next command then ends the run.
        let _ = writeln!(std::io::stdout(), "{text}").and_then(|()| std::io::stdout().flush());
    }

    /// Reads the next command; none at the end of the input.
    fn command(&mut self) -> Option<String> {
        let line = match self.waiting.pop_front() {
            Some(line) => {
                self.print(&format!("> {line}"));
                line
            }
            None if self.editor.is_some() => self.edited()?,
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
            self.last = line.to_string();
        }
        Some(self.last.clone())
    }

    /// Reads a line from the editor; none at the end of the input. The interrupt key clears the line.
    fn edited(&mut self) -> Option<String> {
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

    /// Executes a command. Returns how the run resumes, if it does.
    fn obey(&mut self, line: &str, control: &mut Control, scene: Option<&Scene<'_>>) -> Option<Resume> {
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
        let ahead = |motion: Motion| scene.is_some().then_some(Resume::Forward(motion));
        let resume = match names[0] {
            "continue" => ahead(Motion::Go),
            "next" => ahead(Motion::Over),
            "step" => ahead(Motion::Into),
            "out" => ahead(Motion::Out),
            "op" => ahead(Motion::Op),
            "back" => match rest {
                "" | "line" => Some(Resume::Back(Motion::Over)),
                "op" => Some(Resume::Back(Motion::Op)),
                "into" => Some(Resume::Back(Motion::Into)),
                "out" => Some(Resume::Back(Motion::Out)),
                "continue" => Some(Resume::Back(Motion::Go)),
                _ => return self.refuse(names[0]),
            },
            "reverse" => Some(Resume::Back(Motion::Go)),
            "restart" => Some(Resume::Forward(Motion::Start)),
            "quit" => Some(Resume::Quit),
            "goto" => match rest.parse() {
                Ok(tick) => Some(Resume::To(tick)),
                Err(_) => return self.refuse(names[0]),
            },
            "block" => return self.block(rest, control),
            _ => {
                self.look(names[0], rest, control, scene);
                return None;
            }
        };
        if resume.is_none() {
            self.print("the kernel has ended; use back, reverse, goto or restart");
        }
        resume
    }

    /// Prints the usage of a command.
    fn refuse(&self, name: &str) -> Option<Resume> {
        if let Some((names, takes, does)) = COMMANDS.iter().find(|(names, ..)| names[0] == name) {
            self.print(&format!("{} {takes}: {does}", names.join(" or ")));
        }
        None
    }

    /// Executes a command that does not resume the kernel.
    fn look(&mut self, name: &str, rest: &str, control: &mut Control, scene: Option<&Scene<'_>>) {
        match (name, scene) {
            ("help", _) => {
                let width = COMMANDS.iter().map(|(names, takes, _)| names.join(", ").len() + takes.len()).max().unwrap_or(0) + 1;
                for (names, takes, does) in COMMANDS {
                    self.print(&format!("  {:width$}  {does}", format!("{} {takes}", names.join(", "))));
                }
            }
            ("break" | "log", _) => self.add(name, rest, control),
            ("delete", _) => {
                let requested = rest.parse().ok();
                control.breakpoints.retain(|breakpoint| requested.is_some_and(|id: u64| breakpoint.id != id));
                control.watches.retain(|watched| requested.is_some_and(|id: u64| watched.id != id));
            }
            ("breakpoints", _) => {
                for breakpoint in &control.breakpoints {
                    let condition = breakpoint.condition.as_ref().map_or(String::new(), |condition| format!(" if {condition}"));
                    let message = breakpoint.message.as_ref().map_or(String::new(), |message| format!(" prints {message}"));
                    self.print(&format!("  {} {}:{}{condition}{message}", breakpoint.id, breakpoint.file, breakpoint.line));
                }
                for watched in &control.watches {
                    self.print(&format!("  {} watch {}", watched.id, watched.expression));
                }
            }
            ("watch", Some(scene)) if !rest.is_empty() => {
                let now = expression::evaluate(rest, scene).and_then(|datum| values::describe(&datum, scene));
                let role_id = (scene.moment.block_position().linear, scene.moment.warp_role());
                let shown = now.clone().unwrap_or_else(|error| error);
                let id = control.watch(rest, now.ok().map(|value| (role_id, value)));
                self.print(&format!("watch {id}: {rest} is {shown}"));
            }
            ("watch", _) => {
                self.refuse(name);
            }
            ("ignore", _) => self.ignore(rest, control),
            ("list", _) => self.list(rest, scene),
            ("up" | "down", Some(scene)) => {
                let most = scene.stop.level + self.above;
                let requested = if name == "up" { self.above + 1 } else { self.above.saturating_sub(1) };
                if requested == self.above || requested >= most {
                    self.print(if name == "up" { "no function called this one" } else { "the kernel stands in this function" });
                    return;
                }
                self.above = requested;
                self.listed = None;
                if let Some(frame) = self.subject.frames[scene.stop.row].get(most - 1 - requested) {
                    let line = self.subject.line(frame.file, frame.line).unwrap_or_default();
                    self.print(&format!("{} at {}:{}\n  {line}", frame.function, self.subject.short(frame.file), frame.line));
                }
            }
            (_, None) => self.print("the kernel is at its end; its values are gone. back goes to the line before"),
            ("print", Some(scene)) => {
                let shown = expression::evaluate(rest, scene).and_then(|datum| values::describe(&datum, scene));
                self.print(&shown.unwrap_or_else(|error| error));
            }
            ("variables", Some(scene)) => self.variables(scene),
            ("values", Some(scene)) => {
                for id in scene.visible() {
                    if let Ok(value) = scene.value(id) {
                        let name = scene.name(id).map_or(String::new(), |name| format!(" ({name})"));
                        self.print(&format!("  {id}{name} = {}", values::line(&value, scene)));
                    }
                }
            }
            ("memory", Some(scene)) => {
                for array in &self.subject.arrays {
                    let line = values::describe(&Datum::Array(array.clone()), scene).unwrap_or_else(|error| error);
                    self.print(&format!("  {} = {line}", array.name));
                }
            }
            ("where", Some(scene)) => {
                for (depth, frame) in scene.frames().iter().rev().enumerate() {
                    self.print(&format!("  {depth} {} at {}:{}", frame.function, self.subject.short(frame.file), frame.line));
                }
                self.print(&format!("  in {}", scene.description()));
            }
            ("ops", Some(scene)) => {
                let row = scene.stop.row;
                for near in row.saturating_sub(AROUND as usize)..(row + AROUND as usize + 1).min(self.subject.listing.rows.len()) {
                    let mark = if near == row { "->" } else { "  " };
                    let depth = "  ".repeat(self.subject.listing.rows[near].depth);
                    self.print(&format!("{mark} {depth}{}  ({})", self.subject.listing.text(near), self.subject.place(near)));
                }
            }
            _ => {}
        }
    }

    fn variables(&self, scene: &Scene<'_>) {
        let variables = scene.variables();
        if variables.is_empty() {
            self.print("no variable of the source has a value here; values lists all by number");
        }
        for (name, id) in variables {
            if let Ok(value) = scene.value(id) {
                self.print(&format!("  {name} = {}", values::line(&value, scene)));
            }
        }
    }

    fn add(&self, name: &str, rest: &str, control: &mut Control) {
        let (place, more) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let (file, line) = place.rsplit_once(':').unwrap_or(("", place));
        let numbered = line.parse().ok().and_then(|line| self.subject.line_with_code(file, line));
        let Some((requested, line)) = numbered.or_else(|| self.subject.line_of_function(place)) else {
            self.print(&format!("no op comes from '{place}' or a line after it"));
            return;
        };
        let breakpoint = control.add(&self.subject.files[requested].name, line);
        let more = more.trim();
        match (name, more.strip_prefix("if ")) {
            ("log", _) => breakpoint.message = Some(more.to_string()),
            (_, Some(condition)) => breakpoint.condition = Some(condition.to_string()),
            (_, None) if !more.is_empty() => {
                control.breakpoints.pop();
                self.print(&format!("'{more}' is not understood; a condition begins with 'if'"));
                return;
            }
            _ => {}
        }
        let text = self.subject.line(requested, line).unwrap_or_default().trim();
        let id = control.breakpoints.last().map_or(0, |breakpoint| breakpoint.id);
        self.print(&format!("breakpoint {id} at {}:{line}: {text}", self.subject.short(requested)));
    }

    fn ignore(&self, rest: &str, control: &mut Control) {
        let known: Vec<&str> = FAULTS.iter().map(|(_, word, _)| *word).chain([DIFFERENCE]).collect();
        if known.contains(&rest) && !control.ignored.remove(rest) {
            control.ignored.insert(rest.into());
        }
        for word in known {
            let does = if control.ignored.contains(word) { "does not stop" } else { "stops" };
            self.print(&format!("  {word} {does}"));
        }
    }

    /// Debugs another tile block from its first op.
    fn block(&mut self, rest: &str, control: &mut Control) -> Option<Resume> {
        match crate::parse_block(rest, self.subject.call.grid) {
            Ok(block) => {
                control.block = block;
                Some(Resume::Forward(Motion::Start))
            }
            Err(error) => {
                self.print(&error);
                None
            }
        }
    }

    fn list(&mut self, rest: &str, scene: Option<&Scene<'_>>) {
        let frame = scene.and_then(|scene| scene.frames().last());
        let file = frame.map_or(0, |frame| frame.file);
        let Some((path, lines)) = self.subject.files.get(file).and_then(|file| file.found.as_ref()) else {
            self.print("the source was not found; pass its folder with --source FOLDER, or show ops with --lines=ops");
            return;
        };
        let start = match rest.parse::<u32>() {
            Ok(line) => line.saturating_sub(AROUND),
            Err(_) => self.listed.unwrap_or_else(|| frame.map_or(1, |frame| frame.line.saturating_sub(AROUND))),
        };
        let start = start.max(1);
        let end = (start + 2 * AROUND + 1).min(lines.len() as u32 + 1);
        if self.listed.is_none() {
            self.print(&path.display().to_string());
        }
        for line in start..end {
            let mark = if frame.is_some_and(|frame| frame.line == line) { "->" } else { "  " };
            self.print(&format!("{mark} {line:4} {}", lines[line as usize - 1]));
        }
        self.listed = Some(end);
    }
}

impl Front for Terminal<'_> {
    fn stopped(&mut self, control: &mut Control, scene: &Scene<'_>) -> Resume {
        self.listed = None;
        let mut text = String::new();
        if !matches!(scene.stop.why, Why::Step) {
            let _ = writeln!(text, "{}", scene.stop.why.report());
        }
        let description = scene.description();
        match scene.frames().last() {
            Some(frame) => {
                let line = self.subject.line(frame.file, frame.line).unwrap_or_default();
                let _ = write!(
                    text,
                    "{}:{}, {description}, moment {}\n  {line}",
                    self.subject.short(frame.file),
                    frame.line,
                    scene.stop.tick
                );
            }
            None => {
                let _ = write!(text, "{description}, moment {}\n  {}", scene.stop.tick, self.subject.listing.text(scene.stop.row));
            }
        }
        self.print(&text);
        self.above = 0;
        loop {
            let Some(line) = self.command() else { return Resume::Quit };
            // Commands use the selected frame; the run resumes from the current one.
            let stop = Stop { level: scene.stop.level.saturating_sub(self.above), ..scene.stop.clone() };
            let chosen = Scene { stop: &stop, ..*scene };
            if let Some(resume) = self.obey(&line, control, Some(&chosen)) {
                return resume;
            }
        }
    }

    fn ended(&mut self, control: &mut Control, end: &End<'_>) -> Resume {
        let faults = match end.faults {
            0 => String::new(),
            1 => ", with a fault".into(),
            count => format!(", with {count} faults"),
        };
        match end.failure {
            Some(failure) => self.print(&format!("the kernel ends after moment {} in a failure: {}", end.tick, failure.message)),
            None => self.print(&format!("the kernel ends after moment {}{faults}", end.tick)),
        }
        loop {
            let Some(line) = self.command() else { return Resume::Quit };
            if let Some(resume) = self.obey(&line, control, None) {
                return resume;
            }
        }
    }

    fn output(&mut self, text: &str) {
        let _ = write!(std::io::stdout(), "{text}").and_then(|()| std::io::stdout().flush());
    }

    fn pauses(&mut self, _control: &mut Control) -> bool {
        self.interrupted.swap(false, Ordering::Relaxed)
    }
}
