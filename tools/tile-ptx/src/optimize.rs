//! Purpose: creates LLVM's target machine, runs a short fixed list of passes, and prints PTX.
//! Requires: a module from [`crate::emit`].
//! Establishes: simplified address arithmetic, folded constants, hoisted loop invariants, and fully unrolled short loops.
//! Preserves: the order of volatile and asynchronous operations, barriers and inline assembly with side effects. LLVM treats all of
//! them as memory accesses.
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
const OPTIMIZATION_PASSES: &str = "nvvm-reflect,always-inline,function(nvvm-intr-range,sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,\
loop(loop-rotate),loop-mssa(licm),gvn,infer-address-spaces,separate-const-offset-from-gep,early-cse,nary-reassociate,\
instcombine<no-verify-fixpoint>,simplifycfg,loop(indvars,loop-unroll-full),sroa,early-cse<memssa>,\
instcombine<no-verify-fixpoint>,simplifycfg,dce),globaldce";

/// Passes at O0. `nvvm-reflect` resolves libdevice's queries of the target, and `always-inline` removes the calls to libdevice
/// functions, which the PTX must not have.
const UNOPTIMIZED_PASSES: &str = "nvvm-reflect,always-inline,function(simplifycfg),globaldce";

/// Creates LLVM's target machine. The first call initialises LLVM.
pub(crate) fn target_machine(target: Target, opt_level: u32) -> Result<TargetMachine> {
    static INITIALIZATION: Once = Once::new();
    INITIALIZATION.call_once(initialize_llvm);
    let triple = TargetTriple::create("nvptx64-nvidia-cuda");
    let llvm_level = if opt_level == 0 { OptimizationLevel::None } else { OptimizationLevel::Default };
    LlvmTarget::from_triple(&triple)
        .ok()
        .and_then(|llvm| {
            llvm.create_target_machine(&triple, target.llvm_processor, "+ptx90", llvm_level, RelocMode::Default, CodeModel::Default)
        })
        .ok_or_else(|| Diagnostic::unsupported("PX002", format!("LLVM has no target machine for {target}")))
}

/// Initialises LLVM's NVPTX target. Shared-memory addresses have 32 bits, so that they need half the registers. The load-store
/// vectorizer is disabled, because its time is quadratic in the block length, and earlier stages select the vectors.
fn initialize_llvm() {
    set_options(&[c"--nvptx-short-ptr", c"--disable-nvptx-load-store-vectorizer"]);
    LlvmTarget::initialize_nvptx(&InitializationConfig::default());
}

/// Passes for a program with many or deeply nested loops. The list has no LLVM pass whose time is quadratic in the number of loops.
/// Reason: scalar evolution expresses a loop's induction variable through enclosing and preceding loops, and discards all
/// expressions whenever a loop changes. Its recursion is as deep as the loop nest. `instcombine` and `gvn` check each comparison
/// of a value against all other comparisons of the value, and many loops share one bound.
const MANY_LOOPS_PASSES: &str = "nvvm-reflect,always-inline,function(nvvm-intr-range,sroa,early-cse<memssa>,instsimplify,simplifycfg,\
loop-mssa(licm),infer-address-spaces,separate-const-offset-from-gep,early-cse,instsimplify,simplifycfg,dce),globaldce";

/// Options that disable back-end passes for a program with many loops: loop strength reduction, machine sinking and straight-line
/// strength reduction. The time of these passes is quadratic in the number of loops too.
const MANY_LOOPS_DISABLED_PASSES: [&CStr; 3] =
    [c"--disable-lsr", c"--disable-machine-sink", c"--opt-disable=slsr,nary-reassociate"];

/// The option that disables machine sinking for a program without loops. Reason: machine sinking would move the operands of a
/// masked store under the store's condition. The move would undo the work of [`crate::interleave`], and ptxas would emit a branch
/// instead of a predicated store.
const NO_LOOPS_DISABLED_PASSES: [&CStr; 1] = [c"--disable-machine-sink"];

/// If a function has more loops than this, LLVM runs `MANY_LOOPS_PASSES`.
const MAX_LOOPS: usize = 256;

/// If a function has a loop nest deeper than this, LLVM runs `MANY_LOOPS_PASSES`.
const MAX_LOOP_DEPTH: usize = 32;

/// If a block has more instructions than this, straight-line strength reduction is disabled. Reason: its time is at least quadratic
/// in the block length, and it simplifies little after `OPTIMIZATION_PASSES`.
const MAX_BLOCK_LENGTH: usize = 256;

/// The properties of a program on which the selection of LLVM passes depends.
#[derive(Clone, Copy)]
struct ProgramShape {
    has_long_block: bool,
    has_no_loops: bool,
    /// Whether a function has more than `MAX_LOOPS` loops, or a loop nest deeper than `MAX_LOOP_DEPTH`.
    has_many_loops: bool,
}

impl ProgramShape {
    /// Determines the shape of a program.
    fn analyse(program: &sched::Module, module: &Module<'_>) -> ProgramShape {
        let blocks = module.get_functions().flat_map(|function| function.get_basic_blocks());
        let has_long_block = blocks.into_iter().any(|block| block.get_instructions().nth(MAX_BLOCK_LENGTH).is_some());
        let depths: Vec<Vec<usize>> = program.functions.iter().map(loop_depths).collect();
        let is_many = |depths: &Vec<usize>| depths.len() > MAX_LOOPS || depths.iter().any(|depth| *depth > MAX_LOOP_DEPTH);
        ProgramShape { has_long_block, has_no_loops: depths.iter().all(Vec::is_empty), has_many_loops: depths.iter().any(is_many) }
    }

    /// Returns the LLVM options for a program of this shape.
    fn back_end_options(self) -> Vec<&'static CStr> {
        let ProgramShape { has_long_block, has_no_loops, has_many_loops } = self;
        if has_many_loops {
            return MANY_LOOPS_DISABLED_PASSES.to_vec();
        }
        let mut options = vec![];
        if has_long_block {
            options.push(c"--opt-disable=slsr");
        }
        if has_no_loops {
            options.extend(NO_LOOPS_DISABLED_PASSES);
        }
        options
    }
}

/// Returns the nesting depth of each loop of a function; an outermost loop has depth 1.
fn loop_depths(function: &sched::Function) -> Vec<usize> {
    let body = &function.body;
    let is_loop = |op: &sched::Op| op.core().is_some_and(Core::is_loop);
    let mut depths = Vec::new();
    // The stack is explicit, because the input decides the nesting depth.
    let mut regions = vec![(function.region, 0)];
    while let Some((region, enclosing_depth)) = regions.pop() {
        for op in body.regions[region].blocks.iter().flat_map(|block| &body.blocks[*block].ops) {
            let kind = &body.ops[*op].kind;
            let depth = enclosing_depth + usize::from(is_loop(kind));
            depths.extend(is_loop(kind).then_some(depth));
            regions.extend(kind.regions().into_iter().map(|inner| (inner, depth)));
        }
    }
    depths
}

/// Sets command-line options of LLVM, for the whole process.
#[allow(unsafe_code, reason = "inkwell has no way to set options of the back end")]
fn set_options(options: &[&CStr]) {
    let arguments: Vec<*const c_char> = std::iter::once(c"tile-ptx").chain(options.iter().copied()).map(CStr::as_ptr).collect();
    unsafe { LLVMParseCommandLineOptions(arguments.len() as i32, arguments.as_ptr(), std::ptr::null()) };
}

/// Verifies the module, and runs the passes that suit the program.
pub(crate) fn run(program: &sched::Module, module: &Module<'_>, machine: &TargetMachine, opt_level: u32) -> Result<()> {
    module
        .verify()
        .map_err(|error| Diagnostic::invalid("PX003", format!("LLVM rejects the emitted module: {}", error.to_string())))?;
    let program_shape = ProgramShape::analyse(program, module);
    set_options(&program_shape.back_end_options());
    let pass_list = match program_shape.has_many_loops {
        _ if opt_level == 0 => UNOPTIMIZED_PASSES,
        true => MANY_LOOPS_PASSES,
        false => OPTIMIZATION_PASSES,
    };
    module
        .run_passes(pass_list, machine, PassBuilderOptions::create())
        .map_err(|error| Diagnostic::invalid("PX003", format!("LLVM's passes failed: {}", error.to_string())))
}

/// Prints an LLVM module as PTX.
pub(crate) fn print_ptx(module: &Module<'_>, machine: &TargetMachine) -> Result<String> {
    let buffer = machine
        .write_to_memory_buffer(module, FileType::Assembly)
        .map_err(|error| Diagnostic::invalid("PX003", format!("LLVM cannot print PTX: {}", error.to_string())))?;
    let text = buffer.as_slice();
    Ok(String::from_utf8_lossy(text.strip_suffix(&[0]).unwrap_or(text)).into_owned())
}
