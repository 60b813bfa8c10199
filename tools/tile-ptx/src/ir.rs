//! A thin layer over the LLVM builder, so that emitters read like the arithmetic that they emit.
//!
//! The builder fails only if it has no insertion point or the types do not match. Both would be bugs of the emitter.

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

pub(crate) type Val<'c> = BasicValueEnum<'c>;

/// The panic message for a failure of the builder.
const BUG: &str = "the emitter passes matching types to the builder";

/// LLVM address spaces of NVPTX.
pub(crate) const GLOBAL: u16 = 1;
pub(crate) const SHARED: u16 = 3;

pub(crate) struct Ir<'c> {
    pub(crate) context: &'c Context,
    pub(crate) module: Module<'c>,
    pub(crate) builder: Builder<'c>,
}

impl<'c> Ir<'c> {
    pub(crate) fn i1(&self) -> IntType<'c> {
        self.context.bool_type()
    }
    pub(crate) fn int(&self, bits: u32) -> IntType<'c> {
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

    /// The type of a value in a register. Formats that LLVM lacks use integers of the same width.
    pub(crate) fn scalar(&self, scalar: Scalar) -> BasicTypeEnum<'c> {
        match scalar {
            Scalar::F16 => self.context.f16_type().into(),
            Scalar::BF16 => self.context.bf16_type().into(),
            Scalar::F32 | Scalar::TF32 => self.context.f32_type().into(),
            Scalar::F64 => self.context.f64_type().into(),
            Scalar::I1 => self.context.bool_type().into(),
            other => self.int(other.bits()).into(),
        }
    }
    pub(crate) fn elem(&self, elem: Elem) -> BasicTypeEnum<'c> {
        match elem {
            Elem::Scalar(scalar) => self.scalar(scalar),
            Elem::Ptr { space, .. } => self.context.ptr_type(address_space(space)).into(),
        }
    }
    /// The type of a value in memory: an element narrower than a byte occupies a byte.
    pub(crate) fn memory_type(&self, elem: Elem) -> BasicTypeEnum<'c> {
        match elem {
            narrow if narrow.bits() < 8 => self.context.i8_type().into(),
            other => self.elem(other),
        }
    }

    pub(crate) fn const32(&self, value: u32) -> IntValue<'c> {
        self.i32().const_int(u64::from(value), false)
    }
    pub(crate) fn const64(&self, value: u64) -> IntValue<'c> {
        self.i64().const_int(value, false)
    }
    /// A constant with these bits.
    pub(crate) fn constant(&self, elem: Elem, bits: u64) -> Val<'c> {
        match self.elem(elem) {
            BasicTypeEnum::IntType(ty) => ty.const_int(bits, false).into(),
            BasicTypeEnum::FloatType(ty) => {
                // An integer constant preserves NaN payloads.
                let bits = self.int(elem.bits()).const_int(bits, false);
                self.builder.build_bit_cast(bits, ty, "").expect(BUG)
            }
            BasicTypeEnum::PointerType(ty) => self.builder.build_int_to_ptr(self.const64(bits), ty, "").expect(BUG).into(),
            _ => unreachable!("scalars are integers, floats or pointers"),
        }
    }

    /// Sets the `nsw` and `nuw` flags of an addition, subtraction or multiplication. A folded constant has no flags.
    pub(crate) fn set_wrap_flags(&self, value: IntValue<'c>, overflow: Overflow) -> IntValue<'c> {
        if let Some(instruction) = value.as_instruction() {
            let signed = matches!(overflow, Overflow::NoSignedWrap | Overflow::NoWrap);
            let unsigned = matches!(overflow, Overflow::NoUnsignedWrap | Overflow::NoWrap);
            instruction.set_no_signed_wrap_flag(signed).expect(BUG);
            instruction.set_no_unsigned_wrap_flag(unsigned).expect(BUG);
        }
        value
    }
    pub(crate) fn add(&self, a: IntValue<'c>, b: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_int_add(a, b, "").expect(BUG)
    }
    pub(crate) fn sub(&self, a: IntValue<'c>, b: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_int_sub(a, b, "").expect(BUG)
    }
    pub(crate) fn mul(&self, a: IntValue<'c>, b: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_int_mul(a, b, "").expect(BUG)
    }
    pub(crate) fn and(&self, a: IntValue<'c>, b: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_and(a, b, "").expect(BUG)
    }
    pub(crate) fn or(&self, a: IntValue<'c>, b: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_or(a, b, "").expect(BUG)
    }
    pub(crate) fn xor(&self, a: IntValue<'c>, b: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_xor(a, b, "").expect(BUG)
    }
    pub(crate) fn not(&self, a: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_not(a, "").expect(BUG)
    }
    pub(crate) fn shl(&self, a: IntValue<'c>, b: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_left_shift(a, b, "").expect(BUG)
    }
    pub(crate) fn shr(&self, a: IntValue<'c>, b: IntValue<'c>, signed: bool) -> IntValue<'c> {
        self.builder.build_right_shift(a, b, signed, "").expect(BUG)
    }
    pub(crate) fn div(&self, a: IntValue<'c>, b: IntValue<'c>, signed: bool) -> IntValue<'c> {
        let build = if signed { Builder::build_int_signed_div } else { Builder::build_int_unsigned_div };
        build(&self.builder, a, b, "").expect(BUG)
    }
    pub(crate) fn rem(&self, a: IntValue<'c>, b: IntValue<'c>, signed: bool) -> IntValue<'c> {
        let build = if signed { Builder::build_int_signed_rem } else { Builder::build_int_unsigned_rem };
        build(&self.builder, a, b, "").expect(BUG)
    }
    pub(crate) fn icmp(&self, predicate: IntPredicate, a: IntValue<'c>, b: IntValue<'c>) -> IntValue<'c> {
        self.builder.build_int_compare(predicate, a, b, "").expect(BUG)
    }
    pub(crate) fn fcmp(&self, predicate: FloatPredicate, a: FloatValue<'c>, b: FloatValue<'c>) -> IntValue<'c> {
        self.builder.build_float_compare(predicate, a, b, "").expect(BUG)
    }
    pub(crate) fn select(&self, cond: IntValue<'c>, yes: Val<'c>, no: Val<'c>) -> Val<'c> {
        self.builder.build_select(cond, yes, no, "").expect(BUG)
    }
    pub(crate) fn bitcast(&self, value: impl BasicValue<'c>, ty: impl BasicType<'c>) -> Val<'c> {
        self.builder.build_bit_cast(value.as_basic_value_enum(), ty.as_basic_type_enum(), "").expect(BUG)
    }
    /// Truncates or extends an integer to an integer type.
    pub(crate) fn resize(&self, value: IntValue<'c>, to: IntType<'c>, signed: bool) -> IntValue<'c> {
        let (from, to_bits) = (value.get_type().get_bit_width(), to.get_bit_width());
        match (from.cmp(&to_bits), signed) {
            (std::cmp::Ordering::Equal, _) => value,
            (std::cmp::Ordering::Greater, _) => self.builder.build_int_truncate(value, to, "").expect(BUG),
            (_, true) => self.builder.build_int_s_extend(value, to, "").expect(BUG),
            (_, false) => self.builder.build_int_z_extend(value, to, "").expect(BUG),
        }
    }
    pub(crate) fn ptr_to_int(&self, ptr: PointerValue<'c>) -> IntValue<'c> {
        self.builder.build_ptr_to_int(ptr, self.i64(), "").expect(BUG)
    }
    /// The 32-bit address of a shared variable. A `mov` hides its origin from LLVM, so LLVM keeps it in a register.
    pub(crate) fn opaque_address(&self, variable: GlobalValue<'c>) -> IntValue<'c> {
        let address = self.builder.build_ptr_to_int(variable.as_pointer_value(), self.i32(), "").expect(BUG);
        let copy = self.asm(Some(self.i32().into()), "mov.b32 $0, $1;", "=r,r", &[address.into()], false);
        copy.expect("the assembly returns a value").into_int_value()
    }
    pub(crate) fn int_to_ptr(&self, int: IntValue<'c>, space: u16) -> PointerValue<'c> {
        let ty = self.context.ptr_type(AddressSpace::from(space));
        self.builder.build_int_to_ptr(int, ty, "").expect(BUG)
    }
    /// The address `index` elements after `ptr`.
    pub(crate) fn element_ptr(&self, ty: BasicTypeEnum<'c>, ptr: PointerValue<'c>, index: IntValue<'c>) -> PointerValue<'c> {
        let ty: BasicTypeEnum<'c> = if ty.is_pointer_type() { self.i64().into() } else { ty };
        self.plain_element_ptr(ty, ptr, index)
    }
    #[allow(unsafe_code, reason = "inkwell marks address arithmetic unsafe; plain (not inbounds) arithmetic cannot be undefined")]
    fn plain_element_ptr(&self, ty: BasicTypeEnum<'c>, ptr: PointerValue<'c>, index: IntValue<'c>) -> PointerValue<'c> {
        unsafe { self.builder.build_gep(ty, ptr, &[index], "").expect(BUG) }
    }
    pub(crate) fn load(&self, ty: BasicTypeEnum<'c>, ptr: PointerValue<'c>, align: u32) -> Val<'c> {
        let value = self.builder.build_load(ty, ptr, "").expect(BUG);
        let load = value.as_instruction_value().expect("a load is an instruction");
        load.set_alignment(align).expect("alignments are powers of two");
        value
    }
    pub(crate) fn store(&self, value: Val<'c>, ptr: PointerValue<'c>, align: u32) {
        let store = self.builder.build_store(ptr, value).expect(BUG);
        store.set_alignment(align).expect("alignments are powers of two");
    }
    /// A vector of the values. A single value stays a scalar.
    pub(crate) fn pack(&self, values: &[Val<'c>]) -> Val<'c> {
        if let [one] = values {
            return *one;
        }
        let ty = self.vector_type(values[0].get_type(), values.len() as u32).into_vector_type();
        if let Some(pairs) = self.pairs(values) {
            return self.bitcast(self.pack(&pairs), ty);
        }
        let mut vector = ty.get_poison();
        for (i, value) in values.iter().enumerate() {
            vector = self.builder.build_insert_element(vector, *value, self.const32(i as u32), "").expect(BUG);
        }
        vector.into()
    }
    /// The register pairs that hold the values, as integers, if each two values come from one vector of two. LLVM finds such
    /// pairs only in the block that defines them. In a block that stores them under a condition, LLVM would split and rebuild
    /// each pair.
    fn pairs(&self, values: &[Val<'c>]) -> Option<Vec<Val<'c>>> {
        let pair = |values: &[Val<'c>]| {
            let [(vector, 0), (other, 1)] = [extracted_from(values.first()?)?, extracted_from(values.get(1)?)?] else {
                return None;
            };
            let bits = match values[0].get_type() {
                BasicTypeEnum::IntType(ty) => ty.get_bit_width() * 2,
                BasicTypeEnum::FloatType(ty) => ty.get_bit_width() * 2,
                _ => return None,
            };
            let is_pair = vector == other && vector.get_type().get_size() == 2 && matches!(bits, 32 | 64);
            is_pair.then(|| self.bitcast(vector, self.int(bits)))
        };
        values.chunks(2).map(pair).collect()
    }
    /// The 32-bit word that holds two adjacent 16-bit values, if both come from one vector.
    pub(crate) fn word_of(&self, values: &[Val<'c>]) -> Option<IntValue<'c>> {
        let &[low, high] = values else { return None };
        let [(vector, first), (other, second)] = [extracted_from(&low)?, extracted_from(&high)?];
        let is_word = vector == other && first.is_multiple_of(2) && second == first + 1;
        let words = vector.get_type().get_size() / 2;
        if !is_word || !vector.get_type().get_size().is_multiple_of(2) {
            return None;
        }
        let all = self.bitcast(vector, self.vector_type(self.i32().into(), words));
        Some(match words {
            1 => all.into_int_value(),
            _ => {
                let word_index = self.const32(first as u32 / 2);
                self.builder.build_extract_element(all.into_vector_value(), word_index, "").expect(BUG).into_int_value()
            }
        })
    }
    /// A poison value of the same type, for a value that nothing reads.
    pub(crate) fn poison_like(&self, like: Val<'c>) -> Val<'c> {
        match like.get_type() {
            BasicTypeEnum::FloatType(ty) => ty.get_poison().into(),
            BasicTypeEnum::IntType(ty) => ty.get_poison().into(),
            _ => like,
        }
    }
    /// The elements of a vector. With `count` 1, the value itself.
    pub(crate) fn unpack(&self, value: Val<'c>, count: usize) -> Vec<Val<'c>> {
        if count == 1 {
            return vec![value];
        }
        let vector = value.into_vector_value();
        (0..count).map(|i| self.builder.build_extract_element(vector, self.const32(i as u32), "").expect(BUG)).collect()
    }
    /// The elements of a 32-bit word, the lowest first.
    pub(crate) fn unpack_word(&self, word: Val<'c>, elem: Elem) -> Vec<Val<'c>> {
        let count = 4 / elem.bytes();
        let ty = self.vector_type(self.elem(elem), count);
        self.unpack(self.bitcast(word, ty), count as usize)
    }
    /// Packs integers of `bits` bits into a word, the first in the lowest bits.
    pub(crate) fn packed(&self, parts: &[Val<'c>], bits: u32) -> Val<'c> {
        let mut word = self.const32(0);
        for (i, part) in parts.iter().enumerate() {
            let part = self.resize(part.into_int_value(), self.i32(), false);
            word = self.or(word, self.shl(part, self.const32(i as u32 * bits)));
        }
        word.into()
    }
    /// Packs elements into 32-bit words, the first in the lowest bits. 64-bit elements stay unpacked.
    pub(crate) fn words(&self, registers: &[Val<'c>]) -> Vec<Val<'c>> {
        let bits = match registers[0] {
            Val::FloatValue(value) if value.get_type() == self.context.f64_type() => return registers.to_vec(),
            Val::FloatValue(value) if value.get_type() == self.f32() => 32,
            Val::FloatValue(_) => 16,
            other => other.into_int_value().get_type().get_bit_width(),
        };
        let count = (32 / bits) as usize;
        let word = |chunk: &[Val<'c>]| match bits {
            0..8 => self.packed(chunk, bits),
            _ => self.bitcast(self.pack(chunk), self.i32()),
        };
        registers.chunks(count).map(word).collect()
    }
    pub(crate) fn vector_type(&self, ty: BasicTypeEnum<'c>, count: u32) -> BasicTypeEnum<'c> {
        match ty {
            _ if count == 1 => ty,
            BasicTypeEnum::IntType(ty) => ty.vec_type(count).into(),
            BasicTypeEnum::FloatType(ty) => ty.vec_type(count).into(),
            BasicTypeEnum::PointerType(ty) => ty.vec_type(count).into(),
            _ => unreachable!("vectors are of scalars"),
        }
    }

    pub(crate) fn block(&self, function: FunctionValue<'c>, name: &str) -> BasicBlock<'c> {
        self.context.append_basic_block(function, name)
    }
    pub(crate) fn current_block(&self) -> BasicBlock<'c> {
        self.builder.get_insert_block().expect("the builder is in a block")
    }
    pub(crate) fn jump(&self, to: BasicBlock<'c>) {
        self.builder.build_unconditional_branch(to).expect(BUG);
    }
    pub(crate) fn branch(&self, cond: IntValue<'c>, yes: BasicBlock<'c>, no: BasicBlock<'c>) {
        self.builder.build_conditional_branch(cond, yes, no).expect(BUG);
    }

    /// Calls an LLVM intrinsic. `types` selects an overload.
    pub(crate) fn intrinsic(&self, name: &str, types: &[BasicTypeEnum<'c>], args: &[Val<'c>]) -> Option<Val<'c>> {
        let intrinsic = Intrinsic::find(name).unwrap_or_else(|| panic!("LLVM has no intrinsic {name}"));
        let function = intrinsic.get_declaration(&self.module, types).unwrap_or_else(|| panic!("{name} has no such overload"));
        self.call(function, args)
    }
    /// Calls an intrinsic that returns a value.
    pub(crate) fn intrinsic_value(&self, name: &str, types: &[BasicTypeEnum<'c>], args: &[Val<'c>]) -> Val<'c> {
        self.intrinsic(name, types, args).expect("the intrinsic returns a value")
    }
    pub(crate) fn call(&self, function: FunctionValue<'c>, args: &[Val<'c>]) -> Option<Val<'c>> {
        let args: Vec<BasicMetadataValueEnum<'c>> = args.iter().map(|arg| (*arg).into()).collect();
        self.builder.build_call(function, &args, "").expect(BUG).try_as_basic_value().basic()
    }
    /// Emits inline assembly with several results.
    pub(crate) fn asm_many(
        &self,
        results: &[BasicTypeEnum<'c>],
        text: &str,
        constraints: &str,
        args: &[Val<'c>],
        effects: bool,
    ) -> Vec<Val<'c>> {
        if let [one] = results {
            return self.asm(Some(*one), text, constraints, args, effects).into_iter().collect();
        }
        let all = self.context.struct_type(results, false);
        let value =
            self.asm(Some(all.into()), text, constraints, args, effects).expect("the assembly returns values").into_struct_value();
        (0..results.len() as u32).map(|i| self.builder.build_extract_value(value, i, "").expect(BUG)).collect()
    }
    /// Emits inline assembly. `effects` marks an access to memory, which must keep its position.
    pub(crate) fn asm(
        &self,
        result: Option<BasicTypeEnum<'c>>,
        text: &str,
        constraints: &str,
        args: &[Val<'c>],
        effects: bool,
    ) -> Option<Val<'c>> {
        let types: Vec<BasicMetadataTypeEnum<'c>> = args.iter().map(|arg| arg.get_type().into()).collect();
        let ty = match result {
            Some(ty) => ty.fn_type(&types, false),
            None => self.context.void_type().fn_type(&types, false),
        };
        let constraints = if effects { format!("{constraints},~{{memory}}") } else { constraints.to_string() };
        let constraints = constraints.trim_start_matches(',').to_string();
        let asm = self.context.create_inline_asm(ty, text.into(), constraints, effects, false, Some(InlineAsmDialect::ATT), false);
        let args: Vec<BasicMetadataValueEnum<'c>> = args.iter().map(|arg| (*arg).into()).collect();
        let call = self.builder.build_indirect_call(ty, asm, &args, "").expect(BUG);
        if effects {
            // All threads of a warp must execute an instruction with cross-thread effects together. LLVM must therefore not
            // duplicate it or make it conditional.
            let kind = inkwell::attributes::Attribute::get_named_enum_kind_id("convergent");
            call.add_attribute(AttributeLoc::Function, self.context.create_enum_attribute(kind, 0));
        }
        call.try_as_basic_value().basic()
    }
}

pub(crate) fn address_space(space: Space) -> AddressSpace {
    AddressSpace::from(match space {
        Space::Global => GLOBAL,
        // `alloca` returns heap memory, see `emit::system_calls`.
        Space::Local => GLOBAL,
        Space::Generic => 0,
    })
}

/// The vector from which a value is extracted, and the index of the value in it.
fn extracted_from<'c>(value: &Val<'c>) -> Option<(VectorValue<'c>, u64)> {
    let extract =
        value.as_instruction_value().filter(|instruction| instruction.get_opcode() == InstructionOpcode::ExtractElement)?;
    let [vector, index] = [0, 1].map(|i| extract.get_operand(i).and_then(|operand| operand.value()));
    Some((vector?.into_vector_value(), index?.into_int_value().get_zero_extended_constant()?))
}
