//! The table of all Tile IR ops: opcode, names, first version, results, fields in wire order, constraints and rules.
//!
//! Each row becomes a variant of [`Op`] with named, typed fields, and an [`OpInfo`] that describes it as data. Reader, writer,
//! printer, parser and most of the verifier use the table through [`crate::fields::Field`].
//!
//! A row has the form `Variant opcode mnemonic since effects counts (results) { fields } [rules] "text form"`. Attributes come
//! first, then operands, then regions, as in the bytecode.
//!
//! `=> V13_3 default` gives the first version with the field, and its value in older versions. `where NAME` is the operand's
//! constraint in [`crate::constraint`]. `as "name"` is the name of the field in NVIDIA's messages, if it differs from the name in
//! the table.

use crate::constraint::{self, Constraint};
use crate::enums::{ComparisonOrdering, Direction};
use crate::fields::{Field, FieldRef, FieldShape, FieldValue};
use crate::types::{Attribute, ConstantId, Dictionary, StringId, Symbol};
use crate::version::Version::{self, *};
use base::ir::{Operation, Region, Value};
use core_dialect::memory::{AtomicMode, MemoryOrdering, MemoryScope, MulticastReduction};
use numerics::arith::{Overflow, Predicate, Rounding, Signedness};
use serde::{Deserialize, Serialize};

/// Any number of operands.
pub type Values = Box<[Value]>;
/// The optimization hints of an op.
pub type Hints = Option<Box<Dictionary>>;

/// The side effects of executing an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effects {
    /// No effects; the op may execute speculatively.
    Pure,
    /// No effects, but the behaviour is undefined for some operands, so the op must not execute speculatively.
    NoMemory,
    /// Reads or writes memory, or has another side effect.
    Memory,
    /// The effects of the ops in its regions.
    Recursive,
    /// Terminates its block and transfers control to an enclosing loop or out of the function, possibly across several regions.
    Leave,
    /// Terminates its block and passes values to the enclosing op.
    Yield,
}

/// The counts of results and operands that the bytecode of an op has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountEncoding {
    /// The bytecode has no counts, because the table determines them.
    Fixed,
    /// A result count; each variadic operand has its own count.
    Segments,
    /// A result count, and one count for all operands.
    Counted,
    /// An operand count only.
    CountedOperands,
    /// A result count; no operand is variadic.
    CountedResults,
}

/// The row of a result in the op table.
#[derive(Debug)]
pub struct ResultInfo {
    /// The name in this table.
    pub field: &'static str,
    /// The name in the text form and in messages.
    pub name: &'static str,
    pub constraint: &'static Constraint,
    /// Whether the result stands for any number of values.
    pub variadic: bool,
}

/// The row of a field in the op table.
#[derive(Debug)]
pub struct FieldInfo {
    pub name: &'static str,
    /// The name in NVIDIA's messages.
    pub wire_name: &'static str,
    pub shape: FieldShape,
    /// The first version with the field.
    pub since: Version,
    pub constraint: &'static Constraint,
}

/// A rule of the op table: a relation between operands and results, or a condition on the enclosing op. `names` has the operands
/// and results of the relation, or the allowed enclosing ops.
#[derive(Debug)]
pub struct OpRule {
    pub kind: RuleKind,
    pub names: &'static [&'static str],
}

/// The kinds of rules. If a variant does not say otherwise, the rule is about the values in [`OpRule::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleKind {
    SameType,
    SameShape,
    SameRank,
    SameElement,
    /// All operands and results have the same shape.
    OperandsAndResultShape,
    /// All operands have the same shape.
    OperandsShape,
    /// All operands and results have the same element type.
    OperandsAndResultElement,
    /// The result is i1 with the shape of the named operand.
    I1Of,
    /// The enclosing op must be one of the named ops.
    Parent,
}

/// A row of the op table.
#[derive(Debug)]
pub struct OpInfo {
    pub opcode: u16,
    pub mnemonic: &'static str,
    /// The name of the op's C++ class in NVIDIA's dialect, which messages contain.
    pub class: &'static str,
    /// The first version with the op.
    pub since: Version,
    pub effects: Effects,
    pub count_encoding: CountEncoding,
    pub results: &'static [ResultInfo],
    pub fields: &'static [FieldInfo],
    pub rules: &'static [OpRule],
    /// The text form after the mnemonic; see [`crate::text::format`].
    pub format: &'static str,
}

impl OpInfo {
    /// The first version in which the op has a flags word, if any.
    pub fn first_version_with_flags(&self) -> Option<Version> {
        self.flag_fields().map(|(_, field)| field.since).min()
    }
    /// The fields with a bit in the flags word, in bit order, each with its index among all fields.
    pub fn flag_fields(&self) -> impl Iterator<Item = (usize, &'static FieldInfo)> + use<> {
        let has_operand_count = matches!(self.count_encoding, CountEncoding::Counted | CountEncoding::CountedOperands);
        let has_bit = move |field: &FieldInfo| field.shape.has_flag() && !(has_operand_count && field.shape.is_operand());
        self.fields.iter().enumerate().filter(move |(_, field)| has_bit(field))
    }
    pub fn region_count(&self) -> usize {
        self.fields.iter().filter(|field| field.shape == FieldShape::Region).count()
    }
    pub fn is_terminator(&self) -> bool {
        matches!(self.effects, Effects::Leave | Effects::Yield)
    }
    /// The index of the field whose name in this table or in NVIDIA's messages is `name`; `None` if there is none.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name || field.wire_name == name)
    }
}

/// Expands to the first argument: an optional entry of a table row, or the default after it.
macro_rules! first {
    ($first:expr $(, $rest:expr)*) => {
        $first
    };
}

macro_rules! ops {
    ($($(#[$doc:meta])* $variant:ident $opcode:literal $mnemonic:literal $since:ident $effects:ident $counts:ident
        ($($result:ident $(as $result_wire:literal)? : $result_constraint:ident $($variadic:ident)?),*)
        { $($field:ident $(as $wire:literal)? : $type:ty $(where $constraint:ident)? $(=> $gate:ident $default:expr)?;)* }
        [$($rule:ident $(($($name:ident)*))?),*]
        $format:literal
    )*) => {
        /// An operation with its operands, attributes and regions.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Op {
            $($(#[$doc])* $variant { $($field: $type),* },)*
        }

        /// The kind of an op, without its fields.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Opcode {
            $($variant = $opcode,)*
        }

        impl Opcode {
            pub const ALL: &'static [Opcode] = &[$(Opcode::$variant),*];

            pub fn from_number(number: u64) -> Option<Opcode> {
                match number {
                    $($opcode => Some(Opcode::$variant),)*
                    _ => None,
                }
            }

            /// The name of the variant.
            pub fn name(self) -> &'static str {
                self.info().class.strip_suffix("Op").unwrap_or_default()
            }

            pub fn info(self) -> &'static OpInfo {
                match self {
                    $(Opcode::$variant => {
                        const INFO: OpInfo = OpInfo {
                            opcode: $opcode,
                            mnemonic: $mnemonic,
                            class: concat!(stringify!($variant), "Op"),
                            since: $since,
                            effects: Effects::$effects,
                            count_encoding: CountEncoding::$counts,
                            results: &[$(ResultInfo {
                                field: stringify!($result),
                                name: first!($($result_wire,)? stringify!($result)),
                                constraint: &constraint::$result_constraint,
                                variadic: first!($(is_variadic(stringify!($variadic)),)? false),
                            }),*],
                            fields: &[$(FieldInfo {
                                name: stringify!($field),
                                wire_name: first!($($wire,)? stringify!($field)),
                                shape: <$type as Field>::SHAPE,
                                since: first!($($gate,)? $since),
                                constraint: &first!($(constraint::$constraint,)? constraint::ANY),
                            }),*],
                            rules: &[$(OpRule { kind: RuleKind::$rule, names: &[$($(stringify!($name)),*)?] }),*],
                            format: $format,
                        };
                        &INFO
                    })*
                }
            }
        }

        impl Op {
            pub fn opcode(&self) -> Opcode {
                match self {
                    $(Op::$variant { .. } => Opcode::$variant,)*
                }
            }

            /// Calls `f` with each field in table order.
            #[allow(unused_variables, reason = "some ops have no fields")]
            pub fn for_each_field<'a>(&'a self, f: &mut dyn FnMut(FieldRef<'a>)) {
                match self {
                    $(Op::$variant { $($field),* } => {
                        $(f($field.get());)*
                    })*
                }
            }

            /// Builds an op from field values, which `next` returns in table order.
            #[allow(unused_variables, reason = "some ops have no fields")]
            pub fn from_fields(opcode: Opcode, next: &mut dyn FnMut() -> Option<FieldValue>) -> Option<Op> {
                match opcode {
                    $(Opcode::$variant => {
                        $(let $field = <$type as Field>::from_value(next()?)?;)*
                        Some(Op::$variant { $($field),* })
                    })*
                }
            }

            /// The value of a field in files of versions that lack the field. `None` for a field that all versions have.
            pub fn field_default(opcode: Opcode, name: &str) -> Option<FieldValue> {
                match (opcode, name) {
                    $($($((Opcode::$variant, stringify!($field)) => {
                        let _ = $gate;
                        let default: $type = $default;
                        Some(to_field_value(default.get()))
                    })?)*)*
                    _ => None,
                }
            }
        }

        impl Operation for Op {
            fn mnemonic(&self) -> &'static str {
                self.opcode().info().mnemonic
            }
            #[allow(unused_variables, reason = "some ops have no fields")]
            fn for_each_operand(&self, f: &mut dyn FnMut(Value)) {
                match self {
                    $(Op::$variant { $($field),* } => {
                        $($field.for_each_operand(f);)*
                    })*
                }
            }
            #[allow(unused_variables, reason = "some ops have no fields")]
            fn for_each_operand_mut(&mut self, f: &mut dyn FnMut(&mut Value)) {
                match self {
                    $(Op::$variant { $($field),* } => {
                        $($field.for_each_operand_mut(f);)*
                    })*
                }
            }
            #[allow(unused_variables, reason = "some ops have no fields")]
            fn for_each_region(&self, f: &mut dyn FnMut(Region)) {
                match self {
                    $(Op::$variant { $($field),* } => {
                        $($field.for_each_region(f);)*
                    })*
                }
            }
            #[allow(unused_variables, reason = "some ops have no fields")]
            fn for_each_region_mut(&mut self, f: &mut dyn FnMut(&mut Region)) {
                match self {
                    $(Op::$variant { $($field),* } => {
                        $($field.for_each_region_mut(f);)*
                    })*
                }
            }
            fn is_terminator(&self) -> bool {
                self.opcode().info().is_terminator()
            }
        }
    };
}

/// Whether a result of the op table has the word `variadic`: it then stands for any number of results.
const fn is_variadic(word: &str) -> bool {
    !word.is_empty()
}

/// Converts the default of a field that older versions lack. Such a default is a flag, a number, a list of bools or an operand.
fn to_field_value(field: FieldRef<'_>) -> FieldValue {
    match field {
        FieldRef::Flag(flag) => FieldValue::Flag(flag),
        FieldRef::Enum(number) => FieldValue::Enum(number),
        FieldRef::Bools(bools) => FieldValue::Bools(bools.into()),
        FieldRef::OptionalOperand(value) => FieldValue::OptionalOperand(value),
        other => unreachable!("{other:?} is not the default of a versioned field"),
    }
}

ops! {
    AbsF 0x00 "absf" V13_1 Pure Fixed (result: FLOAT) {
        source: Value where FLOAT;
    } [OperandsAndResultShape, SameType(source result)] " {source} : {result:type}"
    AbsI 0x01 "absi" V13_1 Pure Fixed (result: INT) { source: Value where INT; } [OperandsAndResultShape, SameType(source result)]
        " {source} : {result:type}"
    AddF 0x02 "addf" V13_1 Pure Fixed (result: FLOAT) {
        flush_to_zero: bool; rounding_mode: Rounding; lhs: Value where FLOAT; rhs: Value where FLOAT;
    } [SameType(lhs rhs result)]
        " {lhs}, {rhs} (rounding_mode!nearest_even?rounding<{rounding_mode}>)(flush_to_zero? flush_to_zero) : {result:type}"
    AddI 0x03 "addi" V13_1 Pure Fixed (result: INT) {
        overflow: Overflow; lhs: Value where INT; rhs: Value where INT;
    } [SameType(lhs rhs result)] " {lhs}, {rhs}(overflow!none? overflow<{overflow}>) : {result:type}"
    AndI 0x04 "andi" V13_1 Pure Fixed (result: INT) { lhs: Value where INT; rhs: Value where INT; } [SameType(lhs rhs result)]
        " {lhs}, {rhs} : {result:type}"
    Assert 0x05 "assert" V13_1 Memory Fixed () { message: StringId; condition: Value where BOOL; } []
        " {condition}, {message} : {condition:type}"
    Assume 0x06 "assume" V13_1 Memory Fixed (result: ANY) { predicate: Attribute; value: Value where ANY; } [SameType(value result)]
        " {predicate}, {value} : {value:type}"
    AtomicCASTko 0x07 "atomic_cas_tko" V13_1 Memory Fixed (result: TILE, result_token: TOKEN) {
        memory_ordering as "memory_ordering_semantics": MemoryOrdering; memory_scope: MemoryScope; pointers: Value where POINTER;
        cmp: Value where TILE; val: Value where TILE; mask: Option<Value> where BOOL; token: Option<Value> where TOKEN;
    } [SameShape(pointers cmp val result), SameType(cmp val result)]
        " {memory_ordering} {memory_scope} {pointers}, {cmp}, {val}(mask?, {mask})(token? token={token}) : {pointers:type}, \
        {val:type}(mask?, {mask:type}) -> {result:type}, {result_token:type}"
    AtomicRMWTko 0x08 "atomic_rmw_tko" V13_1 Memory Fixed (result: TILE, result_token: TOKEN) {
        memory_ordering as "memory_ordering_semantics": MemoryOrdering; memory_scope: MemoryScope; mode: AtomicMode;
        pointers: Value where POINTER; arg: Value where TILE; mask: Option<Value> where BOOL; token: Option<Value> where TOKEN;
    } [SameShape(pointers arg result), SameType(arg result)]
        " {memory_ordering} {memory_scope} {pointers}, {mode}, {arg}(mask?, {mask})(token? token={token}) : {pointers:type}, \
        {arg:type}(mask?, {mask:type}) -> {result:type}, {result_token:type}"
    Bitcast 0x09 "bitcast" V13_1 Pure Fixed (result: NUMBER) { source: Value where NUMBER; } [SameShape(source result)]
        " {source} : {source:type} -> {result:type}"
    Break 0x0A "break" V13_1 Leave Counted () { operands: Values where ANY; } [Parent(If Loop)]
        "(operands? {operands} : {operands:type})"
    Broadcast 0x0B "broadcast" V13_1 Pure Fixed (result: TILE) {
        source: Value where TILE;
    } [OperandsAndResultElement, SameRank(source result)] " {source} : {source:type} -> {result:type}"
    Cat 0x0C "cat" V13_1 Pure Fixed (result: TILE) {
        dim: i64; lhs: Value where TILE; rhs: Value where TILE;
    } [SameRank(lhs rhs result), SameElement(lhs rhs result)] " {lhs}, {rhs} dim = {dim} : {lhs:type}, {rhs:type} -> {result:type}"
    Ceil 0x0D "ceil" V13_1 Pure Fixed (result: FLOAT) { source: Value where FLOAT; } [SameType(source result)]
        " {source} : {result:type}"
    CmpF 0x0E "cmpf" V13_1 Pure Fixed (result: BOOL) {
        comparison_predicate: Predicate; comparison_ordering: ComparisonOrdering; lhs: Value where FLOAT; rhs: Value where FLOAT;
    } [SameType(lhs rhs), I1Of(lhs)] " {comparison_predicate} {comparison_ordering} {lhs}, {rhs} : {lhs:type} -> {result:type}"
    CmpI 0x0F "cmpi" V13_1 Pure Fixed (result: BOOL) {
        comparison_predicate: Predicate; signedness: Signedness; lhs: Value where INT; rhs: Value where INT;
    } [SameType(lhs rhs), I1Of(lhs)] " {comparison_predicate} {lhs}, {rhs}, {signedness} : {lhs:type} -> {result:type}"
    Constant 0x10 "constant" V13_1 Pure Fixed (result: NUMBER) { value: ConstantId; } [SameType(value result)]
        " {value} : {result:type}"
    Continue 0x11 "continue" V13_1 Leave Counted () { operands: Values where ANY; } [Parent(For If Loop)]
        "(operands? {operands} : {operands:type})"
    Cos 0x12 "cos" V13_1 Pure Fixed (result: FLOAT) { source: Value where FLOAT; } [SameType(source result)]
        " {source} : {result:type}"
    CosH 0x13 "cosh" V13_1 Pure Fixed (result: FLOAT) { source: Value where FLOAT; } [SameType(source result)]
        " {source} : {result:type}"
    DivF 0x14 "divf" V13_1 Pure Fixed (result: FLOAT) {
        flush_to_zero: bool; rounding_mode: Rounding; lhs: Value where FLOAT; rhs: Value where FLOAT;
    } [SameType(lhs rhs result)]
        " {lhs}, {rhs} (rounding_mode!nearest_even?rounding<{rounding_mode}>)(flush_to_zero? flush_to_zero) : {result:type}"
    DivI 0x15 "divi" V13_1 NoMemory Fixed (result: INT) {
        signedness: Signedness; rounding: Rounding; lhs: Value where INT; rhs: Value where INT;
    } [SameType(lhs rhs result)] " {lhs}, {rhs} {signedness}(rounding!zero? rounding<{rounding}>) : {result:type}"
    Exp 0x17 "exp" V13_1 Pure Fixed (result: FLOAT) {
        rounding_mode: Rounding => V13_3 Rounding::Full; source: Value where FLOAT;
    } [SameType(source result)] " {source} (rounding_mode!full?rounding<{rounding_mode}>) : {result:type}"
    Exp2 0x18 "exp2" V13_1 Pure Fixed (result: FLOAT) { flush_to_zero: bool; source: Value where FLOAT; } [SameType(source result)]
        " {source}(flush_to_zero? flush_to_zero) : {result:type}"
    ExtI 0x25 "exti" V13_1 Pure Fixed (to: INT_OR_I4) { signedness: Signedness; from: Value where INT_OR_I4; } [SameShape(from to)]
        " {from} {signedness} : {from:type} -> {to:type}"
    Extract 0x26 "extract" V13_1 Pure Counted (result: TILE) {
        source: Value where TILE; indices: Values where SCALAR_I32;
    } [SameRank(source result)] " {source}[{indices}] : {source:type} -> {result:type}"
    Floor 0x27 "floor" V13_1 Pure Fixed (result: FLOAT) { source: Value where FLOAT; } [SameType(source result)]
        " {source} : {result:type}"
    Fma 0x28 "fma" V13_1 Pure Fixed (result: FLOAT) {
        flush_to_zero: bool; rounding_mode: Rounding; lhs: Value where FLOAT; rhs: Value where FLOAT; acc: Value where FLOAT;
    } [SameType(lhs rhs acc result)]
        " {lhs}, {rhs}, {acc} (rounding_mode!nearest_even?rounding<{rounding_mode}>)(flush_to_zero? flush_to_zero) : \
        {result:type}"
    For 0x29 "for" V13_1 Recursive Counted (results as "resultValues": ANY variadic) {
        unsigned_cmp as "unsignedCmp": bool => V13_2 false; lower_bound as "lowerBound": Value where SCALAR_INT;
        upper_bound as "upperBound": Value where SCALAR_INT; step: Value where SCALAR_INT; init_values as "initValues": Values where ANY;
        body: Region;
    } [SameType(lowerBound upperBound step), SameType(initValues resultValues)] "(unsigned_cmp? unsigned){loop}"
    FToF 0x2A "ftof" V13_1 Pure Fixed (to: ANY_FLOAT) { rounding_mode: Rounding; from: Value where ANY_FLOAT; } [SameShape(from to)]
        " {from} (rounding_mode!nearest_even?rounding<{rounding_mode}>) : {from:type} -> {to:type}"
    FToI 0x2B "ftoi" V13_1 Pure Fixed (to: INT) {
        saturating: bool => V13_4 false; signedness: Signedness; rounding_mode: Rounding; from: Value where ANY_FLOAT;
    } [SameShape(from to)]
        " {from} {signedness} (rounding_mode!nearest_int_to_zero?rounding<{rounding_mode}>)(saturating? saturating) : \
        {from:type} -> {to:type}"
    GetGlobal 0x2C "get_global" V13_1 Pure Fixed (result: SCALAR_POINTER) { name: Symbol; } [] " {name} : {result:type}"
    GetIndexSpaceShape 0x2D "get_index_space_shape" V13_1 NoMemory CountedResults (results: SCALAR_INT variadic) {
        src: Value where TILE_VIEW;
    } [] " {src} : {src:type} -> {results:one}"
    GetNumTileBlocks 0x2E "get_num_tile_blocks" V13_1 Pure Fixed (
        grid_size_x as "gridSize_x": SCALAR_I32,
        grid_size_y as "gridSize_y": SCALAR_I32,
        grid_size_z as "gridSize_z": SCALAR_I32
    ) {} [] " : {grid_size_x:type}"
    GetTensorShape 0x2F "get_tensor_shape" V13_1 NoMemory CountedResults (results: SCALAR_INT variadic) {
        src: Value where TENSOR_VIEW;
    } [] " {src} : {src:type} -> {results:one}"
    GetTileBlockId 0x30 "get_tile_block_id" V13_1 Pure Fixed (
        block_id_x as "blockId_x": SCALAR_I32,
        block_id_y as "blockId_y": SCALAR_I32,
        block_id_z as "blockId_z": SCALAR_I32
    ) {} [] " : {block_id_x:type}"
    If 0x32 "if" V13_1 Recursive CountedResults (results: ANY variadic) {
        condition: Value where SCALAR_BOOL; then_region: Region; else_region: Region;
    } [] " {condition}(results? -> ({results:type}))"
    IntToPtr 0x33 "int_to_ptr" V13_1 Pure Fixed (result: POINTER) { source: Value where I64_TILE; } [SameShape(source result)]
        " {source} : {source:type} -> {result:type}"
    Iota 0x3A "iota" V13_1 Pure Fixed (result: INT) {} [] " : {result:type}"
    IToF 0x3B "itof" V13_1 Pure Fixed (to: ANY_FLOAT) {
        signedness: Signedness; rounding_mode: Rounding; from: Value where INT;
    } [SameShape(from to)] " {from} {signedness} (rounding_mode!nearest_even?rounding<{rounding_mode}>) : {from:type} -> {to:type}"
    JoinTokens 0x3C "join_tokens" V13_1 Pure Counted (result: TOKEN) { tokens: Values where TOKEN; } [] " {tokens} : {result:type}"
    LoadPtrTko 0x3D "load_ptr_tko" V13_1 Memory Fixed (result: TILE, result_token: TOKEN) {
        memory_ordering as "memory_ordering_semantics": MemoryOrdering; memory_scope: Option<MemoryScope>;
        optimization_hints: Hints; source: Value where POINTER; mask: Option<Value> where BOOL;
        padding_value as "paddingValue": Option<Value> where NUMBER; token: Option<Value> where TOKEN;
    } []
        " {memory_ordering}(memory_scope? {memory_scope}) {source}(mask?, {mask})(padding_value?, {padding_value})(token? \
        token={token})(optimization_hints? optimization_hints = {optimization_hints}) : {source:type}(mask?, \
        {mask:type})(padding_value?, {padding_value:type}) -> {result:type}, {result_token:type}"
    LoadViewTko 0x3E "load_view_tko" V13_1 Memory Segments (tile: TILE, result_token: TOKEN) {
        memory_ordering as "memory_ordering_semantics": MemoryOrdering; memory_scope: Option<MemoryScope>;
        optimization_hints: Hints; inbounds: Box<[bool]> => V13_4 Box::default(); view: Value where TILE_VIEW; index: Values where INT;
        token: Option<Value> where TOKEN;
    } []
        " {memory_ordering}(memory_scope? {memory_scope}) {view}[{index}](token? token = {token})(optimization_hints? \
        optimization_hints = {optimization_hints})(inbounds? inbounds = {inbounds}) : {view:type}(index?, {index:splat}) -> \
        {tile:type}, {result_token:type}"
    Log 0x3F "log" V13_1 Pure Fixed (result: FLOAT) { source: Value where FLOAT; } [SameType(source result)]
        " {source} : {result:type}"
    Log2 0x40 "log2" V13_1 Pure Fixed (result: FLOAT) { source: Value where FLOAT; } [SameType(source result)]
        " {source} : {result:type}"
    Loop 0x41 "loop" V13_1 Recursive Counted (results as "resultValues": ANY variadic) {
        init_values as "initValues": Values where ANY; body: Region;
    } [] " {loop}"
    MakePartitionView 0x42 "make_partition_view" V13_1 Pure Fixed (result: PARTITION_VIEW) {
        tensor_view: Value where TENSOR_VIEW;
    } [] " {tensor_view} : {result:type}"
    MakeTensorView 0x43 "make_tensor_view" V13_1 NoMemory Segments (result: TENSOR_VIEW) {
        base: Value where SCALAR_POINTER; dynamic_shape as "dynamicShape": Values where SCALAR_INT;
        dynamic_strides as "dynamicStrides": Values where SCALAR_INT;
    } [] " {base}, {window}"
    MakeToken 0x44 "make_token" V13_1 Pure Fixed (result: TOKEN) {} [] " : {result:type}"
    MaxF 0x45 "maxf" V13_1 Pure Fixed (result: FLOAT) {
        propagate_nan: bool; flush_to_zero: bool; lhs: Value where FLOAT; rhs: Value where FLOAT;
    } [SameType(lhs rhs result)] " {lhs}, {rhs}(flush_to_zero? flush_to_zero)(propagate_nan? propagate_nan) : {result:type}"
    MaxI 0x46 "maxi" V13_1 Pure Fixed (result: INT) {
        signedness: Signedness; lhs: Value where INT; rhs: Value where INT;
    } [SameType(lhs rhs result)] " {lhs}, {rhs} {signedness} : {result:type}"
    MinF 0x47 "minf" V13_1 Pure Fixed (result: FLOAT) {
        propagate_nan: bool; flush_to_zero: bool; lhs: Value where FLOAT; rhs: Value where FLOAT;
    } [SameType(lhs rhs result)] " {lhs}, {rhs}(flush_to_zero? flush_to_zero)(propagate_nan? propagate_nan) : {result:type}"
    MinI 0x48 "mini" V13_1 Pure Fixed (result: INT) {
        signedness: Signedness; lhs: Value where INT; rhs: Value where INT;
    } [SameType(lhs rhs result)] " {lhs}, {rhs} {signedness} : {result:type}"
    MmaF 0x49 "mmaf" V13_1 Pure Fixed (result: MMAF_RESULT) {
        fast_acc: bool => V13_3 false; lhs: Value where MMAF_OPERAND; rhs: Value where MMAF_OPERAND; acc: Value where MMAF_RESULT;
    } [SameType(acc result), SameElement(lhs rhs), SameRank(lhs rhs acc)]
        " {lhs}, {rhs}, {acc}(fast_acc? fast_acc) : {lhs:type}, {rhs:type}, {acc:type}"
    MmaI 0x4A "mmai" V13_1 Pure Fixed (result: MMAI_RESULT) {
        signedness_lhs: Signedness; signedness_rhs: Signedness; lhs: Value where MMAI_OPERAND; rhs: Value where MMAI_OPERAND;
        acc: Value where MMAI_ACC;
    } [SameType(acc result), SameElement(lhs rhs), SameRank(lhs rhs acc)]
        " {lhs}, {rhs}, {acc} {signedness_lhs} {signedness_rhs} : {lhs:type}, {rhs:type}, {acc:type}"
    MulF 0x4C "mulf" V13_1 Pure Fixed (result: FLOAT) {
        flush_to_zero: bool; rounding_mode: Rounding; lhs: Value where FLOAT; rhs: Value where FLOAT;
    } [SameType(lhs rhs result)]
        " {lhs}, {rhs} (rounding_mode!nearest_even?rounding<{rounding_mode}>)(flush_to_zero? flush_to_zero) : {result:type}"
    MulhiI 0x4D "mulhii" V13_1 Pure Fixed (result: INT) { x: Value where INT; y: Value where INT; } [SameType(x y result)]
        " {x}, {y} : {result:type}"
    MulI 0x4E "muli" V13_1 Pure Fixed (result: INT) {
        overflow: Overflow; lhs: Value where INT; rhs: Value where INT;
    } [SameType(lhs rhs result)] " {lhs}, {rhs}(overflow!none? overflow<{overflow}>) : {result:type}"
    NegF 0x4F "negf" V13_1 Pure Fixed (result: FLOAT) { source: Value where FLOAT; } [SameType(source result)]
        " {source} : {result:type}"
    NegI 0x50 "negi" V13_1 Pure Fixed (result: INT) {
        overflow: Overflow => V13_2 Overflow::None; source: Value where INT;
    } [SameType(source result)] " {source}(overflow!none? overflow<{overflow}>) : {result:type}"
    Offset 0x51 "offset" V13_1 Pure Fixed (result: POINTER) {
        ptr: Value where POINTER; offset: Value where INT;
    } [OperandsAndResultShape, SameType(result ptr)] " {ptr}, {offset} : {ptr:type}, {offset:type} -> {result:type}"
    OrI 0x52 "ori" V13_1 Pure Fixed (result: INT) { lhs: Value where INT; rhs: Value where INT; } [SameType(lhs rhs result)]
        " {lhs}, {rhs} : {result:type}"
    Permute 0x53 "permute" V13_1 Pure Fixed (result: TILE) {
        permutation: Box<[i32]>; source: Value where TILE;
    } [SameElement(source result), SameRank(source result)] " {source} {permutation} : {source:type} -> {result:type}"
    FPowF 0x54 "fpowf" V13_1 Pure Fixed (result: FLOAT) {
        source: Value where FLOAT; exponent: Value where FLOAT;
    } [SameType(result source exponent), SameRank(source exponent result)] " {source}, {exponent} : {result:type}"
    PrintTko 0x55 "print_tko" V13_1 Memory Segments (result_token: TOKEN) {
        format as "str": StringId; args: Values where TILE; token: Option<Value> where TOKEN => V13_2 None;
    } [] " {format}(args?, {args})(token? token={token})(args? : {args:type}) -> {result_token:type}"
    PtrToInt 0x56 "ptr_to_int" V13_1 Pure Fixed (result: I64_TILE) { source: Value where POINTER; } [SameShape(source result)]
        " {source} : {source:type} -> {result:type}"
    PtrToPtr 0x57 "ptr_to_ptr" V13_1 Pure Fixed (result: POINTER) { source: Value where POINTER; } [SameShape(source result)]
        " {source} : {source:type} -> {result:type}"
    Reduce 0x58 "reduce" V13_1 Recursive Counted (results: TILE variadic) {
        dim: i32; identities: Box<[Attribute]>; operands: Values where TILE; body: Region;
    } [OperandsShape] " {operands} dim={dim} identities={identities} : {operands:type} -> {results:type}"
    RemF 0x59 "remf" V13_1 Pure Fixed (result: FLOAT) { lhs: Value where FLOAT; rhs: Value where FLOAT; } [SameType(lhs rhs result)]
        " {lhs}, {rhs} : {result:type}"
    RemI 0x5A "remi" V13_1 Pure Fixed (result: INT) {
        signedness: Signedness; lhs: Value where INT; rhs: Value where INT;
    } [SameType(result lhs rhs), SameShape(result lhs rhs)] " {lhs}, {rhs} {signedness} : {result:type}"
    Reshape 0x5B "reshape" V13_1 Pure Fixed (result: TILE) { source: Value where TILE; } [OperandsAndResultElement]
        " {source} : {source:type} -> {result:type}"
    Return 0x5C "return" V13_1 Leave Counted () { operands: Values where ANY; } [Parent(Entry PreviewFunc If Loop)]
        "(operands? {operands} : {operands:type})"
    Rsqrt 0x5D "rsqrt" V13_1 Pure Fixed (result: FLOAT) {
        flush_to_zero: bool; source: Value where FLOAT;
    } [SameType(source result)] " {source}(flush_to_zero? flush_to_zero) : {result:type}"
    Scan 0x5E "scan" V13_1 Recursive Counted (results: TILE variadic) {
        dim: i32; direction as "reverse": Direction; identities: Box<[Attribute]>; operands: Values where TILE; body: Region;
    } [OperandsShape] " {operands} dim={dim} reverse={direction} identities={identities} : {operands:type} -> {results:type}"
    Select 0x5F "select" V13_1 Pure Fixed (result: TILE) {
        cond: Value where BOOL; val_if_true: Value where TILE; val_if_false: Value where TILE;
    } [SameType(val_if_true val_if_false result), SameShape(cond val_if_true val_if_false result)]
        " {cond}, {val_if_true}, {val_if_false} : {cond:type}, {result:type}"
    ShLI 0x60 "shli" V13_1 Pure Fixed (result: INT) {
        overflow: Overflow; lhs: Value where INT; rhs: Value where INT;
    } [SameType(lhs rhs result)] " {lhs}, {rhs}(overflow!none? overflow<{overflow}>) : {result:type}"
    ShRI 0x61 "shri" V13_1 Pure Fixed (result: INT) {
        signedness: Signedness; lhs: Value where INT; rhs: Value where INT;
    } [SameType(lhs rhs result)] " {lhs}, {rhs} {signedness} : {result:type}"
    Sin 0x62 "sin" V13_1 Pure Fixed (result: FLOAT) { source: Value where FLOAT; } [SameType(source result)]
        " {source} : {result:type}"
    SinH 0x63 "sinh" V13_1 Pure Fixed (result: FLOAT) { source: Value where FLOAT; } [SameType(source result)]
        " {source} : {result:type}"
    Sqrt 0x64 "sqrt" V13_1 Pure Fixed (result: FLOAT) {
        flush_to_zero: bool; rounding_mode: Rounding; source: Value where FLOAT;
    } [SameType(source result)]
        " {source} (rounding_mode!nearest_even?rounding<{rounding_mode}>)(flush_to_zero? flush_to_zero) : {result:type}"
    StorePtrTko 0x65 "store_ptr_tko" V13_1 Memory Fixed (result_token: TOKEN) {
        memory_ordering as "memory_ordering_semantics": MemoryOrdering; memory_scope: Option<MemoryScope>;
        optimization_hints: Hints; destination: Value where POINTER; value: Value where TILE; mask: Option<Value> where BOOL;
        token: Option<Value> where TOKEN;
    } []
        " {memory_ordering}(memory_scope? {memory_scope}) {destination}, {value}(mask?, {mask})(token? \
        token={token})(optimization_hints? optimization_hints = {optimization_hints}) : {destination:type}, \
        {value:type}(mask?, {mask:type}) -> {result_token:type}"
    StoreViewTko 0x66 "store_view_tko" V13_1 Memory Segments (result_token: TOKEN) {
        memory_ordering as "memory_ordering_semantics": MemoryOrdering; memory_scope: Option<MemoryScope>;
        optimization_hints: Hints; inbounds: Box<[bool]> => V13_4 Box::default(); tile: Value where TILE; view: Value where TILE_VIEW;
        index: Values where INT; token: Option<Value> where TOKEN;
    } []
        " {memory_ordering}(memory_scope? {memory_scope}) {tile}, {view}[{index}](token? token = \
        {token})(optimization_hints? optimization_hints = {optimization_hints})(inbounds? inbounds = {inbounds}) : \
        {tile:type}, {view:type}(index?, {index:splat}) -> {result_token:type}"
    SubF 0x67 "subf" V13_1 Pure Fixed (result: FLOAT) {
        flush_to_zero: bool; rounding_mode: Rounding; lhs: Value where FLOAT; rhs: Value where FLOAT;
    } [SameType(lhs rhs result)]
        " {lhs}, {rhs} (rounding_mode!nearest_even?rounding<{rounding_mode}>)(flush_to_zero? flush_to_zero) : {result:type}"
    SubI 0x68 "subi" V13_1 Pure Fixed (result: INT) {
        overflow: Overflow; lhs: Value where INT; rhs: Value where INT;
    } [SameType(lhs rhs result)] " {lhs}, {rhs}(overflow!none? overflow<{overflow}>) : {result:type}"
    Tan 0x69 "tan" V13_1 Pure Fixed (result: FLOAT) { source: Value where FLOAT; } [SameType(source result)]
        " {source} : {result:type}"
    TanH 0x6A "tanh" V13_1 Pure Fixed (result: FLOAT) {
        rounding_mode: Rounding => V13_2 Rounding::Full; source: Value where FLOAT;
    } [SameType(source result)] " {source} (rounding_mode!full?rounding<{rounding_mode}>) : {result:type}"
    TruncI 0x6B "trunci" V13_1 Pure Fixed (to: INT_OR_I4) { overflow: Overflow; from: Value where INT_OR_I4; } [SameShape(from to)]
        " {from}(overflow!none? overflow<{overflow}>) : {from:type} -> {to:type}"
    XOrI 0x6C "xori" V13_1 Pure Fixed (result: INT) { lhs: Value where INT; rhs: Value where INT; } [SameType(lhs rhs result)]
        " {lhs}, {rhs} : {result:type}"
    Yield 0x6D "yield" V13_1 Yield Counted () { operands: Values where ANY; } [Parent(If Reduce Scan)]
        "(operands? {operands} : {operands:type})"
    Atan2 0x6E "atan2" V13_2 Pure Fixed (result: FLOAT) { x: Value where FLOAT; y: Value where FLOAT; } [SameType(x y result)]
        " {x}, {y} : {result:type}"
    Pack 0x6F "pack" V13_3 Pure Fixed (result: I8_TILE) { source: Value where UNPACKED; } [SameRank(source result)]
        " {source} : {source:type} -> {result:type}"
    Unpack 0x70 "unpack" V13_3 Pure Fixed (result: UNPACKED) { source: Value where I8_TILE; } [SameRank(source result)]
        " {source} : {source:type} -> {result:type}"
    Alloca 0x71 "alloca" V13_3 Memory Fixed (result: SCALAR_POINTER) { global: bool; num_elem: i64; alignment: i64; } []
        " num_elem = {num_elem}, alignment = {alignment}(global? global) : {result:type}"
    MmaFScaled 0x72 "mmaf_scaled" V13_3 Pure Fixed (result: MMAF_SCALED_RESULT) {
        lhs: Value where MMAF_SCALED_OPERAND; rhs: Value where MMAF_SCALED_OPERAND; acc: Value where MMAF_SCALED_RESULT;
        lhs_scale: Value where MMAF_SCALED_SCALE; rhs_scale: Value where MMAF_SCALED_SCALE;
    } [SameType(acc result), SameElement(lhs rhs), SameElement(lhs_scale rhs_scale), SameRank(lhs rhs acc lhs_scale rhs_scale)]
        " {lhs}, {rhs}, {acc}, {lhs_scale}, {rhs_scale} : {lhs:type}, {rhs:type}, {acc:type}, {lhs_scale:type}, \
        {rhs_scale:type}"
    MakeGatherScatterView 0x73 "make_gather_scatter_view" V13_3 Pure Fixed (result: GATHER_SCATTER_VIEW) {
        tensor_view: Value where TENSOR_VIEW;
    } [] " {tensor_view} : {result:type}"
    MakeStridedView 0x74 "make_strided_view" V13_3 Pure Fixed (result: STRIDED_VIEW) { tensor_view: Value where TENSOR_VIEW; } []
        " {tensor_view} : {result:type}"
    AtomicRedViewTko 0x75 "atomic_red_view_tko" V13_3 Memory Segments (result_token: TOKEN) {
        memory_ordering as "memory_ordering_semantics": MemoryOrdering; memory_scope: MemoryScope; mode: AtomicMode;
        inbounds: Box<[bool]> => V13_5 Box::default(); view: Value where TILE_VIEW; index: Values where INT;
        value: Value where TILE; token: Option<Value> where TOKEN;
    } []
        " {memory_ordering} {memory_scope} {view}[{index}], {mode}, {value}(token? token = {token})(inbounds? inbounds = \
        {inbounds}) : {value:type}, {view:type}(index?, {index:splat}) -> {result_token:type}"
    Insert 0x76 "insert" V13_4 Pure Counted (result: TILE) {
        source: Value where TILE; destination: Value where TILE; indices: Values where SCALAR_I32;
    } [SameType(destination result)] " {source}, {destination}[{indices}] : {source:type}, {destination:type}"
    GdcLaunchDependentsTko 0x77 "gdc_launch_dependents_tko" V13_4 Memory CountedOperands (result_token: TOKEN) {
        token: Option<Value> where TOKEN;
    } [] "(token? token = {token}) -> {result_token:type}"
    GdcWaitTko 0x78 "gdc_wait_tko" V13_4 Memory CountedOperands (result_token: TOKEN) { token: Option<Value> where TOKEN; } []
        "(token? token = {token}) -> {result_token:type}"
    FPowI 0x79 "fpowi" V13_4 Pure Fixed (result: FLOAT) {
        source: Value where FLOAT; exponent: Value where INT_TO_I32;
    } [SameType(source result), SameShape(source exponent result)] " {source}, {exponent} : {source:type}, {exponent:type}"
    MemoryFenceAliasTko 0x7A "memory_fence_alias_tko" V13_4 Memory Fixed (result_token: TOKEN) { token: Value where TOKEN; } []
        " {token}"
    MultimemLoadReduceViewTko 0x7B "multimem_load_reduce_view_tko" V13_5 Memory Segments
        (reduced_values: TILE, result_token: TOKEN)
    {
        memory_ordering as "memory_ordering_semantics": MemoryOrdering; memory_scope: Option<MemoryScope>;
        reduction: MulticastReduction; inbounds: Box<[bool]>; view: Value where TILE_VIEW; index: Values where INT;
        token: Option<Value> where TOKEN;
    } []
        " {memory_ordering}(memory_scope? {memory_scope}) {view}[{index}](token? token = {token})(inbounds? inbounds = \
        {inbounds})(!inbounds? ){reduction:attributes} : {view:type}(index?, {index:splat})(token?, {token:type}) -> \
        {reduced_values:type}, {result_token:type}"
    MultimemReduceViewTko 0x7C "multimem_reduce_view_tko" V13_5 Memory Segments (result_token: TOKEN) {
        memory_ordering as "memory_ordering_semantics": MemoryOrdering; memory_scope: MemoryScope;
        reduction: MulticastReduction; inbounds: Box<[bool]>; view: Value where TILE_VIEW; tile: Value where TILE;
        index: Values where INT; token: Option<Value> where TOKEN;
    } []
        " {memory_ordering} {memory_scope} {view}, {tile}[{index}](token? token = {token})(inbounds? inbounds = \
        {inbounds})(!inbounds? ){reduction:attributes} : {view:type}, {tile:type}(index?, {index:splat})(token?, {token:type}) \
        -> {result_token:type}"
    MultimemStoreViewTko 0x7D "multimem_store_view_tko" V13_5 Memory Segments (result_token: TOKEN) {
        memory_ordering as "memory_ordering_semantics": MemoryOrdering; memory_scope: Option<MemoryScope>;
        inbounds: Box<[bool]>; view: Value where TILE_VIEW; tile: Value where TILE; index: Values where INT;
        token: Option<Value> where TOKEN;
    } []
        " {memory_ordering}(memory_scope? {memory_scope}) {view}, {tile}[{index}](token? token = {token})(inbounds? inbounds = \
        {inbounds})(!inbounds? ) : {view:type}, {tile:type}(index?, {index:splat})(token?, {token:type}) -> {result_token:type}"
    /// Preview content: calls a function outside the program.
    PreviewCall 0x4002 "preview$call" V13_5 Memory Counted (results: ANY variadic) {
        callee: Symbol; const_args: Box<[Attribute]>; arg_attrs: Option<Box<[Attribute]>>; res_attrs: Option<Box<[Attribute]>>;
        operands: Values where ANY;
    } [] " {call}"
}

impl Op {
    /// The in-bounds promises of an access through a view, and the number of dimensions of the view. `None` for other ops.
    pub fn inbounds_mut(&mut self) -> Option<(&mut Box<[bool]>, usize)> {
        match self {
            Op::LoadViewTko { inbounds, index, .. }
            | Op::StoreViewTko { inbounds, index, .. }
            | Op::AtomicRedViewTko { inbounds, index, .. }
            | Op::MultimemLoadReduceViewTko { inbounds, index, .. }
            | Op::MultimemReduceViewTko { inbounds, index, .. }
            | Op::MultimemStoreViewTko { inbounds, index, .. } => Some((inbounds, index.len())),
            _ => None,
        }
    }
    /// The number of indices of an access through a view; `None` for other ops.
    pub fn view_rank(&self) -> Option<usize> {
        match self {
            Op::LoadViewTko { index, .. }
            | Op::StoreViewTko { index, .. }
            | Op::AtomicRedViewTko { index, .. }
            | Op::MultimemLoadReduceViewTko { index, .. }
            | Op::MultimemReduceViewTko { index, .. }
            | Op::MultimemStoreViewTko { index, .. } => Some(index.len()),
            _ => None,
        }
    }
}
