//! Resolves the author's hints for the target: warps, cluster, occupancy.

use base::Target;
use tileas::{Agent, FunctionAttrs, Role};

/// The fewest warps of a kernel.
const WARPS: u32 = 4;

pub(crate) fn resolve(function: &tileaa::Function, target: Target) -> FunctionAttrs {
    let named = |name: &str| function.attrs.hints.iter().find(|hint| hint.target == name);
    let spec = named(&target.name()).or_else(|| named("default")).map(|hint| hint.spec).unwrap_or_default();
    // A hint that is out of range is ignored, as the reference does.
    let occupancy = spec.occupancy.filter(|occupancy| (1..=32).contains(occupancy));
    FunctionAttrs {
        private: function.attrs.private,
        agents: vec![Agent { role: Role::Compute, first_warp: 0, warps: crate::products::warps(function, WARPS), registers: None }],
        cluster: 1,
        occupancy,
        ..Default::default()
    }
}
