//! A thin layer over LLVM's instruction builder. Its short method names let the emitter's code resemble the arithmetic that it
//! emits.
//!
//! The builder fails only if it has no insertion point or if types do not match. Both are bugs of the emitter, so a failure panics.

use core_dialect::tile::{Elem, Space};
use inkwell::attributes::AttributeLoc;
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::context::Context;
use inkwell::intrinsics::Intrinsic;
use inkwell::module::Module;
use inkwell::types::{BasicMetadataTypeEnum, BasicType, BasicTypeEnum, FloatType, IntType};
use inkwell::values::{
    BasicMetadataValueEnum, BasicValue, BasicValueEnum, FloatValue, FunctionValue, GlobalValue, InstructionOpcode, IntValue,
    PointerValue, VectorValue,
};
use inkwell::{AddressSpace, FloatPredicate, InlineAsmDialect, IntPredicate};
use numerics::Scalar;
use numerics::arith::Overflow;

/// An LLVM value of any first-class type.
pub(crate) type Val<'c> = BasicValueEnum<'c>;

/// The panic message if the builder fails.
const BUILDER_PANIC: &str = "the emitter passes matching types to the builder";

/// The LLVM address space of global memory in NVPTX.
pub(crate) const GLOBAL: u16 = 1;
/// The LLVM address space of shared memory in NVPTX.
pub(crate) const SHARED: u16 = 3;

/// The LLVM module under construction, and the builder that appends instructions to it.
pub(crate) struct Ir<'c> {
    pub(crate) context: &'c Context,
    pub(crate) module: Module<'c>,
    pub(crate) builder: Builder<'c>,
}

impl<'c> Ir<'c> {
    /// The type of predicates.
    pub(crate) fn i1(&self) -> IntType<'c> {
        self.context.bool_type()
    }
    /// The integer type with this many bits. Widths without a type of their own use 64 bits.
    pub(crate) fn int_type(&self, bits: u32) -> IntType<'c> {
        match bits {
            1 => self.context.bool_type(),
            4 => self.context.custom_width_int_type(std::num::NonZeroU32::new(4).expect("not zero")).expect("a small width"),
            8 => self.context.i8_type(),
            16 => self.context.i16_type(),
            32 => self.context.i32_type(),
            _ => self.context.i64_type(),
        }
    }
    pub(crate) fn i32(&self) -> IntType<'c> {
        self.context.i32_type()
    }
    pub(crate) fn i64(&self) -> IntType<'c> {
        self.context.i64_type()
    }
    pub(crate) fn f32(&self) -> FloatType<'c> {
        self.context.f32_type()
    }

    /// The LLVM type of a scalar in a register. Float formats that LLVM lacks use integers of the same width.
    pub(crate) fn scalar_type(&self, scalar: Scalar) -> BasicTypeEnum<'c> {
        match scalar {
            Scalar::F16 => self.context.f16_type().into(),
            Scalar::BF16 => self.context.bf16_type().into(),
            Scalar::F32 | Scalar::TF32 => self.context.f32_type().into(),
            Scalar::F64 => self.context.f64_type().into(),
            Scalar::I1 => self.context.bool_type().into(),
            other => self.int_type(other.bits()).into(),
        }
    }
    /// The LLVM type of an element in a register.
    pub(crate) fn elem_type(&self, elem: Elem) -> BasicTypeEnum<'c> {
        match elem {
            Elem::Scalar(scalar) => self.scalar_type(scalar),
            Elem::Ptr { space, .. } => self.context.ptr_type(address_space(space)).into(),
        }
    }
    /// The LLVM type of an element in memory. An element narrower than a byte occupies a byte.
    pub(crate) fn memory_type(&self, elem: Elem) -> BasicTypeEnum<'c> {
        match elem {
            narrow if narrow.bits() < 8 => self.context.i8_type().into(),
            other => self.elem_type(other),
        }
    }

    /// A 32-bit integer constant.
    pub(crate) fn const32(&self, value: u32) -> IntValue<'c> {
        self.i32().const_int(u64::from(value), false)
    }
    /// A 64-bit integer constant.
    pub(crate) fn const64(&self, value: u64) -> IntValue<'c> {
        self.i64().const_int(value, false)
    }
    /// A constant whose encoding has these bits.
    pub(crate) fn constant(&self, elem: Elem, bits: u64) -> Val<'c> {
        match self.elem_type(elem) {
            BasicTypeEnum::IntType(ty) => ty.const_int(bits, false).into(),
            BasicTypeEnum::FloatType(ty) => {
                // An integer constant preserves NaN payloads.
                let bits = self.int_type(elem.bits()).const_int(bits, false);
                self.builder.build_bit_cast(bits, ty, "").expect(BUILDER_PANIC)
            }
            BasicTypeEnum::PointerType(ty) => {
                self.builder.build_int_to_ptr(self.const64(bits), ty, "").expect(BUILDER_PANIC).into()
            }
            _ => unreachable!("scalars are integers, floats or pointers"),
        }
    }

    /// Sets the `nsw` and `nuw` flags of an addition, subtraction or multiplication, unless LLVM has folded it to a constant.
    pub(crate) fn set_wrap_flags(&self, value: IntValue<'c>, overflow: Overflow) -> IntValue<'c> {
        if let Some(instruction) = value.as_instruction() {
            let no_signed_wrap = matches!(overflow, Overflow::NoSignedWrap | Overflow::NoWrap);
            let no_unsigned_wrap = matches!(overflow, Overflow::NoUnsignedWrap | Overflow::NoWrap);
            instruction.set_no_signed_wrap_flag(no_signed_wrap).expect(BUILDER_PANIC);
            instruction.set_no_unsigned_wrap_flag(no_unsigned_wrap).expect(BUILDER_PANIC);
        }
        value
    }
    pub(crate) fn add(&self, a: IntValue<'c>, b: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_int_add(a, b, "").expect(BUILDER_PANIC)
    }
    pub(crate) fn sub(&self, a: IntValue<'c>, b: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_int_sub(a, b, "").expect(BUILDER_PANIC)
    }
    pub(crate) fn mul(&self, a: IntValue<'c>, b: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_int_mul(a, b, "").expect(BUILDER_PANIC)
    }
    pub(crate) fn and(&self, a: IntValue<'c>, b: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_and(a, b, "").expect(BUILDER_PANIC)
    }
    pub(crate) fn or(&self, a: IntValue<'c>, b: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_or(a, b, "").expect(BUILDER_PANIC)
    }
    pub(crate) fn xor(&self, a: IntValue<'c>, b: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_xor(a, b, "").expect(BUILDER_PANIC)
    }
    pub(crate) fn not(&self, a: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_not(a, "").expect(BUILDER_PANIC)
    }
    pub(crate) fn shl(&self, a: IntValue<'c>, b: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_left_shift(a, b, "").expect(BUILDER_PANIC)
    }
    /// Emits a right shift: arithmetic if `signed`, otherwise logical.
    pub(crate) fn shr(&self, a: IntValue<'c>, b: IntValue<'c>, signed: bool) -> IntValue<'c> {
        self.builder.build_right_shift(a, b, signed, "").expect(BUILDER_PANIC)
    }
    pub(crate) fn div(&self, a: IntValue<'c>, b: IntValue<'c>, signed: bool) -> IntValue<'c> {
        let build = if signed { Builder::build_int_signed_div } else { Builder::build_int_unsigned_div };
        build(&self.builder, a, b, "").expect(BUILDER_PANIC)
    }
    pub(crate) fn rem(&self, a: IntValue<'c>, b: IntValue<'c>, signed: bool) -> IntValue<'c> {
        let build = if signed { Builder::build_int_signed_rem } else { Builder::build_int_unsigned_rem };
        build(&self.builder, a, b, "").expect(BUILDER_PANIC)
    }
    pub(crate) fn icmp(&self, predicate: IntPredicate, a: IntValue<'c>, b: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_int_compare(predicate, a, b, "").expect(BUILDER_PANIC)
    }
    pub(crate) fn fcmp(&self, predicate: FloatPredicate, a: FloatValue<'c>, b: FloatValue<'c>) -> IntValue<'c> {
        self.builder.build_float_compare(predicate, a, b, "").expect(BUILDER_PANIC)
    }
    /// Emits the selection of one of two values.
    pub(crate) fn select(&self, cond: IntValue<'c>, value_if_true: Val<'c>, value_if_false: Val<'c>) -> Val<'c> {
        self.builder.build_select(cond, value_if_true, value_if_false, "").expect(BUILDER_PANIC)
    }
    /// Emits a reinterpretation of a value's bits as another type.
    pub(crate) fn bitcast(&self, value: impl BasicValue<'c>, ty: impl BasicType<'c>) -> Val<'c> {
        self.builder.build_bit_cast(value.as_basic_value_enum(), ty.as_basic_type_enum(), "").expect(BUILDER_PANIC)
    }
    /// Truncates or extends an integer to an integer type.
    pub(crate) fn resize(&self, value: IntValue<'c>, to: IntType<'c>, signed: bool) -> IntValue<'c> {
        let (from_bits, to_bits) = (value.get_type().get_bit_width(), to.get_bit_width());
        match (from_bits.cmp(&to_bits), signed) {
            (std::cmp::Ordering::Equal, _) => value,
            (std::cmp::Ordering::Greater, _) => self.builder.build_int_truncate(value, to, "").expect(BUILDER_PANIC),
            (_, true) => self.builder.build_int_s_extend(value, to, "").expect(BUILDER_PANIC),
            (_, false) => self.builder.build_int_z_extend(value, to, "").expect(BUILDER_PANIC),
        }
    }
    /// Emits the conversion of a pointer to a 64-bit address.
    pub(crate) fn ptr_to_int(&self, ptr: PointerValue<'c>) -> IntValue<'c> {
        self.builder.build_ptr_to_int(ptr, self.i64(), "").expect(BUILDER_PANIC)
    }
    /// The 32-bit address of a shared-memory variable, through a `mov`. Reason: the `mov` hides the variable from LLVM, which
    /// therefore keeps the address in a register.
    pub(crate) fn opaque_address(&self, variable: GlobalValue<'c>) -> IntValue<'c> {
        let address = self.builder.build_ptr_to_int(variable.as_pointer_value(), self.i32(), "").expect(BUILDER_PANIC);
        let copy = self.asm(Some(self.i32().into()), "mov.b32 $0, $1;", "=r,r", &[address.into()], false);
        copy.expect("the assembly returns a value").into_int_value()
    }
    /// Emits the conversion of an address to a pointer in an address space.
    pub(crate) fn int_to_ptr(&self, int: IntValue<'c>, space: u16) -> PointerValue<'c> {
        let ty = self.context.ptr_type(AddressSpace::from(space));
        self.builder.build_int_to_ptr(int, ty, "").expect(BUILDER_PANIC)
    }
    /// The address of the element `index` after `ptr`, for elements of type `ty`.
    pub(crate) fn element_ptr(&self, ty: BasicTypeEnum<'c>, ptr: PointerValue<'c>, index: IntValue<'c>) -> PointerValue<'c> {
        let ty: BasicTypeEnum<'c> = if ty.is_pointer_type() { self.i64().into() } else { ty };
        self.plain_element_ptr(ty, ptr, index)
    }
    #[allow(unsafe_code, reason = "inkwell marks address arithmetic unsafe; plain (not inbounds) arithmetic cannot be undefined")]
    fn plain_element_ptr(&self, ty: BasicTypeEnum<'c>, ptr: PointerValue<'c>, index: IntValue<'c>) -> PointerValue<'c> {
        unsafe { self.builder.build_gep(ty, ptr, &[index], "").expect(BUILDER_PANIC) }
    }
    /// Emits a load. `align` is the alignment in bytes.
    pub(crate) fn load(&self, ty: BasicTypeEnum<'c>, ptr: PointerValue<'c>, align: u32) -> Val<'c> {
        let value = self.builder.build_load(ty, ptr, "").expect(BUILDER_PANIC);
        let load = value.as_instruction_value().expect("a load is an instruction");
        load.set_alignment(align).expect("alignments are powers of two");
        value
    }
    /// Emits a store. `align` is the alignment in bytes.
    pub(crate) fn store(&self, value: Val<'c>, ptr: PointerValue<'c>, align: u32) {
        let store = self.builder.build_store(ptr, value).expect(BUILDER_PANIC);
        store.set_alignment(align).expect("alignments are powers of two");
    }
    /// Passes values through inline assembly, so that LLVM cannot tell whether they are constant or equal. Reason: if the phi of a
    /// conditional load has constants, LLVM moves the users of the phi into the block of the load. The users then wait for this
    /// load before the next load is issued.
    pub(crate) fn opaque(&self, values: &[Val<'c>]) -> Vec<Val<'c>> {
        let bits = match values.first().map(|value| value.get_type()) {
            Some(BasicTypeEnum::IntType(ty)) => ty.get_bit_width(),
            Some(BasicTypeEnum::FloatType(ty)) => ty.get_bit_width(),
            _ => return values.to_vec(),
        };
        let (word, suffix, letter) = match bits {
            8..=32 => (self.i32(), "b32", "r"),
            64 => (self.i64(), "b64", "l"),
            _ => return values.to_vec(),
        };
        let narrow = self.int_type(bits);
        let to_word = |value: &Val<'c>| Val::from(self.resize(self.bitcast(*value, narrow).into_int_value(), word, false));
        let words: Vec<Val<'c>> = values.iter().map(to_word).collect();
        let count = words.len();
        let moves = (0..count).map(|index| format!("mov.{suffix} ${index}, ${};", count + index));
        let text = moves.collect::<Vec<_>>().join("\n\t");
        let constraints = [vec![format!("={letter}"); count], vec![letter.to_string(); count]].concat().join(",");
        let copies = self.asm_many(&vec![word.into(); count], &text, &constraints, &words, false);
        let from_word = |copy: Val<'c>| self.bitcast(self.resize(copy.into_int_value(), narrow, false), values[0].get_type());
        copies.into_iter().map(from_word).collect()
    }
    /// Returns a vector of the values, or the value itself if there is only one.
    pub(crate) fn pack(&self, values: &[Val<'c>]) -> Val<'c> {
        if let [one] = values {
            return *one;
        }
        let ty = self.vector_type(values[0].get_type(), values.len() as u32).into_vector_type();
        if let Some(pairs) = self.register_pairs(values) {
            return self.bitcast(self.pack(&pairs), ty);
        }
        let mut vector = ty.get_poison();
        for (i, value) in values.iter().enumerate() {
            vector = self.builder.build_insert_element(vector, *value, self.const32(i as u32), "").expect(BUILDER_PANIC);
        }
        vector.into()
    }
    /// If every two consecutive values are the elements of one two-element vector, returns these vectors as integers. Reason: LLVM
    /// recognises such pairs only in the block that defines them. In another block, such as one with a predicated store, LLVM would
    /// split and rebuild each pair.
    fn register_pairs(&self, values: &[Val<'c>]) -> Option<Vec<Val<'c>>> {
        let pair = |values: &[Val<'c>]| {
            let [(vector, 0), (second_vector, 1)] = [extracted_from(values.first()?)?, extracted_from(values.get(1)?)?] else {
                return None;
            };
            let bits = match values[0].get_type() {
                BasicTypeEnum::IntType(ty) => ty.get_bit_width() * 2,
                BasicTypeEnum::FloatType(ty) => ty.get_bit_width() * 2,
                _ => return None,
            };
            let is_pair = vector == second_vector && vector.get_type().get_size() == 2 && matches!(bits, 32 | 64);
            is_pair.then(|| self.bitcast(vector, self.int_type(bits)))
        };
        values.chunks(2).map(pair).collect()
    }
    /// If two 16-bit values are the halves of one 32-bit word of a vector, returns this word.
    pub(crate) fn word_of(&self, values: &[Val<'c>]) -> Option<IntValue<'c>> {
        let &[low, high] = values else { return None };
        let [(vector, first_index), (second_vector, second_index)] = [extracted_from(&low)?, extracted_from(&high)?];
        let is_word = vector == second_vector && first_index.is_multiple_of(2) && second_index == first_index + 1;
        let word_count = vector.get_type().get_size() / 2;
        if !is_word || !vector.get_type().get_size().is_multiple_of(2) {
            return None;
        }
        let all_words = self.bitcast(vector, self.vector_type(self.i32().into(), word_count));
        Some(match word_count {
            1 => all_words.into_int_value(),
            _ => {
                let word_index = self.const32(first_index as u32 / 2);
                self.builder
                    .build_extract_element(all_words.into_vector_value(), word_index, "")
                    .expect(BUILDER_PANIC)
                    .into_int_value()
            }
        })
    }
    /// Returns a poison value of the type of `example`, for a value that no instruction reads. Returns `example` itself if it is
    /// neither an integer nor a float.
    pub(crate) fn poison_like(&self, example: Val<'c>) -> Val<'c> {
        match example.get_type() {
            BasicTypeEnum::FloatType(ty) => ty.get_poison().into(),
            BasicTypeEnum::IntType(ty) => ty.get_poison().into(),
            _ => example,
        }
    }
    /// Returns the elements of a vector, or the value itself if `count` is 1.
    pub(crate) fn unpack(&self, value: Val<'c>, count: usize) -> Vec<Val<'c>> {
        if count == 1 {
            return vec![value];
        }
        let vector = value.into_vector_value();
        (0..count).map(|i| self.builder.build_extract_element(vector, self.const32(i as u32), "").expect(BUILDER_PANIC)).collect()
    }
    /// Returns the elements of a 32-bit word, the one in the lowest bits first.
    pub(crate) fn unpack_word(&self, word: Val<'c>, elem: Elem) -> Vec<Val<'c>> {
        let count = 4 / elem.bytes();
        let ty = self.vector_type(self.elem_type(elem), count);
        self.unpack(self.bitcast(word, ty), count as usize)
    }
    /// Packs integers of `bits` bits into a 32-bit word, the first one in the lowest bits.
    pub(crate) fn pack_word(&self, parts: &[Val<'c>], bits: u32) -> Val<'c> {
        let mut word = self.const32(0);
        for (i, part) in parts.iter().enumerate() {
            let part = self.resize(part.into_int_value(), self.i32(), false);
            word = self.or(word, self.shl(part, self.const32(i as u32 * bits)));
        }
        word.into()
    }
    /// Packs elements into 32-bit words, the first one of a word in its lowest bits. 64-bit elements stay unpacked.
    pub(crate) fn pack_words(&self, registers: &[Val<'c>]) -> Vec<Val<'c>> {
        let element_bits = match registers[0] {
            Val::FloatValue(value) if value.get_type() == self.context.f64_type() => return registers.to_vec(),
            Val::FloatValue(value) if value.get_type() == self.f32() => 32,
            Val::FloatValue(_) => 16,
            other => other.into_int_value().get_type().get_bit_width(),
        };
        let elements_per_word = (32 / element_bits) as usize;
        let word = |chunk: &[Val<'c>]| match element_bits {
            0..8 => self.pack_word(chunk, element_bits),
            _ => self.bitcast(self.pack(chunk), self.i32()),
        };
        registers.chunks(elements_per_word).map(word).collect()
    }
    /// The vector type with `count` elements, or the element type itself if `count` is 1.
    pub(crate) fn vector_type(&self, ty: BasicTypeEnum<'c>, count: u32) -> BasicTypeEnum<'c> {
        match ty {
            _ if count == 1 => ty,
            BasicTypeEnum::IntType(ty) => ty.vec_type(count).into(),
            BasicTypeEnum::FloatType(ty) => ty.vec_type(count).into(),
            BasicTypeEnum::PointerType(ty) => ty.vec_type(count).into(),
            _ => unreachable!("vectors are of scalars"),
        }
    }

    /// Appends an empty basic block to a function.
    pub(crate) fn append_block(&self, function: FunctionValue<'c>, name: &str) -> BasicBlock<'c> {
        self.context.append_basic_block(function, name)
    }
    /// Returns the basic block to which the builder appends instructions.
    pub(crate) fn current_block(&self) -> BasicBlock<'c> {
        self.builder.get_insert_block().expect("the builder is in a block")
    }
    /// Emits an unconditional branch.
    pub(crate) fn jump(&self, to: BasicBlock<'c>) {
        self.builder.build_unconditional_branch(to).expect(BUILDER_PANIC);
    }
    /// Emits a conditional branch.
    pub(crate) fn conditional_branch(&self, cond: IntValue<'c>, block_if_true: BasicBlock<'c>, block_if_false: BasicBlock<'c>) {
        self.builder.build_conditional_branch(cond, block_if_true, block_if_false).expect(BUILDER_PANIC);
    }

    /// Calls an LLVM intrinsic. `types` selects its overload. Returns the result, if it has one.
    pub(crate) fn call_intrinsic(&self, name: &str, types: &[BasicTypeEnum<'c>], args: &[Val<'c>]) -> Option<Val<'c>> {
        let intrinsic = Intrinsic::find(name).unwrap_or_else(|| panic!("LLVM has no intrinsic {name}"));
        let function = intrinsic.get_declaration(&self.module, types).unwrap_or_else(|| panic!("{name} has no such overload"));
        self.call(function, args)
    }
    /// Calls an intrinsic that returns a value.
    pub(crate) fn intrinsic_value(&self, name: &str, types: &[BasicTypeEnum<'c>], args: &[Val<'c>]) -> Val<'c> {
        self.call_intrinsic(name, types, args).expect("the intrinsic returns a value")
    }
    /// Emits a call. Returns the result, if the function has one.
    pub(crate) fn call(&self, function: FunctionValue<'c>, args: &[Val<'c>]) -> Option<Val<'c>> {
        let args: Vec<BasicMetadataValueEnum<'c>> = args.iter().map(|arg| (*arg).into()).collect();
        self.builder.build_call(function, &args, "").expect(BUILDER_PANIC).try_as_basic_value().basic()
    }
    /// Emits inline assembly with several results.
    pub(crate) fn asm_many(
        &self,
        results: &[BasicTypeEnum<'c>],
        text: &str,
        constraints: &str,
        args: &[Val<'c>],
        has_effects: bool,
    ) -> Vec<Val<'c>> {
        if let [one] = results {
            return self.asm(Some(*one), text, constraints, args, has_effects).into_iter().collect();
        }
        let struct_type = self.context.struct_type(results, false);
        let value = self
            .asm(Some(struct_type.into()), text, constraints, args, has_effects)
            .expect("the assembly returns values")
            .into_struct_value();
        (0..results.len() as u32).map(|i| self.builder.build_extract_value(value, i, "").expect(BUILDER_PANIC)).collect()
    }
    /// Emits inline assembly. With `has_effects`, the assembly may access memory or other threads, so LLVM keeps its order among
    /// other side effects, and does not remove it.
    pub(crate) fn asm(
        &self,
        result: Option<BasicTypeEnum<'c>>,
        text: &str,
        constraints: &str,
        args: &[Val<'c>],
        has_effects: bool,
    ) -> Option<Val<'c>> {
        let types: Vec<BasicMetadataTypeEnum<'c>> = args.iter().map(|arg| arg.get_type().into()).collect();
        let ty = match result {
            Some(ty) => ty.fn_type(&types, false),
            None => self.context.void_type().fn_type(&types, false),
        };
        let constraints = if has_effects { format!("{constraints},~{{memory}}") } else { constraints.to_string() };
        let constraints = constraints.trim_start_matches(',').to_string();
        let asm =
            self.context.create_inline_asm(ty, text.into(), constraints, has_effects, false, Some(InlineAsmDialect::ATT), false);
        let args: Vec<BasicMetadataValueEnum<'c>> = args.iter().map(|arg| (*arg).into()).collect();
        let call = self.builder.build_indirect_call(ty, asm, &args, "").expect(BUILDER_PANIC);
        if has_effects {
            // All threads of a warp must execute an instruction with effects on other threads together, so LLVM must not duplicate
            // it or make it conditional.
            let kind = inkwell::attributes::Attribute::get_named_enum_kind_id("convergent");
            call.add_attribute(AttributeLoc::Function, self.context.create_enum_attribute(kind, 0));
        }
        call.try_as_basic_value().basic()
    }
}

/// Returns the LLVM address space of pointers in a space.
pub(crate) fn address_space(space: Space) -> AddressSpace {
    AddressSpace::from(match space {
        Space::Global => GLOBAL,
        // `alloca` returns heap memory, see `emit::system_calls`.
        Space::Local => GLOBAL,
        Space::Generic => 0,
    })
}

/// Returns the vector from which a value is extracted, and the constant index of the value in the vector.
fn extracted_from<'c>(value: &Val<'c>) -> Option<(VectorValue<'c>, u64)> {
    let extract =
        value.as_instruction_value().filter(|instruction| instruction.get_opcode() == InstructionOpcode::ExtractElement)?;
    let [vector, index] = [0, 1].map(|i| extract.get_operand(i).and_then(|operand| operand.value()));
    Some((vector?.into_vector_value(), index?.into_int_value().get_zero_extended_constant()?))
}
