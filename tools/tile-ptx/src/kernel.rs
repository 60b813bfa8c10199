//! Purpose: emits the LLVM module: its globals, and each kernel as an LLVM function with attributes and shared memory.

use crate::debug_info::DebugLines;
use crate::emit::Emitter;
use crate::ir::{GLOBAL, Ir, SHARED};
use base::diag::{Diagnostic, Result};
use base::{Envelope, Target};
use core_dialect::tile::Global;
use inkwell::AddressSpace;
use inkwell::attributes::AttributeLoc;
use inkwell::context::Context;
use inkwell::module::{Linkage, Module};
use inkwell::targets::TargetMachine;
use inkwell::types::BasicMetadataTypeEnum;
use inkwell::values::{FunctionValue, GlobalValue};

/// LLVM's number for the kernel calling convention.
const PTX_KERNEL: u32 = 71;
/// The symbol that the CUDA driver looks up in a module with tile kernels.
const LAUNCH_DATA_SYMBOL: &str = "___NV_TILE_LAUNCH_META_DATA___";
/// Size in bytes of the variable `LAUNCH_DATA_SYMBOL`. All its bytes are zero.
const LAUNCH_DATA_BYTES: u32 = 64;
/// Alignment in bytes that the TMA unit requires for a tensor map.
const MAP_ALIGN_BYTES: u64 = 64;

/// Emits the LLVM module of a program.
pub(crate) fn emit_module<'c>(
    context: &'c Context,
    module: &sched::Module,
    envelope: &Envelope,
    machine: &TargetMachine,
) -> Result<Module<'c>> {
    let ir = Ir { context, module: context.create_module("tile"), builder: context.create_builder() };
    ir.module.set_triple(&machine.get_triple());
    ir.module.set_data_layout(&machine.get_target_data().get_data_layout());
    let globals = module.globals.iter().map(|global| ("global", &global.name));
    for (kind, name) in globals.chain(module.functions.iter().map(|function| ("kernel", &function.name))) {
        check_name(kind, name)?;
    }
    emit_launch_data(&ir);
    for global in &module.globals {
        emit_global(&ir, global);
    }
    let first_position = module.functions.first().and_then(|function| envelope.debug.position(function.loc));
    let debug_lines = DebugLines::new(&ir, envelope, first_position.map_or("unknown", |(file, _, _)| file));
    for function in &module.functions {
        let kernel = declare_kernel(&ir, function, envelope.target()?);
        let shared_memory = declare_shared_memory(&ir, function);
        let kernel_lines = debug_lines.as_ref().map(|lines| lines.add_kernel(&function.name, function.loc, kernel));
        Emitter::new(&ir, module, function, envelope, kernel, shared_memory, kernel_lines.as_ref())?.emit()?;
    }
    if let Some(lines) = &debug_lines {
        lines.finalize();
    }
    Ok(ir.module)
}

/// Rejects a name that is invalid in PTX. Reason: the compiler must not change a name, because host programs look up a kernel by
/// its name. PTX accepts a leading '%' too, but LLVM aborts the process if a name has one.
fn check_name(kind: &str, name: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic()) || name.len() > 1 && name.starts_with(['_', '$']);
    if starts_well && name.chars().skip(1).all(is_allowed) {
        return Ok(());
    }
    let message = format!("the name of {kind} {name:?} is invalid in PTX, which allows letters, digits, '_' and '$'");
    Err(Diagnostic::unsupported("PX007", message))
}

/// Emits the zero-initialised launch data, which the CUDA driver looks up in a module with tile kernels.
fn emit_launch_data(ir: &Ir<'_>) {
    let ty = ir.context.i8_type().array_type(LAUNCH_DATA_BYTES);
    let global = ir.module.add_global(ty, Some(AddressSpace::from(GLOBAL)), LAUNCH_DATA_SYMBOL);
    global.set_initializer(&ty.const_zero());
    global.set_alignment(8);
}

/// Emits a global variable with its initial contents.
fn emit_global(ir: &Ir<'_>, global: &Global) {
    let elem_bytes = (global.elem.bits() / 8).max(1) as usize;
    let mut data = Vec::with_capacity(elem_bytes * global.count as usize);
    for i in 0..global.count as usize {
        data.extend_from_slice(&global.value.at(i).to_le_bytes()[..elem_bytes]);
    }
    let value = ir.context.const_string(&data, false);
    let variable = ir.module.add_global(value.get_type(), Some(AddressSpace::from(GLOBAL)), &global.name);
    variable.set_initializer(&value);
    variable.set_alignment(global.align.max(elem_bytes as u64) as u32);
    variable.set_constant(global.constant);
    if global.private {
        variable.set_linkage(Linkage::Internal);
    }
}

/// Declares the LLVM function of a kernel, with its parameters and attributes.
fn declare_kernel<'c>(ir: &Ir<'c>, function: &sched::Function, target: Target) -> FunctionValue<'c> {
    let params = function.params().iter();
    let param_types =
        params.map(|param| ir.memory_type(function.body.ty(*param).elem().expect("kernel parameters are scalars")).into());
    let maps = &function.attrs.program.maps;
    let params: Vec<BasicMetadataTypeEnum<'c>> =
        param_types.chain(maps.ids().map(|_| ir.context.ptr_type(AddressSpace::default()).into())).collect();
    let kernel = ir.module.add_function(&function.name, ir.context.void_type().fn_type(&params, false), None);
    kernel.set_call_conventions(PTX_KERNEL);
    for index in function.params().len()..params.len() {
        mark_map_parameter(ir, kernel, index as u32);
    }
    let program = &function.attrs.program;
    let add_attribute =
        |name: &str, value: &str| kernel.add_attribute(AttributeLoc::Function, ir.context.create_string_attribute(name, value));
    add_attribute("nvvm.reqntid", &(program.warps * 32).to_string());
    add_attribute("nvvm.minctasm", "1");
    if let Some(ctas_per_cluster) = program.cluster {
        // The dimensions of the grid count clusters, because each cluster executes one tile block.
        add_attribute("nvvm.cluster_dim", &ctas_per_cluster.to_string());
        add_attribute("nvvm.blocksareclusters", "");
    }
    // `setmaxnreg` requires that the kernel has a fixed number of registers at launch.
    if program.occupancy.is_some() || function.attrs.warp_roles.values().any(|warp_role| warp_role.registers.is_some()) {
        add_attribute("nvvm.maxnreg", &function.attrs.launch_registers(target).to_string());
    }
    let nounwind = inkwell::attributes::Attribute::get_named_enum_kind_id("nounwind");
    kernel.add_attribute(AttributeLoc::Function, ir.context.create_enum_attribute(nounwind, 0));
    kernel
}

/// Declares a parameter as the 128 bytes of a tensor map, which the host object fills. The kernel uses only the address of the
/// parameter.
fn mark_map_parameter(ir: &Ir<'_>, kernel: FunctionValue<'_>, index: u32) {
    let attribute_kind = inkwell::attributes::Attribute::get_named_enum_kind_id;
    let bytes = ir.context.i8_type().array_type(tensormap::BYTES as u32);
    kernel.add_attribute(AttributeLoc::Param(index), ir.context.create_type_attribute(attribute_kind("byval"), bytes.into()));
    kernel.add_attribute(AttributeLoc::Param(index), ir.context.create_enum_attribute(attribute_kind("align"), MAP_ALIGN_BYTES));
}

/// Declares the shared-memory object of a kernel, if the kernel uses shared memory.
fn declare_shared_memory<'c>(ir: &Ir<'c>, function: &sched::Function) -> Option<GlobalValue<'c>> {
    if function.attrs.shared_bytes == 0 {
        return None;
    }
    let ty = ir.context.i8_type().array_type(function.attrs.shared_bytes);
    let name = format!("global_smem_{}", function.name);
    let memory = ir.module.add_global(ty, Some(AddressSpace::from(SHARED)), &name);
    memory.set_linkage(Linkage::Internal);
    memory.set_initializer(&ty.get_undef());
    let align = function.attrs.program.buffers.values().map(|buffer| buffer.align).max().unwrap_or(16);
    memory.set_alignment(align.max(16));
    Some(memory)
}
