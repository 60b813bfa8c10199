//! Statistics of a kernel's code: instructions by kind, or the resources in a cubin.

use base::diag::{Diagnostic, Result};
use base::envelope::{Sniffed, sniff};
use ptx::{Function, Instruction, Item, Statement};

/// The statistics of one kernel as rows of a name and a number. All kernels in files of one kind (PTX or cubin) have rows with the
/// same names.
pub(crate) struct KernelStatistics {
    pub(crate) kernel: String,
    pub(crate) rows: Vec<(&'static str, u64)>,
}

impl KernelStatistics {
    /// Returns the statistics of all kernels in a PTX file or cubin.
    pub(crate) fn of_file(bytes: &[u8], name: &str) -> Result<Vec<KernelStatistics>> {
        match sniff(bytes) {
            Sniffed::Elf => Ok(cubin::read(bytes, name)?.kernels.iter().map(cubin_statistics).collect()),
            Sniffed::Ptx => {
                let (module, _) = ptx::open(bytes, name)?;
                let kernels = module.items.iter().filter_map(|item| match item {
                    Item::Function(function) if function.entry => Some(ptx_statistics(function)),
                    _ => None,
                });
                Ok(kernels.collect())
            }
            other => Err(Diagnostic::invalid("SCO001", format!("{name} is {}; PTX and cubins can be compared", other.describe()))),
        }
    }
}

/// Returns the resources of a kernel in a cubin.
fn cubin_statistics(kernel: &cubin::Kernel) -> KernelStatistics {
    let rows = vec![
        ("code bytes", kernel.code_bytes),
        ("registers", u64::from(kernel.registers)),
        ("stack bytes", u64::from(kernel.stack_bytes)),
        ("shared bytes", kernel.shared_bytes),
        ("parameter bytes", u64::from(kernel.parameter_bytes)),
    ];
    KernelStatistics { kernel: kernel.name.clone(), rows }
}

/// The kinds of instructions, in output order. An instruction counts as the first kind that matches.
const INSTRUCTION_KINDS: &[(&str, fn(&Instruction) -> bool)] = &[
    ("tensor-core MMAs", |i| matches!(&*i.opcode, "mma" | "wgmma" | "tcgen05") && i.full_name().contains("mma")),
    ("matrix loads and stores", |i| matches!(&*i.opcode, "ldmatrix" | "stmatrix")),
    ("asynchronous copies", |i| i.opcode == "cp"),
    ("global loads", |i| i.opcode == "ld" && i.full_name().contains(".global")),
    ("global stores", |i| i.opcode == "st" && i.full_name().contains(".global")),
    ("shared loads", |i| i.opcode == "ld" && i.full_name().contains(".shared")),
    ("shared stores", |i| i.opcode == "st" && i.full_name().contains(".shared")),
    ("local loads and stores", |i| matches!(&*i.opcode, "ld" | "st") && i.full_name().contains(".local")),
    ("atomics", |i| matches!(&*i.opcode, "atom" | "red")),
    ("barriers and waits", |i| matches!(&*i.opcode, "bar" | "barrier" | "mbarrier" | "fence" | "membar")),
    ("shuffles and votes", |i| matches!(&*i.opcode, "shfl" | "vote" | "match" | "redux" | "elect")),
    ("branches", |i| matches!(&*i.opcode, "bra" | "brx" | "ret" | "exit" | "call")),
    ("comparisons and selections", |i| matches!(&*i.opcode, "setp" | "set" | "selp" | "slct")),
    ("conversions", |i| matches!(&*i.opcode, "cvt" | "cvta")),
    ("moves", |i| i.opcode == "mov"),
    ("arithmetic and other", |_| true),
];

/// Counts the instructions of a PTX kernel by kind.
fn ptx_statistics(function: &Function) -> KernelStatistics {
    let mut counts = vec![0; INSTRUCTION_KINDS.len()];
    let mut stack: Vec<&Statement> = function.body.iter().flatten().collect();
    while let Some(statement) = stack.pop() {
        match statement {
            Statement::Instruction(instruction) => {
                let kind = INSTRUCTION_KINDS
                    .iter()
                    .position(|(_, is_of_kind)| is_of_kind(instruction))
                    .expect("the last kind matches every instruction");
                counts[kind] += 1;
            }
            Statement::Block(inner) => stack.extend(inner),
            _ => {}
        }
    }
    let total = counts.iter().sum();
    let rows = INSTRUCTION_KINDS.iter().map(|(name, _)| *name).zip(counts).chain([("instructions", total)]).collect();
    KernelStatistics { kernel: function.name.clone(), rows }
}
