//! Tests of the command-line conventions of all tools: help, exit codes, messages, and the forms of files. The driver `tileiras` is
//! excluded, because its command line follows NVIDIA's tool.

use crate::{bytecode_path, make_stage_files};
use std::fs;
use tests::{RunResult, run, run_in, shell, temporary_folder, tool_names};

/// The tools that follow the conventions: all except the driver, and `tile-fuzz`, which reads no file.
fn tools_with_conventions() -> Vec<String> {
    tool_names().into_iter().filter(|name| !["tileiras", "tile-fuzz"].contains(&name.as_str())).collect()
}

/// The stages that read a stage file or PTX, each with its input file. `make_stage_files` writes these files.
const STAGES_AND_INPUTS: [(&str, &str); 5] = [
    ("tile-lower-aa", "k.tile"),
    ("tile-lower-as", "k.aa"),
    ("tile-sched", "k.as"),
    ("tile-ptx", "k.sched"),
    ("tile-link", "k.ptx"),
];

/// The arguments of a stage. `tile-lower-as` needs a target.
fn arguments(tool: &str, file: &str) -> Vec<String> {
    let target = if tool == "tile-lower-as" { &["--gpu-name", "sm_90"][..] } else { &[] };
    target.iter().chain(&[file]).map(|word| word.to_string()).collect()
}

fn help_has_examples_and_exit_codes() {
    for tool in tools_with_conventions() {
        let ran = run(&tool, &["--help"], b"");
        let text = ran.text();
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{tool}");
        for part in [&format!("Usage: {tool}"), "Examples:", "Exit codes:", "--error-format", "--verify-only", "--time"] {
            assert!(text.contains(part), "{tool} --help lacks {part}");
        }
        assert!(run(&tool, &["--version"], b"").text().starts_with(&format!("{tool} ")), "{tool} --version");
    }
}

fn exit_codes_of_wrong_options_and_missing_files() {
    for tool in tools_with_conventions() {
        let ran = run(&tool, &["--no-such-option"], b"");
        assert_eq!((ran.code, ran.stdout.len()), (Some(2), 0), "{tool}");
        assert!(ran.stderr.contains("--no-such-option"), "{tool}: {}", ran.stderr);
    }
    for (tool, _) in STAGES_AND_INPUTS {
        let ran = run(tool, &["/nowhere/at/all"], b"");
        assert_eq!((ran.code, ran.stdout.len()), (Some(4), 0), "{tool}: {}", ran.stderr);
        assert!(ran.stderr.contains("/nowhere/at/all"), "{tool}: {}", ran.stderr);
        for option in ["--print-after=nonsense", "--stop-after=nonsense"] {
            let ran = run(tool, &[option, "/dev/null"], b"");
            assert_eq!((ran.code, ran.stdout.len()), (Some(2), 0), "{tool} {option}: {}", ran.stderr);
        }
    }
}

fn invalid_input_is_an_error_in_each_error_format() {
    let garbage = |tool: &str, form: &str| run(tool, &[&format!("--error-format={form}")], b"no file of ours\n");
    for (tool, _) in STAGES_AND_INPUTS.into_iter().chain([("tile-read", "")]) {
        let human = garbage(tool, "human");
        assert_eq!((human.code, human.stdout.len()), (Some(1), 0), "{tool}");
        assert!(human.stderr.starts_with("error["), "{tool}: {}", human.stderr);
        for line in garbage(tool, "json").stderr.lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{tool}: {error}: {line}"));
            assert!(value["code"].is_string() && value["message"].is_string(), "{tool}: {line}");
        }
        assert!(garbage(tool, "reference").stderr.starts_with("error: "), "{tool}");
    }
}

fn a_shell_pipe_of_all_stages_works_and_reports_one_error() {
    let folder = temporary_folder();
    let run_pipeline = |input: &str| {
        let stages = "tile-lower-aa -O3 | tile-lower-as --gpu-name sm_90 | tile-sched | tile-ptx --lineinfo | tile-link -o k.cubin";
        shell(folder.path(), &format!("tile-read '{input}' | {stages}; echo ${{PIPESTATUS[@]}}"))
    };
    let ran = run_pipeline(&bytecode_path());
    assert_eq!((ran.text().as_str(), ran.stderr.as_str()), ("0 0 0 0 0 0\n", ""));
    assert!(fs::read(folder.path().join("k.cubin")).unwrap().starts_with(b"\x7fELF"));
    fs::remove_file(folder.path().join("k.cubin")).unwrap();
    let ran = run_pipeline("/dev/null");
    assert_eq!(ran.text(), "1 4 4 4 4 4\n");
    assert_eq!(ran.stderr.lines().filter(|line| line.starts_with("error")).count(), 1, "{}", ran.stderr);
    assert!(!folder.path().join("k.cubin").exists());
}

fn stages_produce_equal_output_from_all_forms_of_a_file() {
    let folder = temporary_folder();
    make_stage_files(folder.path());
    for (index, (tool, file)) in STAGES_AND_INPUTS.into_iter().enumerate() {
        let run_on = |file: &str| run_in(folder.path(), tool, &arguments(tool, file), b"").ok(&format!("{tool} {file}"));
        let expected = run_on(file);
        assert_eq!(run_on(file), expected, "{tool}: two runs differ");
        let bytes = fs::read(folder.path().join(file)).unwrap();
        assert_eq!(run_in(folder.path(), tool, &arguments(tool, "-"), &bytes).ok(tool), expected, "{tool} from a Unix pipe");
        let verified = run_in(folder.path(), tool, &[arguments(tool, file), vec!["--verify-only".into()]].concat(), b"").ok(tool);
        assert!(verified.is_empty(), "{tool} --verify-only writes something");
        if tool == "tile-link" {
            continue; // PTX has one form.
        }
        let (writer, source) = if index == 0 {
            ("tile-read", bytecode_path())
        } else {
            (STAGES_AND_INPUTS[index - 1].0, STAGES_AND_INPUTS[index - 1].1.into())
        };
        for form in ["ron", "text"] {
            let other_form = format!("{file}.{form}");
            let words = [arguments(writer, &source), vec![format!("--format={form}"), "-o".into(), other_form.clone()]].concat();
            run_in(folder.path(), writer, &words, b"").ok(&format!("{writer} --format={form}"));
            assert_eq!(run_on(&other_form), expected, "{tool} on {other_form}");
        }
    }
}

fn output_files_are_replaced_atomically_and_kept_when_equal() {
    use std::os::unix::fs::MetadataExt;
    let folder = temporary_folder();
    let write = |arguments: &[&str]| {
        let source = bytecode_path();
        run_in(folder.path(), "tile-read", &[&[source.as_str(), "-o"], arguments].concat(), b"")
    };
    let path = folder.path().join("k.tile");
    write(&["k.tile"]).ok("first");
    let first_metadata = fs::metadata(&path).unwrap();
    write(&["k.tile"]).ok("again");
    let second_metadata = fs::metadata(&path).unwrap();
    assert_eq!(
        (first_metadata.ino(), first_metadata.mtime_nsec()),
        (second_metadata.ino(), second_metadata.mtime_nsec()),
        "an equal file is not touched"
    );
    write(&["k.tile", "--format=text"]).ok("as text");
    assert_ne!(fs::metadata(&path).unwrap().ino(), first_metadata.ino(), "another one replaces it");
    std::os::unix::fs::symlink("k.tile", folder.path().join("link")).unwrap();
    write(&["link"]).ok("through a link");
    assert!(fs::symlink_metadata(folder.path().join("link")).unwrap().is_symlink());
    assert_eq!(write(&["/nowhere/k.tile"]).code, Some(4));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file is left");
}

/// The options that a tool's help lists.
fn listed_options(help: &str) -> Vec<String> {
    let word = |line: &str| {
        let words = line.trim_start().split([' ', ',', '=', '[']).filter(|word| word.starts_with("--") && word.len() > 2);
        words.map(str::to_string).collect::<Vec<_>>()
    };
    let listed = help.lines().filter(|line| line.trim_start().starts_with('-'));
    listed.flat_map(word).collect()
}

fn manual_pages_and_completions_have_every_option() {
    let folder = temporary_folder();
    for script in ["man", "completions"] {
        let script = tests::root().join("scripts").join(script);
        let line = format!("'{}' . '{}'", script.display(), tests::tools_folder().display());
        shell(folder.path(), &line).ok("making the pages and completions");
    }
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let (zsh, fish) = (read("_tileworks"), read("tileworks.fish"));
    let tools_without_conventions = ["tileiras", "tileirdisasm", "tile-fuzz"].map(str::to_string);
    for tool in tools_with_conventions().into_iter().chain(tools_without_conventions) {
        let help = shell(folder.path(), &format!("{tool} --help")).text();
        let page = read(&format!("{tool}.1")).replace("\\-", "-");
        let completed = bash_completions(folder.path(), &[&tool, "-"]);
        let options = listed_options(&help);
        assert!(options.len() >= 3, "{tool}: {help}");
        for option in options {
            assert!(page.contains(&option), "{tool}: {option} is not in the manual page");
            assert!(completed.lines().any(|line| line == option), "{tool}: {option} is not completed");
            assert!(zsh.contains(&format!("'*{option}")), "{tool}: {option} is not completed in zsh");
            let fish_name = format!(" -l {}", option.trim_start_matches('-'));
            assert!(fish.lines().any(|line| line.starts_with(&format!("complete -c {tool} ")) && line.contains(&fish_name)));
        }
    }
    assert_eq!(bash_completions(folder.path(), &["tileiras", "--arch", "sm_12"]), "sm_120\nsm_121\n");
    assert_eq!(bash_completions(folder.path(), &["tile-ptx", "--emit", "=", "l"]), "llvm-ir\n");
    assert!(bash_completions(folder.path(), &["tile-lower-aa", "--stop-after", "="]).contains("hoist\n"));
}

/// The completions that bash offers for the last word.
fn bash_completions(folder: &std::path::Path, words: &[&str]) -> String {
    let (last, previous) = (words[words.len() - 1], words[words.len() - 2]);
    let line = format!(
        "source ./tileworks.bash; COMP_WORDS=({}); COMP_CWORD={}; _tileworks {} '{last}' '{previous}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.join(" "),
        words.len() - 1,
        words[0]
    );
    shell(folder, &line).text()
}

fn a_closed_shell_pipe_is_silent() {
    for line in [format!("tile-read '{}' | true", bytecode_path()), "tile-read --help | true".into(), "tile-read --help >&-".into()]
    {
        let ran = shell(tests::root(), &format!("{line}; echo ${{PIPESTATUS[0]}}"));
        assert_eq!((ran.text().trim(), ran.stderr.as_str()), ("0", ""), "{line}");
    }
}

fn binary_is_refused_on_a_terminal() {
    let on_terminal = |line: &str| -> RunResult { shell(tests::root(), &format!("script -qec \"{line}\" /dev/null </dev/null")) };
    let ran = on_terminal(&format!("tile-read {}", bytecode_path()));
    assert_eq!(ran.code, Some(2), "{}", ran.text());
    assert!(ran.text().contains("binary output to a terminal"), "{}", ran.text());
    assert_eq!(on_terminal(&format!("tile-read --format=text {}", bytecode_path())).code, Some(0));
}

fn a_recorded_option_is_accepted_later_only_if_equal() {
    let folder = temporary_folder();
    make_stage_files(folder.path());
    let link = |level: &str| run_in(folder.path(), "tile-link", &["k.ptx", "-o", "k.cubin", level], b"");
    assert_eq!(link("-O3").code, Some(0));
    let ran = link("-O1");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("OPT001"), "{}", ran.stderr);
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    help_has_examples_and_exit_codes,
    exit_codes_of_wrong_options_and_missing_files,
    invalid_input_is_an_error_in_each_error_format,
    a_shell_pipe_of_all_stages_works_and_reports_one_error,
    stages_produce_equal_output_from_all_forms_of_a_file,
    output_files_are_replaced_atomically_and_kept_when_equal,
    manual_pages_and_completions_have_every_option,
    a_closed_shell_pipe_is_silent,
    binary_is_refused_on_a_terminal,
    a_recorded_option_is_accepted_later_only_if_equal,
];
