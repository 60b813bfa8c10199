//! Purpose: the dependence graph of one basic block, and the register pressure and reload count of an instruction order.
//! Invariant: `uses` refers only to instructions of the same block; a phi has no uses here.
//! See also: LLVM `ScheduleDAG`.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::llvm_sys::core::{LLVMGetCalledValue, LLVMGetInlineAsmAsmString, LLVMGetInlineAsmHasSideEffects, LLVMIsAInlineAsm};
use inkwell::llvm_sys::prelude::LLVMValueRef;
use inkwell::types::{AnyType, AnyTypeEnum, BasicTypeEnum};
use inkwell::values::{AsValueRef, BasicValue, CallSiteValue, FunctionValue, InstructionOpcode as Code, InstructionValue};
use std::collections::{HashMap, HashSet};

/// A value unused for this many instructions counts as spilled.
const REACH: usize = 256;

/// The instructions of a block by number, each with the numbers of its operands.
pub(crate) struct BlockDag<'c> {
    pub(crate) instructions: Vec<InstructionValue<'c>>,
    pub(crate) uses: Vec<Vec<usize>>,
    /// Whether the instruction has no side effect and depends on its operands only.
    pub(crate) computes: Vec<bool>,
    /// 32-bit registers that the result occupies.
    pub(crate) registers: Vec<u64>,
    /// Whether the result is used in another block.
    pub(crate) leaves: Vec<bool>,
}

impl<'c> BlockDag<'c> {
    pub(crate) fn of(block: BasicBlock<'c>, leaving: &HashSet<LLVMValueRef>) -> BlockDag<'c> {
        let instructions: Vec<InstructionValue<'c>> = block.get_instructions().collect();
        let numbers: HashMap<_, usize> = instructions.iter().enumerate().map(|(n, one)| (one.as_value_ref(), n)).collect();
        let used = |one: &InstructionValue<'c>| match one.get_opcode() {
            // A phi takes its operands from other blocks, or from the end of this block.
            Code::Phi => Vec::new(),
            _ => operands(*one).filter_map(|made| numbers.get(&made.as_value_ref()).copied()).collect(),
        };
        BlockDag {
            uses: instructions.iter().map(used).collect(),
            computes: instructions.iter().map(|one| only_computes(*one)).collect(),
            registers: instructions.iter().map(|one| if is_offset(*one) { 0 } else { registers(one.get_type()) }).collect(),
            leaves: instructions.iter().map(|one| leaving.contains(&one.as_value_ref())).collect(),
            instructions,
        }
    }

    /// The peak register pressure of this order.
    pub(crate) fn alive(&self, order: &[usize]) -> u64 {
        let mut last = vec![usize::MAX; order.len()];
        for (at, number) in order.iter().enumerate() {
            self.uses[*number].iter().for_each(|used| last[*used] = at);
        }
        let (mut now, mut most) = (0, 0);
        for (at, &number) in order.iter().enumerate() {
            let mut over: Vec<usize> =
                self.uses[number].iter().copied().filter(|used| last[*used] == at && !self.leaves[*used]).collect();
            over.sort_unstable();
            over.dedup();
            now -= over.iter().map(|used| self.registers[*used]).sum::<u64>();
            let used = self.leaves[number] || last[number] != usize::MAX;
            now += if used { self.registers[number] } else { 0 };
            most = most.max(now);
        }
        most
    }

    /// Registers reloaded in this order: their previous use is more than `REACH` instructions earlier.
    pub(crate) fn reloads(&self, order: &[usize]) -> u64 {
        let (mut touched, mut count) = (vec![0; order.len()], 0);
        for (at, &number) in order.iter().enumerate() {
            touched[number] = at;
            for &used in &self.uses[number] {
                count += if at - touched[used] > REACH { self.registers[used] } else { 0 };
                touched[used] = at;
            }
        }
        count
    }

    /// Reorders the instructions of the block.
    pub(crate) fn put(&self, order: &[usize], block: BasicBlock<'c>, builder: &Builder<'c>) {
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
    // The called value lives as long as the call, the text as long as the context.
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
pub(crate) fn leaving<'c>(function: FunctionValue<'c>) -> HashSet<LLVMValueRef> {
    let mut leaving = HashSet::new();
    for user in function.get_basic_blocks().into_iter().flat_map(|block| block.get_instructions()) {
        let elsewhere = |made: &InstructionValue<'c>| user.get_opcode() == Code::Phi || made.get_parent() != user.get_parent();
        leaving.extend(operands(user).filter(elsewhere).map(|made| made.as_value_ref()));
    }
    leaving
}

/// The instructions that define the operands of an instruction.
fn operands<'c>(instruction: InstructionValue<'c>) -> impl Iterator<Item = InstructionValue<'c>> {
    instruction.get_operands().flatten().filter_map(|operand| operand.value()?.as_instruction_value())
}

/// Whether the instruction adds a constant to a pointer. Such offsets fold into the accesses.
fn is_offset(instruction: InstructionValue<'_>) -> bool {
    instruction.get_opcode() == Code::GetElementPtr
        && instruction.get_operands().skip(1).flatten().filter_map(|index| index.value()).all(|index| index.is_const())
}

/// 32-bit registers that a value occupies. Predicates have registers of their own; narrow vector elements are packed.
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
