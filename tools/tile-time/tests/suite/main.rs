//! End-to-end tests of `tile-time`: its model against measurements, its reports of cubins, its timeline.

mod cubin;
mod ladder;
mod multi_stage;
mod pairs;
mod performance_ordering;
mod rates;
mod roofline;
mod support;
mod trace;
mod waves;
