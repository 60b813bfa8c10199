//! Adds pipelines while one warp role both fills and drains them. [`crate::partition`] later assigns the producer and consumer
//! roles.

use crate::smem_extent::end_of_buffers;
use sched::{Drain, Fill, FunctionAttrs, Pipeline, PipelineInfo, WarpRole};
use tileas::Buffer;

/// Adds a pipeline. Its mbarriers follow those of the existing pipelines. For the first pipeline, they follow all buffers.
pub(crate) fn add(attrs: &mut FunctionAttrs, buffers: Vec<Buffer>, depth: u32, fill: Fill, drain: Drain) -> Pipeline {
    let barriers_end = attrs.pipelines.values().map(|info| info.empty_barrier(info.depth)).max();
    let barriers = barriers_end.unwrap_or_else(|| end_of_buffers(attrs).next_multiple_of(PipelineInfo::BARRIER_BYTES));
    let (producer, consumers) = (WarpRole(0), vec![WarpRole(0)]);
    let mut info = PipelineInfo { buffers, depth, fill, drain, producer, consumers, full: 0, empty: 0, barriers, multicast: None };
    info.full = attrs.filling_arrivals(&info).unwrap_or(0);
    info.empty = attrs.draining_arrivals(&info);
    attrs.pipelines.push(info)
}
