//! AArch64 code of the host object.

use super::{Code, MULTIPROCESSOR_COUNT, QUERY, Reference, Table};
use object::elf::{R_AARCH64_ADD_ABS_LO12_NC, R_AARCH64_ADR_PREL_PG_HI21};

const RET: u32 = 0xd65f_03c0;
const MOV_W0: u32 = 0x5280_0000;

/// `mov w0, #0; ret`
pub(super) fn return_zero() -> Vec<u8> {
    [MOV_W0, RET].iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The same function as for x86-64: operations in x0, handle in x1, version in w2, out in x3.
pub(super) fn on_pre_load(bytes: Vec<u8>) -> Code {
    let mut code = Code { bytes, references: Vec::new() };
    code.word(0x3500_0062); // cbnz w2, +12
    code.word(MOV_W0 | 1 << 5); // mov w0, #1
    code.word(RET);
    code.word(0x7100_045f); // cmp w2, #1
    code.word(0x5400_0141); // b.ne +40, over the query
    code.word(0xa9bd_7bfd); // stp x29, x30, [sp, #-48]!
    code.word(0xf900_0be3); // str x3, [sp, #16]
    code.word(0xf940_0008 | (u32::from(QUERY) / 8) << 10); // ldr x8, [x0, #QUERY]
    code.word(0xaa01_03e0); // mov x0, x1
    code.word(0x5280_0001 | u32::from(MULTIPROCESSOR_COUNT) << 5); // mov w1, #16
    code.word(0x9100_83e2); // add x2, sp, #32
    code.word(0xd63f_0100); // blr x8
    code.word(0xf940_0be3); // ldr x3, [sp, #16]
    code.word(0xa8c3_7bfd); // ldp x29, x30, [sp], #48
    code.table(8, Table::Callbacks);
    code.table(9, Table::PreLoad);
    for pair in 0..4u32 {
        code.word(0xa940_2d0a | (pair * 2) << 15); // ldp x10, x11, [x8, #16*pair]
        code.word(0xa900_2d2a | (pair * 2) << 15); // stp x10, x11, [x9, #16*pair]
    }
    code.word(0xf940_210a); // ldr x10, [x8, #64]
    code.word(0xf900_212a); // str x10, [x9, #64]
    code.word(0xf900_093f); // str xzr, [x9, #16]
    code.word(0xf900_0069); // str x9, [x3]
    code.word(MOV_W0);
    code.word(RET);
    code
}

impl Code {
    fn word(&mut self, word: u32) {
        self.bytes.extend(word.to_le_bytes());
    }

    /// The address of a table into a register: `adrp`, `add`.
    fn table(&mut self, register: u32, table: Table) {
        for (kind, word) in [
            (R_AARCH64_ADR_PREL_PG_HI21, 0x9000_0000 | register),
            (R_AARCH64_ADD_ABS_LO12_NC, 0x9100_0000 | register << 5 | register),
        ] {
            self.references.push(Reference { offset: self.bytes.len() as u64, table, kind, addend: 0 });
            self.word(word);
        }
    }
}
