//! MMAs in tensor memory, written as `.as` and `.sched`: any type, extents and orientation, for one warp role or several.

use core_dialect::tile::Elem;
use numerics::Scalar;
use std::fmt::Write as _;
use tileas::layout::Layout;
use tileas::tensor_memory::{self, LaneAtom, TmemSlice};
use tileas::{BufferInfo, Space, wgmma_atoms};

/// Steps along the depth of the arrays.
pub(crate) const STEPS: usize = 9;
/// Stages of the operand pipeline.
pub(crate) const DEPTH: u32 = 3;

/// The layout of an operand in its buffer: whether it is transposed, and its contiguous dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) transposed: bool,
    pub(crate) inner: usize,
}

pub(crate) const PLAIN: Operand = Operand { transposed: false, inner: 1 };

#[derive(Clone, Copy, Debug)]
pub(crate) struct Matmul {
    pub(crate) target: &'static str,
    pub(crate) elem: Scalar,
    pub(crate) acc: Scalar,
    pub(crate) atom: &'static str,
    pub(crate) extents: [u32; 3],
    pub(crate) lhs: Operand,
    pub(crate) rhs: Operand,
    /// The left operand is in tensor memory.
    pub(crate) left_in_tensor: bool,
    /// How the accumulators are loaded, and how many columns at a time.
    pub(crate) lanes: &'static str,
    pub(crate) chunk: u32,
    /// Warps that load the accumulators.
    pub(crate) warps: u32,
    /// Row tiles that a CTA computes one after the other; of several, two are in flight.
    pub(crate) tiles: u32,
}

/// The assignment of work to warps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `.as`.
    Atoms,
    /// The whole CTA executes everything in program order.
    One,
    /// Four warps load operands, one issues MMAs, the others store the accumulators.
    Roles,
}

/// Layouts, each once.
#[derive(Default)]
struct Layouts(Vec<Layout>);

impl Layouts {
    fn id(&mut self, layout: Layout) -> usize {
        let known = self.0.iter().position(|known| *known == layout);
        known.unwrap_or_else(|| {
            self.0.push(layout);
            self.0.len() - 1
        })
    }
}

struct Text {
    body: String,
    next: usize,
    indent: usize,
}

impl Text {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.body, "{}{text} @0", "  ".repeat(self.indent));
    }
    /// A line that opens a region or separates two.
    fn head(&mut self, text: &str) {
        let _ = writeln!(self.body, "{}{text}", "  ".repeat(self.indent));
    }
    fn value(&mut self, text: &str, ty: &str) -> String {
        let name = format!("%{}", self.next);
        self.next += 1;
        self.line(&format!("{name} = {text} : {ty}"));
        name
    }
    fn new_name(&mut self) -> String {
        self.next += 1;
        format!("%{}", self.next - 1)
    }
}

/// The position of a tile: its number, and stages and phases of both pipelines.
struct At {
    tile: String,
    operands: [String; 2],
    accumulators: [String; 2],
}

struct Shapes {
    a: BufferInfo,
    b: BufferInfo,
    accumulators: BufferInfo,
}

impl Matmul {
    pub(crate) fn name(&self) -> String {
        let Matmul { elem, acc, extents: [m, n, k], .. } = self;
        format!("{elem} into {acc}, {m} x {n} x {k}, {:?} {:?} {}", self.lhs, self.rhs, self.lanes)
    }

    fn shapes(&self) -> Shapes {
        let [m, n, k] = self.extents;
        let elem = Elem::Scalar(self.elem);
        let shape = |rows: u32, columns: u32, of: Operand| if of.transposed { [columns, rows] } else { [rows, columns] };
        let shared =
            |shape: [u32; 2], of: Operand| wgmma_atoms::operand_buffer(elem, &shape, of.inner).expect("it has such a buffer");
        let a = match self.left_in_tensor {
            true => tensor_memory::left_operand(elem, &[m, k]).expect("it has such a buffer"),
            false => shared(shape(m, k, self.lhs), self.lhs),
        };
        let accumulators = tensor_memory::accumulators(Elem::Scalar(self.acc), &[m, n]).expect("it has such a buffer");
        Shapes { a, b: shared(shape(k, n, self.rhs), self.rhs), accumulators }
    }

    /// The extents of the arrays.
    pub(crate) fn arrays(&self) -> [[usize; 2]; 3] {
        let [m, n, k] = self.extents.map(|extent| extent as usize);
        let depth = STEPS * k;
        let of = |rows: usize, columns: usize, operand: Operand| if operand.transposed { [columns, rows] } else { [rows, columns] };
        let rows = m * self.tiles as usize;
        [of(rows, depth, self.lhs), of(depth, n, self.rhs), [rows, n]]
    }

    fn lane_atom(&self) -> &'static LaneAtom {
        tensor_memory::lane_atom_named(self.lanes).expect("it is in the table")
    }

    /// The program in a form.
    pub(crate) fn text(&self, form: Form) -> String {
        let shapes = self.shapes();
        let mut layouts = Layouts::default();
        let mut text = Text { body: String::new(), next: 4, indent: 1 };
        self.views(&shapes, &mut text);
        match form {
            Form::Atoms | Form::One => {
                self.mmas(form, &shapes, &mut layouts, &mut text);
                self.epilogue(form, &shapes, &mut layouts, &mut text);
                text.line("return");
            }
            Form::Roles => {
                let parts: [&dyn Fn(&mut Layouts, &mut Text); 3] = [
                    &|layouts, text| self.epilogue(form, &shapes, layouts, text),
                    &|layouts, text| self.loads(&shapes, layouts, text),
                    &|layouts, text| self.mmas(form, &shapes, layouts, text),
                ];
                for (warp_role, part) in parts.iter().enumerate() {
                    text.head(&format!("warp_role(role: {warp_role}) @0 {{"));
                    text.indent += 1;
                    part(&mut layouts, &mut text);
                    text.line("return");
                    text.indent -= 1;
                    text.head("}");
                }
                text.line("return");
            }
        }
        let (format, attrs) = match form {
            Form::Atoms => ("tileas 7 atoms", self.program(form, &shapes)),
            _ => ("sched 7 materialize", self.scheduled(form, &shapes)),
        };
        let mut out = format!("//!tile {format}\n//!tile target {}\n//!tile option opt-level=3\n", self.target);
        out += "//!tile producer written by a test\n//!tile input 0\n";
        for (id, Layout { register, lane, warp }) in layouts.0.iter().enumerate() {
            let _ = writeln!(out, "layout #{id} = (register: {register:?}, lane: {lane:?}, warp: {warp:?})");
        }
        let (elem, acc) = (self.elem, self.acc);
        let _ = writeln!(out, "func \"product\"(%0: ptr<{elem}>, %1: ptr<{elem}>, %2: ptr<{acc}>, %3: i32) ({attrs}) @0 {{");
        out + &text.body + "}\n"
    }

    fn program(&self, form: Form, shapes: &Shapes) -> String {
        let warps = if form == Form::Roles { self.warps + 5 } else { self.warps };
        let buffers = [&shapes.a, &shapes.b, &shapes.accumulators].map(|info| {
            let space = if info.space == Space::Tensor { ", space: tensor" } else { "" };
            let shape = info.shape.to_vec();
            let elem = info.elem.carrier();
            format!("(elem: {elem}, shape: {shape:?}, offsets: {:?}, align: {}{space})", info.offsets, info.align)
        });
        format!("warps: {warps}, buffers: [{}]", buffers.join(", "))
    }

    fn scheduled(&self, form: Form, shapes: &Shapes) -> String {
        let accumulators = shapes.accumulators.columns();
        let acc_depth = self.accumulator_depth();
        let columns = (acc_depth * accumulators + DEPTH * shapes.a.columns()).next_power_of_two().max(32);
        let a_offset = if self.left_in_tensor { acc_depth * accumulators } else { 0 };
        let b_offset = (DEPTH * shapes.a.bytes()).next_multiple_of(1024);
        let end = b_offset + DEPTH * shapes.b.bytes();
        let (barriers, address) = (end, end + 8 * 2 * (DEPTH + acc_depth));
        let shared = address + 4;
        let placements =
            format!("(offset: {a_offset}, depth: {DEPTH}), (offset: {b_offset}, depth: {DEPTH}), (offset: 0, depth: {acc_depth})");
        let warps = self.warps;
        let (warp_roles, [load, mma, store]) = match form {
            Form::Roles => {
                let (load_warp, mma_warp) = (warps, warps + 4);
                let warp_roles = format!(
                    "warp_roles: [(name: \"compute\", first_warp: 0, warps: {warps}), (name: \"load\", first_warp: {load_warp}, warps: 4), (name: \"mma\", first_warp: {mma_warp}, warps: 1)], "
                );
                (warp_roles, [1, 2, 0])
            }
            _ => (String::new(), [0; 3]),
        };
        let load_threads = if form == Form::Roles { 128 } else { 32 * warps };
        let acc_barriers = barriers + 8 * 2 * DEPTH;
        let pipelines = format!(
            "(buffers: [0, 1], depth: {DEPTH}, fill: threads, drain: mma, producer: {load}, consumers: [{mma}], full: {load_threads}, empty: 1, barriers: {barriers}), \
             (buffers: [2], depth: {acc_depth}, fill: mma, producer: {mma}, consumers: [{store}], full: 1, empty: {}, barriers: {acc_barriers})",
            32 * warps
        );
        format!(
            "program: ({}), placements: [{placements}], shared_bytes: {shared}, tensor: (columns: {columns}, address: {address}), {warp_roles}pipelines: [{pipelines}]",
            self.program(form, shapes)
        )
    }

    /// Emits the views and the constants 0, 1 and the depth of the pipeline. Checks that they have the names in `VIEWS` and
    /// `NUMBERS`.
    fn views(&self, shapes: &Shapes, text: &mut Text) {
        let elems = [self.elem, self.elem, self.acc];
        let tiles: [Vec<u32>; 3] = [shapes.a.shape.to_vec(), shapes.b.shape.to_vec(), vec![self.extents[0], self.chunk]];
        for i in 0..3 {
            let base = text.value(&format!("assume(value: %{i}, fact: div_by(divisor: 16))"), &format!("ptr<{}>", elems[i]));
            let ty = self.memref(i);
            let memref = text.value(&format!("make_memref(base: {base})"), &ty);
            let tile = &tiles[i];
            let name = text.value(&format!("make_view(memref: {memref})"), &format!("view<{}x{}, {ty}>", tile[0], tile[1]));
            assert_eq!(name, VIEWS[i]);
        }
        for (i, number) in [0, 1, DEPTH].into_iter().enumerate() {
            assert_eq!(text.value(&format!("constant({number})"), "i32"), NUMBERS[i]);
        }
    }

    fn memref(&self, i: usize) -> String {
        let ([rows, columns], elem) = (self.arrays()[i], [self.elem, self.elem, self.acc][i]);
        format!("memref<{rows}x{columns}x{elem}, strides: [{columns}, 1], scope: {}>", i + 1)
    }

    /// Stages of the accumulator pipeline.
    fn accumulator_depth(&self) -> u32 {
        self.tiles.min(2)
    }

    /// A loop over the tiles, if there are several, which carries stages and phases of both pipelines. The body returns the next
    /// ones of the operands.
    fn each_tile(&self, text: &mut Text, body: impl FnOnce(&mut Text, &At) -> [String; 2]) {
        let [zero, one, ..] = NUMBERS.map(String::from);
        if self.tiles == 1 {
            let start = [zero.clone(), zero.clone()];
            body(text, &At { tile: zero, operands: start.clone(), accumulators: start });
            return;
        }
        let count = text.value(&format!("constant({})", self.tiles), "i32");
        let two = text.value("constant(2)", "i32");
        let results = [0; 4].map(|_| text.new_name()).join(", ");
        text.head(&format!(
            "{results} = for(lower: {zero}, upper: {count}, step: {one}, init: [{zero}, {zero}, {zero}, {zero}]) : i32, i32, i32, i32 @0 {{"
        ));
        text.indent += 1;
        let [tile, stage, phase, other_stage, other_phase] = [0; 5].map(|_| text.new_name());
        text.head(&format!("({tile}: i32, {stage}: i32, {phase}: i32, {other_stage}: i32, {other_phase}: i32)"));
        let at = At { tile, operands: [stage, phase], accumulators: [other_stage, other_phase] };
        let [stage, phase] = body(text, &at);
        let [other_stage, other_phase] = next(text, &at.accumulators, &two);
        text.line(&format!("continue(values: [{stage}, {phase}, {other_stage}, {other_phase}])"));
        text.indent -= 1;
        text.head("}");
    }

    /// A loop over the steps, which carries stage and phase of the operand pipeline; returns the next ones.
    fn steps(&self, form: Form, text: &mut Text, at: &At, body: impl FnOnce(&mut Text, &str, [&str; 2])) -> [String; 2] {
        let [zero, one, depth] = NUMBERS;
        if form == Form::Atoms {
            let step = text.new_name();
            text.head(&format!("for(lower: {zero}, upper: %3, step: {one}) @0 {{"));
            text.indent += 1;
            text.head(&format!("({step}: i32)"));
            body(text, &step, ["", ""]);
            text.line("continue");
            text.indent -= 1;
            text.head("}");
            return at.operands.clone();
        }
        let [step, stage, phase, final_stage, final_phase] = [0; 5].map(|_| text.new_name());
        let [initial_stage, initial_phase] = &at.operands;
        text.head(&format!(
            "{final_stage}, {final_phase} = for(lower: {zero}, upper: %3, step: {one}, init: [{initial_stage}, {initial_phase}]) : i32, i32 @0 {{"
        ));
        text.indent += 1;
        text.head(&format!("({step}: i32, {stage}: i32, {phase}: i32)"));
        body(text, &step, [&stage, &phase]);
        let [stage, phase] = next(text, &[stage, phase], depth);
        text.line(&format!("continue(values: [{stage}, {phase}])"));
        text.indent -= 1;
        text.head("}");
        [final_stage, final_phase]
    }

    /// Loads the operands of a step and commits them to the pipeline.
    fn load(
        &self,
        form: Form,
        shapes: &Shapes,
        layouts: &mut Layouts,
        text: &mut Text,
        [row, step]: [&str; 2],
        [stage, phase]: [&str; 2],
    ) {
        let has_pipeline = form != Form::Atoms;
        let stage_field = if has_pipeline { format!(", stage: {stage}") } else { String::new() };
        let warps = if form == Form::Roles { 4 } else { self.warps };
        let mut tiles = Vec::new();
        for (i, (info, operand)) in [(&shapes.a, self.lhs), (&shapes.b, self.rhs)].into_iter().enumerate() {
            let (layout, vector) = self.loaded(info, operand, warps);
            let id = layouts.id(layout);
            // Steps follow the second dimension of the left operand and the first of the right one.
            let step_dim = usize::from((i == 0) != operand.transposed);
            // The rows of the left operand are those of the tile.
            let other = if i == 0 { row } else { NUMBERS[0] };
            let index = if step_dim == 1 { [other, step] } else { [step, other] };
            let ty = format!("tile<{}x{}x{}, #{id}>", info.shape[0], info.shape[1], self.elem);
            let tile = text.new_name();
            let token = text.new_name();
            text.line(&format!(
                "{tile}, {token} = load_view(view: {}, index: [{}, {}], order: (semantics: weak), atom: vector(vector_bits: {vector})) : {ty}, token",
                VIEWS[i], index[0], index[1]
            ));
            tiles.push((tile, if operand.inner == 1 { vector } else { 0 }));
        }
        if has_pipeline {
            text.line(&format!("pipeline_acquire(pipeline: 0{stage_field}, phase: {phase})"));
        }
        for (i, (tile, vector)) in tiles.iter().enumerate() {
            match i == 0 && self.left_in_tensor {
                true => text.line(&format!("tmem_store(x: {tile}, buffer: 0{stage_field}, from: 0, atom: \"32x32b\")")),
                false => {
                    text.line(&format!("shared_store(x: {tile}, buffer: {i}{stage_field}, atom: vector(vector_bits: {vector}))"))
                }
            }
        }
        if has_pipeline {
            text.line("async_fence");
            text.line(&format!("pipeline_commit(pipeline: 0{stage_field})"));
        }
    }

    /// The layout in which an operand is loaded, and log2 of its vector width.
    fn loaded(&self, info: &BufferInfo, operand: Operand, warps: u32) -> (Layout, u32) {
        let bits = info.shape.iter().map(|extent| extent.ilog2()).sum::<u32>();
        let vector = (16 / info.elem.bytes()).ilog2();
        if info.space == Space::Tensor {
            let atom = tensor_memory::lane_atom_named("32x32b").expect("it is in the table");
            let part = TmemSlice::of(&info.shape, &info.shape, 0).expect("it is all of it");
            return (atom.layout(info, &part, warps.ilog2() as usize).expect("it fits"), vector);
        }
        let _ = operand;
        let order: Vec<u32> = (0..bits).collect();
        (Layout::blocked(&order, vector as usize, warps.ilog2() as usize), vector)
    }

    fn loads(&self, shapes: &Shapes, layouts: &mut Layouts, text: &mut Text) {
        self.each_tile(text, |text, at| {
            self.steps(Form::Roles, text, at, |text, step, place| {
                self.load(Form::Roles, shapes, layouts, text, [&at.tile, step], place);
            })
        });
    }

    /// How an op names a stage of the accumulators.
    fn accumulator_stage(&self, at: &At) -> String {
        if self.accumulator_depth() > 1 { format!(", stage: {}", at.accumulators[0]) } else { String::new() }
    }

    fn mmas(&self, form: Form, shapes: &Shapes, layouts: &mut Layouts, text: &mut Text) {
        self.each_tile(text, |text, at| {
            let accumulators = self.accumulator_stage(at);
            if form != Form::Atoms {
                text.line(&format!("pipeline_acquire(pipeline: 1{accumulators}, phase: {})", at.accumulators[1]));
            }
            let next_operands = self.steps(form, text, at, |text, step, [stage, phase]| {
                if form != Form::Roles {
                    self.load(form, shapes, layouts, text, [&at.tile, step], [stage, phase]);
                }
                let stage_field = if form != Form::Atoms { format!(", stage: {stage}") } else { String::new() };
                if form != Form::Atoms {
                    text.line(&format!("pipeline_wait(pipeline: 0{stage_field}, phase: {phase})"));
                }
                self.emit_mma(text, step, &stage_field, &accumulators);
                if form != Form::Atoms {
                    text.line(&format!("pipeline_release(pipeline: 0{stage_field})"));
                }
            });
            if form != Form::Atoms {
                text.line(&format!("pipeline_commit(pipeline: 1{accumulators})"));
            }
            next_operands
        });
    }

    fn emit_mma(&self, text: &mut Text, step: &str, stage: &str, accumulators: &str) {
        let kind = "int(predicate: equal, signedness: signed)";
        let first = text.value(&format!("compare(kind: {kind}, lhs: {step}, rhs: {})", NUMBERS[0]), "i1");
        let memory = |buffer: usize, operand: Operand| {
            let transposed = if operand.transposed { ", transposed: true" } else { "" };
            format!("memory(buffer: {buffer}{stage}{transposed})")
        };
        let (lhs, rhs, atom) = (memory(0, self.lhs), memory(1, self.rhs), self.atom);
        text.line(&format!(
            "mma(lhs: {lhs}, rhs: {rhs}, acc: memory(buffer: 2{accumulators}), zero_init: {first}, signed_lhs: true, signed_rhs: true, atom: \"{atom}\")"
        ));
    }

    /// Stores the accumulators of each tile, or zeros if there are no steps.
    fn epilogue(&self, form: Form, shapes: &Shapes, layouts: &mut Layouts, text: &mut Text) {
        self.each_tile(text, |text, at| {
            let accumulators = self.accumulator_stage(at);
            if form != Form::Atoms {
                text.line(&format!("pipeline_wait(pipeline: 1{accumulators}, phase: {})", at.accumulators[1]));
            }
            let kind = "int(predicate: less_than, signedness: signed)";
            let has_steps = text.value(&format!("compare(kind: {kind}, lhs: {}, rhs: %3)", NUMBERS[0]), "i1");
            text.head(&format!("if(cond: {has_steps}) @0 {{"));
            self.stores(shapes, layouts, text, &at.tile, Some(&accumulators));
            text.head("} {");
            self.stores(shapes, layouts, text, &at.tile, None);
            text.head("}");
            if form != Form::Atoms {
                text.line(&format!("pipeline_release(pipeline: 1{accumulators})"));
            }
            at.operands.clone()
        });
    }

    /// Stores all columns of a tile: of the accumulators in that stage, or zeros.
    fn stores(&self, shapes: &Shapes, layouts: &mut Layouts, text: &mut Text, tile: &str, accumulators: Option<&str>) {
        let [m, n, _] = self.extents;
        let part = TmemSlice::of(&shapes.accumulators.shape, &[m, self.chunk], 0).expect("there is this part");
        let layout = self.lane_atom().layout(&shapes.accumulators, &part, self.warps.ilog2() as usize).expect("the atom fits");
        let ty = format!("tile<{m}x{}x{}, #{}>", self.chunk, self.acc, layouts.id(layout));
        let (lanes, view) = (self.lanes, VIEWS[2]);
        text.indent += 1;
        for chunk in 0..n / self.chunk {
            let value_text = match accumulators {
                Some(stage) => format!("tmem_load(buffer: 2{stage}, from: {}, atom: \"{lanes}\")", chunk * self.chunk),
                None => format!("constant({})", if self.acc.is_int() { "0" } else { "0.0" }),
            };
            let (value, index) = (text.value(&value_text, &ty), text.value(&format!("constant({chunk})"), "i32"));
            let destination = format!("view: {view}, index: [{tile}, {index}]");
            let store = format!("store_view(tile: {value}, {destination}, order: (semantics: weak), atom: vector(vector_bits: 0))");
            text.value(&store, "token");
        }
        text.line("yield");
        text.indent -= 1;
    }
}

/// The next stage and phase.
fn next(text: &mut Text, [stage, phase]: &[String; 2], depth: &str) -> [String; 2] {
    let [zero, one, _] = NUMBERS;
    let next = text.value(&format!("binary(kind: add_i(overflow: none), lhs: {stage}, rhs: {one})"), "i32");
    let kind = "int(predicate: equal, signedness: signed)";
    let wraps = text.value(&format!("compare(kind: {kind}, lhs: {next}, rhs: {depth})"), "i1");
    let next = text.value(&format!("select(cond: {wraps}, yes: {zero}, no: {next})"), "i32");
    let phase_flip = text.value(&format!("select(cond: {wraps}, yes: {one}, no: {zero})"), "i32");
    [next, text.value(&format!("binary(kind: xor, lhs: {phase}, rhs: {phase_flip})"), "i32")]
}

const VIEWS: [&str; 3] = ["%6", "%9", "%12"];
const NUMBERS: [&str; 3] = ["%13", "%14", "%15"];
