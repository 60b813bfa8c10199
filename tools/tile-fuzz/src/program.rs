//! Generates a random program with arguments and memory. Invariant: the program is valid and every bit that it writes is defined.
//!
//! Random ops extend a pool of tiles, which the program stores at the end. The generator avoids unspecified results: divisors are
//! not zero, floats are clamped before a conversion to integers, and float reductions are exact in any order. Approximate functions
//! go to separate outputs, which are compared with a tolerance. Each family of ops is a file with methods of [`Generator`].

use crate::builder::{Builder, Kind};
use crate::random::Random;
use base::diag::{Diagnostic, Result};
use base::envelope::Form;
use base::ir::Value;
use base::{Envelope, File};
use common::launch::{Buffer, ByTarget, Extents, Launch, Param};
use differential::{Bench, Outcome, Output};
use numerics::Scalar;
use std::path::Path;
use tileir::{Attribute, Module, Op};

/// Element types of tiles in the pool.
pub(crate) const INTS: [Scalar; 4] = [Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64];
pub(crate) const FLOATS: [Scalar; 4] = [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64];

/// An input buffer of a program.
pub(crate) struct Memory {
    pub(crate) scalar: Scalar,
    pub(crate) elements: i64,
    pub(crate) pointer: Value,
}

pub(crate) struct Program {
    pub(crate) module: Module,
    pub(crate) launch: Launch,
    /// Name and initial contents of each buffer.
    pub(crate) data: Vec<(String, Vec<u8>)>,
    pub(crate) outputs: Vec<Output>,
}

impl Program {
    /// Writes the program and its launch to a folder.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let failed = |error: std::io::Error| Diagnostic::io("FUZ002", format!("{}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(failed)?;
        for (name, data) in &self.data {
            std::fs::write(folder.join(format!("{name}.in")), data).map_err(failed)?;
        }
        let launch = serde_json::to_string_pretty(&self.launch).expect("a launch has plain values");
        std::fs::write(folder.join("launch.json"), launch).map_err(failed)?;
        // Tools that do not run the stages compare their outputs with these files.
        let of = |output: &Output| {
            let Output { name, scalar, tolerance, expected } = output;
            let expected = expected.as_ref().map(|_| format!("{name}.expect"));
            serde_json::json!({"buffer": name, "type": scalar.name(), "tolerance": tolerance, "file": expected})
        };
        let outputs = serde_json::Value::from_iter(self.outputs.iter().map(of)).to_string();
        std::fs::write(folder.join("outputs.json"), outputs).map_err(failed)?;
        for output in &self.outputs {
            if let Some(expected) = &output.expected {
                std::fs::write(folder.join(format!("{}.expect", output.name)), expected).map_err(failed)?;
            }
        }
        let envelope = Envelope::new::<tileir::Module>(tileir::import::PHASE, "tile-fuzz", &[]);
        let file = File { envelope, payload: self.module.clone() };
        std::fs::write(folder.join("k.tile"), file.write(Form::Binary)?).map_err(failed)
    }

    /// Executes the program at every stage and compares the outputs.
    pub(crate) fn compare(&self, bench: &Bench, folder: &Path) -> Result<Outcome> {
        self.write(folder)?;
        bench.compare(&self.outputs, folder)
    }
}

pub(crate) struct Generator {
    pub(crate) build: Builder,
    pub(crate) random: Random,
    /// Tiles that are visible at the current position.
    pub(crate) pool: Vec<(Value, Kind)>,
    pub(crate) inputs: Vec<Memory>,
    /// The scalar parameters, each with its argument in the launch.
    pub(crate) sizes: Vec<(Value, i64)>,
    /// The index of the tile block, of type i32.
    pub(crate) block: Value,
    /// The number of tile blocks.
    pub(crate) grid: i64,
    /// Shapes of the generated tiles. Most of them have the same number of elements.
    pub(crate) shapes: Vec<Vec<i64>>,
    /// Nesting depth in regions.
    pub(crate) depth: u32,
    /// Number of enclosing loops.
    pub(crate) loops: u32,
    /// Whether every reduction body is commutative.
    pub(crate) commutative: bool,
    /// Whether the program has large tiles, and no accesses with a memory order or scope.
    pub(crate) large_and_simple: bool,
    params: Vec<Param>,
    data: Vec<(String, Vec<u8>)>,
    pub(crate) outputs: Vec<Output>,
}

/// Options that select the kind of program.
#[derive(clap::Args)]
pub(crate) struct Config {
    /// Focus of the programs
    #[arg(long, value_enum, default_value = "all")]
    pub(crate) theme: Theme,
    /// Store each value that is computed outside regions, in buffers named after the ops
    #[arg(long, requires = "generate")]
    pub(crate) store_values: bool,
    /// Use only commutative reduction bodies, as other compilers guarantee nothing else
    #[arg(long)]
    pub(crate) commutative: bool,
}

/// Number of elements of an input buffer.
const INPUT_ELEMENTS: i64 = 4096;

/// A generator method and its relative frequency.
type Step = (usize, fn(&mut Generator));

/// Steps that are valid at any position, and if they are executed any number of times.
const ANYWHERE: &[Step] = &[
    (12, Generator::elementwise),
    (6, Generator::reshaped),
    (3, Generator::load),
    (2, Generator::reduce),
    (2, Generator::scan),
    (2, Generator::narrow),
    (1, Generator::packed),
    (1, Generator::index),
    (1, Generator::assumption),
    (1, Generator::global),
    (1, Generator::mma),
    (1, Generator::shared_atomic),
    (1, Generator::assertion),
];
/// Steps that emit regions.
const NESTED: &[Step] = &[(2, Generator::conditional), (2, Generator::repeat), (1, Generator::unbounded)];
/// Steps that are valid only outside loops, because they write private memory.
const ONCE: &[Step] = &[
    (3, Generator::bounce),
    (2, Generator::own_atomic),
    (1, Generator::compare_and_swap),
    (1, Generator::scratch),
    (1, Generator::scatter),
    (1, Generator::memory_loop),
    (2, Generator::approximate),
    (1, Generator::print),
    (1, Generator::early_store),
];
/// Large constructs. A program gets only a few of them.
const LARGE: &[Step] = &[
    (1, Generator::leave_early),
    (3, Generator::mma_loop),
    (2, Generator::mma_tiles),
    (1, Generator::attention),
    (1, Generator::scaled),
    (1, Generator::scaled_loop),
];

/// Constructs that can be divided among the CTAs of a cluster.
const CLUSTER_STEPS: &[Step] = &[(3, Generator::mma_loop), (2, Generator::mma_tiles)];

/// Focus of the generated programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Theme {
    /// All features
    All,
    /// MMAs and loops around them
    Mma,
    /// Loops with memory dependences between iterations
    Loops,
    /// Loops with large MMAs and little else, which the CTAs of a cluster can divide
    Clusters,
}

impl Generator {
    pub(crate) fn program(seed: u64, config: &Config) -> Program {
        let theme = config.theme;
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
            depth: 0,
            loops: 0,
            commutative: config.commutative,
            large_and_simple: theme == Theme::Clusters,
            params: Vec::new(),
            data: Vec::new(),
            outputs: Vec::new(),
        };
        generator.parameters();
        generator.prologue();
        let steps = match theme {
            Theme::All => 3 + generator.random.below(20),
            Theme::Mma | Theme::Loops => generator.random.below(6),
            Theme::Clusters => 0,
        };
        for _ in 0..steps {
            generator.step();
        }
        if theme == Theme::Clusters {
            generator.emit_one_of(CLUSTER_STEPS);
        }
        if theme == Theme::Loops {
            generator.memory_loop();
        }
        if theme == Theme::Mma {
            for _ in 0..1 + generator.random.below(2) {
                generator.emit_one_of(&LARGE[1..]);
            }
        }
        generator.epilogue();
        if config.store_values {
            generator.store_values();
        }
        generator.finish_program()
    }

    fn parameters(&mut self) {
        for _ in 0..3 {
            let scalar = if self.inputs.is_empty() { Scalar::I32 } else { self.scalar() };
            let data = self.contents(scalar, INPUT_ELEMENTS);
            let pointer = self.memory(scalar, data);
            self.inputs.push(Memory { scalar, elements: INPUT_ELEMENTS, pointer });
        }
        for _ in 0..2 {
            let size = self.random.pick(&[64, 100, 128, 256, 500, 1024]);
            let value = self.number_parameter(size);
            self.sizes.push((value, size));
        }
    }

    /// Adds a scalar i32 parameter.
    pub(crate) fn number_parameter(&mut self, number: i64) -> Value {
        let ty = self.build.tile(&Kind::new(Scalar::I32, &[]));
        self.params.push(Param::I32(number));
        self.build.param(ty)
    }

    /// Adds a pointer parameter for an input buffer with these contents.
    pub(crate) fn memory(&mut self, scalar: Scalar, data: Vec<u8>) -> Value {
        let name = format!("in{}", self.data.len());
        self.buffer(name, scalar, data)
    }

    fn buffer(&mut self, name: String, scalar: Scalar, data: Vec<u8>) -> Value {
        let ty = self.build.pointers(scalar, &[]);
        self.params.push(Param::Ptr(name.clone()));
        self.data.push((name, data));
        self.build.param(ty)
    }

    /// Adds a pointer parameter to an output buffer.
    pub(crate) fn output(&mut self, scalar: Scalar, elements: i64, tolerance: f64) -> Value {
        let name = format!("out{}", self.outputs.len());
        self.outputs.push(Output { name: name.clone(), scalar, tolerance, expected: None });
        self.buffer(name, scalar, vec![0; elements as usize * scalar.bytes() as usize])
    }

    /// Adds a pointer parameter that aliases the newest output.
    pub(crate) fn same_output(&mut self, scalar: Scalar) -> Value {
        let name = self.outputs.last().expect("there is one").name.clone();
        let ty = self.build.pointers(scalar, &[]);
        self.params.push(Param::Ptr(name));
        self.build.param(ty)
    }

    pub(crate) fn scalar(&mut self) -> Scalar {
        let all = [&INTS[..], &FLOATS[..], &[Scalar::I32, Scalar::F32, Scalar::F32]].concat();
        self.random.pick(&all)
    }

    /// Random contents of all magnitudes, sometimes with special values such as infinity.
    fn contents(&mut self, scalar: Scalar, elements: i64) -> Vec<u8> {
        let mut data = Vec::new();
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
                    encode(scalar, number)
                }
            };
            data.extend(&bits.to_le_bytes()[..scalar.bytes() as usize]);
        }
        data
    }

    fn prologue(&mut self) {
        let index = self.build.tile(&Kind::new(Scalar::I32, &[]));
        self.block = self.build.ops(Op::GetTileBlockId {}, &[index; 3])[0];
        let bits = self.random.pick(&[0, 1, 4, 6, 7, 7, 8, 8, 9, 10, 10, 11]);
        for rank in [1, 2, 2, 3, 4] {
            let shape = self.random_shape(bits, rank);
            self.shapes.push(shape);
        }
        if bits == 0 {
            self.shapes.push(Vec::new());
        }
        if self.large_and_simple {
            return;
        }
        for _ in 0..2 {
            self.load();
        }
        if self.random.one_in(3) {
            self.hints();
        }
        if self.random.one_in(3) {
            self.ordered_reduction_or_scan();
        }
    }

    /// A random shape with `1 << bits` elements.
    fn random_shape(&mut self, bits: usize, rank: usize) -> Vec<i64> {
        let mut shape = vec![1; rank];
        for _ in 0..bits {
            shape[self.random.below(rank)] *= 2;
        }
        shape
    }

    /// Emits one random step at the top level.
    fn step(&mut self) {
        match self.random.below(12) {
            0 => self.emit_one_of(NESTED),
            1 | 2 => self.emit_one_of(ONCE),
            3 if self.random.one_in(4) => self.emit_one_of(LARGE),
            _ => self.emit_one_of(ANYWHERE),
        }
    }

    /// Emits one random step inside a region.
    pub(crate) fn inner_step(&mut self) {
        match self.random.below(12) {
            0 | 1 if self.depth < 3 => self.emit_one_of(NESTED),
            2 if self.loops == 0 => self.emit_one_of(ONCE),
            _ => self.emit_one_of(ANYWHERE),
        }
    }

    fn emit_one_of(&mut self, from: &[Step]) {
        let mut at = self.random.below(from.iter().map(|(weight, _)| weight).sum());
        for (weight, step) in from {
            if at < *weight {
                return step(self);
            }
            at -= weight;
        }
    }

    /// Stores the newest tiles of the pool to outputs.
    fn epilogue(&mut self) {
        let stored = self.pool.len().min(3);
        let latest = self.pool[self.pool.len() - stored..].to_vec();
        for (value, kind) in latest {
            self.store(value, &kind);
        }
    }

    /// Stores each result of the ops outside regions to its own output, in program order. The program is otherwise unchanged.
    fn store_values(&mut self) {
        for (number, (op, value, kind)) in self.build.values().into_iter().enumerate() {
            let (value, kind) = match kind.scalar {
                Scalar::I1 => {
                    let (signedness, wide) = (numerics::arith::Signedness::Unsigned, kind.of(Scalar::I8));
                    (self.build.emit(&wide, Op::ExtI { signedness, from: value }), wide)
                }
                scalar if scalar.bits() < 8 => continue,
                scalar if scalar.bytes() == 1 => {
                    let bits = kind.of(Scalar::I8);
                    (self.build.emit(&bits, Op::Bitcast { source: value }), bits)
                }
                _ => (value, kind),
            };
            let stored = Kind::new(kind.scalar, &[kind.count()]);
            let value = self.reshape(value, &kind, &stored.shape);
            let pointer = self.output(kind.scalar, kind.count() * self.grid, 0.0);
            let name = format!("value{number:03}.{op}");
            // Replace the name that `output` has assigned to the buffer.
            for name_to_change in
                [&mut self.outputs.last_mut().expect("just added").name, &mut self.data.last_mut().expect("just added").0]
            {
                name_to_change.clone_from(&name);
            }
            *self.params.last_mut().expect("just added") = Param::Ptr(name);
            let (view, index) = (self.own_view(pointer, &stored), self.own_index(&stored));
            self.store_view(view, &index, value, None);
        }
    }

    fn finish_program(self) -> Program {
        let buffers = self.data.iter().map(|(name, _)| Buffer::of_file(name, &format!("{name}.in")));
        let launch = Launch {
            grid: ByTarget::All(Extents([self.grid as u32, 1, 1])),
            buffers: buffers.collect(),
            params: self.params,
            outputs: Some(self.outputs.iter().map(|output| output.name.clone()).collect()),
            ..Launch::default()
        };
        Program { module: self.build.finish(), launch, data: self.data, outputs: self.outputs }
    }

    pub(crate) fn add(&mut self, value: Value, kind: Kind) {
        self.pool.push((value, kind));
    }

    /// Returns a random tile of the pool. Newer tiles are more likely.
    pub(crate) fn any(&mut self) -> (Value, Kind) {
        let at = self.random.below(self.pool.len()).max(self.random.below(self.pool.len()));
        self.pool[at].clone()
    }
    pub(crate) fn shape(&mut self) -> Vec<i64> {
        let at = self.random.below(self.shapes.len());
        self.shapes[at].clone()
    }

    pub(crate) fn splat(&mut self, kind: &Kind, bits: u64) -> Value {
        self.build.constant(kind, &[bits & kind.scalar.mask()])
    }
    pub(crate) fn index_constant(&mut self, value: i64) -> Value {
        self.splat(&Kind::new(Scalar::I32, &[]), value as u64)
    }
    /// Emits a splat float constant.
    pub(crate) fn number(&mut self, kind: &Kind, number: f64) -> Value {
        self.splat(kind, encode(kind.scalar, number))
    }

    pub(crate) fn attribute(&mut self, scalar: Scalar, bits: u64) -> Attribute {
        let ty = self.build.ty(tileir::Type::Scalar(scalar));
        match scalar {
            Scalar::I1 => Attribute::Bool(bits & 1 == 1),
            _ if scalar.is_int() => Attribute::Integer { ty, bits: bits & scalar.mask() },
            _ => Attribute::Float { ty, bits },
        }
    }
}

/// Encodes a number, rounded to nearest even.
pub(crate) fn encode(scalar: Scalar, number: f64) -> u64 {
    numerics::float::encode(scalar, number, numerics::arith::Rounding::NearestEven, numerics::float::Overflow::Ieee)
}
