//! Purpose: emits kernels as LLVM functions: signature, attributes, shared memory, and the surrounding module.

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
/// The driver looks up this symbol in a tile module.
const LAUNCH_DATA: &str = "___NV_TILE_LAUNCH_META_DATA___";
const LAUNCH_DATA_BYTES: u32 = 64;
const MAP_ALIGN: u64 = 64;

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
    for (what, name) in globals.chain(module.functions.iter().map(|function| ("kernel", &function.name))) {
        check_name(what, name)?;
    }
    emit_launch_data(&ir);
    for global in &module.globals {
        emit_global(&ir, global);
    }
    let first = module.functions.first().and_then(|function| envelope.debug.position(function.loc));
    let lines = DebugLines::new(&ir, envelope, first.map_or("unknown", |(file, _, _)| file));
    for function in &module.functions {
        let kernel = declare(&ir, function, envelope.target()?);
        let shared = shared_memory(&ir, function);
        let lines = lines.as_ref().map(|lines| lines.kernel(&function.name, function.loc, kernel));
        Emitter::new(&ir, module, function, envelope, kernel, shared, lines.as_ref())?.emit()?;
    }
    if let Some(lines) = &lines {
        lines.finish();
    }
    Ok(ir.module)
}

/// Rejects a name that PTX cannot express. It is not changed, because host programs look a kernel up by its name. PTX also
/// accepts a leading '%', but LLVM aborts the process on it.
fn check_name(what: &str, name: &str) -> Result<()> {
    let may_follow = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic()) || name.len() > 1 && name.starts_with(['_', '$']);
    if starts_well && name.chars().skip(1).all(may_follow) {
        return Ok(());
    }
    let message = format!("the name of {what} {name:?} is invalid in PTX, which allows letters, digits, '_' and '$'");
    Err(Diagnostic::unsupported("PX007", message))
}

fn emit_launch_data(ir: &Ir<'_>) {
    let ty = ir.context.i8_type().array_type(LAUNCH_DATA_BYTES);
    let global = ir.module.add_global(ty, Some(AddressSpace::from(GLOBAL)), LAUNCH_DATA);
    global.set_initializer(&ty.const_zero());
    global.set_alignment(8);
}

fn emit_global(ir: &Ir<'_>, global: &Global) {
    let bytes = (global.elem.bits() / 8).max(1) as usize;
    let mut data = Vec::with_capacity(bytes * global.count as usize);
    for i in 0..global.count as usize {
        data.extend_from_slice(&global.value.at(i).to_le_bytes()[..bytes]);
    }
    let value = ir.context.const_string(&data, false);
    let variable = ir.module.add_global(value.get_type(), Some(AddressSpace::from(GLOBAL)), &global.name);
    variable.set_initializer(&value);
    variable.set_alignment(global.align.max(bytes as u64) as u32);
    variable.set_constant(global.constant);
    if global.private {
        variable.set_linkage(Linkage::Internal);
    }
}

fn declare<'c>(ir: &Ir<'c>, function: &sched::Function, target: Target) -> FunctionValue<'c> {
    let scalars = function.params().iter();
    let scalars =
        scalars.map(|param| ir.memory_type(function.body.ty(*param).elem().expect("kernel parameters are scalars")).into());
    let maps = &function.attrs.program.maps;
    let params: Vec<BasicMetadataTypeEnum<'c>> =
        scalars.chain(maps.ids().map(|_| ir.context.ptr_type(AddressSpace::default()).into())).collect();
    let kernel = ir.module.add_function(&function.name, ir.context.void_type().fn_type(&params, false), None);
    kernel.set_call_conventions(PTX_KERNEL);
    for index in function.params().len()..params.len() {
        mark_map_parameter(ir, kernel, index as u32);
    }
    let program = &function.attrs.program;
    let attribute =
        |name: &str, value: &str| kernel.add_attribute(AttributeLoc::Function, ir.context.create_string_attribute(name, value));
    attribute("nvvm.reqntid", &(program.warps * 32).to_string());
    attribute("nvvm.minctasm", "1");
    if let Some(ranks) = program.cluster {
        // The grid counts clusters, and each cluster executes one tile block.
        attribute("nvvm.cluster_dim", &ranks.to_string());
        attribute("nvvm.blocksareclusters", "");
    }
    // `setmaxnreg` needs a kernel with a fixed number of registers.
    if program.occupancy.is_some() || function.attrs.warp_roles.values().any(|warp_role| warp_role.registers.is_some()) {
        attribute("nvvm.maxnreg", &function.attrs.launch_registers(target).to_string());
    }
    let nounwind = inkwell::attributes::Attribute::get_named_enum_kind_id("nounwind");
    kernel.add_attribute(AttributeLoc::Function, ir.context.create_enum_attribute(nounwind, 0));
    kernel
}

/// Marks a parameter that the driver fills with a tensor map. The kernel uses only its address.
fn mark_map_parameter(ir: &Ir<'_>, kernel: FunctionValue<'_>, index: u32) {
    let kind = inkwell::attributes::Attribute::get_named_enum_kind_id;
    let bytes = ir.context.i8_type().array_type(tensormap::BYTES as u32);
    kernel.add_attribute(AttributeLoc::Param(index), ir.context.create_type_attribute(kind("byval"), bytes.into()));
    kernel.add_attribute(AttributeLoc::Param(index), ir.context.create_enum_attribute(kind("align"), MAP_ALIGN));
}

/// The PTX name of the hidden parameter for a tensor map. Hidden parameters follow the parameters of the program.
pub(crate) fn map_parameter(function: &sched::Function, map: usize) -> String {
    format!("{}_param_{}", function.name, function.params().len() + map)
}

/// The shared-memory object of a kernel, if it uses shared memory.
fn shared_memory<'c>(ir: &Ir<'c>, function: &sched::Function) -> Option<GlobalValue<'c>> {
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
