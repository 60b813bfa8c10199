//! Generates a random program with arguments and memory. Invariant: the program is valid and every bit that it writes is defined.
//!
//! The generator keeps a pool: the tiles that later ops may use as operands. The results of most random ops join the pool. The
//! program stores the newest tiles at the end. The generator avoids unspecified results: divisors are not zero, floats are clamped
//! before a conversion to integers, and float reductions are exact in any order. The program stores results of approximate
//! functions to separate outputs, which are compared with a tolerance. Each family of ops has a file with methods of [`Generator`].

use crate::builder::{Builder, TileKind};
use crate::random::Random;
use base::diag::{Diagnostic, Result};
use base::envelope::Form;
use base::ir::Value;
use base::{Envelope, File};
use common::launch::{Buffer, ByTarget, Extents, Launch, Param};
use differential::{Outcome, Output, StageRunner};
use numerics::Scalar;
use std::path::Path;
use tileir::{Attribute, Module, Op};

/// Integer element types of tiles in the pool. [`FLOATS`] has the float types.
pub(crate) const INTS: [Scalar; 4] = [Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64];
/// Float element types of tiles in the pool.
pub(crate) const FLOATS: [Scalar; 4] = [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64];

/// An input buffer of a program, with the parameter that points to it.
pub(crate) struct InputBuffer {
    pub(crate) scalar: Scalar,
    pub(crate) elements: i64,
    pub(crate) pointer: Value,
}

/// A generated program with its launch, input data and outputs.
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
        let write_error = |error: std::io::Error| Diagnostic::io("FUZ002", format!("{}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(write_error)?;
        for (name, data) in &self.data {
            std::fs::write(folder.join(format!("{name}.in")), data).map_err(write_error)?;
        }
        let launch = serde_json::to_string_pretty(&self.launch).expect("a launch has plain values");
        std::fs::write(folder.join("launch.json"), launch).map_err(write_error)?;
        // Scripts that execute the program with other tools read the outputs, their tolerances and their expected contents from
        // these files.
        let describe = |output: &Output| {
            let Output { name, scalar, tolerance, expected } = output;
            let expected = expected.as_ref().map(|_| format!("{name}.expect"));
            serde_json::json!({"buffer": name, "type": scalar.name(), "tolerance": tolerance, "file": expected})
        };
        let outputs = serde_json::Value::from_iter(self.outputs.iter().map(describe)).to_string();
        std::fs::write(folder.join("outputs.json"), outputs).map_err(write_error)?;
        for output in &self.outputs {
            if let Some(expected) = &output.expected {
                std::fs::write(folder.join(format!("{}.expect", output.name)), expected).map_err(write_error)?;
            }
        }
        let envelope = Envelope::new::<tileir::Module>(tileir::import::PHASE, "tile-fuzz", &[]);
        let file = File { envelope, payload: self.module.clone() };
        std::fs::write(folder.join("k.tile"), file.write(Form::Binary)?).map_err(write_error)
    }

    /// Executes the program at every stage and compares the outputs.
    pub(crate) fn compare(&self, runner: &StageRunner, folder: &Path) -> Result<Outcome> {
        self.write(folder)?;
        runner.compare(&self.outputs, folder)
    }
}

/// A program under construction, and the state of its random generation.
pub(crate) struct Generator {
    pub(crate) builder: Builder,
    pub(crate) random: Random,
    /// The tiles that ops at the current position may use as operands.
    pub(crate) pool: Vec<(Value, TileKind)>,
    pub(crate) inputs: Vec<InputBuffer>,
    /// The scalar parameters, each with its argument in the launch.
    pub(crate) size_params: Vec<(Value, i64)>,
    /// The index of the tile block, of type i32.
    pub(crate) block_index: Value,
    /// The number of tile blocks.
    pub(crate) grid: i64,
    /// The shapes from which the generator chooses the shape of a tile. Most shapes have the same number of elements.
    pub(crate) shapes: Vec<Vec<i64>>,
    /// Number of enclosing regions at the current position.
    pub(crate) region_depth: u32,
    /// Number of enclosing loops at the current position.
    pub(crate) loop_depth: u32,
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

/// Number of elements of each input buffer that the start of the program loads.
const INPUT_ELEMENTS: i64 = 4096;

/// A generator method with its relative frequency. A step emits one op or one construct.
type Step = (usize, fn(&mut Generator));

/// Steps that are valid at any position, also in loops.
const STEPS_ANYWHERE: &[Step] = &[
    (12, Generator::emit_elementwise_ops),
    (6, Generator::rearrange),
    (3, Generator::load_input),
    (2, Generator::reduce),
    (2, Generator::scan),
    (2, Generator::convert_through_narrow_float),
    (1, Generator::pack_and_unpack),
    (1, Generator::element_indices),
    (1, Generator::assume_true_predicate),
    (1, Generator::gather_from_global),
    (1, Generator::mma),
    (1, Generator::shared_atomics),
    (1, Generator::assert_true_condition),
];
/// Steps that emit regions.
const REGION_STEPS: &[Step] = &[(2, Generator::if_with_results), (2, Generator::for_loop), (1, Generator::loop_with_break)];
/// Steps that are valid only outside loops. Most of them write memory that each tile block may write only once.
const STEPS_OUTSIDE_LOOPS: &[Step] = &[
    (3, Generator::store_and_reload),
    (2, Generator::private_atomics),
    (1, Generator::compare_and_swap),
    (1, Generator::alloca_accesses),
    (1, Generator::scatter),
    (1, Generator::memory_loop),
    (2, Generator::approximate_function),
    (1, Generator::print_elements),
    (1, Generator::early_store),
];
/// Steps that emit large constructs. A program contains only a few large constructs.
const LARGE_STEPS: &[Step] = &[
    (1, Generator::return_early),
    (3, Generator::mma_loop),
    (2, Generator::persistent_mma_loop),
    (1, Generator::attention),
    (1, Generator::block_scaled_mma),
    (1, Generator::block_scaled_mma_loop),
];

/// Steps that emit constructs which the compiler can divide among the CTAs of a cluster.
const CLUSTER_STEPS: &[Step] = &[(3, Generator::mma_loop), (2, Generator::persistent_mma_loop)];

/// Focus of the generated programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Theme {
    /// All features
    All,
    /// MMAs and loops around them
    Mma,
    /// Loops with memory dependences between iterations
    Loops,
    /// MMAs on rows, and control flow, that depend on loaded numbers
    Ragged,
    /// Loops with large MMAs and little else, which the CTAs of a cluster can divide
    Clusters,
}

impl Generator {
    /// Generates the program of a seed. The same seed and configuration always give the same program.
    pub(crate) fn generate(seed: u64, config: &Config) -> Program {
        let theme = config.theme;
        let mut random = Random::new(seed);
        let grid = random.pick(&[1, 2, 3, 4]);
        let mut generator = Generator {
            builder: Builder::new(),
            random,
            pool: Vec::new(),
            inputs: Vec::new(),
            size_params: Vec::new(),
            block_index: Value(0),
            grid,
            shapes: Vec::new(),
            region_depth: 0,
            loop_depth: 0,
            commutative: config.commutative,
            large_and_simple: theme == Theme::Clusters,
            params: Vec::new(),
            data: Vec::new(),
            outputs: Vec::new(),
        };
        generator.add_parameters();
        generator.prologue();
        let steps = match theme {
            Theme::All => 3 + generator.random.below(20),
            Theme::Mma | Theme::Loops | Theme::Ragged => generator.random.below(6),
            Theme::Clusters => 0,
        };
        for _ in 0..steps {
            generator.emit_step();
        }
        if theme == Theme::Clusters {
            generator.emit_one_of(CLUSTER_STEPS);
        }
        if theme == Theme::Loops {
            generator.memory_loop();
        }
        if theme == Theme::Ragged {
            generator.ragged_mma();
        }
        if theme == Theme::Mma {
            for _ in 0..1 + generator.random.below(2) {
                generator.emit_one_of(&LARGE_STEPS[1..]);
            }
        }
        generator.epilogue();
        if config.store_values {
            generator.store_values();
        }
        generator.finish_program()
    }

    /// Adds three input buffers and two scalar parameters.
    fn add_parameters(&mut self) {
        for _ in 0..3 {
            let scalar = if self.inputs.is_empty() { Scalar::I32 } else { self.any_element_type() };
            let data = self.random_contents(scalar, INPUT_ELEMENTS);
            let pointer = self.add_input_buffer(scalar, data);
            self.inputs.push(InputBuffer { scalar, elements: INPUT_ELEMENTS, pointer });
        }
        for _ in 0..2 {
            let size = self.random.pick(&[64, 100, 128, 256, 500, 1024]);
            let value = self.add_i32_parameter(size);
            self.size_params.push((value, size));
        }
    }

    /// Adds a scalar i32 parameter.
    pub(crate) fn add_i32_parameter(&mut self, number: i64) -> Value {
        let ty = self.builder.tile_type(&TileKind::new(Scalar::I32, &[]));
        self.params.push(Param::I32(number));
        self.builder.add_param(ty)
    }

    /// Adds a pointer parameter for an input buffer with these contents.
    pub(crate) fn add_input_buffer(&mut self, scalar: Scalar, data: Vec<u8>) -> Value {
        let name = format!("in{}", self.data.len());
        self.add_buffer_parameter(name, scalar, data)
    }

    /// Adds a buffer with these contents, and a pointer parameter to it.
    fn add_buffer_parameter(&mut self, name: String, scalar: Scalar, data: Vec<u8>) -> Value {
        let ty = self.builder.pointer_tile_type(scalar, &[]);
        self.params.push(Param::Ptr(name.clone()));
        self.data.push((name, data));
        self.builder.add_param(ty)
    }

    /// Adds a pointer parameter to an output buffer.
    pub(crate) fn add_output(&mut self, scalar: Scalar, elements: i64, tolerance: f64) -> Value {
        let name = format!("out{}", self.outputs.len());
        self.outputs.push(Output { name: name.clone(), scalar, tolerance, expected: None });
        self.add_buffer_parameter(name, scalar, vec![0; elements as usize * scalar.bytes() as usize])
    }

    /// Adds a second pointer parameter to the newest output.
    pub(crate) fn add_alias_of_newest_output(&mut self, scalar: Scalar) -> Value {
        let name = self.outputs.last().expect("there is one").name.clone();
        let ty = self.builder.pointer_tile_type(scalar, &[]);
        self.params.push(Param::Ptr(name));
        self.builder.add_param(ty)
    }

    /// Chooses an element type of the pool; i32 and f32 are the most frequent.
    pub(crate) fn any_element_type(&mut self) -> Scalar {
        let all = [&INTS[..], &FLOATS[..], &[Scalar::I32, Scalar::F32, Scalar::F32]].concat();
        self.random.pick(&all)
    }

    /// Returns random contents of a buffer, with numbers of all magnitudes. One of twelve floats is zero and one of twelve is
    /// infinite.
    fn random_contents(&mut self, scalar: Scalar, elements: i64) -> Vec<u8> {
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

    /// Chooses the shapes of the program's tiles, and emits the tile block index and the first tiles of the pool.
    fn prologue(&mut self) {
        let index_type = self.builder.tile_type(&TileKind::new(Scalar::I32, &[]));
        self.block_index = self.builder.emit_with_types(Op::GetTileBlockId {}, &[index_type; 3])[0];
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
            self.load_input();
        }
        if self.random.one_in(3) {
            self.add_entry_hints();
        }
        if self.random.one_in(3) {
            self.ordered_reduction_or_scan();
        }
    }

    /// Returns a random shape with `rank` dimensions and `1 << bits` elements.
    fn random_shape(&mut self, bits: usize, rank: usize) -> Vec<i64> {
        let mut shape = vec![1; rank];
        for _ in 0..bits {
            shape[self.random.below(rank)] *= 2;
        }
        shape
    }

    /// Emits one random step at the top level.
    fn emit_step(&mut self) {
        match self.random.below(12) {
            0 => self.emit_one_of(REGION_STEPS),
            1 | 2 => self.emit_one_of(STEPS_OUTSIDE_LOOPS),
            3 if self.random.one_in(4) => self.emit_one_of(LARGE_STEPS),
            _ => self.emit_one_of(STEPS_ANYWHERE),
        }
    }

    /// Emits one random step inside a region.
    pub(crate) fn emit_inner_step(&mut self) {
        match self.random.below(12) {
            0 | 1 if self.region_depth < 3 => self.emit_one_of(REGION_STEPS),
            2 if self.loop_depth == 0 => self.emit_one_of(STEPS_OUTSIDE_LOOPS),
            _ => self.emit_one_of(STEPS_ANYWHERE),
        }
    }

    /// Emits a random step of a list, according to the relative frequencies.
    fn emit_one_of(&mut self, from: &[Step]) {
        let mut remaining_weight = self.random.below(from.iter().map(|(weight, _)| weight).sum());
        for (weight, step) in from {
            if remaining_weight < *weight {
                return step(self);
            }
            remaining_weight -= weight;
        }
    }

    /// Stores the up to three newest tiles of the pool to outputs.
    fn epilogue(&mut self) {
        let stored_count = self.pool.len().min(3);
        let newest_tiles = self.pool[self.pool.len() - stored_count..].to_vec();
        for (value, kind) in newest_tiles {
            self.store_to_new_output(value, &kind);
        }
    }

    /// Stores each numeric result of the ops outside regions to its own output, in program order. The other ops of the program do
    /// not change.
    fn store_values(&mut self) {
        for (number, (op, value, kind)) in self.builder.numeric_results().into_iter().enumerate() {
            let (value, kind) = match kind.scalar {
                Scalar::I1 => {
                    let (signedness, wide) = (numerics::arith::Signedness::Unsigned, kind.with_scalar(Scalar::I8));
                    (self.builder.emit(&wide, Op::ExtI { signedness, from: value }), wide)
                }
                scalar if scalar.bits() < 8 => continue,
                scalar if scalar.bytes() == 1 => {
                    let bits = kind.with_scalar(Scalar::I8);
                    (self.builder.emit(&bits, Op::Bitcast { source: value }), bits)
                }
                _ => (value, kind),
            };
            let stored_kind = TileKind::new(kind.scalar, &[kind.count()]);
            let value = self.reshape(value, &kind, &stored_kind.shape);
            let pointer = self.add_output(kind.scalar, kind.count() * self.grid, 0.0);
            let name = format!("value{number:03}.{op}");
            // Replace the name that `add_output` has assigned to the buffer.
            for name_to_change in
                [&mut self.outputs.last_mut().expect("just added").name, &mut self.data.last_mut().expect("just added").0]
            {
                name_to_change.clone_from(&name);
            }
            *self.params.last_mut().expect("just added") = Param::Ptr(name);
            let (view, index) = (self.own_view(pointer, &stored_kind), self.own_index(&stored_kind));
            self.store_view(view, &index, value, None);
        }
    }

    /// Returns the program, with a launch that names its buffers and arguments.
    fn finish_program(self) -> Program {
        let buffers = self.data.iter().map(|(name, _)| Buffer::from_file(name, &format!("{name}.in")));
        let launch = Launch {
            grid: ByTarget::All(Extents([self.grid as u32, 1, 1])),
            buffers: buffers.collect(),
            params: self.params,
            outputs: Some(self.outputs.iter().map(|output| output.name.clone()).collect()),
            ..Launch::default()
        };
        Program { module: self.builder.finish(), launch, data: self.data, outputs: self.outputs }
    }

    /// Makes a tile available as an operand of later ops.
    pub(crate) fn add_to_pool(&mut self, value: Value, kind: TileKind) {
        self.pool.push((value, kind));
    }

    /// Returns a random tile of the pool. Newer tiles are more likely.
    pub(crate) fn any_tile(&mut self) -> (Value, TileKind) {
        let at = self.random.below(self.pool.len()).max(self.random.below(self.pool.len()));
        self.pool[at].clone()
    }
    /// Chooses one of the program's shapes.
    pub(crate) fn any_shape(&mut self) -> Vec<i64> {
        let at = self.random.below(self.shapes.len());
        self.shapes[at].clone()
    }

    /// Emits a constant tile whose elements all have these bits.
    pub(crate) fn splat(&mut self, kind: &TileKind, bits: u64) -> Value {
        self.builder.constant(kind, &[bits & kind.scalar.mask()])
    }
    /// Emits an i32 scalar constant.
    pub(crate) fn index_constant(&mut self, value: i64) -> Value {
        self.splat(&TileKind::new(Scalar::I32, &[]), value as u64)
    }
    /// Emits a splat float constant.
    pub(crate) fn splat_float(&mut self, kind: &TileKind, number: f64) -> Value {
        self.splat(kind, encode(kind.scalar, number))
    }

    /// Returns an attribute with the bits of a scalar, such as the identity of a reduction.
    pub(crate) fn scalar_attribute(&mut self, scalar: Scalar, bits: u64) -> Attribute {
        let ty = self.builder.ty(tileir::Type::Scalar(scalar));
        match scalar {
            Scalar::I1 => Attribute::Bool(bits & 1 == 1),
            _ if scalar.is_int() => Attribute::Integer { ty, bits: bits & scalar.mask() },
            _ => Attribute::Float { ty, bits },
        }
    }
}

/// Returns the bits of a number in a float type, rounded to nearest even.
pub(crate) fn encode(scalar: Scalar, number: f64) -> u64 {
    numerics::float::encode(scalar, number, numerics::arith::Rounding::NearestEven, numerics::float::OverflowResult::Ieee)
}
