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
pub(crate) const FUNCTION_PREFIX: &str = "__nv_";

/// Links the bodies of the called libdevice functions, and marks them for inlining. It does nothing if the module calls none.
pub(crate) fn link(module: &Module<'_>) -> Result<()> {
    if !functions_of(module).any(|function| function_name(&function).starts_with(FUNCTION_PREFIX)) {
        return Ok(());
    }
    let path = common::toolkit::libdevice()?.path;
    let library_error = |what: &str| Diagnostic::io("PX010", format!("{}: {what}", path.display()));
    let buffer = MemoryBuffer::create_from_file(&path).map_err(|error| library_error(&error.to_string()))?;
    let library = read_lazily(module, buffer).ok_or_else(|| library_error("not LLVM bitcode"))?;
    library.set_triple(&module.get_triple());
    library.set_data_layout(&module.get_data_layout());
    for function in functions_of(&library).filter(|function| !function.as_global_value().is_declaration()) {
        // LLVM's linker takes a function with this linkage only if the module refers to it.
        function.set_linkage(Linkage::LinkOnceODR);
    }
    module.link_in_module(library).map_err(|error| library_error(&error.to_string()))?;
    let attribute_kind = |name: &str| Attribute::get_named_enum_kind_id(name);
    for function in functions_of(module).filter(|function| function.get_linkage() == Linkage::LinkOnceODR) {
        function.set_linkage(Linkage::Internal);
        function.remove_enum_attribute(AttributeLoc::Function, attribute_kind("noinline"));
        let always_inline = module.get_context().create_enum_attribute(attribute_kind("alwaysinline"), 0);
        function.add_attribute(AttributeLoc::Function, always_inline);
    }
    match functions_of(module)
        .find(|function| function_name(function).starts_with(FUNCTION_PREFIX) && function.as_global_value().is_declaration())
    {
        Some(missing) => Err(library_error(&format!("the function '{}' is missing", function_name(&missing)))),
        None => Ok(()),
    }
}

/// Returns the name of a function.
fn function_name(function: &FunctionValue<'_>) -> String {
    function.get_name().to_string_lossy().into_owned()
}

/// Returns all functions of a module.
fn functions_of<'c>(module: &Module<'c>) -> impl Iterator<Item = FunctionValue<'c>> {
    std::iter::successors(module.get_first_function(), |function| function.get_next_function())
}

/// Opens the bitcode library lazily: the linker reads only the function bodies that it needs. Returns `None` if the file is not
/// LLVM bitcode.
#[allow(unsafe_code, reason = "inkwell reads bitcode eagerly only, and the library has hundreds of functions")]
fn read_lazily<'c>(module: &Module<'c>, buffer: MemoryBuffer<'_>) -> Option<Module<'c>> {
    let mut library = std::ptr::null_mut();
    let buffer = std::mem::ManuallyDrop::new(buffer);
    unsafe {
        // SAFETY: LLVM takes ownership of the buffer, and returns a module of this context or an error.
        let status = LLVMGetBitcodeModuleInContext2(module.get_context().as_ctx_ref(), buffer.as_mut_ptr(), &raw mut library);
        (status == 0).then(|| Module::new(library))
    }
}
