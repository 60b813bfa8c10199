//! Links libdevice, NVIDIA's bitcode library of mathematical functions.
//! The module receives only the functions that a kernel calls.

use base::diag::{Diagnostic, Result};
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::context::AsContextRef;
use inkwell::llvm_sys::bit_reader::LLVMGetBitcodeModuleInContext2;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::{Linkage, Module};
use inkwell::values::FunctionValue;

/// The prefix of libdevice function names.
pub(crate) const PREFIX: &str = "__nv_";

/// Links the bodies of the called functions and marks them for inlining.
pub(crate) fn link(module: &Module<'_>) -> Result<()> {
    if !functions(module).any(|function| name(&function).starts_with(PREFIX)) {
        return Ok(());
    }
    let path = common::toolkit::libdevice()?.path;
    let unusable = |what: &str| Diagnostic::io("PX010", format!("{}: {what}", path.display()));
    let buffer = MemoryBuffer::create_from_file(&path).map_err(|error| unusable(&error.to_string()))?;
    let library = read_lazily(module, buffer).ok_or_else(|| unusable("not LLVM bitcode"))?;
    library.set_triple(&module.get_triple());
    library.set_data_layout(&module.get_data_layout());
    for function in functions(&library).filter(|function| !function.as_global_value().is_declaration()) {
        // The linker links a function with this linkage only if a call refers to it.
        function.set_linkage(Linkage::LinkOnceODR);
    }
    module.link_in_module(library).map_err(|error| unusable(&error.to_string()))?;
    let attribute = |name: &str| Attribute::get_named_enum_kind_id(name);
    for function in functions(module).filter(|function| function.get_linkage() == Linkage::LinkOnceODR) {
        function.set_linkage(Linkage::Internal);
        function.remove_enum_attribute(AttributeLoc::Function, attribute("noinline"));
        let inline = module.get_context().create_enum_attribute(attribute("alwaysinline"), 0);
        function.add_attribute(AttributeLoc::Function, inline);
    }
    match functions(module).find(|function| name(function).starts_with(PREFIX) && function.as_global_value().is_declaration()) {
        Some(missing) => Err(unusable(&format!("the function '{}' is missing", name(&missing)))),
        None => Ok(()),
    }
}

fn name(function: &FunctionValue<'_>) -> String {
    function.get_name().to_string_lossy().into_owned()
}

fn functions<'c>(module: &Module<'c>) -> impl Iterator<Item = FunctionValue<'c>> {
    std::iter::successors(module.get_first_function(), |function| function.get_next_function())
}

/// Opens the library lazily. The linker reads only the function bodies that it needs.
#[allow(unsafe_code, reason = "inkwell reads bitcode eagerly only, and the library has hundreds of functions")]
fn read_lazily<'c>(module: &Module<'c>, buffer: MemoryBuffer<'_>) -> Option<Module<'c>> {
    let mut library = std::ptr::null_mut();
    let buffer = std::mem::ManuallyDrop::new(buffer);
    unsafe {
        // LLVM takes ownership of the buffer and returns a module of this context or an error.
        let failed = LLVMGetBitcodeModuleInContext2(module.get_context().as_ctx_ref(), buffer.as_mut_ptr(), &raw mut library);
        (failed == 0).then(|| Module::new(library))
    }
}
