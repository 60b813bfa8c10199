//! The additions of each bytecode version, as data: types, attributes, enumeration values, and parts of records.
//!
//! Ops and their fields have their first version in the op table, [`crate::ops`], in the same notation. Invariant: reader, writer,
//! verifier and parser decide by these tables only. [`history`] prints them as `VERSIONS.md`; a test compares the two.
//!
//! A new version is a row in [`crate::version`], a row here per addition, and rows or gated fields in the op table. Only code that
//! reads, writes and prints new constructs changes.

use crate::enums::WireEnum;
use crate::ops::Opcode;
use crate::types::PointerSpace;
use crate::version::Version::{self, *};
use numerics::Scalar::{self, *};
use numerics::arith::Rounding;

/// The kinds of types with records in the type table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeKind {
    Scalar(Scalar),
    Pointer,
    Tile,
    TensorView,
    PartitionView,
    Function,
    Token,
    GatherScatterView,
    StridedView,
    Symbol,
    Fragment,
    Datatype,
    Shape,
    String,
    Index,
    None,
}

/// A row of [`TYPES`].
#[derive(Debug)]
pub struct TypeRow {
    pub tag: u8,
    pub kind: TypeKind,
    /// The name in messages.
    pub name: &'static str,
    pub since: Version,
    /// Valid only in files whose header signals preview content.
    pub preview: bool,
}

const fn scalar(tag: u8, scalar: Scalar, name: &'static str, since: Version) -> TypeRow {
    TypeRow { tag, kind: TypeKind::Scalar(scalar), name, since, preview: false }
}
const fn ty(tag: u8, kind: TypeKind, name: &'static str, since: Version) -> TypeRow {
    TypeRow { tag, kind, name, since, preview: false }
}
const fn preview_type(tag: u8, kind: TypeKind, name: &'static str) -> TypeRow {
    TypeRow { tag, kind, name, since: V13_5, preview: true }
}

pub const TYPES: &[TypeRow] = &[
    scalar(0, I1, "Int1", V13_1),
    scalar(1, I8, "Int8", V13_1),
    scalar(2, I16, "Int16", V13_1),
    scalar(3, I32, "Int32", V13_1),
    scalar(4, I64, "Int64", V13_1),
    scalar(5, F16, "Float16", V13_1),
    scalar(6, BF16, "BFloat16", V13_1),
    scalar(7, F32, "Float32", V13_1),
    scalar(8, TF32, "TFloat32", V13_1),
    scalar(9, F64, "Float64", V13_1),
    scalar(10, F8E4M3FN, "Float8E4M3FN", V13_1),
    scalar(11, F8E5M2, "Float8E5M2", V13_1),
    ty(12, TypeKind::Pointer, "PointerType", V13_1),
    ty(13, TypeKind::Tile, "TileType", V13_1),
    ty(14, TypeKind::TensorView, "TensorViewType", V13_1),
    ty(15, TypeKind::PartitionView, "PartitionViewType", V13_1),
    ty(16, TypeKind::Function, "FunctionType", V13_1),
    ty(17, TypeKind::Token, "TokenType", V13_1),
    scalar(18, F8E8M0FNU, "Float8E8M0FNU", V13_2),
    scalar(19, F4E2M1FN, "Float4E2M1FN", V13_3),
    ty(20, TypeKind::GatherScatterView, "GatherScatterViewType", V13_3),
    ty(21, TypeKind::StridedView, "StridedViewType", V13_3),
    scalar(22, I4, "Int4", V13_3),
    scalar(130, F8E5M3FNU, "Float8E5M3FNU", V13_4),
    preview_type(209, TypeKind::Symbol, "preview$sym_t"),
    preview_type(210, TypeKind::Fragment, "preview$fragment"),
    preview_type(211, TypeKind::Datatype, "preview$Datatype"),
    preview_type(212, TypeKind::Shape, "preview$shape"),
    preview_type(213, TypeKind::String, "preview$string"),
    preview_type(214, TypeKind::Index, "index"),
    preview_type(215, TypeKind::None, "none"),
];

impl TypeKind {
    pub fn row(self) -> &'static TypeRow {
        TYPES.iter().find(|row| row.kind == self).expect("every kind of type has a row")
    }
}

/// The kinds of self-describing attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeKind {
    Integer,
    Float,
    Bool,
    Type,
    String,
    Array,
    Dense,
    DivBy,
    SameElements,
    Dictionary,
    OptimizationHints,
    Bounded,
    MulticastReduction,
    ExprInt,
    ExprVar,
    ExprMul,
    ExprDiv,
    ExprAdd,
    ExprSub,
    ExprFloorDiv,
    SymbolicTuple,
    Layout,
    ExprCeilDiv,
    ConcreteType,
    ExprNeg,
    MemorySpace,
    Synchronization,
    Access,
    ScratchRequest,
    ConstParam,
    ExprBuiltin,
    ExprConstString,
}

/// A row of [`ATTRIBUTES`].
#[derive(Debug)]
pub struct AttributeRow {
    pub tag: u8,
    pub kind: AttributeKind,
    pub since: Version,
    pub preview: bool,
}

const fn attribute(tag: u8, kind: AttributeKind, since: Version) -> AttributeRow {
    AttributeRow { tag, kind, since, preview: false }
}
const fn preview_attribute(tag: u8, kind: AttributeKind) -> AttributeRow {
    AttributeRow { tag, kind, since: V13_5, preview: true }
}

pub const ATTRIBUTES: &[AttributeRow] = &[
    attribute(1, AttributeKind::Integer, V13_1),
    attribute(2, AttributeKind::Float, V13_1),
    attribute(3, AttributeKind::Bool, V13_1),
    attribute(4, AttributeKind::Type, V13_1),
    attribute(5, AttributeKind::String, V13_1),
    attribute(6, AttributeKind::Array, V13_1),
    attribute(7, AttributeKind::Dense, V13_1),
    attribute(8, AttributeKind::DivBy, V13_1),
    attribute(9, AttributeKind::SameElements, V13_1),
    attribute(10, AttributeKind::Dictionary, V13_1),
    attribute(11, AttributeKind::OptimizationHints, V13_1),
    attribute(12, AttributeKind::Bounded, V13_1),
    attribute(13, AttributeKind::MulticastReduction, V13_5),
    preview_attribute(209, AttributeKind::ExprInt),
    preview_attribute(210, AttributeKind::ExprVar),
    preview_attribute(211, AttributeKind::ExprMul),
    preview_attribute(212, AttributeKind::ExprDiv),
    preview_attribute(213, AttributeKind::ExprAdd),
    preview_attribute(214, AttributeKind::ExprSub),
    preview_attribute(215, AttributeKind::ExprFloorDiv),
    preview_attribute(216, AttributeKind::SymbolicTuple),
    preview_attribute(217, AttributeKind::Layout),
    preview_attribute(218, AttributeKind::ExprCeilDiv),
    preview_attribute(219, AttributeKind::ConcreteType),
    preview_attribute(220, AttributeKind::ExprNeg),
    preview_attribute(221, AttributeKind::MemorySpace),
    preview_attribute(222, AttributeKind::Synchronization),
    preview_attribute(223, AttributeKind::Access),
    preview_attribute(224, AttributeKind::ScratchRequest),
    preview_attribute(226, AttributeKind::ConstParam),
    preview_attribute(227, AttributeKind::ExprBuiltin),
    preview_attribute(228, AttributeKind::ExprConstString),
];

impl AttributeKind {
    pub fn row(self) -> &'static AttributeRow {
        ATTRIBUTES.iter().find(|row| row.kind == self).expect("every kind of attribute has a row")
    }
}

macro_rules! features {
    ($($variant:ident $since:ident $text:literal;)*) => {
        /// A part of a record, or a rule, that older versions lack.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Feature {
            $(#[doc = $text] $variant,)*
        }

        impl Feature {
            pub const ALL: &'static [Feature] = &[$(Feature::$variant),*];

            pub fn since(self) -> Version {
                match self {
                    $(Feature::$variant => $since,)*
                }
            }
            pub fn text(self) -> &'static str {
                match self {
                    $(Feature::$variant => $text,)*
                }
            }
        }
    };
}

features! {
    PrintToken V13_2 "print_tko has a token";
    ViewFlags V13_3 "views: a flags word before the other parameters has a bit for padding";
    GlobalFlags V13_3 "globals: visibility and constness";
    PointerFlags V13_4 "pointers and tensor views: a flags word, and a pointer attribute";
    FunctionBits V13_4 "functions: bits of the flags byte without a meaning are refused";
    HeaderPreview V13_5 "header: bit 0 of the word after the version signals preview content";
    FunctionForm V13_5 "functions: bits 1 to 3 of the flags byte are one number, the form";
    EntryHints V13_5 "functions: an entry always has hints";
    ArgumentAttributes V13_5 "functions: attributes of the parameters";
    SubprogramFlags V13_5 "debug subprograms: a flags word";
}

/// An enumeration value newer than its enumeration.
#[derive(Debug)]
pub struct ValueRow {
    pub what: &'static str,
    pub value: &'static str,
    pub since: Version,
}

/// The values of attributes and types that the first version does not have. The reader and the writer accept each only from its
/// first version on.
pub const VALUES: &[ValueRow] = &[
    ValueRow { what: "RoundingMode", value: "nearest_away", since: V13_4 },
    ValueRow { what: "PtrAttr", value: "unicast", since: V13_5 },
    ValueRow { what: "PtrAttr", value: "multicast", since: V13_5 },
];

fn value_since(what: &str, value: &str) -> Version {
    VALUES.iter().find(|row| row.what == what && row.value == value).map_or(Version::FIRST, |row| row.since)
}

impl Version {
    pub fn has(self, feature: Feature) -> bool {
        self >= feature.since()
    }
}

/// The first version that allows a rounding mode.
pub fn rounding_since(rounding: Rounding) -> Version {
    value_since("RoundingMode", rounding.spelling())
}

/// The first version that allows a kind of pointer.
pub fn pointer_since(space: PointerSpace) -> Version {
    match space {
        PointerSpace::Absent => Version::FIRST,
        PointerSpace::None => Feature::PointerFlags.since(),
        other => value_since("PtrAttr", other.spelling()),
    }
}

/// All tables as a document: the additions of each version.
pub fn history() -> String {
    let mut out = String::from(
        "# Additions of each bytecode version\n\n`scripts/bless` generates this page from the tables in `src/gates.rs` and \
         `src/ops.rs`. To add a version, add a row to\n`src/version.rs`, and a row to `src/gates.rs` or `src/ops.rs` for \
         each addition.\n",
    );
    for version in Version::ALL.iter().copied().filter(|version| *version > Version::FIRST) {
        out += &format!("\n## {version}\n\n");
        let mut line = |what: &str, items: Vec<String>| {
            if !items.is_empty() {
                out += &format!("- {what}: {}\n", items.join(", "));
            }
        };
        let of_version = |opcode: &&Opcode| opcode.info().since == version;
        line("ops", Opcode::ALL.iter().filter(of_version).map(|opcode| format!("`{}`", opcode.info().mnemonic)).collect());
        let fields = Opcode::ALL.iter().flat_map(|opcode| {
            let late = opcode.info().fields.iter().filter(|field| field.since > opcode.info().since && field.since == version);
            late.map(|field| format!("`{}` of `{}`", field.wire_name, opcode.info().mnemonic))
        });
        line("fields of ops", fields.collect());
        let types = |preview: bool| TYPES.iter().filter(move |row| row.since == version && row.preview == preview);
        line("types", types(false).map(|row| format!("`{}`", row.name)).collect());
        let attributes = |preview: bool| ATTRIBUTES.iter().filter(move |row| row.since == version && row.preview == preview);
        line("attributes", attributes(false).map(|row| format!("`{:?}`", row.kind)).collect());
        let values = VALUES.iter().filter(|row| row.since == version);
        line("values", values.map(|row| format!("`{}` of `{}`", row.value, row.what)).collect());
        for feature in Feature::ALL.iter().filter(|feature| feature.since() == version) {
            out += &format!("- {}\n", feature.text());
        }
        let mut preview = |what: &str, items: Vec<String>| {
            if !items.is_empty() {
                out += &format!("- {what}, only as preview content: {}\n", items.join(", "));
            }
        };
        preview("types", types(true).map(|row| format!("`{}`", row.name)).collect());
        preview("attributes", attributes(true).map(|row| format!("`{:?}`", row.kind)).collect());
    }
    out
}
