//! The editor front end: the Debug Adapter Protocol on standard input and output. [`wire`] reads and writes messages, and
//! [`inspect`] answers requests about a stopped kernel. This module implements the session and the requests that resume the kernel.
//!
//! The front end presents the tile block of the current stop as the only thread of the program.

mod inspect;
mod wire;

use crate::Options;
use crate::debuggee::Debuggee;
use crate::engine::{FrontEnd, Resume, ResumeKind, RunEnd};
use crate::expression::Datum;
use crate::scene::{Scene, StopReason};
use crate::session_settings::{Control, DIFFERENCE, FAULTS};
use base::diag::{Diagnostic, Result};
use clap::Parser;
use common::Session;
use executor::ProgramFile;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError};
use wire::{Request, Wire};

/// The arguments of the launch and attach requests.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Arguments {
    program: PathBuf,
    launch: Option<PathBuf>,
    /// Command-line arguments of `tile-debug`, in addition to those that the other fields describe.
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

// Parses the command-line arguments in the field `args` of the launch request. A doc comment would become the text of `--help`.
#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    options: Options,
}

impl Arguments {
    /// Converts the arguments of the request to the command-line options of `tile-debug`.
    fn options(&self) -> Result<Options> {
        let mut command_arguments = vec!["tile-debug".to_string()];
        let path = |path: &Path| path.to_string_lossy().into_owned();
        command_arguments.extend(self.launch.iter().map(|launch| format!("--launch={}", path(launch))));
        command_arguments.extend(self.block.iter().map(|block| format!("--block={block}")));
        command_arguments.extend(self.against.iter().map(|against| format!("--against={}", path(against))));
        command_arguments.extend(self.source.iter().map(|source| format!("--source={source}")));
        command_arguments.extend(self.args.iter().cloned());
        let command_line = CommandLine::try_parse_from(command_arguments).map_err(|error| {
            let text = error.to_string();
            Diagnostic::usage("DBG005", text.lines().next().unwrap_or_default().trim_start_matches("error: "))
        })?;
        Ok(command_line.options)
    }
}

/// Serves an editor until it disconnects.
pub(crate) fn serve(session: &mut Session) -> Result<()> {
    let (mut wire, requests) = Wire::open();
    loop {
        let Ok(request) = requests.recv() else { return Ok(()) };
        match request.command.as_str() {
            "initialize" => wire.respond(&request, capabilities()),
            "launch" | "attach" => match debug(session, &mut wire, &requests, &request) {
                Ok(()) => return Ok(()),
                Err(error) => wire.respond_error(&request, &error.render(base::diag::Style::Human, |_| String::new())),
            },
            "disconnect" | "terminate" => {
                wire.respond(&request, json!({}));
                return Ok(());
            }
            _ => wire.respond_error(&request, "no program is being debugged yet"),
        }
    }
}

/// Returns the response to `initialize`: the optional features of the protocol that the debugger supports.
fn capabilities() -> Value {
    let filter = |keyword: &str, label: &str| json!({"filter": keyword, "label": label, "default": true});
    let mut filters: Vec<Value> = FAULTS.iter().map(|(_, keyword, label)| filter(keyword, label)).collect();
    filters.push(filter(DIFFERENCE, "Values that differ from another stage"));
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

/// Debugs one program until the editor disconnects. If this function returns an error, the caller sends it as the response to the
/// launch request.
fn debug(session: &mut Session, wire: &mut Wire, requests: &Receiver<Request>, request: &Request) -> Result<()> {
    let arguments: Arguments = serde_json::from_value(request.arguments.clone())
        .map_err(|error| Diagnostic::usage("DBG005", format!("the arguments of '{}': {error}", request.command)))?;
    if let Some(folder) = &arguments.cwd {
        std::env::set_current_dir(folder)
            .map_err(|error| Diagnostic::io("DBG006", format!("{}: {}", folder.display(), common::os_error_text(&error))))?;
    }
    let options = arguments.options()?;
    let program = ProgramFile::decode(session, &common::read_file(Some(&arguments.program))?)?;
    crate::debug(session, &options, &program, |debuggee, control, recording| {
        let mut editor = Editor {
            debuggee,
            wire,
            requests,
            expandable_objects: Vec::new(),
            thread: None,
            stops_at_end: arguments.stop_at_end,
            stops_at_entry: arguments.stop_on_entry,
            disconnect_requested: false,
        };
        editor.wire.respond(request, json!({}));
        editor.wire.event("initialized", json!({}));
        if editor.configure(control) {
            crate::engine::debug(debuggee, control, &mut editor, recording)?;
        }
        Ok(())
    })
}

/// An object whose children an editor can request. Its `variablesReference` in the protocol is its index in
/// [`Editor::expandable_objects`] plus one.
enum ExpandableObject {
    /// The source variables.
    Variables,
    /// The values in scope, by number.
    Values,
    /// The buffers of the launch.
    Memory,
    /// The elements of a tile or array along its first dimension.
    Elements(Datum),
}

/// The state of the editor front end for one debugged program.
struct Editor<'a> {
    debuggee: &'a Debuggee<'a>,
    wire: &'a mut Wire,
    requests: &'a Receiver<Request>,
    /// The objects that the editor can expand at the current stop.
    expandable_objects: Vec<ExpandableObject>,
    /// The linear index of the tile block that the editor shows as a thread.
    thread: Option<u64>,
    /// Whether the debugger stops at the end of the kernel, so that the editor can step back.
    stops_at_end: bool,
    /// Whether the editor requested a stop at the first op.
    stops_at_entry: bool,
    /// Whether the editor requested to disconnect while the kernel was running.
    disconnect_requested: bool,
}

impl Editor<'_> {
    /// Handles configuration requests, such as for breakpoints, until the request `configurationDone`. Returns false if the editor
    /// disconnects.
    fn configure(&mut self, control: &mut Control) -> bool {
        loop {
            let Ok(request) = self.requests.recv() else { return false };
            match request.command.as_str() {
                "configurationDone" => {
                    self.wire.respond(&request, json!({}));
                    return true;
                }
                "disconnect" | "terminate" => {
                    self.wire.respond(&request, json!({}));
                    return false;
                }
                _ => self.answer_query(&request, control, None),
            }
        }
    }

    /// Answers a request that does not resume the kernel.
    fn answer_query(&mut self, request: &Request, control: &mut Control, scene: Option<&Scene<'_>>) {
        let response = match request.command.as_str() {
            "setBreakpoints" => self.set_breakpoints(request, control),
            "setFunctionBreakpoints" => self.set_function_breakpoints(request, control),
            "setDataBreakpoints" => self.set_data_breakpoints(request, control, scene),
            "setExceptionBreakpoints" => {
                let requested: Vec<&str> =
                    request.arguments["filters"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                let keywords = FAULTS.iter().map(|(_, keyword, _)| *keyword).chain([DIFFERENCE]);
                control.ignored_faults = keywords.filter(|keyword| !requested.contains(keyword)).map(str::to_string).collect();
                Ok(json!({}))
            }
            "breakpointLocations" => self.breakpoint_locations(request),
            "threads" => {
                let threads = self.thread.map(|block| json!({"id": block + 1, "name": self.block_name(block)}));
                Ok(json!({"threads": threads.into_iter().collect::<Vec<_>>()}))
            }
            "source" => self.source(request),
            command => match scene {
                Some(scene) => self.answer_stopped_query(command, request, scene),
                None => Err(format!("'{command}' requires a stopped kernel")),
            },
        };
        match response {
            Ok(body) => self.wire.respond(request, body),
            Err(message) => self.wire.respond_error(request, &message),
        }
    }

    /// Returns the name under which the editor shows the tile block with the linear index `block`.
    fn block_name(&self, block: u64) -> String {
        let [x, y, _] = self.debuggee.call.grid.map(u64::from);
        format!("tile block [{}, {}, {}]", block % x, block / x % y, block / x / y)
    }

    /// Reports the tile block to the editor as a started thread, and the previous tile block as an exited thread.
    fn show_thread(&mut self, block: u64) {
        if self.thread == Some(block) {
            return;
        }
        if let Some(previous) = self.thread.replace(block) {
            self.wire.event("thread", json!({"reason": "exited", "threadId": previous + 1}));
        }
        self.wire.event("thread", json!({"reason": "started", "threadId": block + 1}));
    }

    /// Responds to a request that resumes the kernel, and returns how the kernel resumes. Returns `None` for other requests.
    fn resume_command(&mut self, request: &Request, control: &mut Control) -> Option<Resume> {
        let by_ops = request.arguments["granularity"] == "instruction";
        let step_kind = |kind: ResumeKind| if by_ops { ResumeKind::StepOp } else { kind };
        let resume = match request.command.as_str() {
            "continue" => Resume::Forward(ResumeKind::Continue),
            "next" => Resume::Forward(step_kind(ResumeKind::StepOver)),
            "stepIn" => Resume::Forward(step_kind(ResumeKind::StepInto)),
            "stepOut" => Resume::Forward(ResumeKind::StepOut),
            "stepBack" => Resume::Back(step_kind(ResumeKind::StepOver)),
            "reverseContinue" => Resume::Back(ResumeKind::Continue),
            "restart" => {
                self.stops_at_entry = true;
                Resume::Forward(ResumeKind::Restart)
            }
            "disconnect" | "terminate" => Resume::Quit,
            "evaluate" if request.arguments["context"] == "repl" => return self.console_command(request, control),
            _ => return None,
        };
        let body = if request.command == "continue" { json!({"allThreadsContinued": true}) } else { json!({}) };
        self.wire.respond(request, body);
        if request.command == "terminate" {
            self.wire.event("terminated", json!({}));
        }
        Some(resume)
    }

    /// Executes a console command that is not an expression: `block` or `goto`. Returns how the kernel resumes; `None` for an
    /// expression or a wrong argument.
    fn console_command(&mut self, request: &Request, control: &mut Control) -> Option<Resume> {
        let text = request.arguments["expression"].as_str().unwrap_or_default().trim();
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let resume = match word {
            "block" => crate::parse_block(rest.trim(), self.debuggee.call.grid).map(|block| {
                control.block = block;
                self.stops_at_entry = true;
                Resume::Forward(ResumeKind::Restart)
            }),
            "goto" => rest.trim().parse().map(Resume::ToMoment).map_err(|_| "goto N: to moment N".to_string()),
            _ => return None,
        };
        match resume {
            Ok(resume) => {
                self.wire.respond(request, json!({"result": "", "variablesReference": 0}));
                Some(resume)
            }
            Err(message) => {
                self.wire.respond_error(request, &message);
                None
            }
        }
    }
}

impl FrontEnd for Editor<'_> {
    fn kernel_stopped(&mut self, control: &mut Control, scene: &Scene<'_>) -> Resume {
        self.expandable_objects.clear();
        if self.disconnect_requested {
            return Resume::Quit;
        }
        if matches!(scene.stop.reason, StopReason::Entry) && !std::mem::take(&mut self.stops_at_entry) {
            self.show_thread(scene.moment.block_position().linear);
            return Resume::Forward(ResumeKind::Continue);
        }
        self.show_thread(scene.moment.block_position().linear);
        let report = scene.stop.reason.describe();
        let mut body = json!({
            "reason": match &scene.stop.reason {
                StopReason::Entry => "entry",
                StopReason::Step => "step",
                StopReason::Breakpoint(_) => "breakpoint",
                StopReason::Fault(..) | StopReason::Failure(_) | StopReason::Difference(_) => "exception",
                StopReason::Pause => "pause",
                StopReason::Watch(..) => "data breakpoint",
            },
            "description": report.split(": ").next().unwrap_or_default(),
            "threadId": scene.moment.block_position().linear + 1,
            "allThreadsStopped": true,
        });
        match &scene.stop.reason {
            StopReason::Breakpoint(ids) => body["hitBreakpointIds"] = json!(ids),
            StopReason::Watch(id, change) => {
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
            let Ok(request) = self.requests.recv() else { return Resume::Quit };
            if let Some(resume) = self.resume_command(&request, control) {
                return resume;
            }
            if !self.wire.has_response(&request) {
                self.answer_query(&request, control, Some(scene));
            }
        }
    }

    fn kernel_ended(&mut self, control: &mut Control, end: &RunEnd<'_>) -> Resume {
        self.expandable_objects.clear();
        if self.disconnect_requested {
            return Resume::Quit;
        }
        let code = i32::from(end.failure.is_some() || end.fault_count > 0);
        let backward_commands = ["stepBack", "reverseContinue", "restart", "evaluate"];
        if self.stops_at_end {
            let thread = self.thread.unwrap_or(0) + 1;
            let text = format!("the kernel ends after moment {}", end.event_count);
            self.wire
                .event("stopped", json!({"reason": "pause", "description": text, "threadId": thread, "allThreadsStopped": true}));
        } else {
            self.wire.event("exited", json!({"exitCode": code}));
            self.wire.event("terminated", json!({}));
        }
        loop {
            let Ok(request) = self.requests.recv() else { return Resume::Quit };
            let is_forward = ["continue", "next", "stepIn", "stepOut"].contains(&request.command.as_str());
            if is_forward && self.stops_at_end {
                self.wire.respond(&request, json!({}));
                self.wire.event("exited", json!({"exitCode": code}));
                self.wire.event("terminated", json!({}));
                self.stops_at_end = false;
                continue;
            }
            if !is_forward
                && (self.stops_at_end || !backward_commands.contains(&request.command.as_str()) || request.command == "restart")
                && let Some(resume) = self.resume_command(&request, control)
            {
                return resume;
            }
            if !self.wire.has_response(&request) {
                match request.command.as_str() {
                    "stackTrace" => self.wire.respond(&request, json!({"stackFrames": [], "totalFrames": 0})),
                    _ => self.answer_query(&request, control, None),
                }
            }
        }
    }

    fn show_output(&mut self, text: &str) {
        self.wire.event("output", json!({"category": "stdout", "output": text}));
    }

    fn should_pause(&mut self, control: &mut Control) -> bool {
        loop {
            let request = match self.requests.try_recv() {
                Ok(request) => request,
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => {
                    self.disconnect_requested = true;
                    return true;
                }
            };
            match request.command.as_str() {
                "pause" => {
                    self.wire.respond(&request, json!({}));
                    return true;
                }
                "disconnect" | "terminate" => {
                    self.wire.respond(&request, json!({}));
                    self.disconnect_requested = true;
                    return true;
                }
                _ => self.answer_query(&request, control, None),
            }
        }
    }
}
