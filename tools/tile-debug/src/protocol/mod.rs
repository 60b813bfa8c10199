//! The editor front end: the Debug Adapter Protocol on standard input and output. [`wire`] reads and writes messages, and
//! [`inspect`] answers requests about a stopped kernel. This module implements the session and the requests that resume the kernel.
//!
//! A tile block is a thread of the protocol; one exists at a time.

mod inspect;
mod wire;

use crate::Options;
use crate::engine::{Control, DIFFERENCE, End, FAULTS, Front, Motion, Resume};
use crate::expression::Datum;
use crate::scene::{Scene, Why};
use crate::subject::Subject;
use base::diag::{Diagnostic, Result};
use clap::Parser;
use common::Session;
use executor::Input;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError};
use wire::{Request, Wire};

/// The arguments of the launch and attach requests; `args` are command-line arguments.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Arguments {
    program: PathBuf,
    launch: Option<PathBuf>,
    #[serde(default)]
    args: Vec<String>,
    /// The base folder of relative paths.
    cwd: Option<PathBuf>,
    block: Option<String>,
    against: Option<PathBuf>,
    #[serde(default)]
    source: Vec<String>,
    #[serde(default)]
    stop_on_entry: bool,
    #[serde(default)]
    stop_at_end: bool,
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

impl Arguments {
    fn options(&self) -> Result<Options> {
        let mut words = vec!["tile-debug".to_string()];
        let path = |path: &Path| path.to_string_lossy().into_owned();
        words.extend(self.launch.iter().map(|launch| format!("--launch={}", path(launch))));
        words.extend(self.block.iter().map(|block| format!("--block={block}")));
        words.extend(self.against.iter().map(|against| format!("--against={}", path(against))));
        words.extend(self.source.iter().map(|source| format!("--source={source}")));
        words.extend(self.args.iter().cloned());
        let line = Line::try_parse_from(words).map_err(|error| {
            let text = error.to_string();
            Diagnostic::usage("DBG005", text.lines().next().unwrap_or_default().trim_start_matches("error: "))
        })?;
        Ok(line.options)
    }
}

/// Serves an editor until it disconnects.
pub(crate) fn serve(session: &mut Session) -> Result<()> {
    let (mut wire, inbox) = Wire::open();
    loop {
        let Ok(request) = inbox.recv() else { return Ok(()) };
        match request.command.as_str() {
            "initialize" => wire.answer(&request, capabilities()),
            "launch" | "attach" => match debug(session, &mut wire, &inbox, &request) {
                Ok(()) => return Ok(()),
                Err(error) => wire.refuse(&request, &error.render(base::diag::Style::Human, |_| String::new())),
            },
            "disconnect" | "terminate" => {
                wire.answer(&request, json!({}));
                return Ok(());
            }
            _ => wire.refuse(&request, "no program is being debugged yet"),
        }
    }
}

fn capabilities() -> Value {
    let usual = |word: &str, label: &str| json!({"filter": word, "label": label, "default": true});
    let mut filters: Vec<Value> = FAULTS.iter().map(|(_, word, label)| usual(word, label)).collect();
    filters.push(usual(DIFFERENCE, "Values that differ from another stage"));
    json!({
        "supportsConfigurationDoneRequest": true,
        "supportsConditionalBreakpoints": true,
        "supportsHitConditionalBreakpoints": true,
        "supportsLogPoints": true,
        "supportsEvaluateForHovers": true,
        "supportsFunctionBreakpoints": true,
        "supportsDataBreakpoints": true,
        "supportsStepBack": true,
        "supportsSteppingGranularity": true,
        "supportsRestartRequest": true,
        "supportsTerminateRequest": true,
        "supportsExceptionInfoRequest": true,
        "supportsBreakpointLocationsRequest": true,
        "exceptionBreakpointFilters": filters,
    })
}

/// Debugs one program from its launch request to its end. An error is an error of the request.
fn debug(session: &mut Session, wire: &mut Wire, inbox: &Receiver<Request>, request: &Request) -> Result<()> {
    let arguments: Arguments = serde_json::from_value(request.arguments.clone())
        .map_err(|error| Diagnostic::usage("DBG005", format!("the arguments of '{}': {error}", request.command)))?;
    if let Some(folder) = &arguments.cwd {
        std::env::set_current_dir(folder)
            .map_err(|error| Diagnostic::io("DBG006", format!("{}: {}", folder.display(), common::os_error_text(&error))))?;
    }
    let options = arguments.options()?;
    let program = Input::decode(session, &common::read_file(Some(&arguments.program))?)?;
    crate::debug(session, &options, &program, |subject, control, recording| {
        let mut editor = Editor {
            subject,
            wire,
            inbox,
            handles: Vec::new(),
            thread: None,
            stops_at_end: arguments.stop_at_end,
            shows_entry: arguments.stop_on_entry,
            leaves: false,
        };
        editor.wire.answer(request, json!({}));
        editor.wire.event("initialized", json!({}));
        if editor.configure(control) {
            crate::engine::debug(subject, control, &mut editor, recording)?;
        }
        Ok(())
    })
}

/// An object that an editor can inspect; its handle is its index plus one.
enum Handle {
    Variables,
    Values,
    Memory,
    Elements(Datum),
}

struct Editor<'a> {
    subject: &'a Subject<'a>,
    wire: &'a mut Wire,
    inbox: &'a Receiver<Request>,
    /// The handles of the current stop.
    handles: Vec<Handle>,
    /// The tile block that the editor shows as a thread.
    thread: Option<u64>,
    stops_at_end: bool,
    /// Whether the editor stops at the first op.
    shows_entry: bool,
    /// Whether the editor requested to disconnect while the kernel was running.
    leaves: bool,
}

impl Editor<'_> {
    /// Accepts breakpoints until the configuration is done; false if the editor disconnects.
    fn configure(&mut self, control: &mut Control) -> bool {
        loop {
            let Ok(request) = self.inbox.recv() else { return false };
            match request.command.as_str() {
                "configurationDone" => {
                    self.wire.answer(&request, json!({}));
                    return true;
                }
                "disconnect" | "terminate" => {
                    self.wire.answer(&request, json!({}));
                    return false;
                }
                _ => self.settle(&request, control, None),
            }
        }
    }

    /// Answers a request that does not resume the kernel.
    fn settle(&mut self, request: &Request, control: &mut Control, scene: Option<&Scene<'_>>) {
        let answer = match request.command.as_str() {
            "setBreakpoints" => self.set_breakpoints(request, control),
            "setFunctionBreakpoints" => self.set_function_breakpoints(request, control),
            "setDataBreakpoints" => self.set_data_breakpoints(request, control, scene),
            "setExceptionBreakpoints" => {
                let requested: Vec<&str> =
                    request.arguments["filters"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                let known = FAULTS.iter().map(|(_, word, _)| *word).chain([DIFFERENCE]);
                control.ignored = known.filter(|word| !requested.contains(word)).map(str::to_string).collect();
                Ok(json!({}))
            }
            "breakpointLocations" => self.locations(request),
            "threads" => {
                let threads = self.thread.map(|block| json!({"id": block + 1, "name": self.block_name(block)}));
                Ok(json!({"threads": threads.into_iter().collect::<Vec<_>>()}))
            }
            "source" => self.source(request),
            command => match scene {
                Some(scene) => self.look(command, request, scene),
                None => Err(format!("'{command}' requires a stopped kernel")),
            },
        };
        match answer {
            Ok(body) => self.wire.answer(request, body),
            Err(message) => self.wire.refuse(request, &message),
        }
    }

    fn block_name(&self, block: u64) -> String {
        let [x, y, _] = self.subject.call.grid.map(u64::from);
        format!("tile block [{}, {}, {}]", block % x, block / x % y, block / x / y)
    }

    /// Reports the tile block to the client as a thread, and ends the previous one.
    fn show_thread(&mut self, block: u64) {
        if self.thread == Some(block) {
            return;
        }
        if let Some(gone) = self.thread.replace(block) {
            self.wire.event("thread", json!({"reason": "exited", "threadId": gone + 1}));
        }
        self.wire.event("thread", json!({"reason": "started", "threadId": block + 1}));
    }

    /// Executes a request that resumes the kernel.
    fn obey(&mut self, request: &Request, control: &mut Control) -> Option<Resume> {
        let by_ops = request.arguments["granularity"] == "instruction";
        let pace = |motion: Motion| if by_ops { Motion::Op } else { motion };
        let resume = match request.command.as_str() {
            "continue" => Resume::Forward(Motion::Go),
            "next" => Resume::Forward(pace(Motion::Over)),
            "stepIn" => Resume::Forward(pace(Motion::Into)),
            "stepOut" => Resume::Forward(Motion::Out),
            "stepBack" => Resume::Back(pace(Motion::Over)),
            "reverseContinue" => Resume::Back(Motion::Go),
            "restart" => {
                self.shows_entry = true;
                Resume::Forward(Motion::Start)
            }
            "disconnect" | "terminate" => Resume::Quit,
            "evaluate" if request.arguments["context"] == "repl" => return self.command(request, control),
            _ => return None,
        };
        let body = if request.command == "continue" { json!({"allThreadsContinued": true}) } else { json!({}) };
        self.wire.answer(request, body);
        if request.command == "terminate" {
            self.wire.event("terminated", json!({}));
        }
        Some(resume)
    }

    /// Console commands that are not expressions: select another tile block or another moment.
    fn command(&mut self, request: &Request, control: &mut Control) -> Option<Resume> {
        let text = request.arguments["expression"].as_str().unwrap_or_default().trim();
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let resume = match word {
            "block" => crate::parse_block(rest.trim(), self.subject.call.grid).map(|block| {
                control.block = block;
                self.shows_entry = true;
                Resume::Forward(Motion::Start)
            }),
            "goto" => rest.trim().parse().map(Resume::To).map_err(|_| "goto N: to moment N".to_string()),
            _ => return None,
        };
        match resume {
            Ok(resume) => {
                self.wire.answer(request, json!({"result": "", "variablesReference": 0}));
                Some(resume)
            }
            Err(message) => {
                self.wire.refuse(request, &message);
                None
            }
        }
    }
}

impl Front for Editor<'_> {
    fn stopped(&mut self, control: &mut Control, scene: &Scene<'_>) -> Resume {
        self.handles.clear();
        if self.leaves {
            return Resume::Quit;
        }
        if matches!(scene.stop.why, Why::Entry) && !std::mem::take(&mut self.shows_entry) {
            self.show_thread(scene.moment.block_position().linear);
            return Resume::Forward(Motion::Go);
        }
        self.show_thread(scene.moment.block_position().linear);
        let report = scene.stop.why.report();
        let mut body = json!({
            "reason": match &scene.stop.why {
                Why::Entry => "entry",
                Why::Step => "step",
                Why::Breakpoint(_) => "breakpoint",
                Why::Fault(..) | Why::Failure(_) | Why::Difference(_) => "exception",
                Why::Pause => "pause",
                Why::Watch(..) => "data breakpoint",
            },
            "description": report.split(": ").next().unwrap_or_default(),
            "threadId": scene.moment.block_position().linear + 1,
            "allThreadsStopped": true,
        });
        match &scene.stop.why {
            Why::Breakpoint(ids) => body["hitBreakpointIds"] = json!(ids),
            Why::Watch(id, change) => {
                body["hitBreakpointIds"] = json!([id]);
                body["text"] = json!(change);
            }
            _ => {}
        }
        if body["reason"] == "exception" {
            body["text"] = json!(report);
        }
        self.wire.event("stopped", body);
        loop {
            let Ok(request) = self.inbox.recv() else { return Resume::Quit };
            if let Some(resume) = self.obey(&request, control) {
                return resume;
            }
            if !self.wire.answered(&request) {
                self.settle(&request, control, Some(scene));
            }
        }
    }

    fn ended(&mut self, control: &mut Control, end: &End<'_>) -> Resume {
        self.handles.clear();
        if self.leaves {
            return Resume::Quit;
        }
        let code = i32::from(end.failure.is_some() || end.faults > 0);
        let back = ["stepBack", "reverseContinue", "restart", "evaluate"];
        if self.stops_at_end {
            let thread = self.thread.unwrap_or(0) + 1;
            let text = format!("the kernel ends after moment {}", end.tick);
            self.wire
                .event("stopped", json!({"reason": "pause", "description": text, "threadId": thread, "allThreadsStopped": true}));
        } else {
            self.wire.event("exited", json!({"exitCode": code}));
            self.wire.event("terminated", json!({}));
        }
        loop {
            let Ok(request) = self.inbox.recv() else { return Resume::Quit };
            let ahead = ["continue", "next", "stepIn", "stepOut"].contains(&request.command.as_str());
            if ahead && self.stops_at_end {
                self.wire.answer(&request, json!({}));
                self.wire.event("exited", json!({"exitCode": code}));
                self.wire.event("terminated", json!({}));
                self.stops_at_end = false;
                continue;
            }
            if !ahead
                && (self.stops_at_end || !back.contains(&request.command.as_str()) || request.command == "restart")
                && let Some(resume) = self.obey(&request, control)
            {
                return resume;
            }
            if !self.wire.answered(&request) {
                match request.command.as_str() {
                    "stackTrace" => self.wire.answer(&request, json!({"stackFrames": [], "totalFrames": 0})),
                    _ => self.settle(&request, control, None),
                }
            }
        }
    }

    fn output(&mut self, text: &str) {
        self.wire.event("output", json!({"category": "stdout", "output": text}));
    }

    fn pauses(&mut self, control: &mut Control) -> bool {
        loop {
            let request = match self.inbox.try_recv() {
                Ok(request) => request,
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => {
                    self.leaves = true;
                    return true;
                }
            };
            match request.command.as_str() {
                "pause" => {
                    self.wire.answer(&request, json!({}));
                    return true;
                }
                "disconnect" | "terminate" => {
                    self.wire.answer(&request, json!({}));
                    self.leaves = true;
                    return true;
                }
                _ => self.settle(&request, control, None),
            }
        }
    }
}
