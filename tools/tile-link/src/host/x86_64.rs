//! x86-64 code of the host object, for both calling conventions.

use super::{Code, Convention, MULTIPROCESSOR_COUNT, QUERY, Reference, Table};
use object::elf::R_X86_64_PC64;

/// `xor eax, eax; ret`, padded to 16 bytes.
pub(super) fn return_zero() -> Vec<u8> {
    let mut bytes = vec![0x31, 0xc0, 0xc3];
    bytes.resize(16, 0xcc);
    bytes
}

/// Appends `int on_pre_load(operations, handle, version, out)`: 1 for version 0; else copies the table, clears its word 2 and
/// hands out the copy. Version 1 is also asked for the number of multiprocessors, as the reference does.
pub(super) fn on_pre_load(bytes: Vec<u8>, convention: Convention) -> Code {
    let mut code = Code { bytes, references: Vec::new() };
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
    code.push(&[0x75, 0x07]); // jne over the next three
    code.push(&[0xb8, 1, 0, 0, 0]); // mov eax, 1
    code.push(&[0x5b, 0xc3]); // pop rbx; ret

    let query = query(convention);
    code.push(&[0x41, 0x83, 0xfb, 1]); // cmp r11d, 1
    code.push(&[0x75, query.len() as u8]); // jne over the query
    code.push(&query);

    code.push(&[0x48, 0x8d, 0x05, 0, 0, 0, 0]); // lea rax, [rip]
    let anchor = code.bytes.len();
    code.distance([0x48, 0xb9], Table::Callbacks, anchor); // movabs rcx, table - anchor
    code.push(&[0x48, 0x01, 0xc1]); // add rcx, rax
    code.distance([0x48, 0xba], Table::PreLoad, anchor); // movabs rdx, copy - anchor
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

/// `operations->query(handle, MULTIPROCESSOR_COUNT, &unused)`, with room for what the callee may store above its return address.
fn query(convention: Convention) -> Vec<u8> {
    let mut bytes = vec![0x48, 0x83, 0xec, 0x30]; // sub rsp, 0x30
    bytes.extend(match convention {
        Convention::SystemV => [&[0xbe, MULTIPROCESSOR_COUNT, 0, 0, 0][..], &[0x48, 0x8d, 0x54, 0x24, 0x20]].concat(), // mov esi; lea rdx, [rsp + 32]
        Convention::Windows => [&[0xba, MULTIPROCESSOR_COUNT, 0, 0, 0][..], &[0x4c, 0x8d, 0x44, 0x24, 0x20]].concat(), // mov edx; lea r8, [rsp + 32]
    });
    bytes.extend([0x41, 0xff, 0x52, QUERY]); // call [r10 + query]
    bytes.extend([0x48, 0x83, 0xc4, 0x30]); // add rsp, 0x30
    bytes
}

impl Code {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A `movabs` of how far the table is from the anchor.
    fn distance(&mut self, opcode: [u8; 2], table: Table, anchor: usize) {
        self.push(&opcode);
        let offset = self.bytes.len();
        self.references.push(Reference { offset: offset as u64, table, kind: R_X86_64_PC64, addend: (offset - anchor) as i64 });
        self.push(&[0; 8]);
    }
}
