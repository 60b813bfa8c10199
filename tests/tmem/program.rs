//! Generates `.as` and `.sched` texts of matmuls whose MMAs use tensor memory (TMEM). Types, extents, operand orientations and the
//! division of the work among warp roles are parameters.

use core_dialect::tile::Elem;
use numerics::Scalar;
use std::fmt::Write as _;
use tileas::layout::Layout;
use tileas::tensor_memory::{self, LaneAtom, TmemSlice};
use tileas::{BufferInfo, Space, wgmma_atoms};

/// The maximum trip count of the K loop. The input arrays have elements for this number of iterations.
pub(crate) const MAX_TRIP_COUNT: usize = 9;
/// The number of stages of the operand pipeline.
pub(crate) const DEPTH: u32 = 3;

/// The layout of an operand in its buffer: whether the buffer holds the transposed matrix, and the contiguous dimension (0 or 1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) transposed: bool,
    pub(crate) inner: usize,
}

/// An operand in row-major order.
pub(crate) const PLAIN: Operand = Operand { transposed: false, inner: 1 };

/// A matmul whose MMAs use tensor memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matmul {
    pub(crate) target: &'static str,
    /// The element type of both operands.
    pub(crate) elem: Scalar,
    /// The element type of the accumulators.
    pub(crate) acc: Scalar,
    /// The MMA instruction, in the notation of `.as`.
    pub(crate) atom: &'static str,
    /// M, N and K of an MMA op.
    pub(crate) extents: [u32; 3],
    pub(crate) lhs: Operand,
    pub(crate) rhs: Operand,
    /// The left operand is in tensor memory.
    pub(crate) left_in_tensor: bool,
    /// The shape of the `tcgen05.ld` instruction that loads the accumulators, such as `32x32b`.
    pub(crate) lanes: &'static str,
    /// The number of accumulator columns of one load.
    pub(crate) chunk: u32,
    /// The number of warps that load the accumulators.
    pub(crate) warps: u32,
    /// The number of row tiles that a CTA computes one after the other. If it exceeds 1, the accumulator pipeline has two stages.
    pub(crate) tiles: u32,
}

/// The form of a program, and the assignment of its work to warps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A `.as` file, which has no warp roles or pipelines.
    As,
    /// A `.sched` file without warp roles: the whole CTA executes all ops in program order.
    SingleRole,
    /// A `.sched` file with warp roles: four warps load operands, one issues MMAs, the others store the accumulators.
    WarpRoles,
}

/// The distinct layouts of a program, in the order of their numbers in the text form.
#[derive(Default)]
struct LayoutTable(Vec<Layout>);

impl LayoutTable {
    /// Returns the number of a layout. If the table lacks the layout, this function adds it.
    fn id(&mut self, layout: Layout) -> usize {
        let existing = self.0.iter().position(|known| *known == layout);
        existing.unwrap_or_else(|| {
            self.0.push(layout);
            self.0.len() - 1
        })
    }
}

/// The text of a function body under construction.
struct Text {
    body: String,
    next: usize,
    indent: usize,
}

impl Text {
    /// Writes a line with location 0.
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.body, "{}{text} @0", "  ".repeat(self.indent));
    }
    /// Writes a line that opens or closes a region, or separates two regions. These lines get no location from this function.
    fn region_line(&mut self, text: &str) {
        let _ = writeln!(self.body, "{}{text}", "  ".repeat(self.indent));
    }
    /// Emits an op with one result, and returns the result's name.
    fn emit_value(&mut self, text: &str, ty: &str) -> String {
        let name = format!("%{}", self.next);
        self.next += 1;
        self.line(&format!("{name} = {text} : {ty}"));
        name
    }
    /// Reserves and returns the name of a value whose op the caller emits.
    fn new_name(&mut self) -> String {
        self.next += 1;
        format!("%{}", self.next - 1)
    }
}

/// The names of the values of an iteration of the tile loop.
struct TileIteration {
    /// The tile index.
    tile: String,
    /// The stage and phase of the operand pipeline.
    operands: [String; 2],
    /// The stage and phase of the accumulator pipeline.
    accumulators: [String; 2],
}

/// The buffers of the operands and of the accumulators.
struct MatmulBuffers {
    a: BufferInfo,
    b: BufferInfo,
    accumulators: BufferInfo,
}

impl Matmul {
    /// A description for failure messages.
    pub(crate) fn name(&self) -> String {
        let Matmul { elem, acc, extents: [m, n, k], .. } = self;
        format!("{elem} into {acc}, {m} x {n} x {k}, {:?} {:?} {}", self.lhs, self.rhs, self.lanes)
    }

    /// The shapes and layouts of the buffers.
    fn buffers(&self) -> MatmulBuffers {
        let [m, n, k] = self.extents;
        let elem = Elem::Scalar(self.elem);
        let shape = |rows: u32, columns: u32, of: Operand| if of.transposed { [columns, rows] } else { [rows, columns] };
        let shared_buffer =
            |shape: [u32; 2], of: Operand| wgmma_atoms::operand_buffer(elem, &shape, of.inner).expect("it has such a buffer");
        let a = match self.left_in_tensor {
            true => tensor_memory::left_operand_buffer(elem, &[m, k]).expect("it has such a buffer"),
            false => shared_buffer(shape(m, k, self.lhs), self.lhs),
        };
        let accumulators = tensor_memory::accumulator_buffer(Elem::Scalar(self.acc), &[m, n]).expect("it has such a buffer");
        MatmulBuffers { a, b: shared_buffer(shape(k, n, self.rhs), self.rhs), accumulators }
    }

    /// The extents of the arrays A, B and C in global memory.
    pub(crate) fn array_extents(&self) -> [[usize; 2]; 3] {
        let [m, n, k] = self.extents.map(|extent| extent as usize);
        let depth = MAX_TRIP_COUNT * k;
        let of = |rows: usize, columns: usize, operand: Operand| if operand.transposed { [columns, rows] } else { [rows, columns] };
        let rows = m * self.tiles as usize;
        [of(rows, depth, self.lhs), of(depth, n, self.rhs), [rows, n]]
    }

    fn lane_atom(&self) -> &'static LaneAtom {
        tensor_memory::lane_atom_named(self.lanes).expect("it is in the table")
    }

    /// The text of the program in a form.
    pub(crate) fn text(&self, form: Form) -> String {
        let shapes = self.buffers();
        let mut layouts = LayoutTable::default();
        let mut text = Text { body: String::new(), next: 4, indent: 1 };
        self.emit_views(&shapes, &mut text);
        match form {
            Form::As | Form::SingleRole => {
                self.emit_mma_role(form, &shapes, &mut layouts, &mut text);
                self.emit_epilogue(form, &shapes, &mut layouts, &mut text);
                text.line("return");
            }
            Form::WarpRoles => {
                let parts: [&dyn Fn(&mut LayoutTable, &mut Text); 3] = [
                    &|layouts, text| self.emit_epilogue(form, &shapes, layouts, text),
                    &|layouts, text| self.emit_load_role(&shapes, layouts, text),
                    &|layouts, text| self.emit_mma_role(form, &shapes, layouts, text),
                ];
                for (warp_role, part) in parts.iter().enumerate() {
                    text.region_line(&format!("warp_role(role: {warp_role}) @0 {{"));
                    text.indent += 1;
                    part(&mut layouts, &mut text);
                    text.line("return");
                    text.indent -= 1;
                    text.region_line("}");
                }
                text.line("return");
            }
        }
        let (format, attrs) = match form {
            Form::As => ("tileas 7 atoms", self.program_attrs(form, &shapes)),
            _ => ("sched 7 materialize", self.scheduled_attrs(form, &shapes)),
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

    /// The function attributes that both `.as` and `.sched` have: the number of warps, and the buffers.
    fn program_attrs(&self, form: Form, shapes: &MatmulBuffers) -> String {
        let warps = if form == Form::WarpRoles { self.warps + 5 } else { self.warps };
        let buffers = [&shapes.a, &shapes.b, &shapes.accumulators].map(|info| {
            let space = if info.space == Space::Tensor { ", space: tensor" } else { "" };
            let shape = info.shape.to_vec();
            let elem = info.elem.carrier();
            format!("(elem: {elem}, shape: {shape:?}, offsets: {:?}, align: {}{space})", info.offset_bases, info.align)
        });
        format!("warps: {warps}, buffers: [{}]", buffers.join(", "))
    }

    /// The function attributes of a `.sched` file: those of `.as`, and placements, pipelines and warp roles.
    fn scheduled_attrs(&self, form: Form, shapes: &MatmulBuffers) -> String {
        let accumulators = shapes.accumulators.columns();
        let acc_depth = self.accumulator_depth();
        let columns = (acc_depth * accumulators + DEPTH * shapes.a.columns()).next_power_of_two().max(32);
        let a_offset = if self.left_in_tensor { acc_depth * accumulators } else { 0 };
        let b_offset = (DEPTH * shapes.a.bytes()).next_multiple_of(1024);
        let end = b_offset + DEPTH * shapes.b.bytes();
        let (barriers, address) = (end, end + 8 * 2 * (DEPTH + acc_depth));
        let shared_bytes = address + 4;
        let placements =
            format!("(offset: {a_offset}, depth: {DEPTH}), (offset: {b_offset}, depth: {DEPTH}), (offset: 0, depth: {acc_depth})");
        let warps = self.warps;
        let (warp_roles, [load, mma, store]) = match form {
            Form::WarpRoles => {
                let (load_warp, mma_warp) = (warps, warps + 4);
                let warp_roles = format!(
                    "warp_roles: [(name: \"compute\", first_warp: 0, warps: {warps}), (name: \"load\", first_warp: {load_warp}, warps: 4), (name: \"mma\", first_warp: {mma_warp}, warps: 1)], "
                );
                (warp_roles, [1, 2, 0])
            }
            _ => (String::new(), [0; 3]),
        };
        let load_threads = if form == Form::WarpRoles { 128 } else { 32 * warps };
        let acc_barriers = barriers + 8 * 2 * DEPTH;
        let pipelines = format!(
            "(buffers: [0, 1], depth: {DEPTH}, fill: threads, drain: mma, producer: {load}, consumers: [{mma}], full: {load_threads}, empty: 1, barriers: {barriers}), \
             (buffers: [2], depth: {acc_depth}, fill: mma, producer: {mma}, consumers: [{store}], full: 1, empty: {}, barriers: {acc_barriers})",
            32 * warps
        );
        format!(
            "program: ({}), placements: [{placements}], shared_bytes: {shared_bytes}, tensor: (columns: {columns}, address: {address}), {warp_roles}pipelines: [{pipelines}]",
            self.program_attrs(form, shapes)
        )
    }

    /// Emits the views and the constants 0, 1 and the depth of the pipeline. Checks that they have the names in `VIEWS` and
    /// `CONSTANTS`.
    fn emit_views(&self, shapes: &MatmulBuffers, text: &mut Text) {
        let elems = [self.elem, self.elem, self.acc];
        let tile_shapes: [Vec<u32>; 3] = [shapes.a.shape.to_vec(), shapes.b.shape.to_vec(), vec![self.extents[0], self.chunk]];
        for i in 0..3 {
            let base = text.emit_value(&format!("assume(value: %{i}, fact: div_by(divisor: 16))"), &format!("ptr<{}>", elems[i]));
            let ty = self.memref_type(i);
            let memref = text.emit_value(&format!("make_memref(base: {base})"), &ty);
            let tile = &tile_shapes[i];
            let name = text.emit_value(&format!("make_view(memref: {memref})"), &format!("view<{}x{}, {ty}>", tile[0], tile[1]));
            assert_eq!(name, VIEWS[i]);
        }
        for (i, number) in [0, 1, DEPTH].into_iter().enumerate() {
            assert_eq!(text.emit_value(&format!("constant({number})"), "i32"), CONSTANTS[i]);
        }
    }

    /// The memref type of array `i`: A, B or C.
    fn memref_type(&self, i: usize) -> String {
        let ([rows, columns], elem) = (self.array_extents()[i], [self.elem, self.elem, self.acc][i]);
        format!("memref<{rows}x{columns}x{elem}, strides: [{columns}, 1], scope: {}>", i + 1)
    }

    /// The number of stages of the accumulator pipeline.
    fn accumulator_depth(&self) -> u32 {
        self.tiles.min(2)
    }

    /// Emits a loop over the tiles, which carries the stage and phase of both pipelines. For a single tile, emits only the body.
    /// `body` returns the next stage and phase of the operand pipeline.
    fn emit_tile_loop(&self, text: &mut Text, body: impl FnOnce(&mut Text, &TileIteration) -> [String; 2]) {
        let [zero, one, ..] = CONSTANTS.map(String::from);
        if self.tiles == 1 {
            let start = [zero.clone(), zero.clone()];
            body(text, &TileIteration { tile: zero, operands: start.clone(), accumulators: start });
            return;
        }
        let tile_count = text.emit_value(&format!("constant({})", self.tiles), "i32");
        let two = text.emit_value("constant(2)", "i32");
        let results = [0; 4].map(|_| text.new_name()).join(", ");
        text.region_line(&format!(
            "{results} = for(lower: {zero}, upper: {tile_count}, step: {one}, init: [{zero}, {zero}, {zero}, {zero}]) : i32, i32, i32, i32 @0 {{"
        ));
        text.indent += 1;
        let [tile, stage, phase, other_stage, other_phase] = [0; 5].map(|_| text.new_name());
        text.region_line(&format!("({tile}: i32, {stage}: i32, {phase}: i32, {other_stage}: i32, {other_phase}: i32)"));
        let iteration = TileIteration { tile, operands: [stage, phase], accumulators: [other_stage, other_phase] };
        let [stage, phase] = body(text, &iteration);
        let [other_stage, other_phase] = emit_next_position(text, &iteration.accumulators, &two);
        text.line(&format!("continue(values: [{stage}, {phase}, {other_stage}, {other_phase}])"));
        text.indent -= 1;
        text.region_line("}");
    }

    /// Emits the K loop, which carries the stage and phase of the operand pipeline. Returns the stage and phase after
    /// the loop.
    fn emit_k_loop(
        &self,
        form: Form,
        text: &mut Text,
        iteration: &TileIteration,
        body: impl FnOnce(&mut Text, &str, [&str; 2]),
    ) -> [String; 2] {
        let [zero, one, depth] = CONSTANTS;
        if form == Form::As {
            let step = text.new_name();
            text.region_line(&format!("for(lower: {zero}, upper: %3, step: {one}) @0 {{"));
            text.indent += 1;
            text.region_line(&format!("({step}: i32)"));
            body(text, &step, ["", ""]);
            text.line("continue");
            text.indent -= 1;
            text.region_line("}");
            return iteration.operands.clone();
        }
        let [step, stage, phase, final_stage, final_phase] = [0; 5].map(|_| text.new_name());
        let [initial_stage, initial_phase] = &iteration.operands;
        text.region_line(&format!(
            "{final_stage}, {final_phase} = for(lower: {zero}, upper: %3, step: {one}, init: [{initial_stage}, {initial_phase}]) : i32, i32 @0 {{"
        ));
        text.indent += 1;
        text.region_line(&format!("({step}: i32, {stage}: i32, {phase}: i32)"));
        body(text, &step, [&stage, &phase]);
        let [stage, phase] = emit_next_position(text, &[stage, phase], depth);
        text.line(&format!("continue(values: [{stage}, {phase}])"));
        text.indent -= 1;
        text.region_line("}");
        [final_stage, final_phase]
    }

    /// Emits the loads of both operands for one iteration of the K loop, their stores to the buffers, and the commit.
    fn emit_operand_loads(
        &self,
        form: Form,
        shapes: &MatmulBuffers,
        layouts: &mut LayoutTable,
        text: &mut Text,
        [row, step]: [&str; 2],
        [stage, phase]: [&str; 2],
    ) {
        let has_pipeline = form != Form::As;
        let stage_field = if has_pipeline { format!(", stage: {stage}") } else { String::new() };
        let warps = if form == Form::WarpRoles { 4 } else { self.warps };
        let mut tiles = Vec::new();
        for (i, (info, operand)) in [(&shapes.a, self.lhs), (&shapes.b, self.rhs)].into_iter().enumerate() {
            let (layout, vector) = self.load_layout(info, operand, warps);
            let id = layouts.id(layout);
            // K is the second dimension of the left operand and the first of the right operand. A transpose exchanges them.
            let step_dim = usize::from((i == 0) != operand.transposed);
            // Each tile has its own rows of the left operand; all tiles share the right operand.
            let other_index = if i == 0 { row } else { CONSTANTS[0] };
            let index = if step_dim == 1 { [other_index, step] } else { [step, other_index] };
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

    /// The register layout of a loaded operand, and log2 of the number of elements of a vector load.
    fn load_layout(&self, info: &BufferInfo, operand: Operand, warps: u32) -> (Layout, u32) {
        let bits = info.shape.iter().map(|extent| extent.ilog2()).sum::<u32>();
        let vector = (16 / info.elem.bytes()).ilog2();
        if info.space == Space::Tensor {
            let atom = tensor_memory::lane_atom_named("32x32b").expect("it is in the table");
            let part = TmemSlice::from_extents(&info.shape, &info.shape, 0).expect("the slice is the whole buffer");
            return (atom.layout(info, &part, warps.ilog2() as usize).expect("it fits"), vector);
        }
        let _ = operand;
        let order: Vec<u32> = (0..bits).collect();
        (Layout::blocked(&order, vector as usize, warps.ilog2() as usize), vector)
    }

    /// Emits the warp role that loads the operands of all iterations.
    fn emit_load_role(&self, shapes: &MatmulBuffers, layouts: &mut LayoutTable, text: &mut Text) {
        self.emit_tile_loop(text, |text, iteration| {
            self.emit_k_loop(Form::WarpRoles, text, iteration, |text, step, place| {
                self.emit_operand_loads(Form::WarpRoles, shapes, layouts, text, [&iteration.tile, step], place);
            })
        });
    }

    /// The `stage` field of an op that uses the accumulators. The text is empty if the pipeline has one stage.
    fn accumulator_stage(&self, iteration: &TileIteration) -> String {
        if self.accumulator_depth() > 1 { format!(", stage: {}", iteration.accumulators[0]) } else { String::new() }
    }

    /// Emits the K loop with its MMAs. Without warp roles, the loop also loads the operands.
    fn emit_mma_role(&self, form: Form, shapes: &MatmulBuffers, layouts: &mut LayoutTable, text: &mut Text) {
        self.emit_tile_loop(text, |text, iteration| {
            let accumulators = self.accumulator_stage(iteration);
            if form != Form::As {
                text.line(&format!("pipeline_acquire(pipeline: 1{accumulators}, phase: {})", iteration.accumulators[1]));
            }
            let next_operands = self.emit_k_loop(form, text, iteration, |text, step, [stage, phase]| {
                if form != Form::WarpRoles {
                    self.emit_operand_loads(form, shapes, layouts, text, [&iteration.tile, step], [stage, phase]);
                }
                let stage_field = if form != Form::As { format!(", stage: {stage}") } else { String::new() };
                if form != Form::As {
                    text.line(&format!("pipeline_wait(pipeline: 0{stage_field}, phase: {phase})"));
                }
                self.emit_mma(text, step, &stage_field, &accumulators);
                if form != Form::As {
                    text.line(&format!("pipeline_release(pipeline: 0{stage_field})"));
                }
            });
            if form != Form::As {
                text.line(&format!("pipeline_commit(pipeline: 1{accumulators})"));
            }
            next_operands
        });
    }

    /// Emits the MMA of an iteration of the K loop. The MMA of the first iteration ignores the old accumulator (`zero_init`).
    fn emit_mma(&self, text: &mut Text, step: &str, stage: &str, accumulators: &str) {
        let kind = "int(predicate: equal, signedness: signed)";
        let is_first_step = text.emit_value(&format!("compare(kind: {kind}, lhs: {step}, rhs: {})", CONSTANTS[0]), "i1");
        let operand_text = |buffer: usize, operand: Operand| {
            let transposed = if operand.transposed { ", transposed: true" } else { "" };
            format!("memory(buffer: {buffer}{stage}{transposed})")
        };
        let (lhs, rhs, atom) = (operand_text(0, self.lhs), operand_text(1, self.rhs), self.atom);
        text.line(&format!(
            "mma(lhs: {lhs}, rhs: {rhs}, acc: memory(buffer: 2{accumulators}), zero_init: {is_first_step}, signed_lhs: true, signed_rhs: true, atom: \"{atom}\")"
        ));
    }

    /// Emits stores of the accumulators of each tile, or of zeros if the K loop has no iterations.
    fn emit_epilogue(&self, form: Form, shapes: &MatmulBuffers, layouts: &mut LayoutTable, text: &mut Text) {
        self.emit_tile_loop(text, |text, iteration| {
            let accumulators = self.accumulator_stage(iteration);
            if form != Form::As {
                text.line(&format!("pipeline_wait(pipeline: 1{accumulators}, phase: {})", iteration.accumulators[1]));
            }
            let kind = "int(predicate: less_than, signedness: signed)";
            let has_iterations = text.emit_value(&format!("compare(kind: {kind}, lhs: {}, rhs: %3)", CONSTANTS[0]), "i1");
            text.region_line(&format!("if(cond: {has_iterations}) @0 {{"));
            self.emit_stores(shapes, layouts, text, &iteration.tile, Some(&accumulators));
            text.region_line("} {");
            self.emit_stores(shapes, layouts, text, &iteration.tile, None);
            text.region_line("}");
            if form != Form::As {
                text.line(&format!("pipeline_release(pipeline: 1{accumulators})"));
            }
            iteration.operands.clone()
        });
    }

    /// Emits stores of all columns of a tile: of the accumulators in a stage, or of zeros.
    fn emit_stores(
        &self,
        shapes: &MatmulBuffers,
        layouts: &mut LayoutTable,
        text: &mut Text,
        tile: &str,
        accumulators: Option<&str>,
    ) {
        let [m, n, _] = self.extents;
        let part = TmemSlice::from_extents(&shapes.accumulators.shape, &[m, self.chunk], 0).expect("the slice is in the buffer");
        let layout = self.lane_atom().layout(&shapes.accumulators, &part, self.warps.ilog2() as usize).expect("the atom fits");
        let ty = format!("tile<{m}x{}x{}, #{}>", self.chunk, self.acc, layouts.id(layout));
        let (lanes, view) = (self.lanes, VIEWS[2]);
        text.indent += 1;
        for chunk in 0..n / self.chunk {
            let value_text = match accumulators {
                Some(stage) => format!("tmem_load(buffer: 2{stage}, from: {}, atom: \"{lanes}\")", chunk * self.chunk),
                None => format!("constant({})", if self.acc.is_int() { "0" } else { "0.0" }),
            };
            let (value, index) = (text.emit_value(&value_text, &ty), text.emit_value(&format!("constant({chunk})"), "i32"));
            let destination = format!("view: {view}, index: [{tile}, {index}]");
            let store_text =
                format!("store_view(tile: {value}, {destination}, order: (semantics: weak), atom: vector(vector_bits: 0))");
            text.emit_value(&store_text, "token");
        }
        text.line("yield");
        text.indent -= 1;
    }
}

/// Emits the computation of the next stage and phase of a pipeline with `depth` stages. Returns the names of both values.
fn emit_next_position(text: &mut Text, [stage, phase]: &[String; 2], depth: &str) -> [String; 2] {
    let [zero, one, _] = CONSTANTS;
    let next = text.emit_value(&format!("binary(kind: add_i(overflow: none), lhs: {stage}, rhs: {one})"), "i32");
    let kind = "int(predicate: equal, signedness: signed)";
    let wraps = text.emit_value(&format!("compare(kind: {kind}, lhs: {next}, rhs: {depth})"), "i1");
    let next = text.emit_value(&format!("select(cond: {wraps}, yes: {zero}, no: {next})"), "i32");
    let phase_flip = text.emit_value(&format!("select(cond: {wraps}, yes: {one}, no: {zero})"), "i32");
    [next, text.emit_value(&format!("binary(kind: xor, lhs: {phase}, rhs: {phase_flip})"), "i32")]
}

/// The names of the views of A, B and C. `emit_views` checks them.
const VIEWS: [&str; 3] = ["%6", "%9", "%12"];
/// The names of the constants 0, 1 and the depth of the operand pipeline. `emit_views` checks them.
const CONSTANTS: [&str; 3] = ["%13", "%14", "%15"];
