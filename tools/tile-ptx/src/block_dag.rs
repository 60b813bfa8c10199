//! Purpose: the dependence graph of one basic block. It computes the register pressure and the number of reloads of an
//! instruction order.
//! Invariant: `operands` refers only to instructions of the same block; a phi has no operands here.
//! See also: LLVM `ScheduleDAG`.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::llvm_sys::core::{LLVMGetCalledValue, LLVMGetInlineAsmAsmString, LLVMGetInlineAsmHasSideEffects, LLVMIsAInlineAsm};
use inkwell::llvm_sys::prelude::LLVMValueRef;
use inkwell::types::{AnyType, AnyTypeEnum, BasicTypeEnum};
use inkwell::values::{AsValueRef, BasicValue, CallSiteValue, FunctionValue, InstructionOpcode as Code, InstructionValue};
use std::collections::{HashMap, HashSet};

/// A value that no instruction uses for this many instructions counts as spilled.
const SPILL_DISTANCE: usize = 256;

/// The instructions of a block by number, each with the numbers of its operands.
pub(crate) struct BlockDag<'c> {
    pub(crate) instructions: Vec<InstructionValue<'c>>,
    pub(crate) operands: Vec<Vec<usize>>,
    /// Whether the instruction has no side effect and its result depends only on its operands.
    /// Whether the instruction has no side effect and depends on its operands only.
    pub(crate) is_pure: Vec<bool>,
    /// Number of 32-bit registers that the result occupies.
    pub(crate) registers: Vec<u64>,
    /// Whether another block, or a phi, uses the result.
    pub(crate) is_live_out: Vec<bool>,
}

impl<'c> BlockDag<'c> {
    pub(crate) fn of(block: BasicBlock<'c>, live_out: &HashSet<LLVMValueRef>) -> BlockDag<'c> {
        let instructions: Vec<InstructionValue<'c>> = block.get_instructions().collect();
        let numbers: HashMap<_, usize> = instructions.iter().enumerate().map(|(n, one)| (one.as_value_ref(), n)).collect();
        let used = |one: &InstructionValue<'c>| match one.get_opcode() {
            // A phi takes its operands from other blocks, or from the end of this block.
            Code::Phi => Vec::new(),
            _ => operand_instructions(*one).filter_map(|operand| numbers.get(&operand.as_value_ref()).copied()).collect(),
        };
        BlockDag {
            operands: instructions.iter().map(used).collect(),
            is_pure: instructions.iter().map(|one| only_computes(*one)).collect(),
            registers: instructions.iter().map(|one| if is_offset(*one) { 0 } else { registers(one.get_type()) }).collect(),
            is_live_out: instructions.iter().map(|one| live_out.contains(&one.as_value_ref())).collect(),
            instructions,
        }
    }

    /// The peak register pressure of an order, in 32-bit registers.
    pub(crate) fn peak_pressure(&self, order: &[usize]) -> u64 {
        let mut last_use = vec![usize::MAX; order.len()];
        for (at, number) in order.iter().enumerate() {
            self.operands[*number].iter().for_each(|used| last_use[*used] = at);
        }
        let (mut pressure, mut peak) = (0, 0);
        for (at, &number) in order.iter().enumerate() {
            let mut ended: Vec<usize> =
                self.operands[number].iter().copied().filter(|used| last_use[*used] == at && !self.is_live_out[*used]).collect();
            ended.sort_unstable();
            ended.dedup();
            pressure -= ended.iter().map(|used| self.registers[*used]).sum::<u64>();
            let used = self.is_live_out[number] || last_use[number] != usize::MAX;
            pressure += if used { self.registers[number] } else { 0 };
            peak = peak.max(pressure);
        }
        peak
    }

    /// The registers that are reloaded in an order: their previous use is more than `SPILL_DISTANCE` instructions earlier.
    pub(crate) fn reloads(&self, order: &[usize]) -> u64 {
        let (mut last_touch, mut count) = (vec![0; order.len()], 0);
        for (at, &number) in order.iter().enumerate() {
            last_touch[number] = at;
            for &used in &self.operands[number] {
                count += if at - last_touch[used] > SPILL_DISTANCE { self.registers[used] } else { 0 };
                last_touch[used] = at;
            }
        }
        count
    }

    /// Puts the instructions of the block into an order.
    pub(crate) fn apply_order(&self, order: &[usize], block: BasicBlock<'c>, builder: &Builder<'c>) {
        let end = block.get_terminator().expect("a block ends in a terminator");
        for &number in order {
            let instruction = self.instructions[number];
            if instruction != end && instruction.get_opcode() != Code::Phi {
                instruction.remove_from_basic_block();
                builder.position_before(&end);
                // The instruction keeps its own source line; the builder would assign the line of the insertion point.
                builder.unset_current_debug_location();
                builder.insert_instruction(&instruction, None);
            }
        }
    }
}

/// Whether an instruction has no side effect and depends on its operands only.
fn only_computes(instruction: InstructionValue<'_>) -> bool {
    match instruction.get_opcode() {
        Code::Phi | Code::Load | Code::Store | Code::AtomicRMW | Code::AtomicCmpXchg | Code::Fence | Code::Alloca => false,
        Code::Call => CallSiteValue::try_from(instruction).is_ok_and(|call| {
            let function = call.get_called_fn_value();
            if function.is_none() {
                return assembly(instruction).is_some_and(|assembly| !assembly.has_effects);
            }
            let has = |name: &str| {
                let attribute = function.and_then(|function| {
                    function.get_enum_attribute(AttributeLoc::Function, Attribute::get_named_enum_kind_id(name))
                });
                attribute.map(|attribute| attribute.get_enum_value())
            };
            // `memory(none)`: the function accesses no memory.
            has("memory") == Some(0) && has("convergent").is_none()
        }),
        _ => !instruction.is_terminator(),
    }
}

/// Inline assembly that an instruction calls.
pub(crate) struct Assembly {
    pub(crate) text: String,
    pub(crate) has_effects: bool,
}

/// The inline assembly that an instruction calls, if any.
#[allow(unsafe_code, reason = "inkwell exposes inline assembly only by printing the instruction, which numbers the whole function")]
pub(crate) fn assembly(instruction: InstructionValue<'_>) -> Option<Assembly> {
    if instruction.get_opcode() != Code::Call {
        return None;
    }
    // The called value is valid as long as the call, and its text as long as the context.
    unsafe {
        let called = LLVMIsAInlineAsm(LLVMGetCalledValue(instruction.as_value_ref()));
        if called.is_null() {
            return None;
        }
        let mut length = 0;
        let text = LLVMGetInlineAsmAsmString(called, &mut length);
        let text = String::from_utf8_lossy(std::slice::from_raw_parts(text.cast(), length)).into_owned();
        Some(Assembly { text, has_effects: LLVMGetInlineAsmHasSideEffects(called) != 0 })
    }
}

/// The instructions whose results another block or a phi uses.
pub(crate) fn live_out<'c>(function: FunctionValue<'c>) -> HashSet<LLVMValueRef> {
    let mut live_out = HashSet::new();
    for user in function.get_basic_blocks().into_iter().flat_map(|block| block.get_instructions()) {
        let elsewhere =
            |operand: &InstructionValue<'c>| user.get_opcode() == Code::Phi || operand.get_parent() != user.get_parent();
        live_out.extend(operand_instructions(user).filter(elsewhere).map(|operand| operand.as_value_ref()));
    }
    live_out
}

/// The instructions that define the operands of an instruction.
fn operand_instructions<'c>(instruction: InstructionValue<'c>) -> impl Iterator<Item = InstructionValue<'c>> {
    instruction.get_operands().flatten().filter_map(|operand| operand.value()?.as_instruction_value())
}

/// Whether the instruction adds a constant to a pointer. Such offsets fold into the accesses.
fn is_offset(instruction: InstructionValue<'_>) -> bool {
    instruction.get_opcode() == Code::GetElementPtr
        && instruction.get_operands().skip(1).flatten().filter_map(|index| index.value()).all(|index| index.is_const())
}

/// Number of 32-bit registers that a value occupies. Predicates have their own registers. Narrow vector elements are packed.
fn registers(ty: AnyTypeEnum<'_>) -> u64 {
    match ty {
        AnyTypeEnum::IntType(ty) if ty.get_bit_width() == 1 => 0,
        AnyTypeEnum::IntType(ty) => u64::from(ty.get_bit_width().div_ceil(32)),
        AnyTypeEnum::FloatType(ty) => u64::from(ty.get_bit_width().div_ceil(32)),
        AnyTypeEnum::PointerType(_) => 2,
        AnyTypeEnum::VectorType(ty) => {
            let bits = match ty.get_element_type() {
                BasicTypeEnum::IntType(ty) => ty.get_bit_width(),
                BasicTypeEnum::FloatType(ty) => ty.get_bit_width(),
                _ => 64,
            };
            (u64::from(bits) * u64::from(ty.get_size())).div_ceil(32)
        }
        AnyTypeEnum::StructType(ty) => ty.get_field_types_iter().map(|ty| registers(ty.as_any_type_enum())).sum(),
        _ => 0,
    }
}
