//! From a launch description to a machine and back to files.

use crate::decode::{Sizes, decode};
use crate::fault::{Fault, Result};
use crate::machine::{Delivery, Machine, Options};
use crate::memory::Global;
use crate::program::Program;
use crate::stats::Traffic;
use crate::{Arguments, DeliveryArgument, Races};
use base::Scalar;
use base::arith::Rounding;
use base::diag::{Diagnostic, Severity};
use base::float::{Overflow, encode};
use common::Session;
use common::launch::{Launch, Param};
use std::io::Write;

/// Runs one kernel of a module.
pub(crate) fn run(
    session: &Session,
    module: &ptx::Module,
    text: &str,
    file: &str,
    arguments: &Arguments,
) -> base::diag::Result<()> {
    let launch = Launch::read(&arguments.launch)?;
    let maps = match &arguments.tensor_maps {
        Some(path) => common::read_file(Some(path))?.bytes.to_vec(),
        None => Vec::new(),
    };
    let as_diagnostic = |fault: Box<Fault>| fault.diagnostic(file, text);
    let sizes = Sizes { block: arguments.block, dynamic_shared: arguments.dynamic_shared };
    let program = decode(module, launch.entry.as_deref(), sizes).map_err(as_diagnostic)?;
    let params = parameters(&program, &launch, &maps).map_err(as_diagnostic)?;
    let options = Options {
        delivery: match arguments.delivery {
            DeliveryArgument::Early => Delivery::Early,
            DeliveryArgument::Late => Delivery::Late,
        },
        races: arguments.races.unwrap_or(if module.envelope.is_empty() { Races::Warn } else { Races::Error }),
        seed: arguments.schedule_seed,
        instruction_limit: arguments.instruction_limit,
    };
    let mut machine = Machine::new(&program, options, launch.grid, params, memory(&program, &launch));
    if arguments.stats.is_some() {
        machine.traffic = vec![Traffic::default(); program.code.len()];
    }
    let result = machine.run();
    let printed = std::io::stdout().write_all(&machine.printed);
    printed.map_err(|error| Diagnostic::io("SIM004", format!("cannot print: {error}")))?;
    if let Some(path) = &arguments.stats {
        common::write_file(Some(path), machine.report().as_bytes())?;
    }
    launch.write_outputs(&arguments.out_dir, |name| machine.global.region(name))?;
    result.map_err(as_diagnostic)?;
    if let Some(race) = &machine.race {
        let mut warning = race.diagnostic(file, text);
        warning.severity = Severity::Warning;
        session.report(&warning);
    }
    Ok(())
}

fn memory(program: &Program, launch: &Launch) -> Global {
    let mut global = Global::default();
    for buffer in &launch.buffers {
        global.add(&buffer.name, buffer.address, buffer.data.clone());
    }
    for variable in &program.globals {
        global.add(&format!("variable {}", variable.name), variable.address, variable.data.clone());
    }
    global
}

/// The bytes of the parameters: the visible ones from the launch, the hidden ones from the tensor maps.
fn parameters(program: &Program, launch: &Launch, maps: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = vec![0; program.param_bytes as usize];
    let visible: Vec<_> = program.visible_params().collect();
    if visible.len() != launch.params.len() {
        let message = format!("'{}' takes {} parameters; the launch has {}", program.entry, visible.len(), launch.params.len());
        return Err(Fault::new("SIM002", message));
    }
    for (slot, param) in visible.iter().zip(&launch.params) {
        let (value, size) = match param {
            Param::Ptr(name) => (launch.buffers.iter().find(|buffer| &buffer.name == name).map_or(0, |buffer| buffer.address), 8),
            Param::I1(value) => (u64::from(*value), 1),
            Param::I8(value) => (*value as u64, 1),
            Param::I16(value) => (*value as u64, 2),
            Param::I32(value) => (*value as u64, 4),
            Param::I64(value) => (*value as u64, 8),
            Param::F16(value) => (encode(Scalar::F16, *value, Rounding::NearestEven, Overflow::Ieee), 2),
            Param::Bf16(value) => (encode(Scalar::BF16, *value, Rounding::NearestEven, Overflow::Ieee), 2),
            Param::F32(value) => (u64::from((*value as f32).to_bits()), 4),
            Param::F64(value) => (value.to_bits(), 8),
        };
        if slot.bytes != size {
            let message = format!("parameter '{}' has {} bytes; the launch gives {size}", slot.name, slot.bytes);
            return Err(Fault::new("SIM002", message));
        }
        bytes[slot.offset as usize..][..size as usize].copy_from_slice(&value.to_le_bytes()[..size as usize]);
    }
    let mut maps = maps;
    for slot in program.hidden_params() {
        let Some((map, rest)) = maps.split_at_checked(slot.bytes as usize) else {
            let message = format!("there is no tensor map for hidden parameter '{}'; give them with --tensor-maps", slot.name);
            return Err(Fault::new("SIM002", message));
        };
        bytes[slot.offset as usize..][..map.len()].copy_from_slice(map);
        maps = rest;
    }
    Ok(bytes)
}
