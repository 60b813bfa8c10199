//! Tests of the conversion: address spaces, alias scopes of memrefs, and grid queries.

use base::ir::Op as OpId;
use base::{Arena, Body, Envelope, Loc, Value};
use core_dialect::tile::{Elem, Space};
use numerics::Scalar;
use tileaa::Type as AaType;
use tileir::enums::PointerSharing;
use tileir::types::Pointer;
use tileir::{Element, Function, Module, Op, StringId, Type, TypeId, Version};

/// Ids of the types that `Builder::new` creates, in this order.
const I32: TypeId = TypeId(0);
const I64: TypeId = TypeId(1);
const PTR: TypeId = TypeId(2);
const BOOL: TypeId = TypeId(3);
const TENSOR: TypeId = TypeId(4);
const SIGNATURE: TypeId = TypeId(5);

/// Builds a module with one kernel, whose parameters are two pointers, an i64 and an i1.
struct Builder {
    module: Module,
    body: Body<Op, TypeId>,
}

impl Builder {
    fn new() -> Builder {
        let tile = |element| Type::Tile { element, shape: Box::default() };
        let pointer = Pointer { pointee: Scalar::F32, space: PointerSharing::Absent };
        let tensor =
            Type::TensorView { element: Scalar::F32, shape: [16].into(), strides: [1].into(), space: PointerSharing::Absent };
        let types = [
            tile(Element::Scalar(Scalar::I32)),
            tile(Element::Scalar(Scalar::I64)),
            tile(Element::Ptr(pointer)),
            tile(Element::Scalar(Scalar::I1)),
            tensor,
            Type::Function { inputs: [PTR, I64, BOOL, PTR].into(), results: Box::default() },
        ];
        let mut body = Body::default();
        let region = body.new_region();
        let block = body.new_block(region);
        for ty in [PTR, I64, BOOL, PTR] {
            body.add_argument(block, ty);
        }
        let module = Module {
            version: Version::LATEST,
            preview: false,
            producer: None,
            strings: ["k".to_string()].into_iter().collect(),
            types: types.into_iter().collect(),
            constants: Arena::new(),
            globals: Vec::new(),
            functions: Vec::new(),
            externs: Vec::new(),
        };
        Builder { module, body }
    }

    fn append_op(&mut self, kind: Op, results: &[TypeId]) -> OpId {
        let block = self.body.block_of(base::Region(0));
        self.body.append(block, kind, results.iter().copied(), Loc::UNKNOWN)
    }
    fn append_value(&mut self, kind: Op, ty: TypeId) -> Value {
        let op = self.append_op(kind, &[ty]);
        self.body.result(op)
    }

    fn convert(mut self) -> tileaa::Function {
        self.append_op(Op::Return { operands: Box::default() }, &[]);
        self.module.functions.push(Function {
            name: StringId(0),
            ty: SIGNATURE,
            visibility: tileir::enums::Visibility::Public,
            hints: None,
            arg_attrs: Box::default(),
            body: self.body,
            region: base::Region(0),
            loc: Loc::UNKNOWN,
        });
        let envelope = Envelope::new::<tileaa::Module>("lowered", "test", b"");
        let file = tile_lower_aa::convert(&self.module, envelope).unwrap();
        base::Payload::verify(&file.payload, &file.envelope).unwrap();
        file.payload.functions.into_iter().next().unwrap()
    }
}

/// The spaces of the results of all ops with this name, in program order.
fn result_spaces(function: &tileaa::Function, mnemonic: &str) -> Vec<Space> {
    let matching_ops = function.body.ops.values().filter(|op| base::ir::Operation::mnemonic(&op.kind) == mnemonic);
    let types = matching_ops.flat_map(|op| op.results.iter()).map(|result| function.body.ty(*result));
    types
        .filter_map(|ty| match ty {
            AaType::Tile { elem: Elem::Ptr { space, .. }, .. } => Some(*space),
            _ => None,
        })
        .collect()
}

/// An op that allocates 16 elements of local memory.
const ALLOCA: Op = Op::Alloca { global: false, num_elem: 16, alignment: 16 };

#[test]
fn pointer_with_two_origins_has_the_generic_space() {
    let mut builder = Builder::new();
    let local = builder.append_value(ALLOCA, PTR);
    let select = |val_if_true, val_if_false| Op::Select { cond: Value(2), val_if_true, val_if_false };
    builder.append_value(select(Value(0), local), PTR);
    builder.append_value(select(Value(0), Value(3)), PTR);
    let function = builder.convert();
    assert_eq!(result_spaces(&function, "alloca"), [Space::Local]);
    assert_eq!(result_spaces(&function, "select"), [Space::Generic, Space::Global]);
}

#[test]
fn int_to_ptr_is_global_unless_a_local_address_became_an_integer() {
    let mut builder = Builder::new();
    builder.append_value(ALLOCA, PTR);
    builder.append_value(Op::IntToPtr { source: Value(1) }, PTR);
    assert_eq!(result_spaces(&builder.convert(), "int_to_ptr"), [Space::Global]);

    let mut builder = Builder::new();
    let local = builder.append_value(ALLOCA, PTR);
    builder.append_value(Op::PtrToInt { source: local }, I64);
    builder.append_value(Op::IntToPtr { source: Value(1) }, PTR);
    assert_eq!(result_spaces(&builder.convert(), "int_to_ptr"), [Space::Generic]);
}

#[test]
fn memrefs_carry_the_alias_scope_of_their_object() {
    let mut builder = Builder::new();
    let memref = |base| Op::MakeTensorView { base, dynamic_shape: Box::default(), dynamic_strides: Box::default() };
    builder.append_value(memref(Value(0)), TENSOR);
    let moved = builder.append_value(Op::PtrToPtr { source: Value(3) }, PTR);
    builder.append_value(memref(moved), TENSOR);
    let either = builder.append_value(Op::Select { cond: Value(2), val_if_true: Value(0), val_if_false: Value(3) }, PTR);
    builder.append_value(memref(either), TENSOR);
    let function = builder.convert();
    let scopes = function.body.values.values().filter_map(|value| match &value.ty {
        AaType::MemRef(memref) => Some(memref.alias_scope),
        _ => None,
    });
    assert_eq!(scopes.collect::<Vec<_>>(), [1, 2, 0]);
}

#[test]
fn grid_query_becomes_one_op_per_axis() {
    let mut builder = Builder::new();
    builder.append_op(Op::GetTileBlockId {}, &[I32, I32, I32]);
    let function = builder.convert();
    let mnemonics: Vec<_> = function.body.ops.values().map(|op| base::ir::Operation::mnemonic(&op.kind)).collect();
    assert_eq!(mnemonics, ["block_id", "block_id", "block_id", "return"]);
}
