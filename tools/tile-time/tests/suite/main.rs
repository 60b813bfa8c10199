//! `tile-time` as a whole: its model against the facts it is made of, what it says of cubins, its timeline.

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
