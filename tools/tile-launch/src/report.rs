//! Builds the report of measured launch times, as text and as JSON.

use crate::driver::{Attribute, Device};
use crate::kernel::Kernel;
use base::diag::Result;
use common::launch::{Call, Work};
use serde::Serialize;
use std::fmt::Write;

/// The measured launches of one cubin. `registers` is the number of registers per thread.
#[derive(Serialize)]
pub(crate) struct CubinReport {
    file: String,
    kernel: String,
    registers: u32,
    /// The device time of each timed launch, in launch order.
    pub(crate) milliseconds: Vec<f32>,
    /// The median of `milliseconds`; `None` without timed launches.
    #[serde(skip_serializing_if = "Option::is_none")]
    median_milliseconds: Option<f32>,
}

/// The properties of a GPU, as the driver reports them.
#[derive(Serialize)]
pub(crate) struct Gpu {
    /// The name of the GPU.
    device: String,
    /// The CUDA version that the driver supports: 13010 for 13.1.
    driver: i32,
    compute_capability: [i32; 2],
    sms: i32,
    /// Maximum clock frequency in MHz.
    clock: f64,
    /// Peak bandwidth of the device memory in GB/s, computed with two transfers per cycle of the memory clock.
    memory: f64,
}

/// The report of one call of `tile-launch`.
#[derive(Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    gpu: Gpu,
    /// Number of tile blocks along each dimension.
    grid: [u32; 3],
    /// Floating-point operations and bytes that the launch description states.
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<Work>,
    cubins: Vec<CubinReport>,
}

impl CubinReport {
    /// Returns the report of a cubin before any timed launch.
    pub(crate) fn new(file: &str, kernel: &Kernel) -> CubinReport {
        CubinReport {
            file: file.into(),
            kernel: kernel.name.clone(),
            registers: kernel.registers,
            milliseconds: Vec::new(),
            median_milliseconds: None,
        }
    }
}

/// Returns the median of the times, or `None` if there are no times.
fn median(times: &[f32]) -> Option<f32> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f32::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count.is_multiple_of(2) => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
        _ => Some(sorted[middle]),
    }
}

/// Returns a report or the properties of a GPU as JSON.
pub(crate) fn json(report: &impl Serialize) -> String {
    serde_json::to_string_pretty(report).expect("numbers and text") + "\n"
}

impl Gpu {
    /// Queries the properties of a device from the driver.
    pub(crate) fn query(device: &Device) -> Result<Gpu> {
        let megahertz = |attribute| device.attribute(attribute).map(|kilohertz| f64::from(kilohertz) / 1e3);
        Ok(Gpu {
            device: device.name()?,
            driver: device.version,
            compute_capability: [device.attribute(Attribute::Major)?, device.attribute(Attribute::Minor)?],
            sms: device.attribute(Attribute::SmCount)?,
            clock: megahertz(Attribute::ClockKhz)?,
            memory: megahertz(Attribute::MemoryClockKhz)? * 2.0 * f64::from(device.attribute(Attribute::MemoryBusBits)?) / 8e3,
        })
    }
}

impl Report {
    /// Computes the median time of each cubin, and combines the measurements of all cubins with the properties of the GPU.
    pub(crate) fn new(device: &Device, call: &Call, mut cubins: Vec<CubinReport>) -> Result<Report> {
        cubins.iter_mut().for_each(|cubin_report| cubin_report.median_milliseconds = median(&cubin_report.milliseconds));
        Ok(Report { gpu: Gpu::query(device)?, grid: call.grid, work: call.launch.work.clone(), cubins })
    }

    /// Returns the report as text, a line per cubin.
    pub(crate) fn text(&self) -> String {
        let Gpu { device, driver, compute_capability: [major, minor], sms, .. } = &self.gpu;
        let mut out = format!("{device} ({major}.{minor}, {sms} SMs), driver for CUDA ");
        let _ = writeln!(out, "{}.{}", driver / 1000, driver % 1000 / 10);
        for cubin_report in &self.cubins {
            let _ = write!(out, "{} of {}", cubin_report.kernel, cubin_report.file);
            let Some(median) = cubin_report.median_milliseconds else {
                out += ": launched\n";
                continue;
            };
            let shortest = cubin_report.milliseconds.iter().copied().fold(f32::INFINITY, f32::min);
            let longest = cubin_report.milliseconds.iter().copied().fold(0.0, f32::max);
            let count = cubin_report.milliseconds.len();
            let _ = write!(out, ": median {median:.4} ms of {count} launches, {shortest:.4} to {longest:.4}");
            if let Some(work) = &self.work {
                let seconds = f64::from(median) / 1e3;
                let _ = write!(out, "; {:.2} TFLOP/s, {:.1} GB/s", work.flops / seconds / 1e12, work.bytes / seconds / 1e9);
            }
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_is_the_mean_of_the_middle_two() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
