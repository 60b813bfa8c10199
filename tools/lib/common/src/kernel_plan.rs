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

/// The name of the option in the file header that records the plans.
const OPTION: &str = "plan";

/// The decisions about one function. For `None`, the pass that carries the decision out also takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelPlan {
    /// The value of `--warps`: warps per CTA.
    pub warps: Option<u32>,
    /// The value of `--occupancy`: CTAs per SM.
    pub occupancy: Option<u32>,
    /// Whether the plan turns `--prefetch` on or off.
    pub prefetch: Option<Switch>,
    /// Whether the plan turns `--split-m` on or off.
    pub split_m: Option<Switch>,
    /// Whether the plan turns `--tma` on or off.
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

/// Whether a function uses an optimisation that an option such as `--tma` also enables or disables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    On,
    Off,
}

impl Switch {
    /// Returns the value of the command-line option that requests this decision: `on` or `off`.
    pub fn name(self) -> &'static str {
        match self {
            Switch::On => "on",
            Switch::Off => "off",
        }
    }
}

/// The plan of one function, and the estimated cost of that plan in SM cycles per CTA.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Planned {
    pub function: String,
    pub plan: KernelPlan,
    pub cost: Option<u64>,
    /// Other plans with their costs, or the reasons why they are impossible: `warps 8: 1342`.
    pub competitors: Vec<String>,
}

/// Returns the plans of all functions, from the header of a file. `None` if the planner of `tile-lower-as` has not run.
pub fn recorded_plans(envelope: &Envelope) -> Result<Option<Vec<Planned>>> {
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

/// Returns the recorded plan of a function. If the file records no plan for the function, every decision is `None`.
pub fn plan_of_function(envelope: &Envelope, function: &str) -> Result<KernelPlan> {
    let plans = recorded_plans(envelope)?.unwrap_or_default();
    Ok(plans.into_iter().find(|planned| planned.function == function).map(|planned| planned.plan).unwrap_or_default())
}

/// Records the plans of all functions in the header of a file.
pub fn record(plans: &[Planned], envelope: &mut Envelope) -> Result<()> {
    envelope.options.set(OPTION, &to_text(plans))
}

/// Returns the value of `--prefetch` for a function: the option's value if it was given, else the value in the plan.
pub fn prefetch<'a>(envelope: &'a Envelope, function: &str) -> Result<Option<&'a str>> {
    option_or_plan(envelope, "prefetch", plan_of_function(envelope, function)?.prefetch)
}

/// Returns the value of `--split-m` for a function: the option's value if it was given, else the value in the plan.
pub fn split_m<'a>(envelope: &'a Envelope, function: &str) -> Result<Option<&'a str>> {
    option_or_plan(envelope, "split-m", plan_of_function(envelope, function)?.split_m)
}

/// Returns the value of `--tma` for a function: the option's value if it was given, else the value in the plan.
pub fn tma<'a>(envelope: &'a Envelope, function: &str) -> Result<Option<&'a str>> {
    option_or_plan(envelope, "tma", plan_of_function(envelope, function)?.tma)
}

/// Returns the value of an option if it was given, else the planned value.
fn option_or_plan<'a>(envelope: &'a Envelope, option: &str, planned: Option<Switch>) -> Result<Option<&'a str>> {
    Ok(envelope.options.get(option).or(planned.map(Switch::name)))
}
