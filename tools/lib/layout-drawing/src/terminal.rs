//! Draws a layout as text for a terminal, for `tile-dump --layout`.

use crate::layouts::{Holder, TileUse, first_holder};
use core_dialect::tile::element_count;
use tileas::Layout;
use tileas::layout::Strides;

/// Maximum number of rows that are drawn.
const MAX_ROWS: u32 = 64;
/// Maximum number of cells per row that are drawn.
const MAX_CELLS: usize = 10;

/// Draws the layout of a tile as text. For each register, lane and warp bit, the text shows the coordinate offset. For each
/// element, it shows the thread and register. Consecutive registers of one thread share a cell.
pub fn draw(name: &str, layout: &Layout, layout_use: &TileUse, colour: bool) -> String {
    let registers = layout.registers();
    let mut out =
        format!("layout {name} of {}: {} warps of 32 lanes, {registers} registers each\n", layout_use.describe(), layout.warps());
    for (input, bases) in [("register", &layout.register), ("lane", &layout.lane), ("warp", &layout.warp)] {
        let steps: Vec<String> = bases.iter().map(|basis| step_text(*basis, &layout_use.shape)).collect();
        out.push_str(&format!("  {input:8} bits move by {}\n", if steps.is_empty() { "nothing".into() } else { steps.join(" ") }));
    }
    let columns = layout_use.shape.last().copied().unwrap_or(1);
    let rows = (element_count(&layout_use.shape) as u32) / columns;
    for row in 0..rows.min(MAX_ROWS) {
        out.push_str(&format!("{:>8} |", coordinates_text(row * columns, &layout_use.shape)));
        let cells = cells(layout, row * columns, columns);
        for (holder, count) in cells.iter().take(MAX_CELLS) {
            out.push_str(&cell_text(*holder, *count, colour));
        }
        out.push_str(if cells.len() > MAX_CELLS { " ...\n" } else { "\n" });
    }
    if rows > MAX_ROWS {
        out.push_str(&format!("{} more rows\n", rows - MAX_ROWS));
    }
    out
}

/// Formats the coordinate offset of a basis; `copies` for a basis of 0, whose bit selects a thread or register with a copy.
fn step_text(basis: u32, shape: &[u32]) -> String {
    if basis == 0 { "copies".into() } else { format!("+{}", coordinates_text(basis, shape)) }
}

/// Formats the coordinates of an element.
fn coordinates_text(element: u32, shape: &[u32]) -> String {
    let strides = Strides::for_shape(shape);
    let coordinates: Vec<String> = (0..shape.len()).map(|dim| strides.coordinate(element, dim).to_string()).collect();
    format!("({})", coordinates.join(","))
}

/// Returns the cells of a row: the holder of the first element, and the number of consecutive registers of that thread.
fn cells(layout: &Layout, start: u32, columns: u32) -> Vec<(Holder, u32)> {
    let mut cells: Vec<(Holder, u32)> = Vec::new();
    for element in start..start + columns {
        let Some(element_holder) = first_holder(layout, element) else { continue };
        let row_is_full = cells.len() > MAX_CELLS;
        match cells.last_mut() {
            Some((first, count)) if Holder { register: first.register + *count, ..*first } == element_holder => *count += 1,
            _ if row_is_full => break,
            _ => cells.push((element_holder, 1)),
        }
    }
    cells
}

/// Formats a cell, with a colour for each warp.
fn cell_text(Holder { warp, lane, register }: Holder, count: u32, colour: bool) -> String {
    let registers = if count == 1 { format!("r{register}") } else { format!("r{register}-{}", register + count - 1) };
    let text = format!(" w{warp} l{lane:<2} {registers:6}|");
    // These six ANSI colours are readable on dark and on light backgrounds.
    if colour { format!("\x1b[{}m{text}\x1b[0m", 31 + warp % 6) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mma_fragment_is_drawn() {
        // The accumulator of mma.m16n8 in two warps; the second warp holds copies.
        let layout = Layout { register: vec![1, 64], lane: vec![2, 4, 8, 16, 32], warp: vec![0] };
        let layout_use = TileUse { shape: [16, 8].into_iter().collect(), elem: "f32".into(), count: 1 };
        let drawn = draw("#3", &layout, &layout_use, false);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[0], "layout #3 of 16x8xf32: 2 warps of 32 lanes, 4 registers each");
        assert_eq!(lines[1], "  register bits move by +(0,1) +(8,0)");
        assert_eq!(lines[3], "  warp     bits move by copies");
        assert_eq!(lines[4], "   (0,0) | w0 l0  r0-1  | w0 l1  r0-1  | w0 l2  r0-1  | w0 l3  r0-1  |");
        assert_eq!(lines[12], "   (8,0) | w0 l0  r2-3  | w0 l1  r2-3  | w0 l2  r2-3  | w0 l3  r2-3  |");
        assert_eq!(lines.len(), 20);
        assert!(draw("#3", &layout, &layout_use, true).contains("\x1b[31m"));
    }

    #[test]
    fn a_large_tile_is_truncated() {
        let layout = Layout::blocked(&(0..16).collect::<Vec<u32>>(), 3, 2);
        let layout_use = TileUse { shape: [256, 256].into_iter().collect(), elem: "f16".into(), count: 1 };
        let drawn = draw("#0", &layout, &layout_use, false);
        assert!(drawn.lines().count() == 4 + 64 + 1 && drawn.ends_with("192 more rows\n"), "{drawn}");
        assert!(drawn.lines().nth(4).is_some_and(|line| line.ends_with("r0-7  | ...")), "{drawn}");
    }
}
