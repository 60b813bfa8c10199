//! The additions of each bytecode version, as data: types, attributes, enumeration values, and parts of records.
//!
//! The op table, [`crate::ops`], has the first version of each op and field. Invariant: only these tables determine whether a
//! version has a construct. [`versions_page`] returns the tables as text; a test compares the text with `VERSIONS.md`.
//!
//! A new version is a row in [`crate::version`], a row here per addition, and rows or gated fields in the op table. Only code that
//! reads, writes and prints new constructs changes.

use crate::enums::{PointerSharing, WireEnum};
use crate::ops::Opcode;
use crate::version::Version::{self, *};
use numerics::Scalar::{self, *};
use numerics::arith::Rounding;

/// The kinds of types that have records in the type section of the bytecode.
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

/// A row of [`TYPES`]: a kind of type, and the versions that have it.
#[derive(Debug)]
pub struct TypeRow {
    /// The tag of the type's record in the bytecode.
    pub tag: u8,
    pub kind: TypeKind,
    /// The name in messages.
    pub name: &'static str,
    /// The first version with this kind of type.
    pub since: Version,
    /// Valid only in files whose header signals preview content.
    pub preview: bool,
}

/// The row of a scalar type.
const fn scalar_row(tag: u8, scalar: Scalar, name: &'static str, since: Version) -> TypeRow {
    TypeRow { tag, kind: TypeKind::Scalar(scalar), name, since, preview: false }
}
/// The row of a type that is not a scalar.
const fn type_row(tag: u8, kind: TypeKind, name: &'static str, since: Version) -> TypeRow {
    TypeRow { tag, kind, name, since, preview: false }
}
/// The row of a type that is preview content.
const fn preview_type_row(tag: u8, kind: TypeKind, name: &'static str) -> TypeRow {
    TypeRow { tag, kind, name, since: V13_5, preview: true }
}

/// The kinds of types, in the order of their tags.
pub const TYPES: &[TypeRow] = &[
    scalar_row(0, I1, "Int1", V13_1),
    scalar_row(1, I8, "Int8", V13_1),
    scalar_row(2, I16, "Int16", V13_1),
    scalar_row(3, I32, "Int32", V13_1),
    scalar_row(4, I64, "Int64", V13_1),
    scalar_row(5, F16, "Float16", V13_1),
    scalar_row(6, BF16, "BFloat16", V13_1),
    scalar_row(7, F32, "Float32", V13_1),
    scalar_row(8, TF32, "TFloat32", V13_1),
    scalar_row(9, F64, "Float64", V13_1),
    scalar_row(10, F8E4M3FN, "Float8E4M3FN", V13_1),
    scalar_row(11, F8E5M2, "Float8E5M2", V13_1),
    type_row(12, TypeKind::Pointer, "PointerType", V13_1),
    type_row(13, TypeKind::Tile, "TileType", V13_1),
    type_row(14, TypeKind::TensorView, "TensorViewType", V13_1),
    type_row(15, TypeKind::PartitionView, "PartitionViewType", V13_1),
    type_row(16, TypeKind::Function, "FunctionType", V13_1),
    type_row(17, TypeKind::Token, "TokenType", V13_1),
    scalar_row(18, F8E8M0FNU, "Float8E8M0FNU", V13_2),
    scalar_row(19, F4E2M1FN, "Float4E2M1FN", V13_3),
    type_row(20, TypeKind::GatherScatterView, "GatherScatterViewType", V13_3),
    type_row(21, TypeKind::StridedView, "StridedViewType", V13_3),
    scalar_row(22, I4, "Int4", V13_3),
    scalar_row(130, F8E5M3FNU, "Float8E5M3FNU", V13_4),
    preview_type_row(209, TypeKind::Symbol, "preview$sym_t"),
    preview_type_row(210, TypeKind::Fragment, "preview$fragment"),
    preview_type_row(211, TypeKind::Datatype, "preview$Datatype"),
    preview_type_row(212, TypeKind::Shape, "preview$shape"),
    preview_type_row(213, TypeKind::String, "preview$string"),
    preview_type_row(214, TypeKind::Index, "index"),
    preview_type_row(215, TypeKind::None, "none"),
];

impl TypeKind {
    pub fn row(self) -> &'static TypeRow {
        TYPES.iter().find(|row| row.kind == self).expect("every kind of type has a row")
    }
}

/// The kinds of self-describing attributes, which bytecode writes as a tag and a payload.
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

/// A row of [`ATTRIBUTES`]: a kind of attribute, and the versions that have it.
#[derive(Debug)]
pub struct AttributeRow {
    /// The tag of the attribute in the bytecode.
    pub tag: u8,
    pub kind: AttributeKind,
    /// The first version with this kind of attribute.
    pub since: Version,
    /// Valid only in files whose header signals preview content.
    pub preview: bool,
}

/// The row of an attribute that every file may have.
const fn attribute_row(tag: u8, kind: AttributeKind, since: Version) -> AttributeRow {
    AttributeRow { tag, kind, since, preview: false }
}
/// The row of an attribute that is preview content.
const fn preview_attribute_row(tag: u8, kind: AttributeKind) -> AttributeRow {
    AttributeRow { tag, kind, since: V13_5, preview: true }
}

/// The kinds of self-describing attributes, in the order of their tags.
pub const ATTRIBUTES: &[AttributeRow] = &[
    attribute_row(1, AttributeKind::Integer, V13_1),
    attribute_row(2, AttributeKind::Float, V13_1),
    attribute_row(3, AttributeKind::Bool, V13_1),
    attribute_row(4, AttributeKind::Type, V13_1),
    attribute_row(5, AttributeKind::String, V13_1),
    attribute_row(6, AttributeKind::Array, V13_1),
    attribute_row(7, AttributeKind::Dense, V13_1),
    attribute_row(8, AttributeKind::DivBy, V13_1),
    attribute_row(9, AttributeKind::SameElements, V13_1),
    attribute_row(10, AttributeKind::Dictionary, V13_1),
    attribute_row(11, AttributeKind::OptimizationHints, V13_1),
    attribute_row(12, AttributeKind::Bounded, V13_1),
    attribute_row(13, AttributeKind::MulticastReduction, V13_5),
    preview_attribute_row(209, AttributeKind::ExprInt),
    preview_attribute_row(210, AttributeKind::ExprVar),
    preview_attribute_row(211, AttributeKind::ExprMul),
    preview_attribute_row(212, AttributeKind::ExprDiv),
    preview_attribute_row(213, AttributeKind::ExprAdd),
    preview_attribute_row(214, AttributeKind::ExprSub),
    preview_attribute_row(215, AttributeKind::ExprFloorDiv),
    preview_attribute_row(216, AttributeKind::SymbolicTuple),
    preview_attribute_row(217, AttributeKind::Layout),
    preview_attribute_row(218, AttributeKind::ExprCeilDiv),
    preview_attribute_row(219, AttributeKind::ConcreteType),
    preview_attribute_row(220, AttributeKind::ExprNeg),
    preview_attribute_row(221, AttributeKind::MemorySpace),
    preview_attribute_row(222, AttributeKind::Synchronization),
    preview_attribute_row(223, AttributeKind::Access),
    preview_attribute_row(224, AttributeKind::ScratchRequest),
    preview_attribute_row(226, AttributeKind::ConstParam),
    preview_attribute_row(227, AttributeKind::ExprBuiltin),
    preview_attribute_row(228, AttributeKind::ExprConstString),
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

            /// The first version with the feature.
            pub fn since(self) -> Version {
                match self {
                    $(Feature::$variant => $since,)*
                }
            }
            /// The description of the feature in `VERSIONS.md`.
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
    FunctionKind V13_5 "functions: bits 1 to 3 of the flags byte are a number, the kind of the function (0: device, 1: entry, 2: extern implementation)";
    EntryHints V13_5 "functions: an entry always has hints";
    ArgumentAttributes V13_5 "functions: attributes of the parameters";
    SubprogramFlags V13_5 "debug subprograms: a flags word";
}

/// An enumeration value that was added to an older enumeration.
#[derive(Debug)]
pub struct ValueRow {
    pub enumeration: &'static str,
    pub value: &'static str,
    /// The first version with the value.
    pub since: Version,
}

/// The enumeration values that version 13.1 does not have. The reader and the writer accept a value only from its version on.
pub const VALUES: &[ValueRow] = &[
    ValueRow { enumeration: "RoundingMode", value: "nearest_away", since: V13_4 },
    ValueRow { enumeration: "PtrAttr", value: "unicast", since: V13_5 },
    ValueRow { enumeration: "PtrAttr", value: "multicast", since: V13_5 },
];

/// The first version with an enumeration value; the first of all versions if [`VALUES`] has no row for it.
fn value_since(enumeration: &str, value: &str) -> Version {
    VALUES.iter().find(|row| row.enumeration == enumeration && row.value == value).map_or(Version::FIRST, |row| row.since)
}

impl Version {
    /// Whether the version has a feature.
    pub fn has(self, feature: Feature) -> bool {
        self >= feature.since()
    }
}

/// The first version that allows a rounding mode.
pub fn rounding_since(rounding: Rounding) -> Version {
    value_since("RoundingMode", rounding.spelling())
}

/// The first version that allows a pointer attribute.
pub fn pointer_since(sharing: PointerSharing) -> Version {
    match sharing {
        PointerSharing::Absent => Version::FIRST,
        PointerSharing::None => Feature::PointerFlags.since(),
        other => value_since("PtrAttr", other.spelling()),
    }
}

/// Returns the text of `VERSIONS.md`: the additions of each version.
pub fn versions_page() -> String {
    let mut out = String::from(
        "# Additions of each bytecode version\n\n`scripts/bless` generates this page from the tables in `src/gates.rs` and \
         `src/ops.rs`. To add a version, add a row to\n`src/version.rs`, and a row to `src/gates.rs` or `src/ops.rs` for \
         each addition.\n",
    );
    for version in Version::ALL.iter().copied().filter(|version| *version > Version::FIRST) {
        out += &format!("\n## {version}\n\n");
        let mut write_line = |what: &str, items: Vec<String>| {
            if !items.is_empty() {
                out += &format!("- {what}: {}\n", items.join(", "));
            }
        };
        let is_new_in_version = |opcode: &&Opcode| opcode.info().since == version;
        write_line(
            "new ops",
            Opcode::ALL.iter().filter(is_new_in_version).map(|opcode| format!("`{}`", opcode.info().mnemonic)).collect(),
        );
        let fields = Opcode::ALL.iter().flat_map(|opcode| {
            let later_fields =
                opcode.info().fields.iter().filter(|field| field.since > opcode.info().since && field.since == version);
            later_fields.map(|field| format!("`{}` of `{}`", field.wire_name, opcode.info().mnemonic))
        });
        write_line("new fields of existing ops", fields.collect());
        let types = |preview: bool| TYPES.iter().filter(move |row| row.since == version && row.preview == preview);
        write_line("new types", types(false).map(|row| format!("`{}`", row.name)).collect());
        let attributes = |preview: bool| ATTRIBUTES.iter().filter(move |row| row.since == version && row.preview == preview);
        write_line("new attributes", attributes(false).map(|row| format!("`{:?}`", row.kind)).collect());
        let values = VALUES.iter().filter(|row| row.since == version);
        write_line("new values of enumerations", values.map(|row| format!("`{}` of `{}`", row.value, row.enumeration)).collect());
        for feature in Feature::ALL.iter().filter(|feature| feature.since() == version) {
            out += &format!("- {}\n", feature.text());
        }
        let mut write_preview_line = |what: &str, items: Vec<String>| {
            if !items.is_empty() {
                out += &format!("- {what}, only as preview content: {}\n", items.join(", "));
            }
        };
        write_preview_line("new types", types(true).map(|row| format!("`{}`", row.name)).collect());
        write_preview_line("new attributes", attributes(true).map(|row| format!("`{:?}`", row.kind)).collect());
    }
    out
}
