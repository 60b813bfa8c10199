//! The options of the driver: the reference's, with its words, and this project's own.

use common::cl::{Section, Spec, Value, alias, immediate, option};

/// What `--preview` takes.
pub(crate) const PREVIEW: &[&str] = &["simt"];

macro_rules! categories {
    ($disable:literal, $all:literal, $memory:literal, $tensor:literal) => {
        Value::Choice(&[("none", $disable), ("all", $all), ("memory", $memory), ("tensorcore", $tensor)])
    };
}

use Section::{Extension, Generic, Hidden, Remarks, Tool};
use Value::{Bool, Choice, Integer, None as Nothing, OptionalText, Text};

/// All options. The order decides between suggestions that are equally near, so `l` and `g` come first, as observed.
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
    option("gpu-name", Tool, Choice(&hardware::CHOICES), "value", "Specify name of NVIDIA GPU to generate code for."),
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
    option("preview", Tool, Value::Features(PREVIEW), "feature[,feature...]", "Enable one or more named preview features"),
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
            ("tile", "the program as written"),
            ("aa", "memory explicit"),
            ("as", "layouts and atoms chosen"),
            ("sched", "scheduled"),
            ("llvm-ir", "LLVM IR"),
            ("ptx", "PTX"),
            ("cubin", "the cubin"),
            ("fatbin", "the cubin in a fatbin"),
            ("host-object", "the fatbin in an object file"),
        ]),
        "kind",
        "What to write [default: cubin]",
    ),
    option(
        "format",
        Extension,
        Choice(&[("bin", "binary"), ("ron", "RON, to edit"), ("text", "text, to read")]),
        "form",
        "Form of a stage file written with --emit or --stop-after",
    ),
    option(
        "check-bounds",
        Extension,
        Bool,
        "",
        "Assert before each access that it stays within its argument array, where that is known",
    ),
    option("warps", Extension, Integer, "N", "Warps of a block, a power of two up to 32 [default: chosen]"),
    option(
        "cluster",
        Extension,
        Integer,
        "N",
        "Blocks of a cluster that share each tile block out among them, 1 or 2 [default: chosen]",
    ),
    option("occupancy", Extension, Integer, "N", "Blocks of a multiprocessor that a kernel must leave room for [default: chosen]"),
    option(
        "halves",
        Extension,
        Choice(&[("auto", "in attention whose sums have no room in registers"), ("on", "where that can be"), ("off", "never")]),
        "when",
        "Whether rows of products are made in two halves, one after the other [default: auto]",
    ),
    option(
        "products",
        Extension,
        Choice(&[("mma", "warps"), ("wgmma", "warp groups"), ("tcgen05", "into tensor memory")]),
        "atom",
        "What makes all products, or why that cannot be [default: what is fastest]",
    ),
    option(
        "tma",
        Extension,
        Choice(&[("auto", "where that pays"), ("on", "where that can be"), ("off", "never")]),
        "when",
        "Whether the copy engine copies operands of products, by tensor maps; auto: of wgmma and tensor memory where that pays [default: auto]",
    ),
    option(
        "prefetch",
        Extension,
        Choice(&[("auto", "in persistent loops, where that pays"), ("on", "in every loop where that can be"), ("off", "never")]),
        "when",
        "Whether loads that no product reads are copied to shared memory ahead of their iteration [default: auto]",
    ),
    option(
        "agents",
        Extension,
        Choice(&[("auto", "where that pays"), ("on", "where that can be"), ("off", "never")]),
        "when",
        "Whether the copy engine's copies have warps of their own [default: auto]",
    ),
    option(
        "multicast",
        Extension,
        Choice(&[("auto", "what can be"), ("on", "some, or why none"), ("off", "never")]),
        "when",
        "Whether the blocks of a cluster bring each other the boxes that they all need [default: auto]",
    ),
    option(
        "stages",
        Extension,
        Integer,
        "N",
        "Stages of loops that are pipelined, 1 to 8, or why that cannot be [default: chosen]",
    ),
    option("ptxas-options", Extension, Text, "options", "Options that ptxas is given too, separated by spaces"),
    option("stop-after", Extension, Text, "tool[:pass]", "Stop after a tool or a pass, and write its file"),
    option("print-after", Extension, Text, "[tool:]pass", "Print the file after this pass, or after each with 'all'"),
    option(
        "validate",
        Extension,
        Bool,
        "",
        "Execute every stage on made-up arguments, and write nothing when one computes something else than the program",
    ),
    option("print-changed", Extension, Bool, "", "Print what each pass changed"),
    option(
        "save-temps",
        Extension,
        OptionalText,
        "folder",
        "Keep each stage's file, beside the output or in the folder, made when missing",
    ),
    option("pipeline", Extension, Text, "file", "Replace the stages by those of this pipeline.toml"),
    option("time", Extension, Bool, "", "Print the time of each stage and pass; as JSON with --error-format=json"),
    option("verbose", Extension, Bool, "", "Say what is done"),
    alias("v", "verbose", Extension, "Alias for --verbose"),
    option(
        "max-memory",
        Extension,
        Integer,
        "MiB",
        "Memory that each stage may use, 0 for any [default: three quarters of the machine's]",
    ),
    option("max-time", Extension, Integer, "seconds", "Time that each stage may take, with ptxas, 0 for any [default: 1800]"),
    option("dry-run", Extension, Bool, "", "Print the commands instead of running them"),
    option(
        "error-format",
        Extension,
        Choice(&[("reference", "as NVIDIA's tileiras"), ("human", "for people"), ("json", "one object a line")]),
        "form",
        "How diagnostics are written [default: reference]",
    ),
    option("explain", Extension, Text, "code", "Say what an error code means, or list all with 'list'"),
    immediate(option("doctor", Extension, Bool, "", "Say what was found of what compiling needs, why, and how to get the rest")),
    option(
        "out-dir",
        Extension,
        Text,
        "folder",
        "Compile many inputs for each --gpu-name given, to <folder>/<stem>.<target>.cubin; the folder is made when missing",
    ),
    option("jobs", Extension, Integer, "N", "Compilations at a time with --out-dir [default: one a core]"),
    option(
        "emit-ninja",
        Extension,
        Text,
        "file",
        "Write a ninja file for the inputs or folders, each --gpu-name and each -O given, with outputs in --out-dir [default: build]",
    ),
    option(
        "cache",
        Extension,
        Text,
        "folder",
        "Keep outputs in this folder, by the content of all they are made from; made when missing, private to its owner",
    ),
    option("cache-size", Extension, Integer, "MB", "Size that the cache is kept below [default: 1024]"),
    option("MD", Extension, Bool, "", "Write a depfile for make and ninja, named after the output"),
    option("MF", Extension, Text, "file", "Name of the depfile"),
    option("MT", Extension, Text, "target", "Target named in the depfile"),
];
