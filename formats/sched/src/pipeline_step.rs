//! The four pipeline ops as one type.

use crate::Pipeline;
use crate::ops::Op;
use base::Value;

/// The effect of a pipeline op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// The producer waits for a free stage.
    Acquire,
    /// The producer signals a full stage.
    Commit,
    /// A consumer waits for a full stage.
    Wait,
    /// A consumer signals a free stage.
    Release,
}

/// A pipeline op.
#[derive(Clone, Copy, Debug)]
pub struct PipelineStep {
    pub kind: StepKind,
    pub pipeline: Pipeline,
    /// The stage, if the pipeline has several.
    pub stage: Option<Value>,
    /// The phase for which a wait waits.
    pub phase: Option<Value>,
}

impl PipelineStep {
    /// Returns whether the producer executes the op.
    pub fn is_of_producer(&self) -> bool {
        match self.kind {
            StepKind::Acquire | StepKind::Commit => true,
            StepKind::Wait | StepKind::Release => false,
        }
    }
}

impl Op {
    /// The op as a pipeline op, if it is one.
    pub fn pipeline_step(&self) -> Option<PipelineStep> {
        let (kind, pipeline, stage, phase) = match *self {
            Op::PipelineAcquire { pipeline, stage, phase } => (StepKind::Acquire, pipeline, stage, Some(phase)),
            Op::PipelineCommit { pipeline, stage } => (StepKind::Commit, pipeline, stage, None),
            Op::PipelineWait { pipeline, stage, phase } => (StepKind::Wait, pipeline, stage, Some(phase)),
            Op::PipelineRelease { pipeline, stage } => (StepKind::Release, pipeline, stage, None),
            _ => return None,
        };
        Some(PipelineStep { kind, pipeline, stage, phase })
    }
}
