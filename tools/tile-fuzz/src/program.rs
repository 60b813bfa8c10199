//! Makes a random program, its arguments and its memory: well formed, and defined in every bit that it writes.
//!
//! A pool of tiles grows by random ops on it and is stored at the end. What would leave freedom is avoided as it is made: divisors
//! are positive, shifts are shorter than the word, floats that become integers are clamped first, float sums are not reduced.

use crate::builder::{Builder, Kind};
use crate::random::Random;
use base::Scalar;
use base::ir::Value;
use common::launch::{Buffer, Launch, Param};
use tileir::{Attribute, Module, Op};

/// What a tile can be made of here.
pub(crate) const INTS: [Scalar; 4] = [Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64];
pub(crate) const FLOATS: [Scalar; 4] = [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64];

/// Memory that a program works on.
pub(crate) struct Memory {
    pub(crate) scalar: Scalar,
    pub(crate) elements: i64,
    pub(crate) pointer: Value,
}

pub(crate) struct Program {
    pub(crate) module: Module,
    pub(crate) launch: Launch,
    /// What each buffer holds before.
    pub(crate) data: Vec<(String, Vec<u8>)>,
    /// The element type of each output.
    pub(crate) outputs: Vec<(String, Scalar)>,
}

pub(crate) struct Generator {
    pub(crate) build: Builder,
    pub(crate) random: Random,
    /// Tiles that can be used here.
    pub(crate) pool: Vec<(Value, Kind)>,
    pub(crate) inputs: Vec<Memory>,
    /// A number that the launch gives, and what it is.
    pub(crate) sizes: Vec<(Value, i64)>,
    pub(crate) block: Value,
    pub(crate) grid: i64,
    /// The largest shapes tiles have.
    pub(crate) shapes: Vec<Vec<i64>>,
    pub(crate) token: Value,
    /// How deep in regions.
    pub(crate) depth: u32,
    params: Vec<Param>,
    data: Vec<(String, Vec<u8>)>,
    pub(crate) outputs: Vec<(String, Scalar)>,
}

/// Elements of an input.
const INPUT: i64 = 4096;

impl Generator {
    pub(crate) fn program(seed: u64) -> Program {
        let mut random = Random::new(seed);
        let grid = random.pick(&[1, 2, 3, 4]);
        let mut generator = Generator {
            build: Builder::new(),
            random,
            pool: Vec::new(),
            inputs: Vec::new(),
            sizes: Vec::new(),
            block: Value(0),
            grid,
            shapes: Vec::new(),
            token: Value(0),
            depth: 0,
            params: Vec::new(),
            data: Vec::new(),
            outputs: Vec::new(),
        };
        generator.parameters();
        generator.prologue();
        let ops = 3 + generator.random.below(20);
        for _ in 0..ops {
            generator.step();
        }
        generator.epilogue();
        generator.done()
    }

    /// All parameters are made first; how many outputs are used shows later.
    fn parameters(&mut self) {
        for i in 0..3 {
            let scalar = if i == 0 { Scalar::I32 } else { self.scalar() };
            let data = self.contents(scalar, INPUT);
            self.memory(&format!("in{i}"), scalar, INPUT, data);
        }
        for _ in 0..2 {
            let size = self.random.pick(&[64, 100, 128, 256, 500, 1024]);
            let ty = self.build.tile(&Kind::new(Scalar::I32, &[]));
            let value = self.build.param(ty);
            self.params.push(Param::I32(size));
            self.sizes.push((value, size));
        }
    }

    fn memory(&mut self, name: &str, scalar: Scalar, elements: i64, data: Vec<u8>) {
        let ty = self.build.pointers(scalar, &[]);
        let pointer = self.build.param(ty);
        self.params.push(Param::Ptr(name.into()));
        self.data.push((name.into(), data));
        self.inputs.push(Memory { scalar, elements, pointer });
    }

    /// Memory for what the program writes; a parameter like the others.
    pub(crate) fn output(&mut self, scalar: Scalar, elements: i64) -> Value {
        let name = format!("out{}", self.outputs.len());
        let ty = self.build.pointers(scalar, &[]);
        let pointer = self.build.param(ty);
        self.params.push(Param::Ptr(name.clone()));
        self.data.push((name.clone(), vec![0; elements as usize * scalar.bytes() as usize]));
        self.outputs.push((name, scalar));
        pointer
    }

    pub(crate) fn scalar(&mut self) -> Scalar {
        let all = [&INTS[..], &FLOATS[..], &[Scalar::I32, Scalar::F32, Scalar::F32]].concat();
        self.random.pick(&all)
    }

    /// Numbers of all sizes, and sometimes special ones.
    fn contents(&mut self, scalar: Scalar, elements: i64) -> Vec<u8> {
        let mut data = Vec::new();
        let even = base::arith::Rounding::NearestEven;
        for _ in 0..elements {
            let bits = match scalar.is_int() {
                true => match self.random.below(3) {
                    0 => self.random.below(16) as u64,
                    1 => (self.random.below(2001) as i64 - 1000) as u64,
                    _ => self.random.next(),
                },
                false => {
                    let number = match self.random.below(12) {
                        0 => 0.0,
                        1 => f64::INFINITY,
                        2 => 1e-3 * self.random.below(1000) as f64,
                        3 => -1e4 * self.random.below(1000) as f64,
                        _ => (self.random.below(4001) as f64 - 2000.0) / 64.0,
                    };
                    base::float::encode(scalar, number, even, base::float::Overflow::Ieee)
                }
            };
            data.extend(&bits.to_le_bytes()[..scalar.bytes() as usize]);
        }
        data
    }

    fn prologue(&mut self) {
        let index = self.build.tile(&Kind::new(Scalar::I32, &[]));
        self.block = self.build.ops(Op::GetTileBlockId {}, &[index; 3])[0];
        let token = self.build.token();
        self.token = self.build.op(Op::MakeToken {}, token);
        let count = self.random.pick(&[16, 64, 128, 256, 512, 1024]);
        for _ in 0..2 {
            let rows = 1 << self.random.below((count as u64).ilog2() as usize + 1);
            self.shapes.push(vec![rows, count / rows]);
        }
        self.shapes.push(vec![count]);
        if count >= 64 {
            self.shapes.push(vec![4, count / 16, 4]);
        }
        for _ in 0..2 {
            self.load();
        }
    }

    /// One more value.
    fn step(&mut self) {
        match self.random.below(24) {
            0..=9 => self.elementwise(),
            10..=13 => self.reshaped(),
            14 | 15 => self.load(),
            16 => self.reduce(),
            17 => self.scan(),
            18 => self.conditional(),
            19 => self.repeat(),
            20 => self.bounce(),
            21 => self.atomic(),
            22 => self.product(),
            _ => self.index(),
        }
    }

    /// Stores the newest tiles.
    fn epilogue(&mut self) {
        let stored = self.pool.len().min(3);
        let latest = self.pool[self.pool.len() - stored..].to_vec();
        for (value, kind) in latest {
            self.store(value, &kind);
        }
    }

    fn done(self) -> Program {
        let buffers = self.data.iter().map(|(name, _)| Buffer {
            name: name.clone(),
            file: format!("{name}.in"),
            align: 256,
            address: 0,
            pointers: Vec::new(),
            data: Vec::new(),
        });
        let launch = Launch {
            entry: None,
            grid: [self.grid as u32, 1, 1],
            buffers: buffers.collect(),
            params: self.params,
            outputs: self.outputs.iter().map(|(name, _)| name.clone()).collect(),
        };
        Program { module: self.build.finish(), launch, data: self.data, outputs: self.outputs }
    }

    pub(crate) fn add(&mut self, value: Value, kind: Kind) {
        self.pool.push((value, kind));
    }

    /// A tile of the pool, newer ones more often.
    pub(crate) fn any(&mut self) -> (Value, Kind) {
        let at = self.random.below(self.pool.len()).max(self.random.below(self.pool.len()));
        self.pool[at].clone()
    }

    pub(crate) fn splat(&mut self, kind: &Kind, bits: u64) -> Value {
        self.build.constant(kind, &[bits & kind.scalar.mask()])
    }
    pub(crate) fn index_constant(&mut self, value: i64) -> Value {
        self.splat(&Kind::new(Scalar::I32, &[]), value as u64)
    }

    /// A float constant.
    pub(crate) fn number(&mut self, kind: &Kind, number: f64) -> Value {
        let even = base::arith::Rounding::NearestEven;
        let bits = base::float::encode(kind.scalar, number, even, base::float::Overflow::Ieee);
        self.splat(kind, bits)
    }

    pub(crate) fn attribute(&mut self, scalar: Scalar, bits: u64) -> Attribute {
        let ty = self.build.ty(tileir::Type::Scalar(scalar));
        if scalar.is_int() { Attribute::Integer { ty, bits: bits & scalar.mask() } } else { Attribute::Float { ty, bits } }
    }
}
