//! Declares the variables and parameters of a program, and assigns addresses to them.

use super::{Binding, Builder, ByteArray, GLOBAL_LIMIT, GLOBALS_SPAN_LIMIT, LOCAL_LIMIT, SHARED_LIMIT};
use crate::address_space::{GLOBALS_BASE, SHARED_START};
use crate::fault::{Fault, Result};
use crate::program::*;
use common::launch::ParamType;
use numerics::Scalar;
use ptx::{Linkage, Type, Value, Variable};

impl<'m> Builder<'m> {
    /// Declares a variable and assigns an address to it.
    pub(in crate::decode) fn declare_variable(&mut self, variable: &Variable) -> Result<()> {
        let too_large = || Fault::new("SIM002", format!("'{}' is too large", variable.name));
        let bytes = variable.bytes().filter(|&bytes| bytes <= GLOBAL_LIMIT).ok_or_else(too_large)?;
        let align = u64::from(variable.align.unwrap_or_else(|| variable.ty.bytes()).max(1));
        let address = match variable.space {
            ptx::Space::Shared | ptx::Space::SharedCta => {
                if variable.linkage == Linkage::Extern && variable.dims.iter().any(Option::is_none) {
                    let missing_size =
                        || Fault::new("SIM002", format!("'{}' is dynamic shared memory; use --dynamic-shared", variable.name));
                    self.sizes.dynamic_shared.ok_or_else(missing_size)?;
                    self.bind(&variable.name, Binding::Shared { address: u64::from(SHARED_START) });
                    return Ok(());
                }
                let address = self.shared_bytes.next_multiple_of(align);
                self.shared_bytes = address + bytes;
                if self.shared_bytes > SHARED_LIMIT {
                    return Err(too_large());
                }
                self.bind(&variable.name, Binding::Shared { address });
                return Ok(());
            }
            ptx::Space::Local => self.allocate_local(bytes, align).ok_or_else(too_large)?,
            ptx::Space::Global | ptx::Space::Const => {
                let allocated_bytes: u64 = self.globals.iter().map(|global| global.data.len() as u64).sum();
                let next_address = (self.globals_end + 64).next_multiple_of(align.max(16));
                // Only variables of the module have selected addresses. A variable of a function may have the same name.
                let selected = self.variable_addresses.get(&variable.name).filter(|_| self.scopes.len() == 1);
                if allocated_bytes + bytes > GLOBAL_LIMIT || next_address + bytes - GLOBALS_BASE > GLOBALS_SPAN_LIMIT {
                    return Err(too_large());
                }
                let address = selected.copied().unwrap_or(next_address);
                if selected.is_none() {
                    self.globals_end = next_address + bytes;
                }
                self.globals.push(GlobalVariable { name: variable.name.clone(), address, data: vec![0; bytes as usize] });
                address
            }
            ptx::Space::Param if !variable.dims.is_empty() => {
                let address = self.allocate_local(bytes, align).ok_or_else(too_large)?;
                self.bind(&variable.name, Binding::Bytes(ByteArray { address, bytes }));
                return Ok(());
            }
            ptx::Space::Param => {
                let slot = self.allocate_temporary();
                self.bind(&variable.name, Binding::Argument { slot });
                return Ok(());
            }
            space => return Err(Fault::unsupported(format!("a variable in '.{space}' is not supported"))),
        };
        self.bind(&variable.name, Binding::Variable { address });
        Ok(())
    }

    /// Allocates local memory for a variable. Returns `None` if the local memory of a thread then exceeds `LOCAL_LIMIT`.
    fn allocate_local(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let address = self.local_bytes.next_multiple_of(align);
        self.local_bytes = address + bytes;
        (self.local_bytes <= LOCAL_LIMIT).then_some(address)
    }

    /// Sets the initial contents of a declared global variable.
    pub(super) fn initialise_variable(&mut self, variable: &Variable) -> Result<()> {
        let mut data = Vec::new();
        for value in &variable.init {
            let bits = match value {
                Value::Integer(value) => *value as u64,
                Value::F32(bits) => u64::from(*bits),
                Value::F64(bits) => *bits,
                Value::Symbol { name, offset } | Value::Generic { name, offset } => {
                    self.variable_address(name)?.wrapping_add_signed(*offset)
                }
                Value::Difference { .. } => return Err(Fault::unsupported("a difference of labels in a variable")),
            };
            data.extend_from_slice(&bits.to_le_bytes()[..variable.ty.bytes() as usize]);
        }
        if let Some(global) = self.globals.iter_mut().find(|global| global.name == variable.name) {
            let length = data.len().min(global.data.len());
            global.data[..length].copy_from_slice(&data[..length]);
        }
        Ok(())
    }

    /// Declares a kernel parameter and assigns an offset to it.
    pub(super) fn declare_param(&mut self, param: &Variable) -> Result<()> {
        let too_large = || Fault::new("SIM002", "the parameters are too large");
        let bytes = param.bytes().filter(|&bytes| bytes <= 1 << 16).ok_or_else(too_large)? as u32;
        // `.ptr .align` describes the pointee, not the parameter.
        let align = if param.pointer.is_some() { 8 } else { param.align.unwrap_or_else(|| param.ty.bytes()).max(1) };
        let offset = self.param_bytes.next_multiple_of(align);
        self.param_bytes = offset + bytes;
        if self.param_bytes > 1 << 20 {
            return Err(too_large());
        }
        let ty = param_type(param);
        self.params.push(ParamField { offset, bytes, hidden: param.hidden, name: param.name.clone(), ty });
        self.bind(&param.name, Binding::Variable { address: u64::from(offset) });
        Ok(())
    }
}

/// Returns the launch type of a parameter. An untyped parameter (`.b32`) accepts any number of its width.
pub(super) fn param_type(param: &Variable) -> Option<ParamType> {
    if !param.dims.is_empty() || param.vector.is_some() {
        return None;
    }
    Some(match param.ty {
        Type::U64 | Type::B64 if param.pointer.is_some() => ParamType::Pointer(None),
        Type::U8 | Type::S8 | Type::B8 => ParamType::Bits(8),
        Type::U16 | Type::S16 => ParamType::Scalar(Scalar::I16),
        Type::U32 | Type::S32 => ParamType::Scalar(Scalar::I32),
        Type::U64 | Type::S64 => ParamType::Scalar(Scalar::I64),
        Type::F16 => ParamType::Scalar(Scalar::F16),
        Type::Bf16 => ParamType::Scalar(Scalar::BF16),
        Type::F32 => ParamType::Scalar(Scalar::F32),
        Type::F64 => ParamType::Scalar(Scalar::F64),
        Type::B16 => ParamType::Bits(16),
        Type::B32 => ParamType::Bits(32),
        Type::B64 => ParamType::Bits(64),
        _ => return None,
    })
}
