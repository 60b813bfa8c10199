//! Bytecode of another producer: a kernel built with the crate `cutile-ir` of cuTile Rust, for every version that it writes.

use cutile_ir::builder::{OpBuilder, append_op, build_single_block_region};
use cutile_ir::bytecode::{BytecodeVersion, Opcode, write_bytecode_version};
use cutile_ir::ir::{
    Attribute, BlockId, FuncType, Location, Module, PartitionViewType, PointerType, ScalarType, TensorViewType, TileElementType,
    TileType, Type, Value,
};
use std::fs;
use tests::{run, temporary_folder, tool};

/// The number of elements of an array.
const ARRAY_ELEMENTS: i64 = 64;
/// The number of elements of a tile.
const TILE_ELEMENTS: i32 = 16;

fn tile_type(shape: Vec<i64>, element_type: TileElementType) -> Type {
    Type::Tile(TileType { shape, element_type })
}

fn operand_segments(lengths: &[i64]) -> Attribute {
    Attribute::Array(lengths.iter().map(|length| Attribute::i32(*length)).collect())
}

/// A module under construction.
struct Builder {
    module: Module,
    block: BlockId,
}

impl Builder {
    fn emit_op(&mut self, opcode: Opcode, operands: &[Value], attributes: &[(&str, Attribute)], results: &[Type]) -> Vec<Value> {
        let mut op = OpBuilder::new(opcode, Location::Unknown);
        for operand in operands {
            op = op.operand(*operand);
        }
        for (name, attribute) in attributes {
            op = op.attr(*name, attribute.clone());
        }
        for result in results {
            op = op.result(result.clone());
        }
        let (op, results) = op.build(&mut self.module);
        append_op(&mut self.module, self.block, op);
        results
    }
}

/// `out[i] = in[i] * in[i]`, one tile per CTA.
fn square_kernel() -> Module {
    let scalar = |kind| TileElementType::Scalar(kind);
    let pointer = tile_type(vec![], TileElementType::Pointer(Box::new(PointerType { pointee: ScalarType::F32 })));
    let (index, data) =
        (tile_type(vec![], scalar(ScalarType::I32)), tile_type(vec![i64::from(TILE_ELEMENTS)], scalar(ScalarType::F32)));
    let tensor = TensorViewType { element_type: ScalarType::F32, shape: vec![ARRAY_ELEMENTS], strides: vec![1] };
    let view =
        PartitionViewType { tile_shape: vec![TILE_ELEMENTS], tensor_view: tensor.clone(), dim_map: vec![0], padding_value: None };
    let mut module = Module::new("squares");
    let (region, block, arguments) = build_single_block_region(&mut module, &[pointer.clone(), pointer.clone()]);
    let mut builder = Builder { module, block };
    let token = builder.emit_op(Opcode::MakeToken, &[], &[], &[Type::Token])[0];
    let block_id = builder.emit_op(Opcode::GetTileBlockId, &[], &[], &[index.clone(), index.clone(), index])[0];
    let mut views = Vec::new();
    for argument in &arguments[..2] {
        let segment_sizes = [("operandSegmentSizes", operand_segments(&[1, 0, 0]))];
        let tensor_view =
            builder.emit_op(Opcode::MakeTensorView, &[*argument], &segment_sizes, &[Type::TensorView(tensor.clone())])[0];
        views.push(builder.emit_op(Opcode::MakePartitionView, &[tensor_view], &[], &[Type::PartitionView(view.clone())])[0]);
    }
    let weak = ("memory_ordering_semantics", Attribute::i32(0));
    let segment_sizes = ("operandSegmentSizes", operand_segments(&[1, 1, 1]));
    let loaded = builder.emit_op(
        Opcode::LoadViewTko,
        &[views[0], block_id, token],
        &[weak.clone(), segment_sizes],
        &[data.clone(), Type::Token],
    )[0];
    let product = builder.emit_op(Opcode::MulF, &[loaded, loaded], &[("rounding_mode", Attribute::i32(0))], &[data])[0];
    let segment_sizes = ("operandSegmentSizes", operand_segments(&[1, 1, 1, 1]));
    builder.emit_op(Opcode::StoreViewTko, &[product, views[1], block_id, token], &[weak, segment_sizes], &[Type::Token]);
    builder.emit_op(Opcode::Return, &[], &[], &[]);
    let mut module = builder.module;
    let function_type = Type::Func(FuncType { inputs: vec![pointer.clone(), pointer], results: vec![] });
    let entry = OpBuilder::new(Opcode::Entry, Location::Unknown)
        .attr("sym_name", Attribute::String("square".into()))
        .attr("function_type", Attribute::Type(function_type))
        .region(region);
    let (entry, _) = entry.build(&mut module);
    module.functions.push(entry);
    module
}

const LAUNCH: &str = r#"{"entry": null, "grid": [4, 1, 1],
  "buffers": [{"name": "in", "file": "in.bin", "align": 256, "address": 139637976727552},
              {"name": "out", "file": "in.bin", "align": 256, "address": 139638245163008}],
  "params": [{"ptr": "in"}, {"ptr": "out"}], "outputs": ["out"]}"#;

fn to_bytes(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}

fn kernels_of_cutile_rust_compile_and_compute() {
    let folder = temporary_folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let input = || (0..ARRAY_ELEMENTS).map(|index| index as f32 * 0.25 - 3.0);
    fs::write(path("in.bin"), to_bytes(input())).unwrap();
    fs::write(path("launch.json"), LAUNCH).unwrap();
    let expected = to_bytes(input().map(|x| x * x));
    // The producer's own detection of the compiler's bytecode version.
    let version = cutile_ir::toolchain::negotiate_bytecode_version(&tool("tileiras"), None).unwrap();
    assert_eq!((version.major, version.minor), (13, 4));
    for version in [BytecodeVersion::V13_2, BytecodeVersion::V13_3, BytecodeVersion::V13_4] {
        fs::write(path("k.bc"), write_bytecode_version(&square_kernel(), version).unwrap()).unwrap();
        let compile = |options: &[&str]| {
            let common = ["--gpu-name", "sm_90", "--opt-level", "3"];
            run("tileiras", &[&common[..], options, &[&path("k.bc")]].concat(), b"").ok(&format!("13.{}", version.minor));
        };
        compile(&["-o", &path("k.cubin")]);
        assert!(fs::read(path("k.cubin")).unwrap().starts_with(b"\x7fELF"));
        compile(&["--emit=ptx", "-o", &path("k.ptx")]);
        run("tile-sim", &[&path("k.ptx"), "--launch", &path("launch.json"), "--out-dir", &path("")], b"").ok("tile-sim");
        assert_eq!(fs::read(path("out.bin")).unwrap(), expected, "13.{}", version.minor);
    }
}

pub(crate) const TESTS: &[(&str, fn())] = tests::tests![kernels_of_cutile_rust_compile_and_compute,];
