//! Purpose: append a tail to the producer warp of a multicast pipeline. In the tail the warp acquires every stage once more, so
//! the warp waits until the consumers have released all stages.
//! Requires: loops that carry the pipeline position (stage and phase).
//! Establishes: when the producer exits, no MMA of a peer CTA still has to release a stage of this CTA.
//! Preserves: the order of all existing ops.
//! See also: CUTLASS `PipelineTmaAsync::producer_tail`.

use base::ir::Op as OpId;
use base::{Block, Body, Loc, Value};
use core_dialect::core_ops::Core;
use core_dialect::structured_ops::LoopBounds;
use core_dialect::tile::{Dense, Elem};
use numerics::Scalar;
use numerics::arith::{Binary, Compare, Overflow, Predicate, Signedness};
use sched::{Function, Op, Pipeline};
use tileas::Type;

/// The indices, among the values that a loop carries, of the next stage and phase of a pipeline. `stage` is `None` if the pipeline
/// has one stage.
#[derive(Clone, Copy)]
struct CarriedPosition {
    stage: Option<usize>,
    phase: usize,
}

/// Appends the producer's tail. Returns `None` if no loop carries the pipeline's final position.
pub(crate) fn append_tail(function: &mut Function, pipeline: Pipeline) -> Option<()> {
    let body = &function.body;
    let producer = function.attrs.pipelines[pipeline].producer;
    let producer_block = |op: &OpId| match body.ops[*op].kind {
        Op::WarpRole { role: warp_role, body: region } if warp_role == producer => Some(body.block_of(region)),
        _ => None,
    };
    let entry = function.entry();
    let block = body.blocks[entry].ops.iter().find_map(producer_block).unwrap_or(entry);
    let (last_loop, position) =
        body.blocks[block].ops.iter().rev().find_map(|op| Some((*op, carried_position(body, *op, pipeline)?)))?;
    let results = &body.ops[last_loop].results;
    let (stage, phase) = (position.stage.map(|at| results[at]), results[position.phase]);
    let depth = function.attrs.pipelines[pipeline].depth;
    let ops = std::mem::take(&mut function.body.blocks[block].ops);
    let (end, preceding_ops) = ops.split_last().expect("a body ends in a return");
    let mut writer = TailWriter { body: &mut function.body, out: preceding_ops.to_vec(), loc: function.loc };
    writer.acquire_all_stages(pipeline, depth, stage, phase);
    writer.out.push(*end);
    function.body.blocks[block].ops = writer.out;
    Some(())
}

/// Returns the pipeline position that a loop carries, if the loop fills the pipeline.
fn carried_position(body: &Body<Op, Type>, op: OpId, pipeline: Pipeline) -> Option<CarriedPosition> {
    let block = &body.blocks[body.block_of(body.ops[op].kind.core().and_then(Core::for_body)?)];
    let carried = |value: Value| block.args.get(1..)?.iter().position(|arg| *arg == value);
    block.ops.iter().find_map(|inner| match &body.ops[*inner].kind {
        Op::PipelineAcquire { pipeline: other, stage, phase } if *other == pipeline => {
            let stage = stage.map(|stage| carried(stage).ok_or(())).transpose().ok()?;
            Some(CarriedPosition { stage, phase: carried(*phase)? })
        }
        kind => {
            let inner = carried_position(body, *inner, pipeline)?;
            let init = kind.core().and_then(Core::as_loop)?.init;
            let stage = inner.stage.map(|at| carried(init[at]).ok_or(())).transpose().ok()?;
            Some(CarriedPosition { stage, phase: carried(init[inner.phase])? })
        }
    })
}

/// Appends the ops of the tail to `out`.
struct TailWriter<'a> {
    body: &'a mut Body<Op, Type>,
    out: Vec<OpId>,
    loc: Loc,
}

impl TailWriter<'_> {
    /// Acquires all stages, one after the other.
    fn acquire_all_stages(&mut self, pipeline: Pipeline, depth: u32, stage: Option<Value>, phase: Value) {
        let Some(stage) = stage else { return self.append_op(Op::PipelineAcquire { pipeline, stage: None, phase }) };
        let [zero, one, depth_value] = [0, 1, depth].map(|number| self.i32_constant(number));
        let region = self.body.new_region();
        let block = self.body.new_block(region);
        self.acquire_next_stage(pipeline, block, depth_value, one);
        let bounds = LoopBounds { lower: zero, upper: depth_value, step: one, unsigned: false };
        let kind = Core::new_loop(Some(bounds), vec![stage, phase], region);
        let op = self.body.new_op(Op::Core(tileas::Op::Core(kind)), [i32_type(), i32_type()], self.loc);
        self.out.push(op);
    }

    /// Emits the body of the loop that acquires all stages: acquires one stage and advances the position.
    fn acquire_next_stage(&mut self, pipeline: Pipeline, block: Block, depth: Value, one: Value) {
        let [_, stage, phase] = [(); 3].map(|()| self.body.add_argument(block, i32_type()));
        let outer = std::mem::take(&mut self.out);
        self.append_op(Op::PipelineAcquire { pipeline, stage: Some(stage), phase });
        let next =
            self.emit_core(Core::Binary { kind: Binary::AddI { overflow: Overflow::None }, lhs: stage, rhs: one }, i32_type());
        let kind = Compare::Int { predicate: Predicate::Equal, signedness: Signedness::Unsigned };
        let wraps = self.emit_core(Core::Compare { kind, lhs: next, rhs: depth }, Type::Scalar(Elem::Scalar(Scalar::I1)));
        let [first, next_phase] =
            [self.i32_constant(0), self.emit_core(Core::Binary { kind: Binary::Xor, lhs: phase, rhs: one }, i32_type())];
        let stage = self.emit_core(Core::Select { cond: wraps, yes: first, no: next }, i32_type());
        let phase = self.emit_core(Core::Select { cond: wraps, yes: next_phase, no: phase }, i32_type());
        self.append_op(Op::Core(tileas::Op::Core(Core::Continue { values: vec![stage, phase] })));
        self.body.blocks[block].ops = std::mem::replace(&mut self.out, outer);
    }

    fn append_op(&mut self, op: Op) {
        let op = self.body.new_op(op, [], self.loc);
        self.out.push(op);
    }
    fn emit_core(&mut self, core: Core, ty: Type) -> Value {
        let op = self.body.new_op(Op::Core(tileas::Op::Core(core)), [ty], self.loc);
        self.out.push(op);
        self.body.result(op)
    }
    fn i32_constant(&mut self, value: u32) -> Value {
        self.emit_core(Core::Constant { value: Dense::Splat(value.into()) }, i32_type())
    }
}

fn i32_type() -> Type {
    Type::Scalar(Elem::Scalar(Scalar::I32))
}
