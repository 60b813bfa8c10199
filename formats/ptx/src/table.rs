//! The instruction table: a row per opcode, with the valid operand counts.

/// An opcode: its name without modifiers, and its minimum and maximum operand counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opcode {
    pub name: &'static str,
    pub min_operands: usize,
    pub max_operands: usize,
}

/// Returns the row of an opcode, or `None` if PTX has no such opcode.
pub fn opcode(name: &str) -> Option<&'static Opcode> {
    OPCODES.binary_search_by(|opcode| opcode.name.cmp(name)).ok().map(|index| &OPCODES[index])
}

/// Returns a row of the table.
const fn op(name: &'static str, min_operands: usize, max_operands: usize) -> Opcode {
    Opcode { name, min_operands, max_operands }
}

/// All opcodes, sorted by name for the binary search.
pub const OPCODES: &[Opcode] = &[
    op("abs", 2, 2),
    op("activemask", 1, 1),
    op("add", 3, 3),
    op("addc", 3, 3),
    op("and", 3, 3),
    op("applypriority", 2, 2),
    op("atom", 3, 5),
    op("bar", 0, 4),
    op("barrier", 0, 4),
    op("bfe", 4, 4),
    op("bfi", 5, 5),
    op("bfind", 2, 2),
    op("bmsk", 3, 3),
    op("bra", 1, 1),
    op("brev", 2, 2),
    op("brkpt", 0, 0),
    op("brx", 2, 2),
    op("call", 1, 4),
    op("clusterlaunchcontrol", 2, 2),
    op("clz", 2, 2),
    op("cnot", 2, 2),
    op("copysign", 3, 3),
    op("cos", 2, 2),
    op("cp", 0, 8),
    op("createpolicy", 2, 4),
    op("cvt", 2, 5),
    op("cvta", 2, 2),
    op("discard", 2, 2),
    op("div", 3, 3),
    op("dp2a", 4, 4),
    op("dp4a", 4, 4),
    op("elect", 2, 2),
    op("ex2", 2, 2),
    op("exit", 0, 0),
    op("fence", 0, 2),
    op("fma", 4, 4),
    op("fns", 4, 4),
    op("getctarank", 2, 2),
    op("griddepcontrol", 0, 0),
    op("isspacep", 2, 2),
    op("istypep", 2, 2),
    op("ld", 2, 3),
    op("ldmatrix", 2, 2),
    op("ldu", 2, 2),
    op("lg2", 2, 2),
    op("lop3", 5, 6),
    op("mad", 4, 4),
    op("mad24", 4, 4),
    op("madc", 4, 4),
    op("mapa", 3, 3),
    op("match", 3, 3),
    op("max", 3, 4),
    op("mbarrier", 1, 5),
    op("membar", 0, 0),
    op("min", 3, 4),
    op("mma", 4, 8),
    op("mov", 2, 2),
    op("movmatrix", 2, 2),
    op("mul", 3, 3),
    op("mul24", 3, 3),
    op("multimem", 2, 3),
    op("nanosleep", 1, 1),
    op("neg", 2, 2),
    op("not", 2, 2),
    op("or", 3, 3),
    op("pmevent", 1, 1),
    op("popc", 2, 2),
    op("prefetch", 1, 1),
    op("prefetchu", 1, 1),
    op("prmt", 4, 4),
    op("rcp", 2, 2),
    op("red", 2, 3),
    op("redux", 3, 3),
    op("rem", 3, 3),
    op("ret", 0, 0),
    op("rsqrt", 2, 2),
    op("sad", 4, 4),
    op("selp", 4, 4),
    op("set", 3, 4),
    op("setmaxnreg", 1, 1),
    op("setp", 3, 4),
    op("shf", 4, 4),
    op("shfl", 4, 5),
    op("shl", 3, 3),
    op("shr", 3, 3),
    op("sin", 2, 2),
    op("slct", 4, 4),
    op("sqrt", 2, 2),
    op("st", 2, 3),
    op("stackrestore", 1, 1),
    op("stacksave", 1, 1),
    op("stmatrix", 2, 2),
    op("sub", 3, 3),
    op("subc", 3, 3),
    op("szext", 3, 3),
    op("tanh", 2, 2),
    op("tcgen05", 0, 9),
    op("tensormap", 2, 4),
    op("testp", 2, 2),
    op("trap", 0, 0),
    op("vote", 2, 3),
    op("wgmma", 0, 9),
    op("xor", 3, 3),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_are_sorted_and_can_be_looked_up() {
        assert!(OPCODES.is_sorted_by(|a, b| a.name < b.name));
        assert_eq!(opcode("mma").unwrap().name, "mma");
        assert_eq!(opcode("mmma"), None);
    }
}
