//! Emits the x86-64 code of the host object, for both calling conventions. The comment after code bytes is their assembly text.

use super::{Convention, MULTIPROCESSOR_COUNT, MachineCode, QUERY_OFFSET, Table, TableRelocation};
use crate::maps::{KernelMaps, Param};
use object::elf::R_X86_64_PC64;
use tensormap::Expr;

/// Emits the function `int on_arguments_change(_, _, _, params)` of a kernel. It fills the tensor maps in the parameter bytes and
/// returns 0. Padding extends the code to a multiple of 16 bytes.
pub(super) fn fill(maps: &KernelMaps, convention: Convention) -> Vec<u8> {
    let mut code = Filler { bytes: Vec::new(), params: &maps.params };
    if !maps.maps.is_empty() {
        code.push(match convention {
            Convention::SystemV => &[0x49, 0x89, 0xc8], // mov r8, rcx
            Convention::Windows => &[0x4d, 0x89, 0xc8], // mov r8, r9
        });
    }
    for (at, map) in &maps.maps {
        for (word, place) in map.words().iter().zip((*at..).step_by(8)) {
            code.emit_expr(word);
            code.emit_imm32(&[0x49, 0x89, 0x80], place); // mov [r8 + place], rax
        }
    }
    code.push(&[0x31, 0xc0, 0xc3]); // xor eax, eax; ret
    let mut bytes = code.bytes;
    bytes.resize(bytes.len().next_multiple_of(16), 0xcc);
    bytes
}

/// Appends `int on_pre_load(operations, handle, version, out)` to the code in `bytes`. For version 0, the function returns 1. For
/// all other versions, it copies the table, clears word 2 of the copy, stores the copy's address to `out`, and returns 0. For
/// version 1, it first queries the number of SMs and ignores the result, as NVIDIA's object does.
pub(super) fn on_pre_load(bytes: Vec<u8>, convention: Convention) -> MachineCode {
    let mut code = MachineCode { bytes, relocations: Vec::new() };
    code.push(&[0x53]); // push rbx
    match convention {
        Convention::SystemV => {
            code.push(&[0x48, 0x89, 0xcb]); // mov rbx, rcx        out
            code.push(&[0x49, 0x89, 0xfa]); // mov r10, rdi        operations
            code.push(&[0x41, 0x89, 0xd3]); // mov r11d, edx       version
            code.push(&[0x48, 0x89, 0xf7]); // mov rdi, rsi        handle, first argument of the query
        }
        Convention::Windows => {
            code.push(&[0x4c, 0x89, 0xcb]); // mov rbx, r9
            code.push(&[0x49, 0x89, 0xca]); // mov r10, rcx
            code.push(&[0x45, 0x89, 0xc3]); // mov r11d, r8d
            code.push(&[0x48, 0x89, 0xd1]); // mov rcx, rdx
        }
    }
    code.push(&[0x45, 0x85, 0xdb]); // test r11d, r11d
    code.push(&[0x75, 0x07]); // jne over the next three instructions
    code.push(&[0xb8, 1, 0, 0, 0]); // mov eax, 1
    code.push(&[0x5b, 0xc3]); // pop rbx; ret

    let query = query_call(convention);
    code.push(&[0x41, 0x83, 0xfb, 1]); // cmp r11d, 1
    code.push(&[0x75, query.len() as u8]); // jne over the query
    code.push(&query);

    code.push(&[0x48, 0x8d, 0x05, 0, 0, 0, 0]); // lea rax, [rip]
    let anchor_offset = code.bytes.len();
    code.emit_table_distance([0x48, 0xb9], Table::Callbacks, anchor_offset); // movabs rcx, table - anchor
    code.push(&[0x48, 0x01, 0xc1]); // add rcx, rax
    code.emit_table_distance([0x48, 0xba], Table::PreLoad, anchor_offset); // movabs rdx, copy - anchor
    code.push(&[0x48, 0x01, 0xc2]); // add rdx, rax
    for word in 0..9 {
        code.push(&[0x48, 0x8b, 0x41, word * 8]); // mov rax, [rcx + 8*word]
        code.push(&[0x48, 0x89, 0x42, word * 8]); // mov [rdx + 8*word], rax
    }
    code.push(&[0x48, 0xc7, 0x42, 16, 0, 0, 0, 0]); // mov qword [rdx + 16], 0
    code.push(&[0x48, 0x89, 0x13]); // mov [rbx], rdx
    code.push(&[0x31, 0xc0, 0x5b, 0xc3]); // xor eax, eax; pop rbx; ret
    code
}

/// Emits `operations->query(handle, MULTIPROCESSOR_COUNT, &unused)`. The code reserves stack space for `unused` and for the shadow
/// space of the Windows convention, to which the callee may write.
fn query_call(convention: Convention) -> Vec<u8> {
    let mut bytes = vec![0x48, 0x83, 0xec, 0x30]; // sub rsp, 0x30
    bytes.extend(match convention {
        Convention::SystemV => [&[0xbe, MULTIPROCESSOR_COUNT, 0, 0, 0][..], &[0x48, 0x8d, 0x54, 0x24, 0x20]].concat(), // mov esi; lea rdx, [rsp + 32]
        Convention::Windows => [&[0xba, MULTIPROCESSOR_COUNT, 0, 0, 0][..], &[0x4c, 0x8d, 0x44, 0x24, 0x20]].concat(), // mov edx; lea r8, [rsp + 32]
    });
    bytes.extend([0x41, 0xff, 0x52, QUERY_OFFSET]); // call [r10 + query]
    bytes.extend([0x48, 0x83, 0xc4, 0x30]); // add rsp, 0x30
    bytes
}

/// A function under construction that fills tensor maps, and the parameters that it reads.
struct Filler<'a> {
    bytes: Vec<u8>,
    params: &'a [Param],
}

impl Filler<'_> {
    /// Emits code that computes an expression into rax. The address of the parameters must be in r8. The code clobbers rcx and rdx.
    fn emit_expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Const(value) => self.emit_imm64([0x48, 0xb8], *value as u64), // movabs rax, value
            Expr::Param(index) => {
                let Param { at, bytes } = self.params[*index as usize];
                let load: &[u8] = match bytes {
                    1 => &[0x49, 0x0f, 0xbe, 0x80], // movsx rax, byte [r8 + at]
                    2 => &[0x49, 0x0f, 0xbf, 0x80], // movsx rax, word
                    4 => &[0x49, 0x63, 0x80],       // movsxd rax, dword
                    _ => &[0x49, 0x8b, 0x80],       // mov rax, qword
                };
                self.emit_imm32(load, at);
            }
            Expr::Sum(a, b) => self.emit_binary(a, b, &[0x48, 0x01, 0xc8]), // add rax, rcx
            Expr::Product(a, b) => self.emit_binary(a, b, &[0x48, 0x0f, 0xaf, 0xc1]), // imul rax, rcx
            Expr::Or(a, b) => self.emit_binary(a, b, &[0x48, 0x09, 0xc8]),  // or rax, rcx
            Expr::Min(a, b) => self.emit_binary(a, b, &[0x48, 0x39, 0xc8, 0x48, 0x0f, 0x4f, 0xc1]), // cmp; cmovg rax, rcx
            Expr::Max(a, b) => self.emit_binary(a, b, &[0x48, 0x39, 0xc8, 0x48, 0x0f, 0x4c, 0xc1]), // cmp; cmovl rax, rcx
            Expr::CeilDiv(a, by) => {
                self.emit_expr(a);
                self.push(&[0x31, 0xc9, 0x48, 0x85, 0xc0, 0x48, 0x0f, 0x48, 0xc1]); // xor ecx, ecx; test rax, rax; cmovs rax, rcx
                self.emit_imm32(&[0xb9], by - 1); // mov ecx, by - 1
                self.push(&[0x48, 0x01, 0xc8, 0x31, 0xd2]); // add rax, rcx; xor edx, edx
                self.emit_imm32(&[0xb9], *by); // mov ecx, by
                self.push(&[0x48, 0xf7, 0xf1]); // div rcx
            }
            Expr::ShiftLeft(a, by) => {
                self.emit_expr(a);
                self.push(&[0x48, 0xc1, 0xe0, *by as u8]); // shl rax, by
            }
            Expr::ShiftRight(a, by) => {
                self.emit_expr(a);
                self.push(&[0x48, 0xc1, 0xe8, *by as u8]); // shr rax, by
            }
            Expr::AtLeast(a, least) => {
                self.emit_expr(a);
                self.emit_imm64([0x48, 0xb9], *least); // movabs rcx, least
                self.push(&[0x31, 0xd2, 0x48, 0x39, 0xc8, 0x0f, 0x93, 0xc2, 0x48, 0x89, 0xd0]); // xor edx, edx; cmp rax, rcx; setae dl; mov rax, rdx
            }
        }
    }

    /// Emits code that computes `a` into rax and `b` into rcx, followed by the instructions of the operation.
    fn emit_binary(&mut self, a: &Expr, b: &Expr, operation: &[u8]) {
        self.emit_expr(a);
        self.push(&[0x50]); // push rax
        self.emit_expr(b);
        self.push(&[0x48, 0x89, 0xc1, 0x58]); // mov rcx, rax; pop rax
        self.push(operation);
    }

    /// Emits an instruction with a 64-bit immediate at its end.
    fn emit_imm64(&mut self, opcode: [u8; 2], value: u64) {
        self.push(&opcode);
        self.push(&value.to_le_bytes());
    }
    /// Emits an instruction with a 32-bit immediate or displacement at its end.
    fn emit_imm32(&mut self, opcode: &[u8], number: u32) {
        self.push(opcode);
        self.push(&number.to_le_bytes());
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

impl MachineCode {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Emits a `movabs` whose immediate is the distance in bytes from an offset in the code to the table.
    fn emit_table_distance(&mut self, opcode: [u8; 2], table: Table, anchor_offset: usize) {
        self.push(&opcode);
        let offset = self.bytes.len();
        self.relocations.push(TableRelocation {
            offset: offset as u64,
            table,
            kind: R_X86_64_PC64,
            addend: (offset - anchor_offset) as i64,
        });
        self.push(&[0; 8]);
    }
}
