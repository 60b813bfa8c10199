//! End-to-end tests of `tile-time`: its model against measurements, its reports of cubins, its timeline.

mod cubin;
mod matmul_layouts;
mod multi_stage;
mod pair_mma;
mod performance_ordering;
mod rates;
mod roofline;
mod support;
mod trace;
mod waves;
