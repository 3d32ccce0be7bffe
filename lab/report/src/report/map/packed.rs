//! Packed form of a map in an HTML page: differences between moments, compressed.
//!
//! A cell has seven bytes: its type, then its pages in use, movable pages and owner, each with the lower byte first.
//! The bytes of all cells at one position form a plane. Each plane of a moment is combined by exclusive or with the
//! same plane of the moment before. Most of memory does not change between moments, so nearly all bytes are zero and
//! compress well; 64 moments of 64 GiB fit in a page.

use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::frames::Run;
use super::picture::{DIFFERENCE_COLORS, FAINTEST, Layout, OWNER_COLORS, SMALLEST_DIFFERENCE, TYPE_COLORS};
use super::{Cell, FrameState, MemoryMap, Side, Sums, TYPES};

/// Bytes of a cell.
const PLANES: usize = 7;

/// Packs a map for the script of the page.
pub fn pack(map: &MemoryMap) -> Value {
    let (differing, opening) = (map.differing(), map.opening());
    json!({
        "of": map.of,
        "types": TYPES,
        "colors": {
            "types": TYPE_COLORS,
            "owners": OWNER_COLORS,
            "difference": DIFFERENCE_COLORS,
            "faintest": FAINTEST,
            "smallest": SMALLEST_DIFFERENCE,
        },
        "layout": Layout::new(map),
        "opening": [opening.moment, opening.block],
        "differ": map.difference_counts(),
        "block_pages": map.block_pages,
        "stretches": map.stretches,
        "moments": map.moments,
        "states": FrameState::ALL.map(FrameState::about),
        "sides": map.sides.iter().map(|side| pack_side(side, &differing)).collect::<Vec<_>>(),
        "differing": differing,
    })
}

fn pack_side(side: &Side, differing: &[usize]) -> Value {
    let frames: Vec<Vec<[u16; 3]>> = differing.iter().map(|&block| runs(side, block)).collect();
    let sums: Vec<Sums> = side.cells.iter().map(|cells| Sums::from_cells(cells)).collect();
    json!({
        "name": side.name,
        "command": side.command,
        "cells": BASE64_STANDARD.encode(squeezed(&side.cells)),
        "sums": sums,
        "frames": frames,
    })
}

/// Returns the state, the order and the number of pages of each run.
fn runs(side: &Side, block: usize) -> Vec<[u16; 3]> {
    let runs = side.frames.get(block as u32).unwrap_or_default();
    runs.iter().map(|&Run { state, order, pages }| [state as u16, u16::from(order), pages]).collect()
}

fn squeezed(moments: &[Vec<Cell>]) -> Vec<u8> {
    let mut squeezed = GzEncoder::new(Vec::new(), Compression::default());
    let mut before = Vec::new();
    for cells in moments {
        let now = planes(cells);
        before.resize(now.len(), 0);
        let changed: Vec<u8> = now.iter().zip(&before).map(|(now, before)| now ^ before).collect();
        squeezed.write_all(&changed).expect("a write to memory cannot fail");
        before = now;
    }
    squeezed.finish().expect("a write to memory cannot fail")
}

fn planes(cells: &[Cell]) -> Vec<u8> {
    let mut bytes = vec![0; cells.len() * PLANES];
    for (at, cell) in cells.iter().enumerate() {
        let numbers = [cell.used, cell.movable, cell.owner].map(u16::to_le_bytes);
        for (plane, byte) in [cell.migratetype].iter().chain(numbers.as_flattened()).enumerate() {
            bytes[plane * cells.len() + at] = *byte;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn packed_cells_round_trip() {
        let cell = |used| Cell { migratetype: 1, used, movable: 300, owner: 2 };
        let moments = vec![vec![cell(511), cell(7)], vec![cell(511), cell(258)]];
        let mut bytes = Vec::new();
        GzDecoder::new(squeezed(&moments).as_slice()).read_to_end(&mut bytes).unwrap();
        let (first, second) = bytes.split_at(2 * PLANES);
        assert_eq!(first, [1, 1, 255, 7, 1, 0, 44, 44, 1, 1, 2, 2, 0, 0], "planes, the lower byte first");
        assert_eq!(second, [0, 0, 0, 7 ^ 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], "only what changed");
    }

    #[test]
    fn map_of_a_large_machine_stays_below_8_mb() {
        // 64 GiB of memory; one pageblock in eight changes at each moment.
        let cells = |moment: usize| {
            let of = |block: usize| Cell {
                migratetype: (block % 3) as u8,
                used: ((block * 7919 + if block % 8 == moment % 8 { moment * 31 } else { 0 }) % 513) as u16,
                movable: 0,
                owner: (block % 5) as u16,
            };
            (0..32_768).map(of).collect::<Vec<_>>()
        };
        let moments: Vec<_> = (0..super::super::MOMENTS_MAX).map(cells).collect();
        let size = squeezed(&moments).len() * 4 / 3;
        assert!(2 * size < 8_000_000, "{size} bytes a side");
    }
}
