//! The timing of asynchronous work: `cp.async` copies, TMA copies, `wgmma`, `tcgen05` MMAs and tensor-memory accesses.

use super::memory::{MemoryRequest, SECTOR_BYTES};
use super::{Engine, Run, SimEvent, StallReason};
use simulator::Event;
use simulator::program::{Op, Tcgen05CopyShape, WgmmaA};

impl Run<'_> {
    /// Executes a `cp.async` or bulk-copy instruction, or an instruction that commits copies or makes copies signal an mbarrier.
    pub(super) fn execute_copy(&mut self, index: usize, events: &[Event], op: &Op) {
        let (now, machine) = (self.now, self.setup.machine);
        let cta = self.warps[index].cta;
        let stream = self.warps[index].stream;
        let sm = self.ctas[cta].sm;
        let cluster_salt = (self.ctas[cta].cluster as u64) << 44;
        match op {
            Op::CopyAsync { .. } => {
                let mut done = now;
                for event in events {
                    match *event {
                        Event::Shared { wavefronts, .. } => {
                            let port = &mut self.sms[sm].smem_port_busy_until;
                            let start = port.max(now);
                            *port = start + f64::from(wavefronts);
                            self.statistics.add_engine_cycles(Engine::Port, wavefronts.into());
                        }
                        Event::Global { first, count, .. } => {
                            let lines = &stream.lines[first as usize..(first + count) as usize];
                            let memory = &mut self.sms[sm].memory;
                            let start = memory.tags_busy_until.max(now);
                            memory.tags_busy_until = start + f64::from(count);
                            let masks = &stream.sector_masks[first as usize..(first + count) as usize];
                            let bytes = SECTOR_BYTES * f64::from(masks.iter().map(|mask| mask.count_ones()).sum::<u32>());
                            let dram_bytes = memory.count_dram_bytes(lines, masks, cluster_salt);
                            let extra_latency = machine.copy.async_latency + memory.far_slice_latency(lines);
                            done = memory.request(start, bytes, dram_bytes, extra_latency, MemoryRequest::Load);
                        }
                        _ => {}
                    }
                }
                self.warps[index].copies.add(done, done);
            }
            Op::CopyCommit => self.warps[index].copies.commit(),
            Op::CopyArrive { .. } => {
                let done = self.warps[index].copies.completion_time().max(now);
                for event in events {
                    if let Event::CopyArrive { bar, count, increment } = *event {
                        let cta = self.cta_of_rank(cta, bar.0);
                        if increment {
                            self.expect_arrival(cta, bar.1, count);
                        }
                        self.push_event(done + machine.sync.arrive, SimEvent::Arrive { cta, address: bar.1, count });
                    }
                }
            }
            Op::Bulk(bulk) => {
                for event in events {
                    self.execute_bulk_copy(index, event, cluster_salt, bulk.tensor);
                }
            }
            Op::BulkCommit => self.warps[index].stores.commit(),
            _ => {}
        }
    }

    /// Issues a bulk copy to TMA. TMA processes the copies of all warps in order, and a tensor copy takes a fixed time per row.
    fn execute_bulk_copy(&mut self, index: usize, event: &Event, cluster_salt: u64, tensor: bool) {
        let Event::Bulk { to_shared, bytes, rows, lines, bars } = *event else { return };
        let (now, machine) = (self.now, self.setup.machine);
        let cta = self.warps[index].cta;
        let stream = self.warps[index].stream;
        let sm = self.ctas[cta].sm;
        let copy = &machine.copy;
        let row_cycles = if tensor { f64::from(rows) * copy.tma_row } else { 0.0 };
        let transfer_cycles = row_cycles.max(f64::from(bytes) / copy.tma_bytes);
        let start = self.sms[sm].tma_busy_until.max(now);
        self.sms[sm].tma_busy_until = start + transfer_cycles;
        // Each active lane issues its own copy. The issue interval delays only this warp: TMA accepts the copies of other warps.
        let warp = &mut self.warps[index];
        warp.next_bulk_copy = warp.next_bulk_copy.max(now) + copy.tma_issue;
        self.statistics.add_engine_cycles(Engine::Copy, transfer_cycles);
        let pc = self.current_pc(index);
        let lines = &stream.lines[lines.0 as usize..lines.1 as usize];
        let memory = &mut self.sms[sm].memory;
        let dram_bytes = 128.0 * memory.count_dram_lines_of_tma_tile(lines, cluster_salt);
        let moved_bytes = (128.0 * lines.len() as f64).min(f64::from(bytes).max(32.0 * lines.len() as f64));
        if !to_shared {
            memory.request(start, moved_bytes, dram_bytes.min(moved_bytes), 0.0, MemoryRequest::TmaStore);
            let read = start + transfer_cycles + copy.store_read;
            self.warps[index].stores.add(start + transfer_cycles + copy.store_done, read);
            self.record_span(Engine::Copy, cta, start, read, pc);
            return;
        }
        // The steps are serial: TMA requests its rows, memory responds, the interconnect transfers the data. The wake-up of the
        // waiting warp is subtracted, because the measured TMA latency includes it.
        let extra_latency = transfer_cycles + copy.tma_latency - machine.sync.wake + memory.far_slice_latency(lines);
        let done = memory
            .request(start, moved_bytes, dram_bytes.min(moved_bytes), extra_latency, MemoryRequest::TmaLoad)
            .max(start + transfer_cycles);
        self.record_span(Engine::Copy, cta, start, done, pc);
        let bars = &stream.bars[bars.0 as usize..bars.1 as usize];
        for &(rank, address) in bars {
            let target = self.cta_of_rank(cta, rank);
            self.push_event(done, SimEvent::Complete { cta: target, address, bytes });
        }
    }

    /// Executes an asynchronous MMA or a tensor-memory instruction. Returns when its result is ready, and the stall reason of
    /// instructions that wait for it.
    pub(super) fn execute_tensor(&mut self, index: usize, events: &[Event], op: &Op, ready: f64) -> (f64, StallReason) {
        let (now, machine) = (self.now, self.setup.machine);
        let cta = self.warps[index].cta;
        let sm = self.ctas[cta].sm;
        // Index of the SM sub-partition that runs the warp.
        let smsp = self.warps[index].index % 4;
        let tcgen05 = &machine.tcgen05;
        let pc = self.current_pc(index);
        match op {
            Op::Wgmma(op) => {
                let wgmma = &machine.wgmma;
                let n = op.n as f64;
                let cycles = match op.a {
                    WgmmaA::Shared(_) => (n * wgmma.column).max(wgmma.a_shared + n * wgmma.b_column),
                    WgmmaA::Registers(_) => (n * wgmma.column).max(n * wgmma.b_column).max(wgmma.registers_min),
                };
                let unit = &mut self.sms[sm].smsps[smsp].units[crate::cost::Unit::Tensor as usize];
                let start = unit.max(now);
                *unit = start + cycles;
                self.statistics.add_unit_cycles(crate::cost::Unit::Tensor, cycles);
                self.warps[index].mmas.add(start + cycles + wgmma.drain, start + cycles);
                // All four warps of the group record the MMA, so count its operand reads once. Operands are read in wavefronts of
                // 128 bytes. A has 64 rows of 32 bytes (16 wavefronts), and B has `n` rows of 32 bytes (`n / 4` wavefronts).
                if smsp == 0 {
                    self.statistics
                        .add_engine_cycles(Engine::Operands, if matches!(op.a, WgmmaA::Shared(_)) { 16.0 } else { 0.0 } + n * 0.25);
                    self.record_span(Engine::Tensor, cta, start, start + cycles, pc);
                }
            }
            Op::WgmmaCommit => self.warps[index].mmas.commit(),
            Op::Tcgen05Mma(op) => {
                for event in events {
                    let Event::Mma { m, n, a_in_tensor_memory } = *event else { continue };
                    let columns = f64::from(n);
                    let column_cycles = columns * tcgen05.column;
                    let (cycles, commit) = match (op.cta_pair, a_in_tensor_memory, m) {
                        (true, true, 256..) => (column_cycles, tcgen05.commit_pair_tensor),
                        (true, _, 256..) => {
                            (column_cycles.max(tcgen05.pair_base + columns * tcgen05.shared_column), tcgen05.commit_pair)
                        }
                        (true, ..) => {
                            let min_cycles = tcgen05.pair_small_base + columns * tcgen05.pair_small_column;
                            ((column_cycles / 2.0).max(min_cycles), tcgen05.commit_pair)
                        }
                        (false, true, _) => (column_cycles, tcgen05.commit_tensor),
                        (false, _, 128..) => {
                            (column_cycles.max(tcgen05.shared_base + columns * tcgen05.shared_column), tcgen05.commit)
                        }
                        (false, ..) => (column_cycles, tcgen05.commit_half),
                    };
                    let start = self.sms[sm].tensor_busy_until.max(now);
                    let mma_sms = if op.cta_pair { sm..=(sm + 1).min(self.sms.len() - 1) } else { sm..=sm };
                    for sm in mma_sms {
                        self.sms[sm].tensor_busy_until = start + cycles;
                        self.statistics.add_engine_cycles(Engine::Tensor, cycles);
                    }
                    (self.ctas[cta].tensor_end, self.ctas[cta].commit_latency) = (start + cycles, commit);
                    self.record_span(Engine::Tensor, cta, start, start + cycles, pc);
                }
            }
            Op::Tcgen05Copy { shape, .. } => {
                let bytes = match shape {
                    Tcgen05CopyShape::S128x256 => 4096.0,
                    Tcgen05CopyShape::S128x128 => 2048.0,
                    Tcgen05CopyShape::S4x256 | Tcgen05CopyShape::S32x128 => 512.0,
                    Tcgen05CopyShape::S64x128Warps02_13 | Tcgen05CopyShape::S64x128Warps01_23 => 1024.0,
                };
                let cycles = tcgen05.copy * bytes / 4096.0;
                let unit = &mut self.sms[sm].tensor_busy_until;
                *unit = unit.max(now) + cycles;
                self.ctas[cta].tensor_end = *unit;
            }
            Op::Tcgen05Commit { .. } => {
                let stream = self.warps[index].stream;
                let done = (self.ctas[cta].tensor_end + self.ctas[cta].commit_latency - machine.sync.wake).max(now);
                for event in events {
                    let Event::Commit { bars } = *event else { continue };
                    for &(rank, address) in &stream.bars[bars.0 as usize..bars.1 as usize] {
                        let target = self.cta_of_rank(cta, rank);
                        self.push_event(done, SimEvent::Arrive { cta: target, address, count: 1 });
                    }
                }
            }
            Op::TmemLoad { dst: slots, .. } | Op::TmemStore { src: slots, .. } => {
                // One register of each of the 32 lanes is as much data as one TMEM column of the warp, in every shape.
                let columns = slots.len() as f64;
                let port = &mut self.sms[sm].smsps[smsp].tmem_port_busy_until;
                let start = port.max(now);
                *port = start + columns * tcgen05.load_column;
                let done = *port + tcgen05.load_latency;
                self.statistics.add_engine_cycles(Engine::TensorMemory, columns * tcgen05.load_column);
                let warp = &mut self.warps[index];
                if matches!(op, Op::TmemLoad { .. }) {
                    warp.tensor_loads = warp.tensor_loads.max(done);
                    return (done, StallReason::TmemLoad);
                }
                warp.tensor_stores = warp.tensor_stores.max(done);
            }
            Op::Tcgen05Wait { .. } => {
                self.warps[index].earliest_issue += tcgen05.wait;
                self.warps[index].stall = StallReason::Fence;
            }
            Op::Tcgen05Allocate { .. } => {
                self.warps[index].earliest_issue += tcgen05.allocate;
                self.warps[index].stall = StallReason::Fence;
            }
            _ => {}
        }
        (ready, StallReason::Arithmetic)
    }
}
