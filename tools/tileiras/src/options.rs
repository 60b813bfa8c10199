//! The options of the driver. NVIDIA's options keep NVIDIA's help texts, byte for byte. The options of this project are in
//! `Section::Extension`.

use common::cl::{Section, Spec, Value, alias, immediate, option};

/// The features that `--preview` accepts.
pub(crate) const PREVIEW_FEATURES: &[&str] = &["simt"];

/// Options that override compiler decisions. `--validate` forwards them, so it executes the same code that is compiled.
pub(crate) const DECISION_OVERRIDES: &[&str] = &[
    "warps",
    "occupancy",
    "cluster",
    "clc",
    "split-m",
    "mma",
    "tma",
    "prefetch",
    "stages",
    "roles",
    "overlap",
    "multicast",
    "cta-pairs",
];

macro_rules! categories {
    ($disable:literal, $all:literal, $memory:literal, $tensor:literal) => {
        Value::Choice(&[("none", $disable), ("all", $all), ("memory", $memory), ("tensorcore", $tensor)])
    };
}

use Section::{Extension, Generic, Hidden, Remarks, Tool};
use Value::{Bool, Choice, Integer, None as Nothing, OptionalText, Text};

/// All options. For a misspelled option with several equally similar names, NVIDIA's tool suggests `l` or `g` first, so they come
/// first.
pub(crate) static OPTIONS: &[Spec] = &[
    option("l", Tool, Text, "path", "Tile libraries to load. Requires the SIMT preview."),
    alias("g", "device-debug", Tool, "Alias for --device-debug"),
    alias("o", "output-file", Tool, "Alias for --output-file"),
    alias("O", "opt-level", Tool, "Alias for --opt-level"),
    alias("h", "help", Hidden, "Alias for --help"),
    immediate(option("help", Generic, Nothing, "", "Display available options (--help-hidden for more)")),
    immediate(option("help-hidden", Hidden, Nothing, "", "Display all available options")),
    immediate(option("help-list", Generic, Nothing, "", "Display list of available options (--help-list-hidden for more)")),
    immediate(option("help-list-hidden", Hidden, Nothing, "", "Display list of all available options")),
    option("print-all-options", Hidden, Bool, "", "Print all option values after command line parsing"),
    option("print-options", Hidden, Bool, "", "Print non-default options after command line parsing"),
    immediate(option("version", Generic, Nothing, "", "Display the version of this program")),
    alias("arch", "gpu-name", Tool, "Alias for --gpu-name"),
    option(
        "apply-controls",
        Tool,
        Text,
        "path",
        "Composite ACF file forwarded to libNVVM and, when used, direct PTXAS. Paths requiring quoting, including paths with \
         whitespace, are unsupported.",
    ),
    option("device-debug", Tool, Bool, "", "Generate debug information (if present in the input bytecode)"),
    option(
        "gpu-name",
        Tool,
        Value::Target(&target_info::NAMES_AND_TITLES),
        "value",
        "Specify name of NVIDIA GPU to generate code for.",
    ),
    option(
        "host-arch",
        Tool,
        Choice(&[("x86_64", "x86_64"), ("aarch64", "aarch64")]),
        "value",
        "Specify the architecture for the generated host code.",
    ),
    option(
        "host-os",
        Tool,
        Choice(&[("linux", "linux"), ("windows", "windows")]),
        "value",
        "Specify the operating system for the generated host code.",
    ),
    option("lineinfo", Tool, Bool, "", "Generate line-number information (if present in the input bytecode)"),
    immediate(option("list-versions", Tool, Bool, "", "List all supported bytecode versions and exit")),
    option("opt-level", Tool, Integer, "N", "Specify optimization level. Default Value: 3."),
    option("output-file", Tool, Text, "file", "Specify name of output file."),
    option("preview", Tool, Value::Features(PREVIEW_FEATURES), "feature[,feature...]", "Enable one or more named preview features"),
    option("preview-create-tile-lib", Section::Secret, Bool, "", ""),
    option("preview-interface", Section::Secret, Text, "path", ""),
    option("preview-implementation", Section::Secret, Text, "path", ""),
    option(
        "sanitize",
        Tool,
        Choice(&[("memcheck", "Sanitize memory accesses")]),
        "value",
        "Enable compiler instrumentation for the sanitizer tool specified by the option.",
    ),
    option(
        "remark-format",
        Remarks,
        Choice(&[("command-line", "Print remarks to command-line"), ("yaml", "Write remarks to YAML file")]),
        "value",
        "Specify the format for remark output",
    ),
    option(
        "remarks",
        Remarks,
        categories!("Disable all remarks", "Show all remarks", "Show memory-related remarks", "Show tensor-core remarks"),
        "value",
        "Enable all remark types (passed, missed, failed, analysis) for the specified category",
    ),
    option(
        "remarks-analysis",
        Remarks,
        categories!(
            "Disable analysis remarks",
            "Show all analysis remarks",
            "Show memory-related analysis remarks",
            "Show tensor-core analysis remarks"
        ),
        "value",
        "Category for analysis optimization remarks",
    ),
    option(
        "remarks-failed",
        Remarks,
        categories!(
            "Disable failed remarks",
            "Show all failed remarks",
            "Show memory-related failed remarks",
            "Show tensor-core failed remarks"
        ),
        "value",
        "Category for failed optimization remarks",
    ),
    option(
        "remarks-missed",
        Remarks,
        categories!(
            "Disable missed remarks",
            "Show all missed remarks",
            "Show memory-related missed remarks",
            "Show tensor-core missed remarks"
        ),
        "value",
        "Category for missed optimization remarks",
    ),
    option("remarks-output-file", Remarks, Text, "string", "Output file for YAML remark format. Default is tileir_remarks.yaml"),
    option(
        "remarks-passed",
        Remarks,
        categories!(
            "Disable passed remarks",
            "Show all passed remarks",
            "Show memory-related passed remarks",
            "Show tensor-core passed remarks"
        ),
        "value",
        "Category for passed optimization remarks",
    ),
    option(
        "emit",
        Extension,
        Choice(&[
            ("tile", "Tile IR as read"),
            ("aa", "TileAA: explicit memory, tokens and facts"),
            ("as", "TileAS: layouts and instructions for the target"),
            ("sched", "Scheduled TileAS"),
            ("llvm-ir", "LLVM IR"),
            ("ptx", "PTX"),
            ("cubin", "Cubin"),
            ("fatbin", "Cubin in a fatbin"),
            ("host-object", "Fatbin in an object file"),
            ("cpu-module", "Module for the CPU device, without machine code"),
        ]),
        "kind",
        "Kind of output to generate [default: cubin]",
    ),
    option(
        "cpu-stage",
        Extension,
        Choice(&[("tile", "Tile IR as read"), ("aa", "TileAA"), ("as", "TileAS"), ("sched", "Scheduled TileAS"), ("ptx", "PTX")]),
        "stage",
        "Stage that a cpu-module contains and the CPU device executes [default: tile]",
    ),
    option(
        "format",
        Extension,
        Choice(&[("bin", "Binary"), ("ron", "RON, editable"), ("text", "Text, readable")]),
        "form",
        "Format of a stage file written with --emit or --stop-after [default: bin]",
    ),
    option(
        "check-bounds",
        Extension,
        Bool,
        "",
        "Insert bounds-check assertions before memory accesses whose array extents are known",
    ),
    option("warps", Extension, Integer, "N", "Warps per CTA: 1, 2, 4, 8, 16 or 32 [default: chosen by the compiler]"),
    option(
        "cluster",
        Extension,
        Integer,
        "N",
        "CTAs per cluster, which divide each tile block among them: 1, 2 or 4 [default: chosen by the compiler]",
    ),
    option(
        "clc",
        Extension,
        Choice(&[("on", "Enable, or fail with the reason"), ("off", "Disable")]),
        "when",
        "Work stealing with cluster launch control (CLC) [default: off]",
    ),
    option("occupancy", Extension, Integer, "N", "Minimum CTAs per SM, 1 to 32 [default: chosen by the compiler]"),
    option(
        "split-m",
        Extension,
        Choice(&[
            ("auto", "If accumulators, or operands computed from them, would not fit registers or tensor memory"),
            ("on", "Enable, or fail with the reason"),
            ("off", "Disable"),
        ]),
        "when",
        "Split each MMA into two M halves, computed one after the other [default: auto]",
    ),
    option(
        "mma",
        Extension,
        Choice(&[
            ("mma", "mma.sync, per warp"),
            ("wgmma", "wgmma, per warp group"),
            ("tcgen05", "tcgen05.mma, accumulators in tensor memory"),
        ]),
        "instruction",
        "Instruction for all MMAs; an error if unsupported [default: the fastest]",
    ),
    option(
        "tma",
        Extension,
        Choice(&[("auto", "If profitable"), ("on", "Wherever possible"), ("off", "Disable")]),
        "when",
        "Use TMA for MMA operand loads, result stores and reductions into memory [default: auto]",
    ),
    option(
        "prefetch",
        Extension,
        Choice(&[
            ("auto", "If profitable: in persistent loops, and into registers if threads use many"),
            ("on", "In every loop where it is possible"),
            ("off", "Disable"),
        ]),
        "when",
        "Prefetch loads that feed no MMA into shared memory, one or more iterations ahead [default: auto]",
    ),
    option(
        "roles",
        Extension,
        Choice(&[("auto", "If profitable"), ("on", "Wherever possible"), ("off", "Disable")]),
        "when",
        "Warp specialization: a dedicated producer warp for TMA copies [default: auto]",
    ),
    option(
        "overlap",
        Extension,
        Choice(&[("auto", "If profitable"), ("on", "Enable, or fail with the reason"), ("off", "Disable")]),
        "when",
        "Split tcgen05 MMAs between two warp roles: the first MMAs of an iteration, or one M half [default: auto]",
    ),
    option(
        "multicast",
        Extension,
        Choice(&[("auto", "Wherever possible"), ("on", "At least one load, or fail with the reason"), ("off", "Disable")]),
        "when",
        "TMA multicast of loads that all CTAs of a cluster need [default: auto]",
    ),
    option(
        "cta-pairs",
        Extension,
        Choice(&[("auto", "If possible"), ("on", "Enable, or fail with the reason"), ("off", "Disable")]),
        "when",
        "CTA-pair MMAs (tcgen05 with cta_group::2) in clusters of two CTAs [default: auto]",
    ),
    option(
        "stages",
        Extension,
        Integer,
        "N",
        "Pipeline stages of each loop with asynchronous copies, 1 to 8 [default: chosen by the compiler]",
    ),
    option(
        "embed-program",
        Extension,
        Choice(&[("on", "The bytecode and the PTX, compressed"), ("off", "Machine code only")]),
        "when",
        "Embed the program in the cubin, so that the CPU device can execute it [default: on]",
    ),
    option("ptxas-options", Extension, Text, "options", "Additional options for ptxas, separated by spaces"),
    option("stop-after", Extension, Text, "tool[:pass]", "Stop after this tool or pass and write its output"),
    option("print-after", Extension, Text, "[tool:]pass", "Print the IR after this pass, or after every pass with 'all'"),
    option(
        "validate",
        Extension,
        Bool,
        "",
        "Execute the output of every stage on generated arguments; fail if a result differs from that of the program",
    ),
    option("print-changed", Extension, Bool, "", "Print the changes of each pass"),
    option(
        "save-temps",
        Extension,
        OptionalText,
        "folder",
        "Save the file of each stage next to the output, or in this folder (created if missing)",
    ),
    option("pipeline", Extension, Text, "file", "Run the stages of this pipeline.toml instead of the built-in ones"),
    option("time", Extension, Bool, "", "Print the time of each stage and pass (JSON with --error-format=json)"),
    option("verbose", Extension, Bool, "", "Use verbose output"),
    alias("v", "verbose", Extension, "Alias for --verbose"),
    option(
        "max-memory",
        Extension,
        Integer,
        "MiB",
        "Memory limit of each stage, 0 for none [default: three quarters of the machine's memory]",
    ),
    option("max-time", Extension, Integer, "seconds", "Time limit of each stage, including ptxas; 0 for none [default: 1800]"),
    option("dry-run", Extension, Bool, "", "Print the commands instead of running them"),
    option(
        "error-format",
        Extension,
        Choice(&[
            ("reference", "The format of NVIDIA's tileiras"),
            ("human", "Human-readable"),
            ("json", "One JSON object per line"),
        ]),
        "form",
        "Format of diagnostics [default: reference]",
    ),
    option("explain", Extension, Text, "code", "Explain an error code, or list all codes with 'list'"),
    immediate(option(
        "doctor",
        Extension,
        Bool,
        "",
        "Check the installation: report every required component and how to install missing ones",
    )),
    option(
        "out-dir",
        Extension,
        Text,
        "folder",
        "Compile all inputs for each --gpu-name to <folder>/<stem>.<target>.cubin (the folder is created if missing)",
    ),
    option("jobs", Extension, Integer, "N", "Number of parallel compilations with --out-dir [default: number of cores]"),
    option(
        "emit-ninja",
        Extension,
        Text,
        "file",
        "Write a ninja file that compiles the inputs or folders for each --gpu-name and each -O into --out-dir [default: build]",
    ),
    option(
        "cache",
        Extension,
        Text,
        "folder",
        "Cache outputs in this folder by the content of all inputs (created if missing, private to its owner)",
    ),
    option("cache-size", Extension, Integer, "MB", "Maximum size of the cache [default: 1024]"),
    option("MD", Extension, Bool, "", "Write a depfile for make and ninja next to the output"),
    option("MF", Extension, Text, "file", "Write the depfile to this file"),
    option("MT", Extension, Text, "target", "Name of the target in the depfile"),
];
