//! Creates the simulated machine for a launch, runs it, and writes its outputs and statistics to files.

use crate::{Arguments, DeliveryArgument, RacesArgument};
use base::Target;
use base::diag::Severity;
use common::Session;
use common::launch::Call;
use simulator::hidden::{self, TensorMapSources};
use simulator::program::Program;
use simulator::{Delivery, DeviceGlobalMemory, ExecutionMode, Fault, LaunchSizes, Machine, Options, Races, decode};

/// Runs the kernel that the command line selects, and writes its outputs, its printed text and its statistics.
pub(crate) fn run(
    session: &Session,
    module: &ptx::Module,
    text: &str,
    file: &str,
    arguments: &Arguments,
) -> base::diag::Result<()> {
    let opened = arguments.launch.open()?;
    let as_diagnostic = |fault: Box<Fault>| fault.diagnostic(file, text);
    let sizes = LaunchSizes { block: arguments.block, dynamic_shared: arguments.dynamic_shared };
    let program = decode(module, opened.entry(), sizes).map_err(as_diagnostic)?;
    let target = module.target.first().and_then(|name| Target::parse(name));
    let call = opened.call(&program.entry, &program.param_types().map_err(as_diagnostic)?, target)?;
    if session.verify_only() {
        return Ok(());
    }
    let maps = TensorMapSources { file: arguments.tensor_maps.as_deref(), host_object: arguments.host_object.as_deref() };
    let params = hidden::parameter_bytes(&program, module, &call, maps)?;
    let options = Options {
        delivery: match arguments.delivery {
            DeliveryArgument::Early => Delivery::Early,
            DeliveryArgument::Late => Delivery::Late,
        },
        races: match arguments.races {
            Some(RacesArgument::Error) => Races::Error,
            Some(RacesArgument::Warn) => Races::Warn,
            Some(RacesArgument::Ignore) => Races::Ignore,
            None if module.envelope.is_empty() => Races::Warn,
            None => Races::Error,
        },
        seed: arguments.schedule_seed,
        instruction_limit: arguments.instruction_limit,
        deadline: None,
        mode: ExecutionMode::Full,
    };
    let mut machine = Machine::new(&program, options, call.grid, params, global_memory(&program, &call));
    if arguments.stats.is_some() {
        machine.count_traffic();
    }
    let result = match &call.blocks {
        Some(blocks) => machine.run_blocks(blocks),
        None => machine.run(),
    };
    if !machine.printed.is_empty() {
        common::write_file(None, &machine.printed)?;
    }
    if let Some(path) = &arguments.stats {
        common::write_file(Some(path), machine.report().as_bytes())?;
    }
    arguments.launch.finish(&call, |buffer| machine.global.region(&buffer.name))?;
    result.map_err(as_diagnostic)?;
    let violations = machine.violations.iter().filter(|_| options.races != Races::Ignore);
    for fault in machine.race.iter().chain(violations) {
        let mut warning = fault.diagnostic(file, text);
        warning.severity = Severity::Warning;
        session.report(&warning);
    }
    Ok(())
}

/// Returns a global memory that contains the buffers of the launch and the variables of the module.
fn global_memory(program: &Program, call: &Call) -> DeviceGlobalMemory {
    let mut global = DeviceGlobalMemory::default();
    for buffer in &call.launch.buffers {
        global.add(&buffer.name, buffer.address, buffer.contents.clone());
    }
    for variable in &program.globals {
        global.add(&format!("variable {}", variable.name), variable.address, variable.data.clone());
    }
    global
}
