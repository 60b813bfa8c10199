//! Builds a Tile IR module: interns types and strings, and appends constants and ops to the current block.

use base::ir::{Block, Operation, Region, Value};
use base::{Arena, Body, Loc};
use core_dialect::memory::Padding;
use numerics::Scalar;
use numerics::arith::Overflow;
use tileir::enums::{PointerSharing, Visibility};
use tileir::module::{Constant, Global};
use tileir::types::{Dictionary, Pointer, Symbol};
use tileir::{Element, Function, Module, Op, StringId, Type, TypeId, Version};

/// The kind of a tile: its element type and its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TileKind {
    pub(crate) scalar: Scalar,
    pub(crate) shape: Vec<i64>,
}

impl TileKind {
    pub(crate) fn new(scalar: Scalar, shape: &[i64]) -> TileKind {
        TileKind { scalar, shape: shape.into() }
    }
    /// Returns the number of elements.
    pub(crate) fn count(&self) -> i64 {
        self.shape.iter().product()
    }
    /// Returns the kind of a tile with the same shape and another element type.
    pub(crate) fn with_scalar(&self, scalar: Scalar) -> TileKind {
        TileKind { scalar, shape: self.shape.clone() }
    }
}

/// The division of a tensor into tiles. Element `i` of `dim_map` is the tensor dimension of tile dimension `i`.
pub(crate) struct View {
    pub(crate) kind: ViewKind,
    pub(crate) tile: Vec<i64>,
    pub(crate) dim_map: Vec<usize>,
}

/// The Tile IR view type that divides a tensor.
pub(crate) enum ViewKind {
    Partition,
    /// Tiles that may overlap or leave gaps. The numbers are the distances between adjacent tiles, per dimension.
    Strided(Vec<i64>),
    /// An index operand selects individual rows along this dimension.
    Gather(usize),
}

/// A Tile IR module under construction, with one entry function. New ops are appended to the current block.
pub(crate) struct Builder {
    module: Module,
    body: Body<Op, TypeId>,
    region: Region,
    block: Block,
    params: Vec<TypeId>,
    /// Optimisation hints of the entry function.
    pub(crate) hints: Option<Dictionary>,
}

impl Builder {
    /// Starts a module with an empty entry function.
    pub(crate) fn new() -> Builder {
        let module = Module {
            version: Version::LATEST,
            preview: false,
            producer: None,
            strings: Arena::new(),
            types: Arena::new(),
            constants: Arena::new(),
            globals: Vec::new(),
            functions: Vec::new(),
            externs: Vec::new(),
        };
        let mut body = Body::default();
        let region = body.new_region();
        let block = body.new_block(region);
        Builder { module, body, region, block, params: Vec::new(), hints: None }
    }

    /// Interns a type and returns its id.
    pub(crate) fn ty(&mut self, ty: Type) -> TypeId {
        let existing = self.module.types.iter().find(|(_, known)| **known == ty).map(|(id, _)| id);
        existing.unwrap_or_else(|| self.module.types.push(ty))
    }
    pub(crate) fn tile_type(&mut self, kind: &TileKind) -> TypeId {
        self.ty(Type::Scalar(kind.scalar));
        self.ty(Type::Tile { element: Element::Scalar(kind.scalar), shape: kind.shape.clone().into() })
    }
    pub(crate) fn pointer_tile_type(&mut self, pointee: Scalar, shape: &[i64]) -> TypeId {
        let pointer = Pointer { pointee, space: PointerSharing::Absent };
        self.ty(Type::Scalar(pointee));
        self.ty(Type::Ptr(pointer));
        self.ty(Type::Tile { element: Element::Ptr(pointer), shape: shape.into() })
    }
    pub(crate) fn token_type(&mut self) -> TypeId {
        self.ty(Type::Token)
    }
    pub(crate) fn tensor_view_type(&mut self, element: Scalar, shape: &[i64], strides: &[i64]) -> TypeId {
        self.ty(Type::TensorView { element, shape: shape.into(), strides: strides.into(), space: PointerSharing::Absent })
    }
    pub(crate) fn view_type(&mut self, view: &View, tensor: TypeId, padding: Option<Padding>) -> TypeId {
        let to_i32_extents = |extents: &[i64]| extents.iter().map(|extent| *extent as i32).collect::<Box<[i32]>>();
        let (tile, dim_map) = (to_i32_extents(&view.tile), view.dim_map.iter().map(|dim| *dim as i32).collect());
        self.ty(match &view.kind {
            ViewKind::Partition => Type::PartitionView { tile, tensor, dim_map, padding },
            ViewKind::Strided(traversal) => {
                Type::StridedView { tile, traversal: to_i32_extents(traversal), tensor, dim_map, padding }
            }
            ViewKind::Gather(dim) => Type::GatherScatterView { tile, tensor, sparse_dim: *dim as u32, padding },
        })
    }

    /// Adds a parameter to the entry function.
    pub(crate) fn add_param(&mut self, ty: TypeId) -> Value {
        self.params.push(ty);
        let block = self.body.block_of(self.region);
        self.body.add_argument(block, ty)
    }

    /// Emits an op with results of the given types.
    pub(crate) fn emit_with_types(&mut self, op: Op, results: &[TypeId]) -> Vec<Value> {
        let op = self.body.append(self.block, op, results.iter().copied(), Loc::UNKNOWN);
        self.body.ops[op].results.to_vec()
    }
    /// Emits an op with one result of the given type.
    pub(crate) fn emit_with_type(&mut self, op: Op, result: TypeId) -> Value {
        self.emit_with_types(op, &[result])[0]
    }

    /// Emits a constant tile. `values` has one splat value or one value per element.
    pub(crate) fn constant(&mut self, kind: &TileKind, values: &[u64]) -> Value {
        let bytes = kind.scalar.bytes() as usize;
        // The encoding packs i1 elements into bits, so a splat value `true` sets all bits of the byte.
        let word = |value: &u64| if kind.scalar == Scalar::I1 { (value & 1) * 0xff } else { *value };
        let data = values.iter().flat_map(|value| word(value).to_le_bytes()[..bytes].to_vec()).collect();
        let value = self.module.constants.push(Constant { data });
        let ty = self.tile_type(kind);
        self.emit_with_type(Op::Constant { value }, ty)
    }

    /// Opens a region with arguments. Returns the region, its arguments and the previous block, which `close_region` restores.
    pub(crate) fn open_region(&mut self, args: &[TypeId]) -> (Region, Vec<Value>, Block) {
        let region = self.body.new_region();
        let block = self.body.new_block(region);
        let args = args.iter().map(|ty| self.body.add_argument(block, *ty)).collect();
        (region, args, std::mem::replace(&mut self.block, block))
    }
    /// Closes a region: makes `outer_block`, which `open_region` returned, the current block again.
    pub(crate) fn close_region(&mut self, outer_block: Block) {
        self.block = outer_block;
    }

    /// Returns for each numeric result of the ops outside regions: the op's mnemonic, the value and its kind. If an op has several
    /// results, the number of results follows the mnemonic.
    pub(crate) fn numeric_results(&self) -> Vec<(String, Value, TileKind)> {
        let mut values = Vec::new();
        let function = &self.body.blocks[self.body.block_of(self.region)];
        for op in &function.ops {
            let node = &self.body.ops[*op];
            // Skip addresses, because they differ between executions, and constants and iotas, because they are rarely wrong.
            if matches!(node.kind, Op::Constant { .. } | Op::Iota {} | Op::PtrToInt { .. }) {
                continue;
            }
            let op = match node.results.len() {
                1 => node.kind.mnemonic().to_string(),
                result_count => format!("{}_{result_count}", node.kind.mnemonic()),
            };
            for value in &node.results {
                if let Type::Tile { element: Element::Scalar(scalar), shape } = &self.module.types[self.body.values[*value].ty] {
                    values.push((op.clone(), *value, TileKind::new(*scalar, shape)));
                }
            }
        }
        values
    }

    /// Interns a string and returns its id.
    pub(crate) fn intern_string(&mut self, text: &str) -> StringId {
        let existing = self.module.strings.iter().find(|(_, known)| *known == text).map(|(id, _)| id);
        existing.unwrap_or_else(|| self.module.strings.push(text.into()))
    }

    /// Adds a global with the given contents.
    pub(crate) fn add_global(&mut self, scalar: Scalar, elements: i64, data: Vec<u8>) -> Symbol {
        let name = self.intern_string(&format!("global{}", self.module.globals.len()));
        let ty = self.tile_type(&TileKind::new(scalar, &[elements]));
        let value = self.module.constants.push(Constant { data: data.into() });
        let visibility = Visibility::Public;
        self.module.globals.push(Global { name, ty, value, alignment: 16, visibility, constant: false, loc: Loc::UNKNOWN });
        Symbol(name)
    }

    /// Emits an op with one result of the given kind.
    pub(crate) fn emit(&mut self, kind: &TileKind, op: Op) -> Value {
        let ty = self.tile_type(kind);
        self.emit_with_type(op, ty)
    }
    pub(crate) fn emit_add(&mut self, kind: &TileKind, lhs: Value, rhs: Value) -> Value {
        self.emit(kind, Op::AddI { overflow: Overflow::None, lhs, rhs })
    }
    pub(crate) fn emit_mul(&mut self, kind: &TileKind, lhs: Value, rhs: Value) -> Value {
        self.emit(kind, Op::MulI { overflow: Overflow::None, lhs, rhs })
    }
    pub(crate) fn emit_and(&mut self, kind: &TileKind, lhs: Value, rhs: Value) -> Value {
        self.emit(kind, Op::AndI { lhs, rhs })
    }

    /// Ends the entry function with a return, and returns the module.
    pub(crate) fn finish(mut self) -> Module {
        self.emit_with_types(Op::Return { operands: Box::default() }, &[]);
        let name = self.intern_string("fuzz");
        let ty = self.ty(Type::Function { inputs: self.params.clone().into(), results: Box::default() });
        let Builder { mut module, body, region, hints, .. } = self;
        module.functions.push(Function {
            name,
            ty,
            visibility: Visibility::Public,
            hints,
            arg_attrs: Box::default(),
            body,
            region,
            loc: Loc::UNKNOWN,
        });
        module
    }
}
