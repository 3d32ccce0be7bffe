//! Figures that the author of the change published before this benchmark was built.

use freehold_object_loops::{Size, Work};

/// Cycles before and after the change, from Christoph Lameter's table (V1, 2014-12-10), CONFIG_PREEMPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PublishedFigures {
    /// Size of an object in bytes.
    bytes: usize,
    /// Allocation of each of 10000 objects.
    alloc: [u32; 2],
    /// Free of each of these objects.
    free: [u32; 2],
    /// An object allocated and freed at once.
    pair: [u32; 2],
}

/// The author's table.
pub(super) const LAMETER: [PublishedFigures; 12] = [
    PublishedFigures { bytes: 8, alloc: [68, 41], free: [107, 81], pair: [114, 100] },
    PublishedFigures { bytes: 16, alloc: [69, 47], free: [108, 88], pair: [115, 108] },
    PublishedFigures { bytes: 32, alloc: [78, 48], free: [112, 93], pair: [117, 101] },
    PublishedFigures { bytes: 64, alloc: [97, 58], free: [112, 89], pair: [115, 109] },
    PublishedFigures { bytes: 128, alloc: [111, 84], free: [119, 104], pair: [111, 125] },
    PublishedFigures { bytes: 256, alloc: [114, 92], free: [139, 125], pair: [116, 60] },
    PublishedFigures { bytes: 512, alloc: [110, 86], free: [142, 129], pair: [110, 60] },
    PublishedFigures { bytes: 1024, alloc: [114, 88], free: [156, 125], pair: [114, 67] },
    PublishedFigures { bytes: 2048, alloc: [155, 120], free: [174, 159], pair: [110, 60] },
    PublishedFigures { bytes: 4096, alloc: [203, 176], free: [209, 183], pair: [107, 65] },
    PublishedFigures { bytes: 8192, alloc: [361, 294], free: [265, 233], pair: [108, 60] },
    PublishedFigures { bytes: 16384, alloc: [597, 585], free: [286, 291], pair: [706, 686] },
];

/// Returns the cycles before and after the change, where the author measured them.
pub(super) fn lameter(work: Work, figure: usize, size: Size) -> Option<[u32; 2]> {
    let row = LAMETER.iter().find(|row| row.bytes == size.bytes())?;
    match (work, figure) {
        (Work::Fill, 0) => Some(row.alloc),
        (Work::Fill, 1) => Some(row.free),
        (Work::Pair, _) => Some(row.pair),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_table_covers_the_loop_sizes() {
        for size in Size::TABLE {
            assert!(lameter(Work::Pair, 0, size).is_some(), "{size}");
        }
        assert_eq!(lameter(Work::Fill, 1, Size::TABLE[3]), Some([112, 89]));
        assert_eq!(lameter(Work::Remote, 0, Size::TABLE[3]), None);
    }
}
