//! The syntax tree of a PTX module. Names stay text: `%r1`, `%tid.x`, `$L__BB0_2`, `kernel_param_0`.

use crate::types::{Modifier, Space, Type};

/// A source line, 1-based. It is a position, not content: all lines compare equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line(pub u32);

impl PartialEq for Line {
    fn eq(&self, _: &Line) -> bool {
        true
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// The `//!tile` lines at the head, unmodified.
    pub envelope: Vec<String>,
    pub version: (u32, u32),
    pub target: Vec<String>,
    pub address_size: u32,
    pub items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    File {
        index: u64,
        name: String,
        numbers: Vec<i64>,
    },
    Variable(Variable),
    Function(Function),
    Section {
        name: String,
        lines: Vec<SectionLine>,
    },
    /// `.nv_intermediate_source_section`: source text of a language above PTX.
    IntermediateSource {
        ir_name: String,
        file: u64,
        text: String,
    },
    Pragma(Vec<String>),
    Alias {
        name: String,
        target: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    None,
    Visible,
    Extern,
    Weak,
    Common,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    pub line: Line,
    pub linkage: Linkage,
    /// A parameter that the driver fills; the caller does not see it.
    pub hidden: bool,
    pub space: Space,
    pub align: Option<u32>,
    pub vector: Option<u32>,
    pub ty: Type,
    pub pointer: Option<Pointer>,
    pub name: String,
    /// Array extents; `None` is an empty bracket.
    pub dims: Vec<Option<u64>>,
    pub init: Vec<Value>,
    /// Whether the initialiser has braces.
    pub braced: bool,
}

impl Variable {
    /// Bytes of the variable; the initialiser determines an open extent.
    pub fn bytes(&self) -> Option<u64> {
        let element = u64::from(self.ty.bytes()).checked_mul(self.vector.unwrap_or(1).into())?;
        self.dims.iter().try_fold(element, |total, dim| total.checked_mul(dim.unwrap_or(self.init.len() as u64)))
    }
}

/// `.ptr .space .align N` of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    pub space: Option<Space>,
    pub align: Option<u32>,
}

/// An element of an initialiser or of a debug section.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Integer(i64),
    F32(u32),
    F64(u64),
    Symbol {
        name: String,
        offset: i64,
    },
    /// `generic(symbol)`: the generic address of a symbol.
    Generic {
        name: String,
        offset: i64,
    },
    Difference {
        end: String,
        start: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub line: Line,
    pub linkage: Linkage,
    pub entry: bool,
    pub returns: Vec<Variable>,
    pub name: String,
    pub params: Vec<Variable>,
    pub directives: Vec<Directive>,
    pub body: Option<Vec<Statement>>,
}

impl Function {
    /// The numbers of a directive such as `reqntid`.
    pub fn directive(&self, name: &str) -> Option<&[i64]> {
        self.directives.iter().find(|directive| directive.name == name).map(|directive| &*directive.values)
    }
}

/// `.reqntid 128`, `.noreturn`, `.pragma "…"` of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Directive {
    pub name: String,
    pub values: Vec<i64>,
    pub strings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SectionLine {
    Label(String),
    Data { ty: Type, values: Vec<Value> },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    Label {
        line: Line,
        name: String,
    },
    Instruction(Instruction),
    Registers {
        ty: Type,
        names: Vec<RegisterName>,
    },
    Variable(Variable),
    Block(Vec<Statement>),
    Location(Location),
    Pragma(Vec<String>),
    /// `name: .branchtargets a, b;`
    BranchTargets {
        name: String,
        targets: Vec<String>,
    },
    /// `name: .callprototype (…) _ (…);`
    Prototype {
        name: String,
        returns: Vec<Variable>,
        params: Vec<Variable>,
    },
}

/// `%r<9>` declares `%r0` to `%r8`, `%SP` itself.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterName {
    pub name: String,
    pub count: Option<u32>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Location {
    /// `.loc_intermediate` instead of `.loc`.
    pub intermediate: bool,
    pub file: u64,
    pub row: u64,
    pub column: u64,
    pub inlined: Option<Inlined>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Inlined {
    pub function: String,
    pub offset: i64,
    pub file: u64,
    pub row: u64,
    pub column: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    pub line: Line,
    pub guard: Option<Guard>,
    pub opcode: String,
    pub modifiers: Vec<Modifier>,
    pub operands: Vec<Operand>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    pub negated: bool,
    pub register: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register, special register, variable, label or function; `_` discards a result.
    Name(String),
    /// `symbol+8`
    Offset {
        name: String,
        offset: i64,
    },
    Integer(i64),
    F32(u32),
    F64(u64),
    /// `!%p`
    Not(String),
    /// `a|b`: two results.
    Pair(Box<Operand>, Box<Operand>),
    /// `{a, b}`
    Vector(Vec<Operand>),
    /// `(a, b)` of a call.
    List(Vec<Operand>),
    /// `[base+offset]`, `[base, {x, y}]`, `[base, {x, y}, {o}]`
    Address(Address),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// `None` for an absolute address.
    pub base: Option<String>,
    pub offset: i64,
    /// Tensor coordinates and the operands after them.
    pub trailing_operands: Vec<Operand>,
}

impl Instruction {
    /// The name with its modifiers, as written.
    pub fn full_name(&self) -> String {
        let mut name = self.opcode.clone();
        for modifier in &self.modifiers {
            name.push('.');
            name.push_str(modifier.name());
        }
        name
    }
    pub fn has(&self, word: &str) -> bool {
        self.modifiers.iter().any(|modifier| modifier.name() == word)
    }
    /// The types among the modifiers, in order.
    pub fn types(&self) -> impl DoubleEndedIterator<Item = Type> {
        self.modifiers.iter().filter_map(|modifier| match modifier {
            Modifier::Type(ty) => Some(*ty),
            _ => None,
        })
    }
    pub fn space(&self) -> Option<Space> {
        self.modifiers.iter().find_map(|modifier| match modifier {
            Modifier::Space(space) => Some(*space),
            _ => None,
        })
    }
}
