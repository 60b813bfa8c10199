//! The syntax tree of a PTX module. Names are strings, as written: `%r1`, `%tid.x`, `$L__BB0_2`, `kernel_param_0`.

use crate::types::{Modifier, Space, Type};

/// The number of a source line, from 1. All lines compare equal, so that trees of equal content at different positions are equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line(pub u32);

impl PartialEq for Line {
    fn eq(&self, _: &Line) -> bool {
        true
    }
}

/// A PTX module.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// The `//!tile` lines at the head, unmodified.
    pub envelope: Vec<String>,
    /// Major and minor version of the PTX ISA.
    pub version: (u32, u32),
    /// The names of `.target`, such as `sm_90a` and `debug`.
    pub target: Vec<String>,
    /// The number of bits of an address.
    pub address_size: u32,
    /// The declarations, in text order.
    pub items: Vec<Item>,
}

/// A declaration or directive at the top level of a module.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// `.file`: a source file for `.loc`. `numbers` are the file's timestamp and size; empty if the directive does not give them.
    File {
        index: u64,
        name: String,
        numbers: Vec<i64>,
    },
    Variable(Variable),
    Function(Function),
    /// A `.section`: debug information.
    Section {
        name: String,
        lines: Vec<SectionLine>,
    },
    /// `.nv_intermediate_source_section`: the source text from which a compiler generated the PTX. `file` is the index of the
    /// text's `.file` directive.
    IntermediateSource {
        ir_name: String,
        file: u64,
        text: String,
    },
    /// `.pragma "…";`
    Pragma(Vec<String>),
    /// `.alias name, target;`: a second name of a function.
    Alias {
        name: String,
        target: String,
    },
}

/// The linkage directive of a variable or function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// No directive.
    None,
    /// `.visible`: other modules can use the name.
    Visible,
    /// `.extern`: another module defines the name.
    Extern,
    /// `.weak`: a definition of the name in another module may replace this one.
    Weak,
    /// `.common`: the linker merges all definitions of the name.
    Common,
}

/// A variable or parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    pub line: Line,
    pub linkage: Linkage,
    /// Whether the variable is a hidden parameter (`.hidden`), which the host object fills instead of the caller.
    pub hidden: bool,
    pub space: Space,
    /// The alignment in bytes; `None` without `.align`.
    pub align: Option<u32>,
    /// The number of elements of a vector variable: 4 for `.v4`. `None` for other variables.
    pub vector: Option<u32>,
    pub ty: Type,
    /// The target of a pointer parameter; `None` without `.ptr`.
    pub pointer: Option<Pointer>,
    pub name: String,
    /// Array extents; `None` for empty brackets (`a[]`).
    pub dims: Vec<Option<u64>>,
    /// The values of the initialiser; empty without one.
    pub init: Vec<Value>,
    /// Whether the initialiser is in braces.
    pub braced: bool,
}

impl Variable {
    /// Returns the size of the variable in bytes, or `None` if the size overflows. For empty brackets, the extent is the number of
    /// initial values.
    pub fn bytes(&self) -> Option<u64> {
        let element_bytes = u64::from(self.ty.bytes()).checked_mul(self.vector.unwrap_or(1).into())?;
        self.dims.iter().try_fold(element_bytes, |total, dim| total.checked_mul(dim.unwrap_or(self.init.len() as u64)))
    }
}

/// `.ptr .space .align N` of a parameter: the state space that the pointer points to, and the alignment in bytes of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// The state space that the pointer points to; `None` for generic addresses.
    pub space: Option<Space>,
    /// The alignment of the target in bytes; `None` without `.align`.
    pub align: Option<u32>,
}

/// An element of an initialiser or of a debug section.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Integer(i64),
    /// The bits of a 32-bit float.
    F32(u32),
    /// The bits of a 64-bit float.
    F64(u64),
    /// `name+offset`: the address of a symbol, plus a number of bytes.
    Symbol {
        name: String,
        offset: i64,
    },
    /// `generic(symbol)`: the generic address of a symbol.
    Generic {
        name: String,
        offset: i64,
    },
    /// `end-start`: the difference of two labels.
    Difference {
        end: String,
        start: String,
    },
}

/// A kernel or function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub line: Line,
    pub linkage: Linkage,
    /// Whether the function is a kernel (`.entry`). Other functions are declared with `.func`.
    pub entry: bool,
    /// The return parameters.
    pub returns: Vec<Variable>,
    pub name: String,
    pub params: Vec<Variable>,
    pub directives: Vec<Directive>,
    /// The statements of a definition; `None` for a declaration.
    pub body: Option<Vec<Statement>>,
}

impl Function {
    /// Returns the numbers after a directive such as `reqntid`, or `None` if the function does not have the directive.
    pub fn directive(&self, name: &str) -> Option<&[i64]> {
        self.directives.iter().find(|directive| directive.name == name).map(|directive| &*directive.values)
    }
}

/// A directive between the parameters and the body of a function: `.reqntid 128`, `.noreturn`, `.pragma "…"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Directive {
    pub name: String,
    /// The numbers after the name.
    pub values: Vec<i64>,
    /// The quoted strings after the name, without the quotes.
    pub strings: Vec<String>,
}

/// A line of a debug section.
#[derive(Clone, Debug, PartialEq)]
pub enum SectionLine {
    /// A label, to which other data refers.
    Label(String),
    /// Values of one type, such as `.b8 1, 2`.
    Data { ty: Type, values: Vec<Value> },
}

/// A statement in the body of a function.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `name:`
    Label {
        line: Line,
        name: String,
    },
    Instruction(Instruction),
    /// `.reg .ty names;`
    Registers {
        ty: Type,
        names: Vec<RegisterName>,
    },
    Variable(Variable),
    /// Statements in braces. The names that they declare are visible only between the braces.
    Block(Vec<Statement>),
    /// A `.loc` or `.loc_intermediate`.
    Location(Location),
    /// `.pragma "…";`
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

/// A name in a `.reg` declaration. `%r<9>` has the count 9 and declares `%r0` to `%r8`; `%SP` has no count and declares one
/// register.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterName {
    pub name: String,
    /// The number of registers in angle brackets; `None` without brackets.
    pub count: Option<u32>,
}

/// A `.loc`: the source position of the instructions after it.
#[derive(Clone, Debug, PartialEq)]
pub struct Location {
    /// Whether the directive is `.loc_intermediate` instead of `.loc`.
    pub intermediate: bool,
    /// The index of the `.file` directive.
    pub file: u64,
    /// The line in the file, from 1.
    pub row: u64,
    /// The column in the line, from 1.
    pub column: u64,
    /// The call site of an inlined function; `None` for other code.
    pub inlined: Option<Inlined>,
}

/// `function_name` and `inlined_at` of a location: the inlined function's name and the position of the call.
#[derive(Clone, Debug, PartialEq)]
pub struct Inlined {
    /// The label of the function's name in a debug section.
    pub function: String,
    /// The offset of the name from the label, in bytes.
    pub offset: i64,
    /// The index of the `.file` directive of the call.
    pub file: u64,
    /// The line of the call.
    pub row: u64,
    /// The column of the call.
    pub column: u64,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    pub line: Line,
    /// The predicate that decides whether the instruction executes; `None` if the instruction always executes.
    pub guard: Option<Guard>,
    /// The name without modifiers: `ld` of `ld.global.b32`.
    pub opcode: String,
    /// The words after the dots, in order.
    pub modifiers: Vec<Modifier>,
    pub operands: Vec<Operand>,
}

/// The predicate of an instruction: `@%p1` or `@!%p1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Whether the instruction executes if the predicate is false (`@!%p1`).
    pub negated: bool,
    /// The predicate register.
    pub register: String,
}

/// An operand of an instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register, special register, variable, label or function, or `_`, which discards a result.
    Name(String),
    /// `symbol+8`: the address of a symbol, plus a number of bytes.
    Offset {
        name: String,
        offset: i64,
    },
    Integer(i64),
    /// The bits of a 32-bit float.
    F32(u32),
    /// The bits of a 64-bit float.
    F64(u64),
    /// `!%p`: a negated predicate.
    Not(String),
    /// `a|b`: two destinations of one instruction.
    Pair(Box<Operand>, Box<Operand>),
    /// `{a, b}`: the registers of a vector.
    Vector(Vec<Operand>),
    /// `(a, b)`: the arguments or results of a call.
    List(Vec<Operand>),
    /// `[base+offset]`, `[base, {x, y}]` or `[base, {x, y}, {o}]`.
    Address(Address),
}

/// A memory address in brackets.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// A register or symbol; `None` for an absolute address.
    pub base: Option<String>,
    /// The distance from the base in bytes, or the absolute address.
    pub offset: i64,
    /// The operands after the base, within the brackets: the tensor coordinates, and then the im2col offsets.
    pub trailing_operands: Vec<Operand>,
}

impl Instruction {
    /// Returns the opcode with its modifiers, as written: `ld.global.v4.b32`.
    pub fn full_name(&self) -> String {
        let mut name = self.opcode.clone();
        for modifier in &self.modifiers {
            name.push('.');
            name.push_str(modifier.name());
        }
        name
    }
    /// Returns whether the instruction has the modifier `.word`.
    pub fn has_modifier(&self, word: &str) -> bool {
        self.modifiers.iter().any(|modifier| modifier.name() == word)
    }
    /// Returns the types among the modifiers, in order.
    pub fn types(&self) -> impl DoubleEndedIterator<Item = Type> {
        self.modifiers.iter().filter_map(|modifier| match modifier {
            Modifier::Type(ty) => Some(*ty),
            _ => None,
        })
    }
    /// Returns the first state space among the modifiers, or `None` if there is none.
    pub fn space(&self) -> Option<Space> {
        self.modifiers.iter().find_map(|modifier| match modifier {
            Modifier::Space(space) => Some(*space),
            _ => None,
        })
    }
}
