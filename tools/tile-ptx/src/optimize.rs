//! LLVM's part: the target machine, a short fixed list of passes, and the printing of PTX.
//!
//! The passes clean up what the emitters write plainly (address arithmetic, constants, loop-invariant parts). None of them
//! reorders volatile or asynchronous operations, barriers or inline assembly, which are all marked as touching memory.

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

/// Run at O1 and above: clean-up and address arithmetic, then the unrolling of short loops whose count is known.
const PASSES: &str = "nvvm-reflect,always-inline,function(nvvm-intr-range,sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,\
loop(loop-rotate),loop-mssa(licm),gvn,infer-address-spaces,separate-const-offset-from-gep,early-cse,nary-reassociate,\
instcombine<no-verify-fixpoint>,simplifycfg,loop(indvars,loop-unroll-full),sroa,early-cse<memssa>,\
instcombine<no-verify-fixpoint>,simplifycfg,dce),globaldce";

/// Run at O0: libdevice requests by a pass which target it is for, and has no functions to call.
const UNOPTIMIZED: &str = "nvvm-reflect,always-inline,function(simplifycfg),globaldce";

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
        .ok_or_else(|| Diagnostic::unsupported("PX002", format!("LLVM has no machine for {target}")))
}

/// Registers the target, with shared memory addressed in 32 bits, which costs half the registers. Loads and stores are not joined to
/// vectors here: that takes the square of a block's length, and the stages before choose the vectors.
fn set_up() {
    set_options(&[c"--nvptx-short-ptr", c"--disable-nvptx-load-store-vectorizer"]);
    LlvmTarget::initialize_nvptx(&InitializationConfig::default());
}

/// Run instead on a function with very many loops, or very deep ones: whatever of LLVM takes the square of their number is not here.
/// Scalar evolution describes what a loop counts by what the loops before or around it counted, forgets all of that at every loop that
/// is changed, and needs a stack as deep as they are many. `instcombine` and `gvn` request of every comparison of a value whether another
/// one of the same value decides it, and loops are often up to the same bound.
const MANY_LOOPS_PASSES: &str = "nvvm-reflect,always-inline,function(nvvm-intr-range,sroa,early-cse<memssa>,instsimplify,simplifycfg,\
loop-mssa(licm),infer-address-spaces,separate-const-offset-from-gep,early-cse,instsimplify,simplifycfg,dce),globaldce";

/// What the back end does without then: strength reduction of loops and of straight lines, and the sinking of machine instructions,
/// of which the time grows so, too.
const MANY_LOOPS_BACK_END: [&CStr; 3] = [c"--disable-lsr", c"--disable-machine-sink", c"--opt-disable=slsr,nary-reassociate"];

/// What it does without where there are no loops. There it would move what only a masked store needs behind the condition of that, out of
/// the order in which units take turns, and ptxas makes a branch of a condition with more behind it than the store.
const NO_LOOPS_BACK_END: [&CStr; 1] = [c"--disable-machine-sink"];

/// The most loops of a function that are not very many.
const MANY_LOOPS: usize = 256;

/// The most loops in each other that are not very deep.
const DEEP_LOOPS: usize = 32;

/// Instructions of one block from which on the back end does without its strength reduction of straight lines, whose time grows
/// with the square of their number and more, and which finds little after the passes here.
const LONG_BLOCK: usize = 256;

/// What decides which parts of LLVM a program does without: most are those whose time grows faster than what it has too much of.
#[derive(Clone, Copy)]
struct Shape {
    long_block: bool,
    no_loops: bool,
    /// Or very deep ones.
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

/// For each loop of a function its depth: of one that no other is around, one.
fn loop_depths(function: &sched::Function) -> Vec<usize> {
    let body = &function.body;
    let is_loop = |op: &sched::Op| matches!(op.core(), Some(Core::For { .. } | Core::Loop { .. }));
    let mut depths = Vec::new();
    // An explicit stack: how deep they are is the input's choice.
    let mut regions = vec![(function.region, 0)];
    while let Some((region, around)) = regions.pop() {
        for op in body.regions[region].blocks.iter().flat_map(|block| &body.blocks[*block].ops) {
            let kind = &body.ops[*op].kind;
            let depth = around + usize::from(is_loop(kind));
            depths.extend(is_loop(kind).then_some(depth));
            regions.extend(kind.regions().into_iter().map(|inner| (inner, depth)));
        }
    }
    depths
}

/// Sets options of LLVM, which hold for the process.
#[allow(unsafe_code, reason = "inkwell has no way to set options of the back end")]
fn set_options(options: &[&CStr]) {
    let arguments: Vec<*const c_char> = std::iter::once(c"tile-ptx").chain(options.iter().copied()).map(CStr::as_ptr).collect();
    unsafe { LLVMParseCommandLineOptions(arguments.len() as i32, arguments.as_ptr(), std::ptr::null()) };
}

pub(crate) fn run(program: &sched::Module, module: &Module<'_>, machine: &TargetMachine, opt_level: u32) -> Result<()> {
    module
        .verify()
        .map_err(|error| Diagnostic::invalid("PX003", format!("LLVM refuses what was emitted: {}", error.to_string())))?;
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
        .map_err(|error| Diagnostic::invalid("PX003", format!("LLVM prints no PTX: {}", error.to_string())))?;
    let text = buffer.as_slice();
    Ok(String::from_utf8_lossy(text.strip_suffix(&[0]).unwrap_or(text)).into_owned())
}
