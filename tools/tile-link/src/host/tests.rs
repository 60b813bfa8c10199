//! Tests of the host object: the format that the driver and linkers require, and the functions that fill the tensor maps.

use super::*;
use crate::maps::{KernelMaps, Param};
use cubin::fatbin::{self, Code, Compression, Entry, HostSystem};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use std::io::Write as _;
use std::process::{Command, Stdio};
use tensormap::{DataType, Expr, Map, Swizzle};

fn kernel_names() -> Vec<String> {
    vec!["first".into(), "second".into()]
}

#[test]
fn host_objects_have_the_callback_table_and_its_symbols() {
    for machine in [Machine::X86_64, Machine::Aarch64] {
        let bytes = write_host_object(machine, Convention::SystemV, &kernel_names(), &[]);
        assert_eq!(bytes, write_host_object(machine, Convention::SystemV, &kernel_names(), &[]));
        let file = object::File::parse(&*bytes).unwrap();
        let symbol = |name: &str| file.symbols().find(|s| s.name() == Ok(name)).unwrap_or_else(|| panic!("no {name}"));
        let table = symbol("__CUDA_TILEIR_CALLBACKS");
        assert!(table.is_global() && symbol("__CUDA_TILEIR_ON_PRE_LOAD").is_global());
        assert_eq!((table.size(), symbol("__CUDA_TILEIR_FUNC_CALLBACKS").size()), (72, 128));
        assert!(symbol("__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_1").is_local());
        let data = file.section_by_index(table.section_index().unwrap()).unwrap();
        assert_eq!(data.relocations().count(), 6);
    }
}

#[test]
fn fatbin_sections_match_each_object_format() {
    let target = base::Target::all().next().unwrap().ptx_target;
    let entry = Entry { target, code: Code::Cubin(b"a cubin") };
    let fatbin = fatbin::write(&[entry], Compression::None, HostSystem::Linux).unwrap();
    let formats_by_convention = [
        (Convention::SystemV, BinaryFormat::Elf, ".nv_fatbin", ".nvFatBinSegment"),
        (Convention::Windows, BinaryFormat::Coff, ".nv_fatb", ".nvFatBi"),
    ];
    for machine in [Machine::X86_64, Machine::Aarch64] {
        for (convention, format, data, segment) in formats_by_convention {
            let bytes = write_fatbin_object(machine, convention, &fatbin);
            let file = object::File::parse(&*bytes).unwrap();
            let expected = if machine == Machine::X86_64 { Architecture::X86_64 } else { Architecture::Aarch64 };
            assert_eq!((file.format(), file.architecture()), (format, expected));
            assert_eq!(file.section_by_name(data).unwrap().data().unwrap(), fatbin);
            let segment = file.section_by_name(segment).unwrap();
            assert_eq!(segment.data().unwrap(), cubin::fatbin::wrapper());
            let relocations: Vec<_> = segment.relocations().collect();
            assert!(
                matches!(&relocations[..], [(8, to)] if to.size() == 64 && to.kind() == RelocationKind::Absolute),
                "{relocations:?}"
            );
        }
    }
}

/// Links the object into a C program that calls its functions as the driver does. The test runs on x86-64 only, because the program
/// executes the object's code.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_c_program_calls_the_functions_of_the_object_as_the_driver_does() {
    for (convention, attribute) in [(Convention::SystemV, ""), (Convention::Windows, "__attribute__((ms_abi))")] {
        let folder = tempfile::tempdir().unwrap();
        let (object, program) = (folder.path().join("host.o"), folder.path().join("harness"));
        std::fs::write(&object, write_host_object(Machine::X86_64, convention, &kernel_names(), &[])).unwrap();
        let harness = concat!(env!("CARGO_MANIFEST_DIR"), "/src/host/harness.c");
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-O1", &format!("-DCALL={attribute}"), harness]).arg(&object).arg("-o").arg(&program);
        let built = cc.output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        assert_eq!(Command::new(&program).status().unwrap().code(), Some(0), "{convention:?}");
    }
}

/// A deterministic pseudo-random number generator (xorshift).
struct Random(u64);

impl Random {
    fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, end: u64) -> u64 {
        (self.next_u64() >> 33) % end
    }
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Returns a random expression for an extent or a stride. The expression may refer to parameter `index`.
    fn random_expr(&mut self, index: u32) -> Expr {
        let param = || Box::new(Expr::Param(index));
        let small = Expr::Const(self.below(9) as i64);
        match self.below(8) {
            0 => Expr::Const(self.below(1 << 20) as i64),
            1 => Expr::Sum(param(), small.into()),
            2 => Expr::Min(param(), Expr::Const(self.next_u64() as i64 >> 20).into()),
            3 => Expr::CeilDiv(param(), self.one_of(&[1, 3, 64, u32::MAX])),
            4 => Expr::Max(Expr::Product(param(), small.into()).into(), Expr::Const(1).into()),
            5 => Expr::Product(Expr::Sum(param(), small.clone().into()).into(), Expr::Or(param(), small.into()).into()),
            _ => Expr::Max(param(), Expr::Const(1).into()),
        }
    }

    /// Returns a random tensor map. Its extents and strides depend on the parameters.
    fn random_map(&mut self, params: u32) -> Map {
        let rank = 1 + self.below(5) as usize;
        let element = self.one_of(&DataType::ALL);
        let swizzle = self.one_of(&Swizzle::ALL);
        let row = 16 << self.below(2) >> element.bytes().ilog2();
        let mut extent: Vec<u32> = (0..rank).map(|_| 1 + self.below(256) as u32).collect();
        extent[0] = row;
        let mut param = || self.below(params.into()) as u32;
        let params: Vec<u32> = (0..2 * rank).map(|_| param()).collect();
        Map {
            base: Expr::Param(0).sum(Expr::Const(16 * self.below(3) as i64)),
            element,
            dims: params[..rank].iter().map(|index| self.random_expr(*index).max(1)).collect(),
            strides: params[rank + 1..].iter().map(|index| self.random_expr(*index).product(Expr::Const(16))).collect(),
            extent,
            swizzle,
            tf32: element == DataType::F32 && self.below(2) == 0,
        }
    }

    /// Returns a kernel with 5 to 12 parameters of random sizes, and two tensor maps after the parameters.
    fn random_kernel(&mut self) -> KernelMaps {
        let mut params = vec![Param { at: 0, bytes: 8 }];
        let mut end = 8;
        for _ in 0..4 + self.below(8) {
            let bytes = self.one_of(&[1, 2, 4, 4, 8]);
            let at = u32::next_multiple_of(end, bytes);
            params.push(Param { at, bytes });
            end = at + bytes;
        }
        let start = end.next_multiple_of(64) + 16;
        let maps = [start, start + 128].map(|at| (at, self.random_map(params.len() as u32))).to_vec();
        KernelMaps { params, maps }
    }

    /// Returns random arguments: small numbers, the largest number of the parameter's size, or positive numbers. Many maps can be
    /// encoded for such arguments.
    fn random_arguments(&mut self, maps: &KernelMaps) -> Vec<i64> {
        let random_argument = |random: &mut Random, param: &Param| {
            let value = match random.below(4) {
                0 => random.below(300) as i64,
                1 => i64::MAX >> (64 - 8 * param.bytes),
                2 => (random.next_u64() >> (65 - 8 * param.bytes)) as i64,
                _ => random.below(70_000) as i64 - 10,
            };
            let shift = 64 - 8 * param.bytes;
            value << shift >> shift
        };
        let mut values: Vec<i64> = maps.params.iter().map(|param| random_argument(self, param)).collect();
        values[0] = (self.next_u64() >> 17) as i64 & !15;
        values
    }
}

/// Size of the parameter bank in `filler.c`, in bytes.
const BANK_BYTES: usize = 1024;

/// Returns the contents of the parameter bank before a call of the kernel's function.
fn initial_bank(maps: &KernelMaps, arguments: &[i64]) -> Vec<u8> {
    let mut bytes = vec![0xa5; BANK_BYTES];
    for (param, value) in maps.params.iter().zip(arguments) {
        bytes[param.at as usize..][..param.bytes as usize].copy_from_slice(&value.to_le_bytes()[..param.bytes as usize]);
    }
    bytes
}

/// Returns the expected contents of the bank after the call, or `None` if a map cannot be encoded. The call writes the first half
/// of each map and changes no other byte.
fn expected_bank(maps: &KernelMaps, arguments: &[i64]) -> Option<Vec<u8>> {
    let mut bytes = initial_bank(maps, arguments);
    for (at, map) in &maps.maps {
        let half = tensormap::BYTES / 2;
        bytes[*at as usize..][..half].copy_from_slice(&map.encode(arguments).ok()?[..half]);
    }
    Some(bytes)
}

/// Generates 250 kernels, and 10,000 sets of arguments, each with the index of its kernel. Each set is one for which both maps of
/// the kernel can be encoded.
fn launch_cases() -> (Vec<KernelMaps>, Vec<(usize, Vec<i64>)>) {
    let mut random = Random(0x1234_5678_9abc_def1);
    let kernels: Vec<KernelMaps> = (0..250).map(|_| random.random_kernel()).collect();
    let mut cases = Vec::new();
    for attempt in 0.. {
        let index = attempt % kernels.len();
        let arguments = random.random_arguments(&kernels[index]);
        if expected_bank(&kernels[index], &arguments).is_some() {
            cases.push((index, arguments));
        }
        if cases.len() == 10_000 {
            break;
        }
        assert!(attempt < 4_000_000, "too few argument sets have an encoding");
    }
    (kernels, cases)
}

/// Checks that the x86-64 functions fill the maps with the bytes of [`Map::encode`], for 10,000 sets of arguments.
#[test]
#[cfg(target_arch = "x86_64")]
fn x86_64_functions_fill_the_maps_as_the_encoder_does() {
    let (kernels, cases) = launch_cases();
    let names: Vec<String> = (0..kernels.len()).map(|index| format!("k{index}")).collect();
    let mut input = Vec::new();
    for (index, arguments) in &cases {
        input.extend((*index as u64).to_le_bytes());
        input.extend(initial_bank(&kernels[*index], arguments));
    }
    for (convention, attribute) in [(Convention::SystemV, ""), (Convention::Windows, "__attribute__((ms_abi))")] {
        let folder = tempfile::tempdir().unwrap();
        let (object, program) = (folder.path().join("host.o"), folder.path().join("filler"));
        std::fs::write(&object, write_host_object(Machine::X86_64, convention, &names, &kernels)).unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/host/filler.c");
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-O1", &format!("-DCALL={attribute}"), source]).arg(&object).arg("-o").arg(&program);
        let built = cc.output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut pipe, sent) = (child.stdin.take().unwrap(), input.clone());
        let writer = std::thread::spawn(move || pipe.write_all(&sent));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.status.success() && output.stdout.len() == BANK_BYTES * cases.len(), "{:?}", output.status);
        for ((index, arguments), got) in cases.iter().zip(output.stdout.chunks_exact(BANK_BYTES)) {
            assert!(
                got == expected_bank(&kernels[*index], arguments).unwrap(),
                "{convention:?}: {:?} of {arguments:?}",
                kernels[*index]
            );
        }
    }
}

/// Checks that the AArch64 functions fill the maps with the bytes of [`Map::encode`]. An interpreter executes the emitted
/// instructions.
#[test]
fn aarch64_functions_fill_the_maps_as_the_encoder_does() {
    let (kernels, cases) = launch_cases();
    let functions: Vec<Vec<u8>> = kernels.iter().map(aarch64::fill).collect();
    for (index, arguments) in &cases {
        let mut memory = initial_bank(&kernels[*index], arguments);
        interpret(&functions[*index], &mut memory);
        assert!(memory == expected_bank(&kernels[*index], arguments).unwrap(), "{:?} of {arguments:?}", kernels[*index]);
    }
}

/// Interprets the AArch64 code of a function, for a call with the address of `memory` in x3. The interpreter supports only the
/// instructions that `aarch64::fill` emits, and requires that x3 is the base of each load and store of `memory`.
fn interpret(code: &[u8], memory: &mut [u8]) {
    let mut x = [0u64; 32];
    let mut stack: Vec<u64> = Vec::new();
    // The operands of the last comparison.
    let (mut compared_left, mut compared_right) = (0, 0);
    for word in code.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())) {
        let field = |from: u32, bits: u32| (word >> from & ((1 << bits) - 1)) as usize;
        let (d, n, m) = (field(0, 5), field(5, 5), field(16, 5));
        let register = |index: usize| if index == 31 { 0 } else { x[index] };
        match word {
            0x5280_0000 => x[0] = 0,
            0xd65f_03c0 => return assert!(x[0] == 0 && stack.is_empty()),
            _ if word >> 23 == 0b1_1010_0101 => x[d] = (field(5, 16) as u64) << (16 * field(21, 2)),
            _ if word >> 23 == 0b1_1110_0101 => {
                let shift = 16 * field(21, 2);
                x[d] = x[d] & !(0xffff << shift) | (field(5, 16) as u64) << shift;
            }
            _ if word >> 24 == 0x38 || word >> 24 == 0x78 || word >> 24 == 0xb8 || word >> 24 == 0xf8 => {
                let size = 1 << field(30, 2);
                match field(10, 2) {
                    // Pre-indexed and post-indexed accesses: `str x0, [sp, #-16]!` and `ldr x1, [sp], #16`.
                    3 if field(21, 3) == 0 => {
                        assert!(n == 31 && field(12, 9) == 0x1f0);
                        stack.push(x[d]);
                    }
                    1 if field(21, 3) == 2 => {
                        assert!(n == 31 && field(12, 9) == 0x010);
                        x[d] = stack.pop().unwrap();
                    }
                    2 if field(13, 3) == 0b011 && field(21, 1) == 1 && n == 3 => {
                        let at = x[m] as usize;
                        let mut bytes = [0; 8];
                        match field(22, 2) {
                            0 => memory[at..at + size].copy_from_slice(&x[d].to_le_bytes()[..size]),
                            signed => {
                                bytes[..size].copy_from_slice(&memory[at..at + size]);
                                let shift = if signed == 2 { 64 - 8 * size } else { 0 };
                                x[d] = ((u64::from_le_bytes(bytes) << shift) as i64 >> shift) as u64;
                            }
                        }
                    }
                    _ => panic!("{word:#x}"),
                }
            }
            _ if word >> 24 == 0x8b => x[d] = register(n).wrapping_add(register(m)),
            _ if word >> 21 == 0x4d8 && field(10, 6) == 31 => x[d] = register(n).wrapping_mul(register(m)),
            _ if word >> 24 == 0xaa => x[d] = register(n) | register(m),
            _ if word >> 24 == 0xeb && d == 31 => (compared_left, compared_right) = (register(n), register(m)),
            _ if word >> 24 == 0xf1 && d == 31 => (compared_left, compared_right) = (register(n), field(10, 12) as u64),
            // `csel`, or `csinc`, of which `cset` is an alias.
            _ if word >> 21 == 0x4d4 => {
                let condition = match field(12, 4) {
                    0b1010 => compared_left as i64 >= compared_right as i64,
                    0b1011 => (compared_left as i64) < compared_right as i64,
                    0b1100 => compared_left as i64 > compared_right as i64,
                    0b0011 => compared_left < compared_right,
                    other => panic!("condition {other:#b}"),
                };
                let increment = field(10, 2) as u64;
                x[d] = if condition { register(n) } else { register(m) + increment };
            }
            _ if word >> 21 == 0x4d6 && field(10, 6) == 2 => x[d] = register(n) / register(m),
            // `ubfm`: a right shift if the last bit is bit 63, otherwise a left shift.
            _ if word >> 22 == 0x34d => {
                let (first, last) = (field(16, 6), field(10, 6));
                x[d] = if last == 63 { register(n) >> first } else { register(n) << (63 - last) };
                assert!(last == 63 || first == last + 1);
            }
            _ => panic!("{word:#x} is no instruction of these functions"),
        }
    }
    panic!("it does not return");
}
