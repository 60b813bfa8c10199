//! Tests of rules of the repository that the compiler does not check: dependencies between crates, complete lists, file headers,
//! and the language of texts.

use std::collections::BTreeSet;
use std::path::Path;
use tests::{files_below, root, subfolders, tool_names};

fn manifest(folder: &Path) -> toml::Table {
    let path = folder.join("Cargo.toml");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).parse().expect("valid TOML")
}

/// The keys of the tables `tables` of a manifest.
fn table_keys(manifest: &toml::Table, tables: &[&str]) -> BTreeSet<String> {
    let tables = tables.iter().filter_map(|name| manifest.get(*name)?.as_table());
    tables.flat_map(|table| table.keys().cloned()).collect()
}

fn dependencies(manifest: &toml::Table) -> BTreeSet<String> {
    table_keys(manifest, &["dependencies", "build-dependencies", "dev-dependencies"])
}

fn folder_names(folders: &[std::path::PathBuf]) -> BTreeSet<String> {
    folders.iter().map(|folder| folder.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

/// For each crate of `formats`, the crates of `formats` on which it may depend.
const FORMAT_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("numerics", &[]),
    ("target-info", &[]),
    ("base", &["numerics", "target-info"]),
    ("core-dialect", &["base", "numerics"]),
    ("tileir", &["base", "numerics", "core-dialect"]),
    ("tileaa", &["base", "numerics", "core-dialect"]),
    ("tileas", &["base", "numerics", "core-dialect", "target-info", "tensormap", "perf-model"]),
    ("sched", &["base", "numerics", "core-dialect", "target-info", "tileas"]),
    ("tensormap", &["base"]),
    ("ptx", &["base", "tensormap"]),
    ("cubin", &["base"]),
    ("perf-model", &["base"]),
];

#[test]
fn dependencies_point_from_tools_to_formats_to_core() {
    let tools: BTreeSet<String> = tool_names().into_iter().collect();
    let libraries = subfolders(&root().join("tools/lib"));
    for folder in tool_folders().iter().chain(&libraries) {
        let wrong: Vec<String> = dependencies(&manifest(folder)).intersection(&tools).cloned().collect();
        assert!(wrong.is_empty(), "{} depends on the tools {wrong:?}", folder.display());
    }
    let libraries = folder_names(&libraries);
    let formats = folder_names(&subfolders(&root().join("formats")));
    let table_formats: BTreeSet<String> = FORMAT_DEPENDENCIES.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(formats, table_formats, "FORMAT_DEPENDENCIES has every crate of formats");
    for (name, allowed) in FORMAT_DEPENDENCIES {
        let manifest = manifest(&root().join("formats").join(name));
        let format_dependencies: BTreeSet<String> = table_keys(&manifest, &["dependencies", "build-dependencies"]);
        let wrong: Vec<&String> = format_dependencies
            .iter()
            .filter(|need| {
                tools.contains(*need)
                    || libraries.contains(*need)
                    || *need == "round-trip"
                    || formats.contains(*need) && !allowed.contains(&need.as_str())
            })
            .collect();
        assert!(wrong.is_empty(), "format {name} depends on {wrong:?}");
    }
}

/// The folders of the executables.
fn tool_folders() -> Vec<std::path::PathBuf> {
    subfolders(&root().join("tools")).into_iter().filter(|folder| folder.join("Cargo.toml").is_file()).collect()
}

/// The keys of `[dependencies]`, without build and development dependencies.
fn normal_dependencies(manifest: &toml::Table) -> BTreeSet<String> {
    table_keys(manifest, &["dependencies"])
}

/// `packages/tileworks` builds every tool except `tile-launch`. `scripts/completions` and docs/tools.md list every tool.
#[test]
fn every_list_has_every_tool() {
    let text = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let word_set = |line: &str| -> BTreeSet<String> { line.split_whitespace().map(str::to_string).collect() };
    let tools: BTreeSet<String> = tool_names().into_iter().collect();
    let with_alias: BTreeSet<String> = tools.iter().cloned().chain(["tileirdisasm".into()]).collect();
    let package = manifest(&root().join("packages/tileworks"));
    let executables = package["bin"].as_array().unwrap().iter().map(|bin| bin["name"].as_str().unwrap().to_string());
    // `tile-launch` loads a library, which static executables cannot.
    let excluded = ["tile-launch".to_string()].into();
    assert_eq!(executables.collect::<BTreeSet<_>>(), with_alias.difference(&excluded).cloned().collect(), "packages/tileworks");
    let words_of =
        |script: &str, start: &str, end: &str| word_set(text(script).split_once(start).unwrap().1.split_once(end).unwrap().0);
    assert_eq!(words_of("scripts/completions", "TOOLS = '", "'"), with_alias, "scripts/completions");
    // Only the executable of `tile-ptx` links static archives; they crash at start in executables with the usual linking.
    assert_eq!(package["dependencies"]["tile-ptx"]["default-features"].as_bool(), Some(false), "packages/tileworks");
    let tools_page = text("docs/tools.md");
    let missing: Vec<&String> = tools.iter().filter(|tool| !tools_page.contains(&format!("\n| `{tool}` |"))).collect();
    assert!(missing.is_empty(), "the table of docs/tools.md lacks {missing:?}");
    let needed = tools.difference(&excluded).flat_map(|tool| {
        let folder = root().join("tools").join(tool);
        let library = folder.join("src/lib.rs").is_file().then(|| tool.clone());
        normal_dependencies(&manifest(&folder)).into_iter().chain(library)
    });
    let missing: BTreeSet<String> = needed.collect::<BTreeSet<_>>().difference(&normal_dependencies(&package)).cloned().collect();
    assert!(missing.is_empty(), "packages/tileworks lacks the dependencies {missing:?}");
}

/// A crate must take its dependencies and their features from the workspace. The build of a single crate then uses the same
/// features as the build of the workspace, so CI does not build each crate separately.
#[test]
fn crates_take_features_from_the_workspace() {
    let members = ["formats", "tools", "tools/lib"].into_iter().flat_map(|parent| subfolders(&root().join(parent)));
    for folder in members.filter(|folder| folder.join("Cargo.toml").is_file()) {
        let manifest = manifest(&folder);
        let tables = ["dependencies", "build-dependencies", "dev-dependencies"];
        for (name, value) in tables.iter().filter_map(|table| manifest.get(*table)?.as_table()).flatten() {
            let is_from_workspace = value.get("workspace").and_then(toml::Value::as_bool) == Some(true);
            let own_settings: Vec<&String> =
                value.as_table().into_iter().flat_map(toml::Table::keys).filter(|key| *key != "workspace").collect();
            assert!(is_from_workspace && own_settings.is_empty(), "{}: {name} has {own_settings:?} of its own", folder.display());
        }
    }
}

#[test]
fn dependencies_are_used_and_explained() {
    let workspace = manifest(root());
    let external = workspace["workspace"]["dependencies"].as_table().unwrap().iter();
    let external: BTreeSet<String> =
        external.filter(|(_, value)| value.get("path").is_none()).map(|(name, _)| name.clone()).collect();
    let crates = subfolders(&root().join("formats"))
        .into_iter()
        .chain(tool_folders())
        .chain(subfolders(&root().join("tools/lib")))
        .chain([root().join("tests")]);
    let used: BTreeSet<String> = crates.flat_map(|folder| dependencies(&manifest(&folder))).collect();
    let unused: Vec<&String> = external.difference(&used).collect();
    assert!(unused.is_empty(), "nothing uses {unused:?}");
    let text = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let (_, table) = text.split_once("## Dependencies").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" |")).map(|(crates, _)| crates).skip(1);
    let explained: BTreeSet<String> = rows.flat_map(|crates| crates.split(", ")).map(str::to_string).collect();
    assert_eq!(explained, external, "CONTRIBUTING.md has a row for each dependency");
}

/// LLVM adds 40 MB to an executable and milliseconds to its start, so only the tool that prints PTX links it.
#[test]
fn only_tile_ptx_has_llvm() {
    for name in tool_names() {
        let output = std::process::Command::new("cargo")
            .args(["tree", "--offline", "--prefix", "none", "--edges", "normal,build", "--package", &name])
            .current_dir(root())
            .output()
            .expect("cargo runs");
        let tree = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let has_llvm = tree.lines().any(|line| line.starts_with("inkwell ") || line.starts_with("llvm-sys "));
        assert_eq!(has_llvm, name == "tile-ptx", "{name}");
    }
}

/// Stages must query the features of a target in the table of `formats/target-info`. This test refuses code that contains the name
/// of a target. Numbers need no check, because a `Target` has no number that a stage could compare.
#[test]
fn only_the_target_table_names_targets() {
    let mut file_count = 0;
    for path in ["formats", "tools"].iter().flat_map(|part| files_below(&root().join(part))) {
        let path_below_root = path.strip_prefix(root()).unwrap();
        // `formats/perf-model` names the files of machines/.
        let is_exempt = path_below_root
            .components()
            .any(|part| ["tests", "target-info", "perf-model"].iter().any(|exempt| part.as_os_str() == *exempt));
        if is_exempt || path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        file_count += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            assert!(!line.contains("\"sm_"), "{}:{} knows a target by name: {}", path.display(), number + 1, line.trim());
        }
    }
    assert!(file_count > 100, "only {file_count} files were checked");
}

#[test]
fn every_stage_of_the_pipeline_is_a_tool() {
    let text = std::fs::read_to_string(root().join("pipeline.toml")).unwrap();
    let pipeline: toml::Table = text.parse().unwrap();
    let tools = tool_names();
    for stage in pipeline["stage"].as_array().unwrap() {
        let tool = stage["tool"].as_str().unwrap();
        assert!(tools.iter().any(|name| name == tool), "{tool} is in pipeline.toml but not in tools");
    }
}

#[test]
fn every_source_file_has_a_header() {
    let sources = ["formats", "tools", "tests"].iter().flat_map(|part| files_below(&root().join(part)));
    for path in sources.filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("//!"), "{} does not begin with a description", path.display());
    }
}

/// Functions that classify all variants of an enum, by file and signature. With a default arm, the compiler would accept a new
/// variant that the function classifies wrongly.
const EXHAUSTIVE_FUNCTIONS: &[(&str, &str)] = &[
    ("formats/tileas/src/ops.rs", "pub fn stages_mut("),
    ("formats/tileas/src/atoms/tensor_memory.rs", "pub fn scale_buffer("),
    ("tools/tile-lower-as/src/layout_assignment.rs", "fn result_layout("),
    ("tools/tile-lower-as/src/smem_swizzles.rs", "pub(crate) fn wavefronts_of("),
    ("tools/tile-lower-as/src/cluster/rewrite.rs", "fn fact_of_part("),
    ("tools/tile-sched/src/resource_model.rs", "fn cost_without_regions("),
    ("tools/tile-sched/src/resource_model.rs", "fn unary_unit("),
    ("tools/tile-ptx/src/interleave.rs", "fn cost("),
];

#[test]
fn functions_that_classify_variants_have_no_default() {
    for (path, signature) in EXHAUSTIVE_FUNCTIONS {
        let text = std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        let (before, function) = text.split_once(signature).unwrap_or_else(|| panic!("{path} has no '{signature}'"));
        let indent = &before[before.rfind('\n').map_or(0, |end| end + 1)..];
        let end = function.find(&format!("\n{indent}}}")).unwrap_or_else(|| panic!("{path}: '{signature}' has no end"));
        let has_default = ["_ =>", "other =>"].iter().any(|arm| function[..end].contains(arm));
        assert!(!has_default, "{path}: '{signature}' has a default: list the variants");
    }
}

#[test]
fn no_path_of_a_machine_is_in_the_examples() {
    let root_path = format!("{}/", root().display());
    for path in files_below(&root().join("tests/run")) {
        let bytes = std::fs::read(&path).unwrap();
        let user_folders = ["home", "root", "Users"].map(|folder| format!("/{folder}/"));
        for word in user_folders.iter().chain([&root_path]) {
            let found = bytes.windows(word.len()).any(|window| window == word.as_bytes());
            assert!(!found, "{} has a path below {word} in it", path.display());
        }
    }
}

/// Checks the words of all text files against `tests/refused_words.toml`, and the sentence lengths of documents.
#[test]
fn prose_uses_the_fields_words() {
    let table = tests::prose::read_table();
    assert!(table.exception.len() <= 20, "{} exceptions; rewrite instead of adding more", table.exception.len());
    let unexplained = table.exception.iter().find(|exception| exception.reason.is_empty());
    assert!(unexplained.is_none(), "an exception has no reason: {}", unexplained.map_or("", |exception| &exception.path));
    let (found, files) = tests::prose::check_tree(&table);
    assert!(files > 1000, "the check read only {files} files");
    let lines = found.iter().map(|finding| format!("{}:{}: {} -> {}", finding.path, finding.line, finding.word, finding.instead));
    let lines: Vec<String> = lines.collect();
    assert!(lines.is_empty(), "{} findings:\n{}", lines.len(), lines.join("\n"));
}

/// `scripts/structure` counts long functions, hand-written matches on control flow and other patterns. The counts must not exceed
/// their limits.
#[test]
fn structure_does_not_get_worse() {
    let script = std::process::Command::new("python3").arg(root().join("scripts/structure")).arg("--check").output();
    let output = script.expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
