//! Purpose: builds the dependence graph of one basic block. For an instruction order, the graph gives the peak register pressure
//! and an estimate of reloaded registers.
//! Invariant: `operands` refers only to instructions of the same block; a phi has no operands in the graph.
//! See also: LLVM `ScheduleDAG`.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::llvm_sys::core::{LLVMGetCalledValue, LLVMGetInlineAsmAsmString, LLVMGetInlineAsmHasSideEffects, LLVMIsAInlineAsm};
use inkwell::llvm_sys::prelude::LLVMValueRef;
use inkwell::types::{AnyType, AnyTypeEnum, BasicTypeEnum};
use inkwell::values::{AsValueRef, BasicValue, CallSiteValue, FunctionValue, InstructionOpcode as Code, InstructionValue};
use std::collections::{HashMap, HashSet};

/// The estimate of reloads counts a value as spilled if more than this number of instructions lie between two uses. Source: a thread
/// has at most 255 registers (CUDA C++ Programming Guide, compute capabilities). After so many results of 32 bits, the value stays in
/// its register only at the cost of another value.
const SPILL_DISTANCE: usize = 256;

/// The instructions of a block and the dependences between them. The number of an instruction is its index in the original order.
pub(crate) struct BlockDag<'c> {
    pub(crate) instructions: Vec<InstructionValue<'c>>,
    /// For each instruction, the numbers of the instructions that define its operands.
    pub(crate) operands: Vec<Vec<usize>>,
    /// For each instruction, whether it has no side effect and its result depends only on its operands.
    pub(crate) is_pure: Vec<bool>,
    /// For each instruction, the number of 32-bit registers that its result occupies; zero for a pointer plus a constant (see
    /// `is_offset`).
    pub(crate) result_registers: Vec<u64>,
    /// For each instruction, whether another block or a phi uses its result.
    pub(crate) is_live_out: Vec<bool>,
}

impl<'c> BlockDag<'c> {
    /// Builds the graph of a basic block. `live_out` has the values that other blocks use.
    pub(crate) fn build(block: BasicBlock<'c>, live_out: &HashSet<LLVMValueRef>) -> BlockDag<'c> {
        let instructions: Vec<InstructionValue<'c>> = block.get_instructions().collect();
        let instruction_numbers: HashMap<_, usize> =
            instructions.iter().enumerate().map(|(n, instruction)| (instruction.as_value_ref(), n)).collect();
        let operand_numbers = |instruction: &InstructionValue<'c>| match instruction.get_opcode() {
            // A phi takes its operands from other blocks, or from the end of this block.
            Code::Phi => Vec::new(),
            _ => operand_instructions(*instruction)
                .filter_map(|operand| instruction_numbers.get(&operand.as_value_ref()).copied())
                .collect(),
        };
        BlockDag {
            operands: instructions.iter().map(operand_numbers).collect(),
            is_pure: instructions.iter().map(|instruction| is_pure_instruction(*instruction)).collect(),
            result_registers: instructions
                .iter()
                .map(|instruction| if is_offset(*instruction) { 0 } else { register_count(instruction.get_type()) })
                .collect(),
            is_live_out: instructions.iter().map(|instruction| live_out.contains(&instruction.as_value_ref())).collect(),
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
            let mut ending_values: Vec<usize> =
                self.operands[number].iter().copied().filter(|used| last_use[*used] == at && !self.is_live_out[*used]).collect();
            ending_values.sort_unstable();
            ending_values.dedup();
            pressure -= ending_values.iter().map(|used| self.result_registers[*used]).sum::<u64>();
            let is_used = self.is_live_out[number] || last_use[number] != usize::MAX;
            pressure += if is_used { self.result_registers[number] } else { 0 };
            peak = peak.max(pressure);
        }
        peak
    }

    /// Estimates the number of 32-bit registers that an order reloads from spill slots. A use reloads its operand if the previous
    /// use or the definition of the operand is more than `SPILL_DISTANCE` instructions earlier.
    pub(crate) fn reloaded_registers(&self, order: &[usize]) -> u64 {
        let (mut last_access, mut reloaded) = (vec![0; order.len()], 0);
        for (at, &number) in order.iter().enumerate() {
            last_access[number] = at;
            for &used in &self.operands[number] {
                reloaded += if at - last_access[used] > SPILL_DISTANCE { self.result_registers[used] } else { 0 };
                last_access[used] = at;
            }
        }
        reloaded
    }

    /// Moves the instructions of the block into this order. Phis stay first, and the terminator stays last.
    pub(crate) fn apply_order(&self, order: &[usize], block: BasicBlock<'c>, builder: &Builder<'c>) {
        let end = block.get_terminator().expect("a block ends in a terminator");
        for &number in order {
            let instruction = self.instructions[number];
            if instruction != end && instruction.get_opcode() != Code::Phi {
                instruction.remove_from_basic_block();
                builder.position_before(&end);
                // Without this call, the builder would replace the instruction's source line with the line of the insertion point.
                builder.unset_current_debug_location();
                builder.insert_instruction(&instruction, None);
            }
        }
    }
}

/// Whether an instruction has no side effect and its result depends only on its operands.
fn is_pure_instruction(instruction: InstructionValue<'_>) -> bool {
    match instruction.get_opcode() {
        Code::Phi | Code::Load | Code::Store | Code::AtomicRMW | Code::AtomicCmpXchg | Code::Fence | Code::Alloca => false,
        Code::Call => CallSiteValue::try_from(instruction).is_ok_and(|call| {
            let function = call.get_called_fn_value();
            if function.is_none() {
                return called_assembly(instruction).is_some_and(|assembly| !assembly.has_effects);
            }
            let attribute_value = |name: &str| {
                let attribute = function.and_then(|function| {
                    function.get_enum_attribute(AttributeLoc::Function, Attribute::get_named_enum_kind_id(name))
                });
                attribute.map(|attribute| attribute.get_enum_value())
            };
            // `memory(none)`: the function accesses no memory.
            attribute_value("memory") == Some(0) && attribute_value("convergent").is_none()
        }),
        _ => !instruction.is_terminator(),
    }
}

/// The inline assembly that a call instruction executes: its text, and whether LLVM treats it as having side effects.
pub(crate) struct InlineAssembly {
    pub(crate) text: String,
    pub(crate) has_effects: bool,
}

/// Returns the inline assembly of an instruction, or `None` if the instruction is not a call of inline assembly.
#[allow(unsafe_code, reason = "inkwell exposes inline assembly only by printing the instruction, which numbers the whole function")]
pub(crate) fn called_assembly(instruction: InstructionValue<'_>) -> Option<InlineAssembly> {
    if instruction.get_opcode() != Code::Call {
        return None;
    }
    // SAFETY: the called value is valid as long as the call exists, and its text as long as the context exists.
    unsafe {
        let called_value = LLVMIsAInlineAsm(LLVMGetCalledValue(instruction.as_value_ref()));
        if called_value.is_null() {
            return None;
        }
        let mut length = 0;
        let text = LLVMGetInlineAsmAsmString(called_value, &mut length);
        let text = String::from_utf8_lossy(std::slice::from_raw_parts(text.cast(), length)).into_owned();
        Some(InlineAssembly { text, has_effects: LLVMGetInlineAsmHasSideEffects(called_value) != 0 })
    }
}

/// Returns the instructions of a function whose results a phi or an instruction of another block uses.
pub(crate) fn live_out<'c>(function: FunctionValue<'c>) -> HashSet<LLVMValueRef> {
    let mut live_out = HashSet::new();
    for user in function.get_basic_blocks().into_iter().flat_map(|block| block.get_instructions()) {
        let is_used_outside =
            |operand: &InstructionValue<'c>| user.get_opcode() == Code::Phi || operand.get_parent() != user.get_parent();
        live_out.extend(operand_instructions(user).filter(is_used_outside).map(|operand| operand.as_value_ref()));
    }
    live_out
}

/// Returns the instructions that define the operands of an instruction.
fn operand_instructions<'c>(instruction: InstructionValue<'c>) -> impl Iterator<Item = InstructionValue<'c>> {
    instruction.get_operands().flatten().filter_map(|operand| operand.value()?.as_instruction_value())
}

/// Whether the instruction adds a constant to a pointer. Such an addition needs no register, because it becomes the constant offset
/// of the memory accesses.
fn is_offset(instruction: InstructionValue<'_>) -> bool {
    instruction.get_opcode() == Code::GetElementPtr
        && instruction.get_operands().skip(1).flatten().filter_map(|index| index.value()).all(|index| index.is_const())
}

/// Returns the number of 32-bit registers that a value of this type occupies. Predicates have a register file of their own, so they
/// count as zero. Narrow vector elements are packed.
fn register_count(ty: AnyTypeEnum<'_>) -> u64 {
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
        AnyTypeEnum::StructType(ty) => ty.get_field_types_iter().map(|ty| register_count(ty.as_any_type_enum())).sum(),
        _ => 0,
    }
}
