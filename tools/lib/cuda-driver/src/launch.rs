//! Launches of kernels. The driver checks the configuration of a launch, copies its parameters and executes the kernel.

use crate::device::{MAX_BLOCK, MAX_GRID, MAX_THREADS};
use crate::driver::Driver;
use crate::module::{Function, Library, Param};
use crate::program_source::Source;
use crate::status::failure_from;
use crate::status::{Failure, Result, Status, status_of_fault};
use crate::work::Launch;
use base::diag::{Diagnostic, Severity};
use common::launch::ParamType;
use executor::{LaunchRequest, NoopObserver, ProgramFile, RunOptions};
use simulator::{Delivery, ExecutionMode, Machine, Options, Races};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::io::Write as _;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// `CU_LAUNCH_PARAM_END`, the key at the end of the list `extra`. A value follows each other key of the list.
const PARAM_END: usize = 0;
/// `CU_LAUNCH_PARAM_BUFFER_POINTER`.
const PARAM_BUFFER_POINTER: usize = 1;
/// `CU_LAUNCH_PARAM_BUFFER_SIZE`.
const PARAM_BUFFER_SIZE: usize = 2;

/// Copies the parameters of a launch: from `params`, which has one pointer per parameter, or from the buffer that `extra`
/// describes.
pub(crate) fn copy_params(function: &Function, params: *const *const c_void, extra: *const *const c_void) -> Result<Vec<u8>> {
    let end = function.params.iter().map(|param| param.offset + param.bytes).max().unwrap_or(0) as usize;
    let mut out = vec![0; end];
    if !params.is_null() {
        for (index, param) in function.params.iter().enumerate() {
            // SAFETY: the client passes one valid pointer for each parameter, as the API requires.
            let value = unsafe { *params.add(index) };
            if value.is_null() {
                return Err(Status::InvalidValue.because(format!("parameter {index} of '{}' is a null pointer", function.name)));
            }
            let destination = &mut out[param.offset as usize..][..param.bytes as usize];
            // SAFETY: the pointer is valid for the size of the parameter.
            unsafe { std::ptr::copy_nonoverlapping(value.cast::<u8>(), destination.as_mut_ptr(), destination.len()) };
        }
        return Ok(out);
    }
    if extra.is_null() {
        let missing = format!("'{}' has {} parameters, but the launch passes none", function.name, function.params.len());
        return if end == 0 { Ok(out) } else { Err(Status::InvalidValue.because(missing)) };
    }
    let (mut buffer, mut size) = (std::ptr::null::<u8>(), 0usize);
    for pair in 0..2 {
        // SAFETY: the list ends with `PARAM_END`, and a value follows each key before it.
        let (name, value) = unsafe { (*extra.add(2 * pair) as usize, extra.add(2 * pair + 1)) };
        match name {
            PARAM_END => break,
            // SAFETY: the list contains a value after each key.
            PARAM_BUFFER_POINTER => buffer = unsafe { *value }.cast(),
            // SAFETY: the list contains a value after each key, and this value points to the size.
            PARAM_BUFFER_SIZE => size = unsafe { *(*value).cast::<usize>() },
            _ => return Err(Status::InvalidValue.into()),
        }
    }
    if buffer.is_null() || size < end {
        return Err(Status::InvalidValue.because(format!("the parameters of '{}' have {end} bytes, not {size}", function.name)));
    }
    // SAFETY: the client states that the buffer has `size` bytes.
    unsafe { std::ptr::copy_nonoverlapping(buffer, out.as_mut_ptr(), end) };
    Ok(out)
}

impl Launch {
    /// Checks the configuration of the launch against the limits of the device and of the kernel.
    pub(crate) fn check_config(&self, driver: &Driver) -> Result<()> {
        let name = &self.function.name;
        let invalid = |what: String| Err(Status::InvalidValue.because(format!("'{name}': {what}")));
        if (0..3).any(|axis| self.grid[axis] == 0 || self.grid[axis] > MAX_GRID[axis]) {
            return invalid(format!("a grid of {:?}; each extent is at least 1 and at most {MAX_GRID:?}", self.grid));
        }
        let threads: u64 = self.block.iter().map(|extent| u64::from(*extent)).product();
        if (0..3).any(|axis| self.block[axis] == 0 || self.block[axis] > MAX_BLOCK[axis]) || threads > MAX_THREADS.into() {
            return invalid(format!("a CTA of {:?} threads", self.block));
        }
        if let Some(required) = self.function.block
            && self.block != required
            && self.block != [1; 3]
        {
            return invalid(format!("it requires CTAs of {required:?} threads, not {:?}", self.block));
        }
        let shared_bytes = u64::from(self.dynamic_shared_bytes) + u64::from(self.function.shared_bytes);
        if self.dynamic_shared_bytes > self.function.max_dynamic_shared_bytes.load(Ordering::Relaxed)
            || shared_bytes > driver.device.max_shared_bytes().into()
        {
            return invalid(format!("{shared_bytes} bytes of shared memory; the device has {}", driver.device.max_shared_bytes()));
        }
        Ok(())
    }

    /// Executes the kernel. The caller has taken `Driver::execution_lock`.
    pub(crate) fn run(&self, driver: &Driver) -> Result<()> {
        let start = Instant::now();
        let result = match &self.function.library.source {
            Source::Program(input) => self.run_program(input, driver),
            Source::Ptx { module, text } => self.run_ptx(&self.function.library, module, text, driver),
        };
        driver.report.record_launch(&self.function.name, start.elapsed(), result.is_err());
        result
    }

    /// Executes a kernel of Tile IR or of a stage file with the executor.
    fn run_program(&self, input: &ProgramFile, driver: &Driver) -> Result<()> {
        let kernel = input.kernel(Some(&self.function.name)).map_err(|error| failure_from(Status::InvalidImage, &error))?;
        let arguments = self.function.params.iter().map(|param| param.extended_value(&self.param_data)).collect();
        let config = &driver.config;
        let (memory, uninitialised_ranges) = {
            let tables = driver.tables();
            (tables.allocations.executor_memory(&self.host_ranges), tables.allocations.unwritten_ranges())
        };
        let request = LaunchRequest {
            grid: self.grid,
            blocks: None,
            arguments,
            uninitialised_segments: BTreeSet::new(),
            uninitialised_ranges,
            global_addresses: self.function.library.variables.addresses(),
        };
        let run_options = RunOptions { max_ops: u64::MAX, seed: 0, checks: config.checks.clone(), deadline: self.deadline(driver) };
        let run = || kernel.run_on(memory, &request, run_options, &mut print_output, &mut NoopObserver);
        // A single tile block runs in the thread of the caller, because waking a thread of the pool takes longer than a small
        // kernel.
        let outcome = if self.grid == [1; 3] { run() } else { driver.thread_pool.install(run) };
        let outcome = outcome.map_err(|error| self.failure_of(&error))?;
        let mut tables = driver.tables();
        outcome.written_ranges.iter().for_each(|(start, end)| tables.allocations.record_write(*start, end - start));
        drop(tables);
        self.report_findings(&outcome.findings, driver)?;
        match outcome.failure {
            Some(fault) => Err(self.failure_of(&fault)),
            None => Ok(()),
        }
    }

    /// Executes a kernel of PTX with the simulator.
    fn run_ptx(&self, library: &Library, module: &ptx::Module, text: &str, driver: &Driver) -> Result<()> {
        let failure_of_simulator = |fault: Box<simulator::Fault>| self.failure_of(&fault.diagnostic("the module's PTX", text));
        let block = if self.function.block.is_some() { None } else { Some(self.block) };
        let program = library.program(&self.function.name, block, self.dynamic_shared_bytes)?;
        if self.cluster != [1; 3] && self.cluster != program.cluster_dim {
            let what = format!("'{}': a cluster of {:?} CTAs that the kernel does not declare", self.function.name, self.cluster);
            return Err(Status::NotSupported.because(what));
        }
        let values: Vec<i64> = self.function.params.iter().map(|param| param.extended_value(&self.param_data)).collect();
        let mut params = self.param_data.clone();
        params.resize(program.param_bytes as usize, 0);
        let params = simulator::hidden::fill_hidden_parameters(&program, module, &values, params, Default::default());
        let params = params.map_err(|error| self.failure_of(&error))?;
        let options = Options {
            delivery: Delivery::Early,
            races: if driver.config.findings_fail { Races::Error } else { Races::Warn },
            seed: None,
            instruction_limit: u64::MAX,
            deadline: self.deadline(driver),
            mode: ExecutionMode::Full,
        };
        let mut global = driver.tables().allocations.simulator_memory(&self.host_ranges);
        // Device memory contains the variables of the module. Variables of functions start with their initial contents.
        let is_in_device_memory =
            |name: &str, address| library.variables.find(name).is_some_and(|placed| placed.address == address);
        for variable in program.globals.iter().filter(|variable| !is_in_device_memory(&variable.name, variable.address)) {
            global.add(&format!("variable {}", variable.name), variable.address, variable.data.clone());
        }
        let mut machine = Machine::new(&program, options, self.grid, params, global);
        let result = driver.thread_pool.install(|| machine.run());
        print_output(&String::from_utf8_lossy(&machine.printed));
        result.map_err(failure_of_simulator)?;
        if !driver.config.checks.is_empty() {
            let found = machine.race.iter().chain(&machine.violations);
            let findings: Vec<Diagnostic> = found.map(|fault| *fault.diagnostic("the module's PTX", text)).collect();
            self.report_findings(&findings, driver)?;
        }
        Ok(())
    }

    /// Returns the time at which the executors stop the launch, if the configuration has a time limit.
    fn deadline(&self, driver: &Driver) -> Option<Instant> {
        driver.config.time_limit.map(|limit| Instant::now() + limit)
    }

    /// Converts a fault that an executor found to the failure of the launch.
    fn failure_of(&self, fault: &Diagnostic) -> Failure {
        let Failure { status, message } = failure_from(status_of_fault(fault), fault);
        status.because(format!("kernel '{}': {}", self.function.name, message.unwrap_or_default()))
    }

    /// Reports the findings of the checks. Returns an error for the first finding if findings fail the launch.
    fn report_findings(&self, findings: &[Diagnostic], driver: &Driver) -> Result<()> {
        for finding in findings {
            let mut finding = finding.clone();
            finding.severity = if driver.config.findings_fail { Severity::Error } else { Severity::Warning };
            driver.report.report_finding(&self.function.name, &finding);
        }
        match findings.first() {
            Some(first) if driver.config.findings_fail => {
                let Failure { message, .. } = failure_from(Status::LaunchFailed, first);
                Err(Status::LaunchFailed.because(format!("kernel '{}': {}", self.function.name, message.unwrap_or_default())))
            }
            _ => Ok(()),
        }
    }
}

impl Param {
    /// Returns the value in 64 bits: integers are sign-extended, all other values are zero-extended.
    fn extended_value(&self, param_data: &[u8]) -> i64 {
        let bytes = &param_data[self.offset as usize..][..(self.bytes as usize).min(8)];
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let value = i64::from_le_bytes(word);
        let unused_bits = 64 - 8 * bytes.len() as u32;
        match &self.ty {
            Some(ParamType::Scalar(scalar)) if !scalar.is_float() => value << unused_bits >> unused_bits,
            _ => value,
        }
    }
}

/// Writes the output of a kernel's print ops to standard output. Ignores errors, so that the launch continues if standard output is
/// closed.
fn print_output(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
