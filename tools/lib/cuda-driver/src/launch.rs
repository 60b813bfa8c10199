//! One launch: checks its configuration, reads its parameters and executes the kernel.

use crate::allocations::HostRange;
use crate::device::{MAX_BLOCK, MAX_GRID, MAX_THREADS};
use crate::driver::Driver;
use crate::module::{Function, Library, Param, Source, rejected};
use crate::status::{Failure, Result, Status, of_fault};
use base::diag::{Diagnostic, Severity};
use common::launch::ParamType;
use executor::{Input, NoopObserver, Request, Watch};
use simulator::{Delivery, Machine, Options, Races};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A launch with copies of its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) function: Arc<Function>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) dynamic_shared: u32,
    /// The cluster that the launch requests, for a kernel that declares none.
    pub(crate) cluster: [u32; 3],
    /// The bytes of the visible parameters at their offsets.
    pub(crate) params: Vec<u8>,
    /// Memory of the host program that the launch may access.
    pub(crate) host: Vec<HostRange>,
}

/// The values of `extra` that the driver API defines.
const BUFFER_END: usize = 0;
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;

/// Copies the parameters of a launch: from `params`, one pointer for each, or from the buffer that `extra` describes.
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
            let place = &mut out[param.offset as usize..][..param.bytes as usize];
            // SAFETY: the pointer is valid for the size of the parameter.
            unsafe { std::ptr::copy_nonoverlapping(value.cast::<u8>(), place.as_mut_ptr(), place.len()) };
        }
        return Ok(out);
    }
    if extra.is_null() {
        let missing = format!("'{}' has {} parameters, but the launch passes none", function.name, function.params.len());
        return if end == 0 { Ok(out) } else { Err(Status::InvalidValue.because(missing)) };
    }
    let (mut buffer, mut size) = (std::ptr::null::<u8>(), 0usize);
    for pair in 0..2 {
        // SAFETY: the list ends with `BUFFER_END`, and each name before it has a value.
        let (name, value) = unsafe { (*extra.add(2 * pair) as usize, extra.add(2 * pair + 1)) };
        match name {
            BUFFER_END => break,
            // SAFETY: as above.
            BUFFER_POINTER => buffer = unsafe { *value }.cast(),
            // SAFETY: as above; the value points to the size.
            BUFFER_SIZE => size = unsafe { *(*value).cast::<usize>() },
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
    /// Checks the configuration against the device and the kernel.
    pub(crate) fn check(&self, driver: &Driver) -> Result<()> {
        let name = &self.function.name;
        let wrong = |what: String| Err(Status::InvalidValue.because(format!("'{name}': {what}")));
        if (0..3).any(|axis| self.grid[axis] == 0 || self.grid[axis] > MAX_GRID[axis]) {
            return wrong(format!("a grid of {:?}; each extent is at least 1 and at most {MAX_GRID:?}", self.grid));
        }
        let threads: u64 = self.block.iter().map(|extent| u64::from(*extent)).product();
        if (0..3).any(|axis| self.block[axis] == 0 || self.block[axis] > MAX_BLOCK[axis]) || threads > MAX_THREADS.into() {
            return wrong(format!("a CTA of {:?} threads", self.block));
        }
        if let Some(required) = self.function.block
            && self.block != required
            && self.block != [1; 3]
        {
            return wrong(format!("it requires CTAs of {required:?} threads, not {:?}", self.block));
        }
        let shared = u64::from(self.dynamic_shared) + u64::from(self.function.shared);
        if self.dynamic_shared > self.function.max_dynamic_shared.load(Ordering::Relaxed)
            || shared > driver.device.max_shared().into()
        {
            return wrong(format!("{shared} bytes of shared memory; the device has {}", driver.device.max_shared()));
        }
        Ok(())
    }

    /// Executes the kernel. The caller holds the execution lock.
    pub(crate) fn run(&self, driver: &Driver) -> Result<()> {
        let start = Instant::now();
        let result = match &self.function.library.source {
            Source::Program(input) => self.run_program(input, driver),
            Source::Ptx { module, text } => self.run_ptx(&self.function.library, module, text, driver),
        };
        driver.report.launched(&self.function.name, start.elapsed(), result.is_err());
        result
    }

    fn run_program(&self, input: &Input, driver: &Driver) -> Result<()> {
        let kernel = input.kernel(Some(&self.function.name)).map_err(|error| rejected(Status::InvalidImage, &error))?;
        let values = self.function.params.iter().map(|param| param.value(&self.params)).collect();
        let config = &driver.config;
        let (memory, unwritten) = {
            let tables = driver.tables();
            (tables.allocations.memory(&self.host), tables.allocations.unwritten())
        };
        let request = Request { grid: self.grid, blocks: None, values, uninitialised: BTreeSet::new(), unwritten };
        let watch = Watch { limit: u64::MAX, seed: 0, checks: config.checks.clone(), deadline: self.deadline(driver) };
        let run = || kernel.run_on(memory, &request, watch, &mut print, &mut NoopObserver);
        // A single tile block runs in the caller's thread: waking another one takes longer than a small kernel.
        let outcome = if self.grid == [1; 3] { run() } else { driver.threads.install(run) };
        let outcome = outcome.map_err(|error| self.fault(&error))?;
        let mut tables = driver.tables();
        outcome.written.iter().for_each(|(start, end)| tables.allocations.record_write(*start, end - start));
        drop(tables);
        self.report_findings(&outcome.findings, driver)?;
        match outcome.failure {
            Some(fault) => Err(self.fault(&fault)),
            None => Ok(()),
        }
    }

    fn run_ptx(&self, library: &Library, module: &ptx::Module, text: &str, driver: &Driver) -> Result<()> {
        let diagnostic = |fault: Box<simulator::Fault>| self.fault(&fault.diagnostic("the module's PTX", text));
        let block = if self.function.block.is_some() { None } else { Some(self.block) };
        let program = library.program(&self.function.name, block, self.dynamic_shared)?;
        if self.cluster != [1; 3] && self.cluster != program.cluster {
            let what = format!("'{}': a cluster of {:?} CTAs that the kernel does not declare", self.function.name, self.cluster);
            return Err(Status::NotSupported.because(what));
        }
        let values: Vec<i64> = self.function.params.iter().map(|param| param.value(&self.params)).collect();
        let mut params = self.params.clone();
        params.resize(program.param_bytes as usize, 0);
        let params = simulator::hidden::complete(&program, module, &values, params, Default::default());
        let params = params.map_err(|error| self.fault(&error))?;
        let options = Options {
            delivery: Delivery::Early,
            races: if driver.config.findings_fail { Races::Error } else { Races::Warn },
            seed: None,
            instruction_limit: u64::MAX,
            deadline: self.deadline(driver),
            check_rules: true,
        };
        let mut global = driver.tables().allocations.global(&self.host);
        for variable in &program.globals {
            global.add(&format!("variable {}", variable.name), variable.address, variable.data.clone());
        }
        let mut machine = Machine::new(&program, options, self.grid, params, global);
        let result = driver.threads.install(|| machine.run());
        print(&String::from_utf8_lossy(&machine.printed));
        result.map_err(diagnostic)?;
        if !driver.config.checks.is_empty() {
            let found = machine.race.iter().chain(&machine.breaches);
            let findings: Vec<Diagnostic> = found.map(|fault| *fault.diagnostic("the module's PTX", text)).collect();
            self.report_findings(&findings, driver)?;
        }
        Ok(())
    }

    fn deadline(&self, driver: &Driver) -> Option<Instant> {
        driver.config.time_limit.map(|limit| Instant::now() + limit)
    }

    fn fault(&self, fault: &Diagnostic) -> Failure {
        let Failure { status, message } = rejected(of_fault(fault), fault);
        status.because(format!("kernel '{}': {}", self.function.name, message.unwrap_or_default()))
    }

    /// Reports what the checks found. The launch fails if findings are errors.
    fn report_findings(&self, findings: &[Diagnostic], driver: &Driver) -> Result<()> {
        for finding in findings {
            let mut finding = finding.clone();
            finding.severity = if driver.config.findings_fail { Severity::Error } else { Severity::Warning };
            driver.report.finding(&self.function.name, &finding);
        }
        match findings.first() {
            Some(first) if driver.config.findings_fail => {
                let Failure { message, .. } = rejected(Status::LaunchFailed, first);
                Err(Status::LaunchFailed.because(format!("kernel '{}': {}", self.function.name, message.unwrap_or_default())))
            }
            _ => Ok(()),
        }
    }
}

impl Param {
    /// The value, extended to 64 bits by its type.
    fn value(&self, params: &[u8]) -> i64 {
        let bytes = &params[self.offset as usize..][..(self.bytes as usize).min(8)];
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let value = i64::from_le_bytes(word);
        let unused = 64 - 8 * bytes.len() as u32;
        match &self.ty {
            Some(ParamType::Scalar(scalar)) if !scalar.is_float() => value << unused >> unused,
            _ => value,
        }
    }
}

/// Prints the output of a kernel. The launch continues if standard output is closed.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
