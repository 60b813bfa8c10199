//! Tests of the pages in `docs`: `SUMMARY.md` lists every page, links lead to existing files, and commands print the documented
//! output.

use crate::check_stages_are_current;
use std::path::{Path, PathBuf};
use tests::need::Need;
use tests::suite::Suite;
use tests::{files_below, root, shell, temporary_folder, tool, tools_folder};

fn read_text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The targets of a page's links, without external URLs.
fn link_targets(page: &str) -> Vec<&str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.starts_with('#')).collect()
}

fn summary_lists_every_page_and_links_have_targets() {
    let docs = root().join("docs");
    for name in ["README.md", "ARCHITECTURE.md"] {
        for link in link_targets(&read_text(&root().join(name))) {
            assert!(root().join(link.split('#').next().unwrap()).exists(), "{name} links to {link}, which does not exist");
        }
    }
    let summary = read_text(&docs.join("SUMMARY.md"));
    let listed_pages = link_targets(&summary);
    for path in files_below(&docs).into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let name = path.strip_prefix(&docs).unwrap().to_string_lossy().into_owned();
        assert!(name == "SUMMARY.md" || listed_pages.contains(&name.as_str()), "{name} is not in docs/SUMMARY.md");
        for link in link_targets(&read_text(&path)) {
            let target = path.with_file_name(link.split('#').next().unwrap());
            assert!(target.exists(), "{name} links to {link}, which does not exist");
        }
    }
}

/// A fenced code block: its language and its text.
type Block<'a> = (&'a str, &'a str);

/// The code blocks of a page, in order.
fn code_blocks(page: &str) -> Vec<Block<'_>> {
    let parts = page.split("\n```").collect::<Vec<_>>();
    assert!(parts.len() % 2 == 1, "every block ends");
    parts.into_iter().skip(1).step_by(2).filter_map(|block| block.split_once('\n').or(Some((block, "")))).collect()
}

/// Returns the first indented code block of a page. Such a block has no language, so no test could run it.
fn find_indented_block(page: &str) -> Option<&str> {
    let outside_fences: Vec<&str> = page.split("\n```").step_by(2).collect();
    outside_fences.into_iter().flat_map(|part| part.split("\n\n").skip(1)).find(|paragraph| paragraph.starts_with("    "))
}

/// A command of a `console` block, its combined output, and its exit code.
#[derive(Debug, PartialEq)]
struct ConsoleCommand<'a> {
    command: &'a str,
    output: String,
    code: i32,
}

/// The commands of a `console` block. Each follows `$ `, and its output is below it. A command that fails ends with a line such as
/// `[exit code 3]`.
fn parse_console_block(code: &str) -> Vec<ConsoleCommand<'_>> {
    let mut commands: Vec<ConsoleCommand> = Vec::new();
    for line in code.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push(ConsoleCommand { command, output: String::new(), code: 0 });
            continue;
        }
        let last = commands.last_mut().expect("a console block starts with a command");
        match line.strip_prefix("[exit code ").and_then(|rest| rest.strip_suffix(']')) {
            Some(code) => last.code = code.parse().expect("a number"),
            None => last.output += &format!("{line}\n"),
        }
    }
    commands
}

/// Runs the code blocks of a page in order, in one directory. It executes `sh` and `python` blocks, builds build files and parses
/// launch files. `console` blocks must print the shown output and end with the shown exit code. `text` blocks, which show output,
/// are skipped.
fn run_page(name: &str, page: &str) {
    let folder = temporary_folder();
    let (root, tools, python) = (root().display(), tools_folder().display(), root().join(".toolkit/python/bin"));
    // Files that the pages use: a kernel, several kernels, and a client program.
    let setup_commands = format!(
        "cp '{root}/tests/run/matmul_f16/kernel.tileirbc' k.tileirbc; cp -r '{root}/examples' .; cp -r examples/kernels .; ln -s '{root}/scripts' '{root}/packages' .
        cat > program.py <<'P'\nimport subprocess\nsubprocess.run(['tileiras', 'k.tileirbc', '--gpu-name', 'sm_90', '-o', 'k.cubin'], check=True)\nP"
    );
    assert_eq!(shell(folder.path(), &setup_commands).code, Some(0));
    let environment = format!(
        "set -e; export EXAMPLES='{root}/tests/run' TILEWORKS_TOOLS='{tools}' PYTHONPATH='{root}/python' PYTHONDONTWRITEBYTECODE=1 \
         PATH='{}':$PATH HOME=\"$PWD\" CACHE=\"$PWD/cache\" EDITOR=true MATMUL_SIZE=512\n",
        python.display()
    );
    let run = |line: String, block_name: &str| {
        let ran = shell(folder.path(), &(environment.clone() + &line));
        assert_eq!(ran.code, Some(0), "{name}, {block_name}{}{}", ran.text(), ran.stderr);
    };
    for (number, (language, code)) in code_blocks(page).into_iter().enumerate() {
        let block_name = format!("block {number}:\n{code}\n");
        let write_block = |file: &str| {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{code}\n")).unwrap();
        };
        match language {
            "python" => {
                write_block(&format!("block{number}.py"));
                run(format!("python block{number}.py"), &block_name);
            }
            "sh" => run(code.lines().map(shell_line).collect(), &block_name),
            "console" => {
                for ConsoleCommand { command, output, code } in parse_console_block(code) {
                    let ran = shell(folder.path(), &format!("{environment}set +e\nexec 2>&1\n{command}"));
                    assert_eq!((ran.text(), ran.code), (output, Some(code)), "{name}: {command}");
                }
            }
            "make" => {
                write_block("Makefile");
                run("mkdir -p build; make build/k.cubin".into(), &block_name);
            }
            "ninja" => {
                write_block("build.ninja");
                run("ninja".into(), &block_name);
            }
            // The example project must contain the commands of the block.
            "cmake" => {
                let project = read_text(&tests::root().join("examples/library/CMakeLists.txt"));
                assert!(project.contains(code), "{name}, {block_name}examples/library has other commands");
            }
            "c" => {
                write_block("block.c");
                let compile = format!(
                    "ln -sf '{tools}/libtileworks.so' libtileworks.so.1; cc -Wall -Werror -I '{root}/packages/libtileworks/include' block.c \
                     -L '{tools}' -ltileworks -o block; LD_LIBRARY_PATH=. TILEWORKS_TOOLS='{tools}' ./block k.tileirbc"
                );
                run(compile, &block_name);
            }
            // The first line of the block is a comment with the name of its file.
            "starlark" => write_block(code.lines().next().and_then(|line| line.strip_prefix("# ")).expect("the name of a file")),
            "json" => {
                let value: serde_json::Value =
                    serde_json::from_str(code).unwrap_or_else(|error| panic!("{name}, {block_name}{error}"));
                if value.get("params").is_some() {
                    serde_json::from_value::<common::launch::Launch>(value)
                        .unwrap_or_else(|error| panic!("{name}, {block_name}{error}"));
                }
            }
            // `tests/documents.rs` reads these blocks.
            "tileas" => {}
            // The site draws `mermaid`.
            "text" | "mermaid" => {}
            _ => panic!("{name}, {block_name}no test runs '{language}'"),
        }
    }
    if page.contains("```starlark") && shell(folder.path(), "command -v bazel").code == Some(0) {
        // Only the options on the page, with the tools in the same directory.
        run("rm -rf examples kernels scripts; touch WORKSPACE; mkdir -p third_party/tileworks/bin third_party/cuda
            for tool in tileiras tile-read tile-lower-aa tile-lower-as tile-sched tile-ptx tile-link; do cp \"$TILEWORKS_TOOLS/$tool\" third_party/tileworks/bin; done
            found() { tileiras --doctor | sed -n \"s/^ok  $1 *\\([^,]*\\),.*/\\1/p\"; }
            mkdir -p third_party/cuda/bin third_party/cuda/nvvm/libdevice
            cp \"$(found ptxas)\" third_party/cuda/bin; cp \"$(found libdevice)\" third_party/cuda/nvvm/libdevice
            bazel --batch --output_user_root=\"$PWD/../bazel-$$\" build //:k_sm_90 && chmod -R u+w ../bazel-$$ && rm -rf ../bazel-$$".into(), "bazel");
    }
}

/// The shell line that this test runs for a line of an `sh` block. If another test runs the script, the line only checks that the
/// script exists. A command that must fail belongs in a `console` block, which shows its message.
fn shell_line(line: &str) -> String {
    const TESTED_ELSEWHERE: [&str; 2] = ["./scripts/demo", "./scripts/test"];
    assert!(!line.starts_with("! "), "{line}: a console block shows what it prints and its exit code");
    match TESTED_ELSEWHERE.iter().find(|script| line.starts_with(*script)) {
        Some(script) => format!("test -x {script}\n"),
        None => format!("{line}\n"),
    }
}

/// The pages whose blocks run: all of `docs`, and README.md.
fn pages() -> Vec<PathBuf> {
    let is_page = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    let docs = files_below(&root().join("docs")).into_iter().filter(is_page);
    docs.chain([root().join("README.md")]).collect()
}

/// Adds a case for each page, which runs its blocks.
pub(crate) fn add(suite: &mut Suite) {
    for path in pages() {
        let name = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        suite.case_with(&[Need::Clients, Need::Ptxas], format!("book/pages/{name}"), move || {
            check_stages_are_current();
            for tool_name in [
                "tile-run",
                "tile-sim",
                "tile-time",
                "tile-dump",
                "tile-diff",
                "tile-validate",
                "tile-view",
                "tile-debug",
                "tile-tune",
            ] {
                tool(tool_name);
            }
            run_page(&name, &read_text(&path));
            Ok(())
        });
    }
}

fn code_blocks_name_their_language() {
    let mut run_blocks = 0;
    for path in pages() {
        let page = read_text(&path);
        assert_eq!(find_indented_block(&page), None, "{}: a code block names its language", path.display());
        run_blocks += code_blocks(&page).iter().filter(|(language, _)| *language != "text").count();
    }
    assert!(run_blocks > 30, "only {run_blocks} blocks were run");
}

fn a_console_block_is_compared_in_full() {
    let code = "$ echo one; exit 3\none\n[exit code 3]\n$ echo two\ntwo";
    let console_command = |command, output: &str, code| ConsoleCommand { command, output: output.into(), code };
    assert_eq!(
        parse_console_block(code),
        [console_command("echo one; exit 3", "one\n", 3), console_command("echo two", "two\n", 0)]
    );
    run_page("a page", &format!("\n```console\n{code}\n```\n"));
    for wrong in [code.replace("two\ntwo", "two\nto"), code.replace("[exit code 3]", "[exit code 1]"), code.replace("one\n[", "[")]
    {
        let page = format!("\n```console\n{wrong}\n```\n");
        assert!(std::panic::catch_unwind(|| run_page("a page", &page)).is_err(), "{wrong}");
    }
    for wrong in ["\n```json\n{\"grid\": [1]} // one\n```\n", "\n```sh\n! false\n```\n"] {
        assert!(std::panic::catch_unwind(|| run_page("a page", wrong)).is_err(), "{wrong}");
    }
}

fn the_demo_prints_every_stage_and_writes_its_pages() {
    check_stages_are_current();
    for name in ["tile-run", "tile-sim", "tile-time", "tile-dump", "tile-view"] {
        tool(name);
    }
    let folder = temporary_folder();
    let line = format!(
        "unset REFERENCE; PYTHONDONTWRITEBYTECODE=1 TILEWORKS_TOOLS='{}' '{}' '{}' out sm_90",
        tools_folder().display(),
        root().join(".toolkit/python/bin/python").display(),
        root().join("examples/demo/demo.py").display()
    );
    let ran = shell(folder.path(), &line);
    let text = ran.text();
    assert_eq!(ran.code, Some(0), "{text}{}", ran.stderr);
    for shown in ["mmaf ", "wgmma.mma_async", "HGMMA", "error[SC120]", "predicted time on h100", "reduce_lanes"] {
        // SASS is shown if nvdisasm is installed.
        assert!(text.contains(shown) || shown == "HGMMA" && !text.contains("SASS:"), "{shown} is not shown:\n{text}");
    }
    assert!(folder.path().join("out/softmax.html").is_file() && folder.path().join("out/matmul.html").is_file());
}

fn book_has_all_pages_and_loads_nothing_remote() {
    let folder = temporary_folder();
    let ran = shell(folder.path(), &format!("'{}' book", root().join("scripts/book").display()));
    assert_eq!(ran.code, Some(0), "{}{}", ran.text(), ran.stderr);
    let first_page = read_text(&folder.path().join("book/getting-started.html"));
    assert!(
        first_page.contains("formats/ops.html") && first_page.contains("visualization.html"),
        "every page is in the list of contents"
    );
    // The book works offline: it loads nothing from other hosts.
    for word in ["src=\"http", "rel=\"stylesheet\" href=\"http", "src=\"//"] {
        assert!(!first_page.contains(word), "{word}");
    }
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![
    summary_lists_every_page_and_links_have_targets,
    code_blocks_name_their_language,
    a_console_block_is_compared_in_full,
    the_demo_prints_every_stage_and_writes_its_pages,
    book_has_all_pages_and_loads_nothing_remote,
];
