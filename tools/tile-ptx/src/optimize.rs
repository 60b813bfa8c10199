//! Purpose: runs LLVM: target machine, a short fixed pass list, and the printing of PTX.
//! Requires: a module from [`crate::emit`].
//! Establishes: simplified address arithmetic, folded constants, hoisted loop invariants, and fully unrolled short loops.
//! Preserves: the order of volatile and asynchronous operations, barriers and inline assembly; all of them count as memory
//! accesses.
//! See also: LLVM `PassBuilder` and the NVPTX back end.

use base::Target;
use base::diag::{Diagnostic, Result};
use base::ir::Operation;
use core_dialect::core_ops::Core;
use inkwell::OptimizationLevel;
use inkwell::llvm_sys::support::LLVMParseCommandLineOptions;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target as LlvmTarget, TargetMachine, TargetTriple};
use std::ffi::{CStr, c_char};
use std::sync::Once;

/// Passes at O1 and above: clean-up and address arithmetic, then full unrolling of short loops with a known trip count.
const PASSES: &str = "nvvm-reflect,always-inline,function(nvvm-intr-range,sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,\
loop(loop-rotate),loop-mssa(licm),gvn,infer-address-spaces,separate-const-offset-from-gep,early-cse,nary-reassociate,\
instcombine<no-verify-fixpoint>,simplifycfg,loop(indvars,loop-unroll-full),sroa,early-cse<memssa>,\
instcombine<no-verify-fixpoint>,simplifycfg,dce),globaldce";

/// Passes at O0. `nvvm-reflect` resolves libdevice's queries of the target, and `always-inline` removes the calls to libdevice
/// functions, which the PTX must not have.
const UNOPTIMIZED: &str = "nvvm-reflect,always-inline,function(simplifycfg),globaldce";

/// Creates LLVM's target machine.
pub(crate) fn machine(target: Target, opt_level: u32) -> Result<TargetMachine> {
    static SETTINGS: Once = Once::new();
    SETTINGS.call_once(set_up);
    let triple = TargetTriple::create("nvptx64-nvidia-cuda");
    let level = if opt_level == 0 { OptimizationLevel::None } else { OptimizationLevel::Default };
    LlvmTarget::from_triple(&triple)
        .ok()
        .and_then(|llvm| {
            llvm.create_target_machine(&triple, target.llvm_processor, "+ptx90", level, RelocMode::Default, CodeModel::Default)
        })
        .ok_or_else(|| Diagnostic::unsupported("PX002", format!("LLVM has no target machine for {target}")))
}

/// Registers the target with 32-bit shared-memory addresses, which need half the registers. LLVM's load-store vectorizer is off:
/// its time is quadratic in the block length, and earlier stages choose the vectors.
fn set_up() {
    set_options(&[c"--nvptx-short-ptr", c"--disable-nvptx-load-store-vectorizer"]);
    LlvmTarget::initialize_nvptx(&InitializationConfig::default());
}

/// Passes for a function with many or deeply nested loops. They exclude every LLVM pass whose time is quadratic in the number of
/// loops.
/// Reason: scalar evolution expresses a loop's induction variable through enclosing and preceding loops, and discards all
/// expressions whenever a loop changes. Its recursion is as deep as the loop nest. `instcombine` and `gvn` check each comparison
/// of a value against all other comparisons of the value, and many loops share one bound.
const MANY_LOOPS_PASSES: &str = "nvvm-reflect,always-inline,function(nvvm-intr-range,sroa,early-cse<memssa>,instsimplify,simplifycfg,\
loop-mssa(licm),infer-address-spaces,separate-const-offset-from-gep,early-cse,instsimplify,simplifycfg,dce),globaldce";

/// Back-end passes that are off for a function with many loops: loop strength reduction, straight-line strength reduction and
/// machine sinking. Their time is quadratic in the number of loops too.
const MANY_LOOPS_BACK_END: [&CStr; 3] = [c"--disable-lsr", c"--disable-machine-sink", c"--opt-disable=slsr,nary-reassociate"];

/// Back-end passes that are off for a function without loops. Machine sinking would move the operands of a masked store under its
/// condition. That would undo the interleaving of execution units, and ptxas would emit a branch instead of a predicated store.
const NO_LOOPS_BACK_END: [&CStr; 1] = [c"--disable-machine-sink"];

/// A function with more loops than this has many loops.
const MANY_LOOPS: usize = 256;

/// A loop nest deeper than this counts as many loops.
const DEEP_LOOPS: usize = 32;

/// In blocks with more instructions than this, straight-line strength reduction is off. Its time is at least quadratic in the
/// block length, and it finds little after the passes above.
const LONG_BLOCK: usize = 256;

/// The properties of a program that select the LLVM passes to disable.
#[derive(Clone, Copy)]
struct Shape {
    long_block: bool,
    no_loops: bool,
    /// More than `MANY_LOOPS` loops, or a nest deeper than `DEEP_LOOPS`.
    many_loops: bool,
}

impl Shape {
    fn of(program: &sched::Module, module: &Module<'_>) -> Shape {
        let blocks = module.get_functions().flat_map(|function| function.get_basic_blocks());
        let long_block = blocks.into_iter().any(|block| block.get_instructions().nth(LONG_BLOCK).is_some());
        let depths: Vec<Vec<usize>> = program.functions.iter().map(loop_depths).collect();
        let many = |depths: &Vec<usize>| depths.len() > MANY_LOOPS || depths.iter().any(|depth| *depth > DEEP_LOOPS);
        Shape { long_block, no_loops: depths.iter().all(Vec::is_empty), many_loops: depths.iter().any(many) }
    }

    fn back_end_options(self) -> Vec<&'static CStr> {
        let Shape { long_block, no_loops, many_loops } = self;
        if many_loops {
            return MANY_LOOPS_BACK_END.to_vec();
        }
        let mut options = vec![];
        if long_block {
            options.push(c"--opt-disable=slsr");
        }
        if no_loops {
            options.extend(NO_LOOPS_BACK_END);
        }
        options
    }
}

/// The nesting depth of each loop of a function; an outermost loop has depth 1.
fn loop_depths(function: &sched::Function) -> Vec<usize> {
    let body = &function.body;
    let is_loop = |op: &sched::Op| matches!(op.core(), Some(Core::For { .. } | Core::Loop { .. }));
    let mut depths = Vec::new();
    // The stack is explicit, because the input decides the nesting depth.
    let mut regions = vec![(function.region, 0)];
    while let Some((region, enclosing)) = regions.pop() {
        for op in body.regions[region].blocks.iter().flat_map(|block| &body.blocks[*block].ops) {
            let kind = &body.ops[*op].kind;
            let depth = enclosing + usize::from(is_loop(kind));
            depths.extend(is_loop(kind).then_some(depth));
            regions.extend(kind.regions().into_iter().map(|inner| (inner, depth)));
        }
    }
    depths
}

/// Sets LLVM options for the whole process.
#[allow(unsafe_code, reason = "inkwell has no way to set options of the back end")]
fn set_options(options: &[&CStr]) {
    let arguments: Vec<*const c_char> = std::iter::once(c"tile-ptx").chain(options.iter().copied()).map(CStr::as_ptr).collect();
    unsafe { LLVMParseCommandLineOptions(arguments.len() as i32, arguments.as_ptr(), std::ptr::null()) };
}

pub(crate) fn run(program: &sched::Module, module: &Module<'_>, machine: &TargetMachine, opt_level: u32) -> Result<()> {
    module
        .verify()
        .map_err(|error| Diagnostic::invalid("PX003", format!("LLVM rejects the emitted module: {}", error.to_string())))?;
    let shape = Shape::of(program, module);
    set_options(&shape.back_end_options());
    let passes = match shape.many_loops {
        _ if opt_level == 0 => UNOPTIMIZED,
        true => MANY_LOOPS_PASSES,
        false => PASSES,
    };
    module
        .run_passes(passes, machine, PassBuilderOptions::create())
        .map_err(|error| Diagnostic::invalid("PX003", format!("LLVM's passes failed: {}", error.to_string())))
}

pub(crate) fn print(module: &Module<'_>, machine: &TargetMachine) -> Result<String> {
    let buffer = machine
        .write_to_memory_buffer(module, FileType::Assembly)
        .map_err(|error| Diagnostic::invalid("PX003", format!("LLVM cannot print PTX: {}", error.to_string())))?;
    let text = buffer.as_slice();
    Ok(String::from_utf8_lossy(text.strip_suffix(&[0]).unwrap_or(text)).into_owned())
}
