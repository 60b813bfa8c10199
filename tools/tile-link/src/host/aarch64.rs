//! Emits the AArch64 code of the host object. The comment after an instruction word is its assembly text.

use super::{MULTIPROCESSOR_COUNT, MachineCode, QUERY_OFFSET, Table, TableRelocation};
use crate::maps::{KernelMaps, Param};
use object::elf::{R_AARCH64_ADD_ABS_LO12_NC, R_AARCH64_ADR_PREL_PG_HI21};
use tensormap::Expr;

/// The instruction `ret`.
const RET: u32 = 0xd65f_03c0;
/// The instruction `mov w0, #0`. Bits 5 to 20 are the immediate.
const MOV_W0: u32 = 0x5280_0000;

/// Emits the AArch64 form of the function that [`super::x86_64::fill`] describes. Register x3 has the address of the parameters.
pub(super) fn fill(maps: &KernelMaps) -> Vec<u8> {
    let mut code = Filler { bytes: Vec::new(), params: &maps.params };
    for (at, map) in &maps.maps {
        for (word, place) in map.words().iter().zip((*at..).step_by(8)) {
            code.emit_expr(word);
            code.load_constant(1, place.into());
            code.emit_word(0xf821_6860); // str x0, [x3, x1]
        }
    }
    code.emit_word(MOV_W0);
    code.emit_word(RET);
    code.bytes
}

/// Appends the AArch64 form of the function that [`super::x86_64::on_pre_load`] describes. The arguments are `operations` in x0,
/// `handle` in x1, `version` in w2 and `out` in x3.
pub(super) fn on_pre_load(bytes: Vec<u8>) -> MachineCode {
    let mut code = MachineCode { bytes, relocations: Vec::new() };
    code.emit_word(0x3500_0062); // cbnz w2, +12
    code.emit_word(MOV_W0 | 1 << 5); // mov w0, #1
    code.emit_word(RET);
    code.emit_word(0x7100_045f); // cmp w2, #1
    code.emit_word(0x5400_0141); // b.ne +40, over the query
    code.emit_word(0xa9bd_7bfd); // stp x29, x30, [sp, #-48]!
    code.emit_word(0xf900_0be3); // str x3, [sp, #16]
    code.emit_word(0xf940_0008 | (u32::from(QUERY_OFFSET) / 8) << 10); // ldr x8, [x0, #QUERY]
    code.emit_word(0xaa01_03e0); // mov x0, x1
    code.emit_word(0x5280_0001 | u32::from(MULTIPROCESSOR_COUNT) << 5); // mov w1, #16
    code.emit_word(0x9100_83e2); // add x2, sp, #32
    code.emit_word(0xd63f_0100); // blr x8
    code.emit_word(0xf940_0be3); // ldr x3, [sp, #16]
    code.emit_word(0xa8c3_7bfd); // ldp x29, x30, [sp], #48
    code.load_table_address(8, Table::Callbacks);
    code.load_table_address(9, Table::PreLoad);
    for pair in 0..4u32 {
        code.emit_word(0xa940_2d0a | (pair * 2) << 15); // ldp x10, x11, [x8, #16*pair]
        code.emit_word(0xa900_2d2a | (pair * 2) << 15); // stp x10, x11, [x9, #16*pair]
    }
    code.emit_word(0xf940_210a); // ldr x10, [x8, #64]
    code.emit_word(0xf900_212a); // str x10, [x9, #64]
    code.emit_word(0xf900_093f); // str xzr, [x9, #16]
    code.emit_word(0xf900_0069); // str x9, [x3]
    code.emit_word(MOV_W0);
    code.emit_word(RET);
    code
}

/// A function under construction that fills tensor maps, and the parameters that it reads.
struct Filler<'a> {
    bytes: Vec<u8>,
    params: &'a [Param],
}

impl Filler<'_> {
    /// Emits code that computes an expression into x0. The code clobbers x1.
    fn emit_expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Const(value) => self.load_constant(0, *value as u64),
            Expr::Param(index) => {
                let Param { at, bytes } = self.params[*index as usize];
                self.load_constant(1, at.into());
                self.emit_word(match bytes {
                    1 => 0x38a1_6860, // ldrsb x0, [x3, x1]
                    2 => 0x78a1_6860, // ldrsh x0, [x3, x1]
                    4 => 0xb8a1_6860, // ldrsw x0, [x3, x1]
                    _ => 0xf861_6860, // ldr x0, [x3, x1]
                });
            }
            Expr::Sum(a, b) => self.emit_binary(a, b, &[0x8b00_0020]), // add x0, x1, x0
            Expr::Product(a, b) => self.emit_binary(a, b, &[0x9b00_7c20]), // mul x0, x1, x0
            Expr::Or(a, b) => self.emit_binary(a, b, &[0xaa00_0020]),  // orr x0, x1, x0
            Expr::Min(a, b) => self.emit_binary(a, b, &[0xeb00_003f, 0x9a80_b020]), // cmp x1, x0; csel x0, x1, x0, lt
            Expr::Max(a, b) => self.emit_binary(a, b, &[0xeb00_003f, 0x9a80_c020]), // cmp x1, x0; csel x0, x1, x0, gt
            Expr::CeilDiv(a, by) => {
                self.emit_expr(a);
                self.emit_word(0xf100_001f); // cmp x0, #0
                self.emit_word(0x9a9f_a000); // csel x0, x0, xzr, ge
                self.load_constant(1, u64::from(by - 1));
                self.emit_word(0x8b01_0000); // add x0, x0, x1
                self.load_constant(1, u64::from(*by));
                self.emit_word(0x9ac1_0800); // udiv x0, x0, x1
            }
            Expr::ShiftLeft(a, by) => {
                self.emit_expr(a);
                self.emit_word(0xd340_0000 | (64 - by) % 64 << 16 | (63 - by) << 10); // lsl x0, x0, #by
            }
            Expr::ShiftRight(a, by) => {
                self.emit_expr(a);
                self.emit_word(0xd340_fc00 | by << 16); // lsr x0, x0, #by
            }
            Expr::AtLeast(a, least) => {
                self.emit_expr(a);
                self.load_constant(1, *least);
                self.emit_word(0xeb01_001f); // cmp x0, x1
                self.emit_word(0x9a9f_37e0); // cset x0, hs
            }
        }
    }

    /// Emits code that computes `a` into x1 and `b` into x0, followed by the instructions of the operation.
    fn emit_binary(&mut self, a: &Expr, b: &Expr, operation: &[u32]) {
        self.emit_expr(a);
        self.emit_word(0xf81f_0fe0); // str x0, [sp, #-16]!
        self.emit_expr(b);
        self.emit_word(0xf841_07e1); // ldr x1, [sp], #16
        operation.iter().for_each(|word| self.emit_word(*word));
    }

    /// Emits `movz` and `movk`, which load a constant into a register, 16 bits at a time.
    fn load_constant(&mut self, register: u32, value: u64) {
        self.emit_word(0xd280_0000 | (value as u32 & 0xffff) << 5 | register); // movz
        for part in (1..4u32).filter(|part| value >> (16 * part) & 0xffff != 0) {
            let bits = (value >> (16 * part)) as u32 & 0xffff;
            self.emit_word(0xf280_0000 | part << 21 | bits << 5 | register); // movk, lsl #16*part
        }
    }

    fn emit_word(&mut self, word: u32) {
        self.bytes.extend(word.to_le_bytes());
    }
}

impl MachineCode {
    fn emit_word(&mut self, word: u32) {
        self.bytes.extend(word.to_le_bytes());
    }

    /// Emits `adrp` and `add`, which load the address of a table into a register. The linker fills in the address.
    fn load_table_address(&mut self, register: u32, table: Table) {
        for (kind, word) in [
            (R_AARCH64_ADR_PREL_PG_HI21, 0x9000_0000 | register),
            (R_AARCH64_ADD_ABS_LO12_NC, 0x9100_0000 | register << 5 | register),
        ] {
            self.relocations.push(TableRelocation { offset: self.bytes.len() as u64, table, kind, addend: 0 });
            self.emit_word(word);
        }
    }
}
