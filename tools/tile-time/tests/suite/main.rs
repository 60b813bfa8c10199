//! `tile-time` as a whole: its model against the facts it is made of, what it says of cubins, its timeline.

mod cubin;
mod ladder;
mod pairs;
mod rates;
mod rings;
mod roofline;
mod support;
mod trace;
mod waves;
mod worth;
