//! Helpers of the end-to-end test suites: find the tools, run them, and compare their outputs.
//!
//! The suites run the executables in `target/<profile>`, which `cargo build` creates and `cargo test` does not. A missing or stale
//! executable is an error. `scripts/test` builds all executables before the tests.

pub mod cluster_matmul;
pub mod compare;
pub mod need;
pub mod prose;
pub mod replaced_tool;
pub mod scheduled;
pub mod suite;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

/// The repository's root.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The directory of the tools that have the same build profile as this test.
pub fn tools_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let test = std::env::current_exe().expect("a test knows where it is");
        test.parent().and_then(Path::parent).expect("tests are in target/<profile>/deps").to_path_buf()
    })
}

/// The names of all tools: the folders in `tools` with a `src/main.rs`.
pub fn tool_names() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("tools")).expect("the repository has tools");
    let mut names: Vec<String> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| root().join("tools").join(name).join("src/main.rs").is_file());
    names.sort();
    names
}

/// The path of a tool. Panics if it is missing or older than its sources.
pub fn tool(name: &str) -> PathBuf {
    /// The tools for which this function has found a current executable.
    static CHECKED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let path = tools_folder().join(name);
    let mut checked = CHECKED.lock().expect("no test panics while it checks");
    if !checked.contains(name) {
        if let Some(complaint) = stale_reason(&path) {
            drop(checked);
            panic!("{name}: {complaint}; run `cargo build --workspace` with this profile first, or scripts/test");
        }
        checked.insert(name.to_string());
    }
    path
}

/// Returns why an executable cannot be used: it is missing or older than a source. None if it is current. Cargo writes the list of
/// sources to a `.d` file next to the executable.
fn stale_reason(path: &Path) -> Option<String> {
    let modification_time = |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let Some(built) = modification_time(path) else { return Some(format!("{} is missing", path.display())) };
    let source_list = std::fs::read_to_string(path.with_extension("d")).unwrap_or_default();
    let sources = source_list.split_once(": ").map_or("", |(_, sources)| sources);
    let newer_source =
        sources.split_whitespace().find(|source| modification_time(Path::new(source)).is_some_and(|time| time > built));
    newer_source.map(|source| format!("{} is older than {source}", path.display()))
}

/// The exit code and the output of a process.
#[derive(Debug)]
pub struct RunResult {
    /// The exit code; None if a signal ended the process.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl RunResult {
    /// Asserts that the run succeeded, and returns its output. `run_name` names the run in the failure message.
    pub fn ok(self, run_name: &str) -> Vec<u8> {
        assert_eq!(self.code, Some(0), "{run_name}: {}", self.stderr);
        self.stdout
    }
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Runs a tool in `folder`, with `input` as its standard input.
pub fn run_in<S: AsRef<OsStr>>(folder: &Path, name: &str, arguments: &[S], input: &[u8]) -> RunResult {
    let words = arguments.iter().map(|argument| argument.as_ref().to_os_string());
    run_expression(&duct::cmd(tool(name), words).dir(folder), input)
}

/// Runs a tool in the repository's root, with `input` as its standard input.
pub fn run<S: AsRef<OsStr>>(name: &str, arguments: &[S], input: &[u8]) -> RunResult {
    run_in(root(), name, arguments, input)
}

/// Tools that start other tools, and the folder of scripts, which also start tools.
const TOOLS_THAT_START_OTHERS: [&str; 7] =
    ["tileiras", "tile-debug", "tile-fuzz", "tile-reduce", "tile-validate", "tile-view", "scripts/"];

/// The tools that a line of bash may start: the tools that the line names. If one of them starts other tools, returns all tools.
fn tools_of(line: &str, tools: &[String]) -> Vec<String> {
    if TOOLS_THAT_START_OTHERS.iter().any(|name| line.contains(name)) {
        return tools.to_vec();
    }
    let words: BTreeSet<&str> = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
    tools.iter().filter(|name| words.contains(name.as_str())).cloned().collect()
}

/// Runs a line of bash with the tools on PATH. Panics if a tool that the line may start is missing or stale.
pub fn shell(folder: &Path, line: &str) -> RunResult {
    tools_of(line, &tool_names()).iter().for_each(|name| drop(tool(name)));
    run_expression(&duct::cmd!("bash", "-c", line).dir(folder).env("PATH", path_with_tools()), b"")
}

/// PATH with the tools first.
pub fn path_with_tools() -> std::ffi::OsString {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(tools_folder().to_path_buf()).chain(std::env::split_paths(&rest).collect::<Vec<_>>());
    std::env::join_paths(folders).expect("no folder has a colon in its name")
}

fn run_expression(command: &duct::Expression, input: &[u8]) -> RunResult {
    let output = command.stdin_bytes(input).stdout_capture().stderr_capture().unchecked().run();
    result_of(output.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}")))
}

fn result_of(output: std::process::Output) -> RunResult {
    RunResult { code: output.status.code(), stdout: output.stdout, stderr: String::from_utf8_lossy(&output.stderr).into_owned() }
}

/// Runs a command with `input` as its standard input, and waits for its end.
pub fn run_to_end(mut command: Command, input: &[u8]) -> RunResult {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let mut stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // A command may end before it has read its input.
        scope.spawn(move || stdin.as_mut().map(|stdin| stdin.write_all(input)));
        child.wait_with_output().expect("a child that was started can be waited for")
    });
    result_of(output)
}

/// A table of computed values that several cases share. Each value is computed only once.
pub struct Memo<K, V>(Mutex<BTreeMap<K, Arc<OnceLock<V>>>>);

impl<K: Ord, V: Clone> Memo<K, V> {
    pub const fn new() -> Memo<K, V> {
        Memo(Mutex::new(BTreeMap::new()))
    }

    /// The value of a key. If several cases need it at the same time, the first one computes it and the others wait.
    pub fn get(&self, key: K, compute: impl FnOnce() -> V) -> V {
        let cell = Arc::clone(self.0.lock().expect("no case panics while it holds the table").entry(key).or_default());
        cell.get_or_init(compute).clone()
    }
}

impl<K: Ord, V: Clone> Default for Memo<K, V> {
    fn default() -> Memo<K, V> {
        Memo::new()
    }
}

/// Creates a temporary directory. Its drop handler deletes the directory.
pub fn temporary_folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("there is a folder for temporary files")
}

/// Whether tests write results instead of comparing them (`scripts/bless`).
pub fn is_blessing() -> bool {
    std::env::var_os("BLESS").is_some()
}

/// The direct subfolders of a folder, sorted.
pub fn subfolders(path: &Path) -> Vec<PathBuf> {
    let mut subfolders: Vec<PathBuf> = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    subfolders.retain(|path| path.is_dir());
    subfolders.sort();
    subfolders
}

/// All files below a folder, sorted.
pub fn files_below(path: &Path) -> Vec<PathBuf> {
    let mut pending = vec![path.to_path_buf()];
    let mut files = Vec::new();
    while let Some(folder) = pending.pop() {
        for path in std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() { pending.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// Copies a folder with its subfolders into a new temporary folder.
pub fn temporary_copy_of_folder(folder: &Path) -> tempfile::TempDir {
    let new = temporary_folder();
    for path in files_below(folder) {
        let copy = new.path().join(path.strip_prefix(folder).expect("a file is below its folder"));
        let created = std::fs::create_dir_all(copy.parent().expect("a file is in a folder"));
        created.and_then(|()| std::fs::copy(&path, &copy)).unwrap_or_else(|error| panic!("{}: {error}", copy.display()));
    }
    new
}

/// Runs `check` on all items in parallel. At the end, panics with all complaints, so that one failure does not hide the others.
pub fn for_each<T: Sync>(items: &[T], check: impl Fn(&T) -> Result<(), String> + Sync) {
    let next_index = std::sync::atomic::AtomicUsize::new(0);
    let complaints = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(item) = items.get(next_index.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    if let Err(complaint) = check(item) {
                        complaints.lock().expect("no worker panics").push(complaint);
                    }
                }
            });
        }
    });
    let mut complaints = complaints.into_inner().expect("no worker panics");
    complaints.sort();
    assert!(complaints.is_empty(), "{} of {} failed:\n{}", complaints.len(), items.len(), complaints.join("\n"));
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn a_line_of_bash_names_the_tools_that_it_may_start() {
        let tools = ["tile-as", "tile-read", "tile-run", "tileiras"].map(String::from);
        assert_eq!(tools_of("cat k.tile-read.txt; tile-read % | tile-run", &tools), ["tile-read", "tile-run"]);
        assert_eq!(tools_of("x=$(tile-read k)", &tools), ["tile-read"]);
        assert_eq!(tools_of("TMPDIR=. tileiras k.bc", &tools), tools);
        assert!(tools_of("grep tile k", &tools).is_empty());
    }

    #[test]
    fn an_executable_older_than_a_source_is_stale() {
        let folder = temporary_folder();
        let (executable, source) = (folder.path().join("tool"), folder.path().join("main.rs"));
        assert!(stale_reason(&executable).is_some_and(|complaint| complaint.ends_with("is missing")));
        std::fs::write(&executable, "").unwrap();
        std::fs::write(folder.path().join("tool.d"), format!("{}: {}", executable.display(), source.display())).unwrap();
        std::fs::write(&source, "").unwrap();
        let set_modified = |path: &Path, seconds| {
            let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        };
        set_modified(&executable, 2000);
        set_modified(&source, 1000);
        assert_eq!(stale_reason(&executable), None);
        set_modified(&source, 3000);
        assert!(stale_reason(&executable).is_some_and(|complaint| complaint.contains("is older than")));
    }
}
