//! The pages of `docs`: the list of them is whole, what they link to is there, and what they tell to do works.

use crate::need_stages;
use std::path::Path;
use tests::{files_below, root, shell, temporary, tool, tools_folder};

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Where the links of a page lead, but for those to other places of the network.
fn links(page: &str) -> Vec<&str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.starts_with('#')).collect()
}

#[test]
fn the_summary_has_every_page_and_links_lead_somewhere() {
    let docs = root().join("docs");
    let summary = text(&docs.join("SUMMARY.md"));
    let listed = links(&summary);
    for path in files_below(&docs).into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let name = path.strip_prefix(&docs).unwrap().to_string_lossy().into_owned();
        assert!(name == "SUMMARY.md" || listed.contains(&name.as_str()), "{name} is not in docs/SUMMARY.md");
        for link in links(&text(&path)) {
            let target = path.with_file_name(link.split('#').next().unwrap());
            assert!(target.exists(), "{name} links to {link}, which is not there");
        }
    }
}

/// The blocks of code of a page that are marked as `sh` or `python`, in order.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let starts = page.split("\n```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    starts.filter(|(language, _)| ["sh", "python"].contains(language)).collect()
}

#[test]
fn what_the_pages_tell_to_do_works() {
    need_stages();
    for name in ["tile-run", "tile-sim", "tile-time", "tile-dump", "tile-diff", "tile-validate", "tile-view", "tile-debug"] {
        tool(name);
    }
    let python = root().join(".toolkit/python/bin/python");
    assert!(python.exists(), "cuTile Python is not there; scripts/setup --clients brings it");
    for page in ["start.md", "view.md", "debug.md", "launches.md"] {
        let folder = temporary();
        let page_text = text(&root().join("docs").join(page));
        let blocks = blocks(&page_text);
        assert!(blocks.len() >= 3, "{page}");
        let surroundings = format!(
            "set -e; export EXAMPLES='{}' TILEWORKS_TOOLS='{}' PYTHONPATH='{}' PYTHONDONTWRITEBYTECODE=1\n",
            root().join("tests/run").display(),
            tools_folder().display(),
            root().join("python").display()
        );
        for (number, (language, code)) in blocks.into_iter().enumerate() {
            let file = folder.path().join(format!("block{number}.py"));
            std::fs::write(&file, code).unwrap();
            // A line that starts with `!` must fail.
            let line = match language {
                "python" => format!("{surroundings}'{}' '{}'", python.display(), file.display()),
                _ => {
                    surroundings.clone()
                        + &code
                            .lines()
                            .map(|line| {
                                line.strip_prefix("! ").map_or(format!("{line}\n"), |line| format!("if {line}; then exit 99; fi\n"))
                            })
                            .collect::<String>()
                }
            };
            let ran = shell(folder.path(), &line);
            assert_eq!(ran.code, Some(0), "{page}, block {number}:\n{code}\n{}{}", ran.text(), ran.stderr);
        }
    }
}

#[test]
fn the_demo_shows_what_it_promises() {
    need_stages();
    for name in ["tile-run", "tile-sim", "tile-time", "tile-dump", "tile-view"] {
        tool(name);
    }
    let folder = temporary();
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
        // SASS is there where nvdisasm is.
        assert!(text.contains(shown) || shown == "HGMMA" && !text.contains("SASS:"), "{shown} is not shown:\n{text}");
    }
    assert!(folder.path().join("out/softmax.html").is_file() && folder.path().join("out/matmul.html").is_file());
}

#[test]
fn the_book_is_made_of_all_pages_and_every_link_leads_somewhere() {
    let folder = temporary();
    let ran = shell(folder.path(), &format!("'{}' book", root().join("scripts/book").display()));
    assert_eq!(ran.code, Some(0), "{}{}", ran.text(), ran.stderr);
    let first = text(&folder.path().join("book/start.html"));
    assert!(first.contains("formats/ops.html") && first.contains("view.html"), "every page is in the list of contents");
    // It is read without network: nothing is fetched from elsewhere.
    for word in ["src=\"http", "rel=\"stylesheet\" href=\"http", "src=\"//"] {
        assert!(!first.contains(word), "{word}");
    }
}
