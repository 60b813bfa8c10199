//! The plan of each function: decisions that the planner of `tile-lower-as` takes by estimated cost, for the stages that carry
//! them out.
//!
//! A file records plans as its option `plan`, a list with one entry per function. The entry also has the cost and the nearest
//! competitors, for readers:
//!
//! ```text
//! //!tile option plan=[(function: "small_tiles", plan: (tma: off), cost: 484, competitors: ["no decision: 763", "warps 8: 1086"])]
//! ```
//!
//! A person may edit the decisions. A stage carries them out or rejects them with the reason. An option such as `--warps` overrides
//! a decision.

use base::Envelope;
use base::diag::{Diagnostic, Result};
use base::text::{from_text, to_text};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The name of the option.
const OPTION: &str = "plan";

/// The decisions about one function. A missing decision is left to the pass that carries it out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelPlan {
    pub warps: Option<u32>,
    pub occupancy: Option<u32>,
    pub prefetch: Option<Switch>,
    pub split_m: Option<Switch>,
    pub tma: Option<Switch>,
}

impl fmt::Display for KernelPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |name: &str, value: Option<u32>| value.map(|value| format!("{name} {value}"));
        let switch = |name: &str, value: Option<Switch>| value.map(|value| format!("{name} {}", value.name()));
        let all = [
            number("warps", self.warps),
            number("occupancy", self.occupancy),
            switch("prefetch", self.prefetch),
            switch("split_m", self.split_m),
            switch("tma", self.tma),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        f.write_str(if all.is_empty() { "no decision" } else { "" })?;
        f.write_str(&all.join(", "))
    }
}

/// A decision between two forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    On,
    Off,
}

impl Switch {
    /// The value of the option that requests the same.
    pub fn name(self) -> &'static str {
        match self {
            Switch::On => "on",
            Switch::Off => "off",
        }
    }
}

/// A function's plan with its cost, in cycles of an SM for each CTA.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Planned {
    pub function: String,
    pub plan: KernelPlan,
    pub cost: Option<u64>,
    /// Other plans with their costs, or the reasons why they are impossible: `warps 8: 1342`.
    pub competitors: Vec<String>,
}

/// All plans that a file records; none if it has not been planned.
pub fn all(envelope: &Envelope) -> Result<Option<Vec<Planned>>> {
    let wrong = |why: &str| Diagnostic::invalid("OPT004", format!("invalid option '{OPTION}' in the file: {why}"));
    let Some(text) = envelope.options.get(OPTION) else { return Ok(None) };
    let plans: Vec<Planned> = from_text(text).ok_or_else(|| wrong("it is not a list of plans"))?;
    for Planned { plan: KernelPlan { warps, occupancy, .. }, .. } in &plans {
        if warps.is_some_and(|warps| !warps.is_power_of_two() || warps > 32) {
            return Err(wrong("a CTA has 1, 2, 4, 8, 16 or 32 warps"));
        }
        if occupancy.is_some_and(|ctas| !(1..=32).contains(&ctas)) {
            return Err(wrong("an SM has 1 to 32 CTAs"));
        }
    }
    Ok(Some(plans))
}

/// The plan of a function; without decisions if there is none.
pub fn of(envelope: &Envelope, function: &str) -> Result<KernelPlan> {
    let plans = all(envelope)?.unwrap_or_default();
    Ok(plans.into_iter().find(|planned| planned.function == function).map(|planned| planned.plan).unwrap_or_default())
}

/// Records the plans of all functions.
pub fn record(plans: &[Planned], envelope: &mut Envelope) -> Result<()> {
    envelope.options.set(OPTION, &to_text(plans))
}

/// The value of `--prefetch` for a function: that of the option, or else of the plan.
pub fn prefetch<'a>(envelope: &'a Envelope, function: &str) -> Result<Option<&'a str>> {
    switch(envelope, "prefetch", of(envelope, function)?.prefetch)
}

/// The value of `--split-m` for a function.
pub fn split_m<'a>(envelope: &'a Envelope, function: &str) -> Result<Option<&'a str>> {
    switch(envelope, "split-m", of(envelope, function)?.split_m)
}

/// The value of `--tma` for a function.
pub fn tma<'a>(envelope: &'a Envelope, function: &str) -> Result<Option<&'a str>> {
    switch(envelope, "tma", of(envelope, function)?.tma)
}

fn switch<'a>(envelope: &'a Envelope, option: &str, planned: Option<Switch>) -> Result<Option<&'a str>> {
    Ok(envelope.options.get(option).or(planned.map(Switch::name)))
}
