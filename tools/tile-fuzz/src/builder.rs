//! Puts a Tile IR module together: interned types, constants, ops in the block that is open.

use base::ir::{Block, Region, Value};
use base::memory::Padding;
use base::{Arena, Body, Loc, Scalar};
use tileir::enums::Visibility;
use tileir::module::Constant;
use tileir::types::Pointer;
use tileir::types::PointerSpace;
use tileir::{Element, Function, Module, Op, StringId, Type, TypeId, Version};

/// What a tile holds and how it is shaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) scalar: Scalar,
    pub(crate) shape: Vec<i64>,
}

impl Kind {
    pub(crate) fn new(scalar: Scalar, shape: &[i64]) -> Kind {
        Kind { scalar, shape: shape.into() }
    }
    pub(crate) fn count(&self) -> i64 {
        self.shape.iter().product()
    }
    pub(crate) fn of(&self, scalar: Scalar) -> Kind {
        Kind { scalar, shape: self.shape.clone() }
    }
}

pub(crate) struct Builder {
    module: Module,
    body: Body<Op, TypeId>,
    region: Region,
    block: Block,
    params: Vec<TypeId>,
}

impl Builder {
    pub(crate) fn new() -> Builder {
        let module = Module {
            version: Version::LATEST,
            version_tag: 0,
            producer: None,
            strings: Arena::new(),
            types: Arena::new(),
            constants: Arena::new(),
            globals: Vec::new(),
            functions: Vec::new(),
        };
        let mut body = Body::default();
        let region = body.new_region();
        let block = body.new_block(region);
        Builder { module, body, region, block, params: Vec::new() }
    }

    pub(crate) fn ty(&mut self, ty: Type) -> TypeId {
        let known = self.module.types.iter().find(|(_, known)| **known == ty).map(|(id, _)| id);
        known.unwrap_or_else(|| self.module.types.push(ty))
    }
    pub(crate) fn tile(&mut self, kind: &Kind) -> TypeId {
        self.ty(Type::Scalar(kind.scalar));
        self.ty(Type::Tile { element: Element::Scalar(kind.scalar), shape: kind.shape.clone().into() })
    }
    pub(crate) fn pointers(&mut self, pointee: Scalar, shape: &[i64]) -> TypeId {
        let pointer = Pointer { pointee, space: PointerSpace::Absent };
        self.ty(Type::Scalar(pointee));
        self.ty(Type::Ptr(pointer));
        self.ty(Type::Tile { element: Element::Ptr(pointer), shape: shape.into() })
    }
    pub(crate) fn token(&mut self) -> TypeId {
        self.ty(Type::Token)
    }
    pub(crate) fn tensor(&mut self, element: Scalar, shape: &[i64], strides: &[i64]) -> TypeId {
        self.ty(Type::TensorView { element, shape: shape.into(), strides: strides.into(), space: PointerSpace::Absent })
    }
    pub(crate) fn partition(&mut self, tensor: TypeId, tile: &[i64], padding: Option<Padding>) -> TypeId {
        let tile: Box<[i32]> = tile.iter().map(|extent| *extent as i32).collect();
        let dim_map = (0..tile.len() as i32).collect();
        self.ty(Type::PartitionView { tile, tensor, dim_map, padding })
    }

    pub(crate) fn param(&mut self, ty: TypeId) -> Value {
        self.params.push(ty);
        let block = self.body.block_of(self.region);
        self.body.add_argument(block, ty)
    }

    pub(crate) fn ops(&mut self, op: Op, results: &[TypeId]) -> Vec<Value> {
        let op = self.body.append(self.block, op, results.iter().copied(), Loc::UNKNOWN);
        self.body.ops[op].results.to_vec()
    }
    pub(crate) fn op(&mut self, op: Op, result: TypeId) -> Value {
        self.ops(op, &[result])[0]
    }

    /// A constant tile of one value or of as many as it has elements.
    pub(crate) fn constant(&mut self, kind: &Kind, values: &[u64]) -> Value {
        let bytes = kind.scalar.bytes() as usize;
        // The bits of i1 are packed, and all are set for one value that stands for many.
        let word = |value: &u64| if kind.scalar == Scalar::I1 { (value & 1) * 0xff } else { *value };
        let data = values.iter().flat_map(|value| word(value).to_le_bytes()[..bytes].to_vec()).collect();
        let value = self.module.constants.push(Constant { data });
        let ty = self.tile(kind);
        self.op(Op::Constant { value }, ty)
    }

    /// A region with arguments; `fill` puts its ops in, the terminator too.
    pub(crate) fn region(&mut self, args: &[TypeId]) -> (Region, Vec<Value>, Block) {
        let region = self.body.new_region();
        let block = self.body.new_block(region);
        let args = args.iter().map(|ty| self.body.add_argument(block, *ty)).collect();
        (region, args, std::mem::replace(&mut self.block, block))
    }
    /// Back to the block that was open before a region.
    pub(crate) fn close(&mut self, before: Block) {
        self.block = before;
    }

    fn string(&mut self, text: &str) -> StringId {
        self.module.strings.push(text.into())
    }

    pub(crate) fn finish(mut self) -> Module {
        self.ops(Op::Return { operands: Box::default() }, &[]);
        let name = self.string("fuzz");
        let ty = self.ty(Type::Function { inputs: self.params.clone().into(), results: Box::default() });
        let Builder { mut module, body, region, .. } = self;
        module.functions.push(Function { name, ty, visibility: Visibility::Public, hints: None, body, region, loc: Loc::UNKNOWN });
        module
    }
}
