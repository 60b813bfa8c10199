//! Checks that a schedule, generated or edited by hand, is feasible: it respects the order of stages, the dependences of its loop
//! and the resources of the machine.
//!
//! The check shares only the dependence graph with the scheduler. `sched::hazard_checker` verifies the table's completeness,
//! the placements, the waits and the barriers whenever a `.sched` file is read.

use crate::for_loops::for_loops;
use crate::graph::Graph;
use crate::resource_model::Machine;
use base::File;
use base::diag::{Diagnostic, Place, Result};
use base::ir::Operation;
use sched::{Function, LoopSchedule, Module, Phase, ScheduleEntry};

/// Checks every schedule of a file: only copies run ahead, dependences hold, and no two ops occupy one resource at the same time.
pub(crate) fn check_schedules(file: &File<Module>) -> Result<()> {
    let machine = Machine::for_target(file.envelope.target()?);
    let has_placements = Phase::from_envelope(&file.envelope).is_some_and(|phase| phase >= Phase::Alloc);
    for schedule in &file.payload.schedules {
        let function = check_schedule(&file.payload, schedule, &machine)?;
        if has_placements && schedule.in_flight && !crate::wgmma_in_flight::can_stay_in_flight(function, schedule) {
            let message = "an MMA stays in flight while a copy of the same iteration fills its operands";
            return Err(schedule_error(schedule, message.into()));
        }
    }
    Ok(())
}

/// Checks the stages, dependences and resources of one schedule. Returns the function that contains the scheduled loop.
pub(crate) fn check_schedule<'m>(module: &'m Module, schedule: &LoopSchedule, machine: &Machine) -> Result<&'m Function> {
    let function = module.functions.iter().find(|function| function.name == schedule.function);
    let function = function.ok_or_else(|| schedule_error(schedule, "there is no such function".into()))?;
    let for_op = for_loops(function).get(schedule.index as usize).copied();
    let for_op = for_op.ok_or_else(|| schedule_error(schedule, "there is no such loop".into()))?;
    let graph = Graph::build(module, function, for_op, machine);
    let graph = graph.map_err(|reason| schedule_error(schedule, format!("it cannot be pipelined: {reason}")))?;
    let check = ScheduleCheck { function, schedule, graph: &graph };
    check.check_stages().and_then(|()| check.check_dependences()).and_then(|()| check.check_resources())?;
    Ok(function)
}

/// The error for an infeasible schedule.
fn schedule_error(schedule: &LoopSchedule, message: String) -> Box<Diagnostic> {
    let place = Place::Entity(format!("func {}, loop {}", schedule.function, schedule.index));
    Diagnostic::invalid("SC120", message).at(place)
}

/// The schedule of a loop, with the data for its checks.
struct ScheduleCheck<'a> {
    function: &'a Function,
    schedule: &'a LoopSchedule,
    graph: &'a Graph,
}

impl ScheduleCheck<'_> {
    /// Returns the name of an op for error messages.
    fn op_name(&self, node: usize) -> String {
        format!("op {node} ({})", self.function.body.ops[self.graph.nodes[node].op].kind.mnemonic())
    }
    fn entry(&self, node: usize) -> &ScheduleEntry {
        &self.schedule.entries[node]
    }
    /// The start of a node in cycles, relative to the start of its iteration.
    fn start(&self, node: usize) -> i64 {
        self.schedule.start(self.entry(node))
    }
    fn infeasible<T>(&self, message: String) -> Result<T> {
        Err(schedule_error(self.schedule, message))
    }

    /// Checks that all ops except copies are in the last stage, which computes.
    fn check_stages(&self) -> Result<()> {
        let (entries, nodes) = (&self.schedule.entries, &self.graph.nodes);
        let last = self.schedule.last_stage();
        for (node, entry) in entries.iter().enumerate() {
            if !nodes[node].can_run_ahead && entry.stage != last {
                return self.infeasible(format!(
                    "{} is in stage {}, but computes in stage {last}",
                    self.op_name(node),
                    entry.stage
                ));
            }
        }
        Ok(())
    }

    /// Checks that every op starts at least the minimum latency after the ops on which it depends.
    fn check_dependences(&self) -> Result<()> {
        let interval = i64::from(self.schedule.interval);
        for edge in &self.graph.edges {
            let earliest = self.start(edge.from) + i64::from(edge.min_latency) - interval * i64::from(edge.distance);
            if self.start(edge.to) < earliest {
                let (from, to) = (self.op_name(edge.from), self.op_name(edge.to));
                let cycles_late = earliest - self.start(edge.to);
                return self
                    .infeasible(format!("{to} starts {cycles_late} cycles before the result of {from} that it needs is ready"));
            }
        }
        Ok(())
    }

    /// Recomputes the use of resources independently of the scheduler. It sorts the cycles that ops occupy, modulo the initiation
    /// interval, and compares neighbours.
    fn check_resources(&self) -> Result<()> {
        let interval = i64::from(self.schedule.interval);
        for resource in crate::resource_model::Resource::ALL {
            let mut occupations: Vec<(i64, i64, usize)> = Vec::new();
            for (i, node) in self.graph.nodes.iter().enumerate() {
                let Some(&cycles) = node.cost.uses.get(&resource) else { continue };
                let (from, cycles) = (self.start(i).rem_euclid(interval), i64::from(cycles));
                if cycles > interval {
                    return self.infeasible(format!(
                        "{} needs {} for {cycles} of {interval} cycles",
                        self.op_name(i),
                        resource.name()
                    ));
                }
                // An occupation that reaches past the end of the interval wraps around to its start.
                occupations.push((from, (from + cycles).min(interval), i));
                occupations.extend((from + cycles > interval).then(|| (0, from + cycles - interval, i)));
            }
            occupations.sort_unstable();
            for pair in occupations.windows(2) {
                let ((_, end, first), (start, _, second)) = (pair[0], pair[1]);
                if start < end {
                    let (first, second) = (self.op_name(first), self.op_name(second));
                    return self.infeasible(format!("{first} and {second} both need {} in cycle {start}", resource.name()));
                }
            }
        }
        Ok(())
    }
}
