//! The order of instructions in blocks that keep more values alive than a thread has registers.
//!
//! The emitters write a tile's registers one op after the other, so that large tiles are alive as a whole between two ops, and
//! ptxas, which keeps to that order by and large, spills them all and takes minutes over it. Here what only computes is moved to
//! where it is needed, element by element. Accesses to memory and whatever else has effects stay in their order. A block of
//! which that neither keeps less alive nor uses values sooner again stays as it is.

use base::diag::{Diagnostic, Result};
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::llvm_sys::prelude::LLVMValueRef;
use inkwell::module::Module;
use inkwell::types::{AnyType, AnyTypeEnum, BasicTypeEnum};
use inkwell::values::{AsValueRef, BasicValue, CallSiteValue, FunctionValue, InstructionOpcode as Code, InstructionValue};
use std::collections::{HashMap, HashSet};

/// Registers that are alive at a time, from which on a block is put in another order: well beyond what any thread has, since ptxas
/// finds a good order for what nearly fits.
const MANY: u64 = 384;
/// Instructions after which a value that is not used in between is no longer in a register then.
const REACH: usize = 256;
/// Those from which on ptxas takes minutes, whatever the order.
const MOST: u64 = 8 << 10;

/// The instructions of a block by number, with the numbers of those whose results they use.
struct Straight<'c> {
    instructions: Vec<InstructionValue<'c>>,
    uses: Vec<Vec<usize>>,
    /// Registers of the result.
    registers: Vec<u64>,
    /// Whether the result is used in another block.
    leaves: Vec<bool>,
}

/// Orders the blocks that need it; refuses a program that keeps too much alive nevertheless.
pub(crate) fn run(module: &Module<'_>, builder: &Builder<'_>) -> Result<()> {
    for function in module.get_functions() {
        let long = |block: &BasicBlock<'_>| block.get_instructions().nth(MANY as usize).is_some();
        let blocks: Vec<BasicBlock<'_>> = function.get_basic_blocks().into_iter().filter(long).collect();
        if blocks.is_empty() {
            continue;
        }
        let leaving = leaving(function);
        let alive = blocks.into_iter().map(|block| order(block, &leaving, builder)).max().unwrap_or(0);
        if alive > MOST {
            let name = function.get_name().to_string_lossy();
            let message = format!(
                "the code of '{name}' is too large: it keeps about {alive} registers of each thread in use at a time, and with more \
                 than {MOST} it would be compiled for minutes; smaller tiles need less"
            );
            return Err(Diagnostic::unsupported("PX009", message));
        }
    }
    Ok(())
}

/// Orders a block and gives the registers that are alive at a time in it.
fn order<'c>(block: BasicBlock<'c>, leaving: &HashSet<LLVMValueRef>, builder: &Builder<'c>) -> u64 {
    let straight = Straight::of(block, leaving);
    let given: Vec<usize> = (0..straight.instructions.len()).collect();
    let before = straight.alive(&given);
    if before <= MANY {
        return before;
    }
    let order = straight.by_need();
    let after = straight.alive(&order);
    let better = after < before || straight.reloads(&order) < straight.reloads(&given) / 4 * 3;
    let Some(end) = block.get_terminator().filter(|_| better) else { return before };
    for &number in &order {
        let instruction = straight.instructions[number];
        if instruction != end && instruction.get_opcode() != Code::Phi {
            instruction.remove_from_basic_block();
            builder.position_before(&end);
            builder.insert_instruction(&instruction, None);
        }
    }
    after
}

impl<'c> Straight<'c> {
    fn of(block: BasicBlock<'c>, leaving: &HashSet<LLVMValueRef>) -> Straight<'c> {
        let instructions: Vec<InstructionValue<'c>> = block.get_instructions().collect();
        let numbers: HashMap<_, usize> = instructions.iter().enumerate().map(|(n, one)| (one.as_value_ref(), n)).collect();
        let used = |one: &InstructionValue<'c>| match one.get_opcode() {
            // What a phi uses comes from other blocks, or from the end of this one.
            Code::Phi => Vec::new(),
            _ => operands(*one).filter_map(|made| numbers.get(&made.as_value_ref()).copied()).collect(),
        };
        Straight {
            uses: instructions.iter().map(used).collect(),
            registers: instructions.iter().map(|one| if is_offset(*one) { 0 } else { registers(one.get_type()) }).collect(),
            leaves: instructions.iter().map(|one| leaving.contains(&one.as_value_ref())).collect(),
            instructions,
        }
    }

    /// The most registers that are alive at a time in this order.
    fn alive(&self, order: &[usize]) -> u64 {
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

    /// Registers that are used so long after they were used before that they had to leave in between.
    fn reloads(&self, order: &[usize]) -> u64 {
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

    /// What has effects in its order, and before each only what it needs and is not there yet. Results for other blocks are last.
    fn by_need(&self) -> Vec<usize> {
        let count = self.instructions.len();
        let anchors: Vec<usize> = (0..count).filter(|number| !only_computes(self.instructions[*number])).collect();
        let (end, anchors) = anchors.split_last().expect("a block ends in a terminator");
        let (mut order, mut placed) = (Vec::with_capacity(count), vec![false; count]);
        for &number in anchors.iter().chain(&(0..count).collect::<Vec<_>>()).filter(|number| *number != end).chain([end]) {
            // Operands first, without recursion, since chains are as long as programs.
            let mut work = vec![(number, 0)];
            while let Some((number, operand)) = work.pop() {
                if placed[number] {
                    continue;
                }
                match self.uses[number].get(operand) {
                    Some(&used) => work.extend([(number, operand + 1), (used, 0)]),
                    None => {
                        placed[number] = true;
                        order.push(number);
                    }
                }
            }
        }
        order
    }
}

/// Whether an instruction has no effect and depends on its operands alone.
fn only_computes(instruction: InstructionValue<'_>) -> bool {
    match instruction.get_opcode() {
        Code::Phi | Code::Load | Code::Store | Code::AtomicRMW | Code::AtomicCmpXchg | Code::Fence | Code::Alloca => false,
        Code::Call => CallSiteValue::try_from(instruction).is_ok_and(|call| {
            let function = call.get_called_fn_value();
            let has = |name: &str| {
                let attribute = function.and_then(|function| {
                    function.get_enum_attribute(AttributeLoc::Function, Attribute::get_named_enum_kind_id(name))
                });
                attribute.map(|attribute| attribute.get_enum_value())
            };
            // Of no kind of memory anything is read or written.
            has("memory") == Some(0) && has("convergent").is_none()
        }),
        _ => !instruction.is_terminator(),
    }
}

/// The instructions whose results are used in another block, or by a phi.
fn leaving<'c>(function: FunctionValue<'c>) -> HashSet<LLVMValueRef> {
    let mut leaving = HashSet::new();
    for user in function.get_basic_blocks().into_iter().flat_map(|block| block.get_instructions()) {
        let elsewhere = |made: &InstructionValue<'c>| user.get_opcode() == Code::Phi || made.get_parent() != user.get_parent();
        leaving.extend(operands(user).filter(elsewhere).map(|made| made.as_value_ref()));
    }
    leaving
}

/// The instructions that make what an instruction uses.
fn operands<'c>(instruction: InstructionValue<'c>) -> impl Iterator<Item = InstructionValue<'c>> {
    instruction.get_operands().flatten().filter_map(|operand| operand.value()?.as_instruction_value())
}

/// Whether it adds a constant to a pointer, which accesses do themselves.
fn is_offset(instruction: InstructionValue<'_>) -> bool {
    instruction.get_opcode() == Code::GetElementPtr
        && instruction.get_operands().skip(1).flatten().filter_map(|index| index.value()).all(|index| index.is_const())
}

/// Registers of 32 bits that a value takes; predicates are registers of another kind.
fn registers(ty: AnyTypeEnum<'_>) -> u64 {
    let bits = |ty: BasicTypeEnum<'_>| registers(ty.as_any_type_enum());
    match ty {
        AnyTypeEnum::IntType(ty) if ty.get_bit_width() == 1 => 0,
        AnyTypeEnum::IntType(ty) => u64::from(ty.get_bit_width().div_ceil(32)),
        AnyTypeEnum::FloatType(ty) => u64::from(ty.get_bit_width().div_ceil(32)),
        AnyTypeEnum::PointerType(_) => 2,
        AnyTypeEnum::VectorType(ty) => bits(ty.get_element_type()) * u64::from(ty.get_size()),
        AnyTypeEnum::StructType(ty) => ty.get_field_types_iter().map(bits).sum(),
        _ => 0,
    }
}
