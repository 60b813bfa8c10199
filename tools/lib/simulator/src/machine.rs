//! The grid: clusters of CTAs of warps, and their scheduling.
//!
//! A warp runs until it waits or its time slice ends. Clusters run one after another. If the resident clusters make no progress,
//! the machine admits another cluster, so kernels whose clusters wait for each other complete. The schedule is deterministic;
//! `--schedule-seed` selects another schedule.

mod cluster_ids;
mod time_slices;

use crate::address_space::map_to_cta;
use crate::barrier_state::{Barrier, ClusterBarrier, Mbarrier};
use crate::fault::{Fault, Result};
use crate::happens_before::{Actor, HappensBefore};
use crate::in_flight_work::{Pending, WarpGroupMmas};
use crate::lanes::{Lanes, WARP_SIZE};
use crate::memory::DeviceGlobalMemory;
use crate::program::{LaneMask, Program, Special};
use crate::record::Recorder;
use crate::shared::CtaSharedMemory;
use crate::tmem::Tmem;
use crate::traffic::Traffic;
use crate::warp::Warp;
pub(crate) use cluster_ids::ClusterIds;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// Maximum number of instructions that a warp executes before the next warp runs.
const TIME_SLICE: u32 = 200;
/// Warp instructions after which the machine admits another cluster although the resident clusters make progress. Reason: their
/// progress may be a loop that polls a flag of a cluster that is not resident.
const ADMISSION_INTERVAL: u64 = 20_000_000;
/// Fault code for exceeding the instruction limit.
const INSTRUCTION_LIMIT_FAULT: &str = "SIM041";
/// Maximum number of resident clusters.
const MAX_RESIDENT_CLUSTERS: usize = 64;
/// Maximum host memory of all resident clusters together, in bytes.
const MAX_RESIDENT_BYTES: u64 = 4 << 30;

/// The time at which asynchronous work takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Asynchronous work completes at its issue.
    Early,
    /// Asynchronous work completes when its issuer waits for it, or when no warp can continue.
    Late,
}

/// The treatment of unordered shared-memory accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Races {
    Error,
    Warn,
    Ignore,
}

/// Selects the computations and checks of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionMode {
    /// Computes MMAs, and checks the order of fences and the use of undefined values.
    Full,
    /// Computes no MMAs, and does not check fences and undefined values. Reason: a timing run needs neither.
    TimingOnly,
}

/// The options of a run.
#[derive(Clone, Copy)]
pub struct Options {
    pub delivery: Delivery,
    pub races: Races,
    /// Seed of a pseudo-random schedule of the warps. `None`: the warps run in order of CTA and warp index.
    pub seed: Option<u64>,
    /// The run fails after this number of warp instructions.
    pub instruction_limit: u64,
    /// The run fails after this time. `None`: the run has no time limit.
    pub deadline: Option<Instant>,
    pub mode: ExecutionMode,
}

/// The simulated GPU: a launch of one kernel, with its memory, its counters and its faults.
pub struct Machine<'p> {
    pub(crate) program: &'p Program,
    pub(crate) options: Options,
    pub global: DeviceGlobalMemory,
    pub(crate) params: Vec<u8>,
    /// The text that the program printed with `vprintf`.
    pub printed: Vec<u8>,
    /// Execution count of each instruction.
    pub(crate) execution_counts: Vec<u64>,
    /// For each instruction, how often a warp executed it and took the branch in at least one lane.
    pub(crate) branches_taken: Vec<u64>,
    /// Total number of executed warp instructions.
    pub(crate) warp_instructions: u64,
    /// Failed mbarrier waits of each instruction.
    pub(crate) failed_waits: Vec<u64>,
    pub(crate) grid: [u32; 3],
    /// The clusters that are not launched yet.
    pub(crate) unlaunched: ClusterIds,
    pub(crate) recorder: Option<Box<Recorder>>,
    random_state: u64,
    /// The index of the current instruction.
    pub(crate) pc: u32,
    /// The line of the current instruction in the PTX text.
    line: u32,
    /// Memory traffic of each instruction. Empty if the machine does not count traffic.
    pub(crate) traffic: Vec<Traffic>,
    /// The first race, if races are not errors.
    pub race: Option<Box<Fault>>,
    /// Violations of rules that NVIDIA's compilers do not follow, one for each fault code. Empty if these violations are errors.
    pub violations: Vec<Box<Fault>>,
}

/// A resident cluster.
pub(crate) struct Cluster {
    pub(crate) ctas: Vec<Cta>,
    pub(crate) barrier: ClusterBarrier,
    pub(crate) happens_before: HappensBefore,
    /// Asynchronous work in flight, oldest first.
    pub(crate) pending: VecDeque<Pending>,
    id: [u32; 3],
}

/// A resident CTA.
pub(crate) struct Cta {
    /// The rank of the CTA in its cluster.
    pub(crate) rank: u32,
    pub(crate) shared: CtaSharedMemory,
    pub(crate) barriers: [Barrier; 16],
    pub(crate) mbarriers: BTreeMap<u32, Mbarrier>,
    pub(crate) tmem: Tmem,
    pub(crate) warps: Vec<Warp>,
    /// For each warp, the value of `CtaSharedMemory::write_count` at its last fence between the generic and the async proxy.
    pub(crate) proxy_fence_times: Vec<u32>,
    /// The `wgmma` instructions that each warp group has issued.
    pub(crate) warp_groups: BTreeMap<usize, WarpGroupMmas>,
}

impl<'p> Machine<'p> {
    /// Prepares a launch of a program. `params` has the bytes of the parameters.
    pub fn new(program: &'p Program, options: Options, grid: [u32; 3], params: Vec<u8>, global: DeviceGlobalMemory) -> Self {
        let random_state = options.seed.map_or(0, |seed| seed.wrapping_mul(2).wrapping_add(1));
        let (execution_counts, branches_taken) = (vec![0; program.code.len()], vec![0; program.code.len()]);
        Machine {
            program,
            options,
            global,
            params,
            printed: Vec::new(),
            execution_counts,
            branches_taken,
            warp_instructions: 0,
            failed_waits: vec![0; program.code.len()],
            grid,
            unlaunched: ClusterIds::default(),
            recorder: None,
            random_state,
            pc: 0,
            line: 0,
            traffic: Vec::new(),
            race: None,
            violations: Vec::new(),
        }
    }

    /// Reports a violation of a rule that NVIDIA's compilers do not follow. The violation is an error only with [`Races::Error`].
    pub(crate) fn report_violation(&mut self, fault: Box<Fault>) -> Result<()> {
        if self.options.races == Races::Error {
            return Err(fault);
        }
        if self.violations.iter().all(|known| known.code != fault.code) {
            self.violations.push(fault.line(self.line));
        }
        Ok(())
    }

    /// Enables traffic counts per instruction for the report.
    pub fn count_traffic(&mut self) {
        self.traffic = vec![Traffic::default(); self.program.code.len()];
    }

    /// Runs the complete grid.
    pub fn run(&mut self) -> Result<()> {
        let all = self.cluster_ids()?;
        if all.end > 1 << 26 {
            return Err(Fault::unsupported(format!("a grid of {} clusters", all.end)));
        }
        self.run_chunks(all)
    }

    /// Runs the clusters that contain the CTAs at the given positions. If the grid counts clusters, the positions are cluster
    /// positions.
    pub fn run_blocks(&mut self, positions: &[[u32; 3]]) -> Result<()> {
        let all = self.cluster_ids()?;
        let numbers = self.cluster_numbers(positions)?;
        self.run_chunks(ClusterIds { end: numbers.len() as u64, selected: Some(numbers.into()), ..all })
    }

    /// Returns the numbers of the clusters that contain the positions, without repetition. Cluster numbers count along x first. The
    /// positions have the meaning of the positions of [`Machine::run_blocks`].
    pub fn cluster_numbers(&self, positions: &[[u32; 3]]) -> Result<Vec<u64>> {
        let all = self.cluster_ids()?;
        let size = if self.program.grid_of_clusters { [1; 3] } else { self.program.cluster_dim };
        let mut numbers: Vec<u64> = Vec::new();
        for position in positions {
            let [x, y, z]: [u64; 3] = std::array::from_fn(|axis| u64::from(position[axis] / size[axis]));
            let number = (z * u64::from(all.extent[1]) + y) * u64::from(all.extent[0]) + x;
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        Ok(numbers)
    }

    /// Runs the given clusters of the grid.
    pub(crate) fn run_clusters(&mut self, clusters: ClusterIds) -> Result<()> {
        self.unlaunched = clusters;
        let max_resident_clusters = self.max_resident_clusters()?;
        let mut running: Vec<Cluster> = Vec::new();
        let mut last_admission = 0;
        loop {
            let is_admission_due =
                self.warp_instructions - last_admission > ADMISSION_INTERVAL && running.len() < max_resident_clusters;
            if (running.is_empty() || is_admission_due)
                && let Some(id) = self.unlaunched.next()
            {
                running.push(self.new_cluster(id));
                last_admission = self.warp_instructions;
            }
            if running.is_empty() {
                return Ok(());
            }
            let mut progress = false;
            for cluster in &mut running {
                progress |= self.run_time_slices(cluster).map_err(|fault| self.unlaunched.add_progress_note(fault))?;
            }
            for cluster in running.iter_mut().filter(|cluster| cluster.is_done()) {
                // No warp waits for the remaining asynchronous work, but its stores must reach memory.
                while self.complete_oldest(cluster)? {}
                if let Some(cta) = cluster.ctas.iter().find(|cta| cta.tmem.is_allocated()) {
                    return Err(Fault::new("SIM083", format!("CTA {} ends without freeing its tensor memory", cta.rank)));
                }
                self.race = self.race.take().or(cluster.happens_before.first_fault.take());
                for fault in cluster.ctas.iter_mut().filter_map(|cta| cta.shared.first_unfenced.take()) {
                    self.report_violation(fault)?;
                }
            }
            running.retain(|cluster| !cluster.is_done());
            for cluster in &mut running {
                progress |= !progress && self.complete_oldest(cluster)?;
            }
            if progress || running.is_empty() {
                continue;
            }
            match self.unlaunched.next() {
                Some(id) if running.len() < max_resident_clusters => running.push(self.new_cluster(id)),
                _ => return Err(deadlock_fault(self.program, &running)),
            }
        }
    }

    /// Creates a machine that runs a chunk of the grid on a copy of global memory. The copy records which bytes it writes.
    pub(crate) fn machine_for_chunk(&self, chunk_index: u64) -> Machine<'p> {
        let seed = self.options.seed.map(|seed| seed.wrapping_add(chunk_index << 32));
        let options = Options { seed, ..self.options };
        let traffic = self.traffic.clone();
        Machine {
            traffic,
            ..Machine::new(self.program, options, self.grid, self.params.clone(), self.global.with_tracked_writes())
        }
    }

    /// Merges the results of the machine that ran a chunk into this machine: memory writes, printed text, counters and faults.
    pub(crate) fn merge_chunk(&mut self, chunk: Machine) {
        self.global.apply_tracked_writes(&chunk.global);
        self.printed.extend(chunk.printed);
        self.warp_instructions += chunk.warp_instructions;
        self.race = self.race.take().or(chunk.race);
        for fault in chunk.violations {
            if self.violations.iter().all(|known| known.code != fault.code) {
                self.violations.push(fault);
            }
        }
        let add = |to: &mut Vec<u64>, from: Vec<u64>| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        add(&mut self.execution_counts, chunk.execution_counts);
        add(&mut self.branches_taken, chunk.branches_taken);
        add(&mut self.failed_waits, chunk.failed_waits);
        self.traffic.iter_mut().zip(&chunk.traffic).for_each(|(to, from)| to.add(from));
    }

    /// Returns the upper bound on resident clusters for this program.
    fn max_resident_clusters(&self) -> Result<usize> {
        let program = self.program;
        let warps = u64::from(program.cta_threads.div_ceil(32));
        let ctas = u64::from(program.cluster_dim.iter().product::<u32>());
        let register_bytes = u64::from(program.slot_count) * 8 * WARP_SIZE as u64;
        // The happens-before analysis stores the last read of each word by each warp.
        let happens_before_bytes = u64::from(program.shared_bytes) * 2 * (warps * ctas + 2).min(64);
        let warp_bytes = register_bytes + u64::from(program.local_bytes) * WARP_SIZE as u64;
        match MAX_RESIDENT_BYTES / (ctas * (warps * warp_bytes + u64::from(program.shared_bytes) + happens_before_bytes)).max(1) {
            0 => Err(Fault::unsupported("a cluster whose registers and local memory exceed 4 GiB")),
            count => Ok(MAX_RESIDENT_CLUSTERS.min(count as usize)),
        }
    }

    /// Returns the ids of all clusters of the grid, in launch order.
    pub(crate) fn cluster_ids(&self) -> Result<ClusterIds> {
        let size = self.program.cluster_dim;
        let divide = |axis: usize| -> Result<u32> {
            if self.program.grid_of_clusters {
                return Ok(self.grid[axis]);
            }
            match self.grid[axis] % size[axis] {
                0 => Ok(self.grid[axis] / size[axis]),
                _ => Err(Fault::new("SIM002", format!("a grid of {:?} is not a multiple of the cluster size {size:?}", self.grid))),
            }
        };
        let [x, y, z] = [divide(0)?, divide(1)?, divide(2)?];
        let total = [x, y, z].iter().try_fold(1u64, |total, extent| total.checked_mul(u64::from(*extent)));
        let total = total.ok_or_else(|| Fault::unsupported(format!("a grid of {:?}", self.grid)))?;
        Ok(ClusterIds { extent: [x, y, z], selected: None, next: 0, end: total })
    }

    /// Creates the state of a cluster: its CTAs with their memory and warps.
    pub(crate) fn new_cluster(&mut self, id: [u32; 3]) -> Cluster {
        let size = self.program.cluster_dim;
        let count = size.iter().product::<u32>();
        let warps = self.program.cta_threads.div_ceil(32) as usize;
        let ctas = (0..count).map(|rank| {
            let position_in_cluster = [rank % size[0], rank / size[0] % size[1], rank / (size[0] * size[1])];
            let memory = match self.program.cta_memory_bytes {
                0 => None,
                bytes => self.global.allocate(bytes, 128),
            };
            let cta_position = CtaPosition { id, position_in_cluster, rank, size, memory: memory.unwrap_or(0) };
            let warps = (0..warps).map(|warp| {
                let threads = self.program.cta_threads - warp as u32 * 32;
                let mut new_warp =
                    Warp::new(self.program, warp, threads, |special| self.special_value(special, warp, &cta_position));
                if self.options.mode == ExecutionMode::TimingOnly {
                    new_warp.assume_defined();
                }
                new_warp
            });
            let warps: Vec<Warp> = warps.collect();
            Cta {
                rank,
                shared: CtaSharedMemory::new(self.program.shared_bytes, self.options.races != Races::Error),
                barriers: Default::default(),
                mbarriers: BTreeMap::new(),
                tmem: Tmem::default(),
                proxy_fence_times: vec![0; warps.len()],
                warp_groups: BTreeMap::new(),
                warps,
            }
        });
        Cluster { ctas: ctas.collect(), id, happens_before: self.new_happens_before(count as usize), ..Cluster::empty() }
    }

    /// Returns the value of a special register in each lane of a warp.
    fn special_value(&self, special: Special, warp: usize, cta_position: &CtaPosition) -> Lanes {
        let size = cta_position.size;
        let clusters = |axis: usize| {
            if self.program.grid_of_clusters { self.grid[axis] } else { self.grid[axis] / size[axis] }
        };
        let value = |dimension: u8, axis_value: &dyn Fn(usize) -> u32| [u64::from(axis_value(dimension.into())); WARP_SIZE];
        match special {
            Special::Tid(dimension) => {
                let [x, y, z] = self.program.block_dim;
                let (stride, extent) = [(1, x), (x, y), (x * y, z)][usize::from(dimension)];
                std::array::from_fn(|lane| u64::from((warp * 32 + lane) as u32 / stride % extent))
            }
            Special::Ntid(dimension) => value(dimension, &|axis| self.program.block_dim[axis]),
            Special::Zero => [0; WARP_SIZE],
            Special::One => [1; WARP_SIZE],
            Special::Ctaid(dimension) => {
                value(dimension, &|axis| cta_position.id[axis] * size[axis] + cta_position.position_in_cluster[axis])
            }
            Special::Nctaid(dimension) => value(dimension, &|axis| clusters(axis) * size[axis]),
            Special::ClusterId(dimension) => value(dimension, &|axis| cta_position.id[axis]),
            Special::NclusterId(dimension) => value(dimension, &clusters),
            Special::ClusterCtaid(dimension) => value(dimension, &|axis| cta_position.position_in_cluster[axis]),
            Special::ClusterNctaid(dimension) => value(dimension, &|axis| size[axis]),
            Special::ClusterCtarank => [cta_position.rank.into(); WARP_SIZE],
            Special::ClusterNctarank => [size.iter().product::<u32>().into(); WARP_SIZE],
            Special::SharedAddress(address) => [map_to_cta(address.into(), cta_position.rank.into()); WARP_SIZE],
            Special::LaneId => std::array::from_fn(|lane| lane as u64),
            Special::WarpId => [warp as u64; WARP_SIZE],
            Special::NwarpId => [self.program.cta_threads.div_ceil(32).into(); WARP_SIZE],
            Special::LaneMask(relation) => std::array::from_fn(|lane| {
                let (eq, lt) = (1u32 << lane, (1u32 << lane) - 1);
                u64::from(match relation {
                    LaneMask::Eq => eq,
                    LaneMask::Le => lt | eq,
                    LaneMask::Lt => lt,
                    LaneMask::Ge => !lt,
                    LaneMask::Gt => !(lt | eq),
                })
            }),
            Special::SharedSize => [self.program.shared_bytes.into(); WARP_SIZE],
            Special::DynamicShared => [self.program.dynamic_shared_bytes.into(); WARP_SIZE],
            Special::CtaMemory => [cta_position.memory; WARP_SIZE],
            Special::CtaMemorySize => [self.program.cta_memory_bytes; WARP_SIZE],
        }
    }

    /// Returns the happens-before analysis of a new cluster. The analysis is off if races are ignored, or after the first recorded
    /// race.
    fn new_happens_before(&self, ctas: usize) -> HappensBefore {
        match self.options.races {
            _ if self.race.is_some() => HappensBefore::default(),
            Races::Ignore => HappensBefore::default(),
            Races::Warn => HappensBefore::new(self.program, ctas, true),
            Races::Error => HappensBefore::new(self.program, ctas, false),
        }
    }
    /// Returns the traffic counter of the current instruction. `None` if the machine does not count traffic.
    #[inline]
    pub(crate) fn traffic(&mut self) -> Option<&mut Traffic> {
        self.traffic.get_mut(self.pc as usize)
    }
    /// Returns the warp and the PTX line of the current instruction, for the happens-before analysis.
    pub(crate) fn actor(&self, cta: usize, warp: &Warp) -> Actor {
        Actor { cta, warp: warp.index, line: self.line }
    }
}

/// The position of a CTA, from which the values of special registers follow.
struct CtaPosition {
    /// The position of the cluster in the grid.
    id: [u32; 3],
    /// The position of the CTA in its cluster.
    position_in_cluster: [u32; 3],
    /// The rank of the CTA in its cluster.
    rank: u32,
    /// CTAs per cluster along x, y and z.
    size: [u32; 3],
    /// Address of the CTA's private global memory; 0 if there is none.
    memory: u64,
}

impl Cluster {
    /// Returns a cluster without CTAs.
    pub(crate) fn empty() -> Cluster {
        Cluster {
            ctas: Vec::new(),
            barrier: ClusterBarrier::default(),
            happens_before: HappensBefore::default(),
            pending: VecDeque::new(),
            id: [0; 3],
        }
    }
    /// Returns whether all CTAs have ended.
    pub(crate) fn is_done(&self) -> bool {
        self.ctas.iter().all(Cta::is_done)
    }
}

impl Cta {
    /// Returns whether all warps have ended.
    pub(crate) fn is_done(&self) -> bool {
        self.warps.iter().all(Warp::is_done)
    }
}

/// Returns the deadlock fault, with a note for each waiting group of lanes and its reason. The list ends after 41 notes.
fn deadlock_fault(program: &Program, running: &[Cluster]) -> Box<Fault> {
    let mut fault = Fault::new("SIM040", "deadlock: no warp can continue");
    for cluster in running {
        for cta in &cluster.ctas {
            for warp in &cta.warps {
                for split in &warp.splits {
                    let line = program.code.get(split.pc as usize).map_or(0, |instr| instr.line);
                    let wait = split.wait.as_ref().map_or("nothing".into(), ToString::to_string);
                    let lanes = if split.mask == u32::MAX {
                        String::new()
                    } else {
                        format!(" lanes {}", crate::fault::lane_list(split.mask))
                    };
                    fault = fault.note(format!(
                        "cluster {:?} cta {} warp {}{lanes}, line {line}, waits for {wait}",
                        cluster.id, cta.rank, warp.index
                    ));
                    if fault.line == 0 {
                        fault.line = line;
                    }
                    if fault.notes.len() > 40 {
                        return fault;
                    }
                }
            }
        }
    }
    fault
}
