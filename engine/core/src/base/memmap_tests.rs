//! Tests of the division of memory into sections, and of the size of their metadata.

use super::*;

fn geometry(first: u32, end: u32) -> Geometry {
    Geometry::new(Pfn::new(first), Pfn::new(end), Order::new(9))
}

#[test]
fn metadata_size_follows_the_possible_frames() {
    assert_eq!(metadata_size(0, 1 << 12), flat_size(1 << 12), "16 MiB");
    assert_eq!(metadata_size(1 << 19, (1 << 19) + (1 << 15)), flat_size(1 << 15), "128 MiB at 2 GiB");
    assert_eq!(metadata_size(1 << 31, (1 << 31) + (1 << 18)), metadata_size(0, 1 << 18), "1 GiB, wherever it is");
    assert_eq!(metadata_size(5, 6), flat_size(1 << 10), "a frame: the largest block around it");
}

fn metadata_size(first: u32, end: u32) -> usize {
    let cut = geometry(first, end);
    cut.layout_of(0..cut.sections()).size()
}

fn flat_size(pages: usize) -> usize {
    pages * 12 + pages / 512 * 32
}

#[test]
fn sections_of_a_range_are_clipped_to_the_table() {
    let cut = geometry(1 << 20, 1 << 21);
    let cases = [
        (1 << 20, 1 << 21, 0..32),
        ((1 << 20) + 40_000, (1 << 20) + 40_001, 1..2),
        (0, 5, 0..0),
        (0, u32::MAX, 0..32),
        (u32::MAX - 1, u32::MAX, 32..32),
    ];
    for (start, end, sections) in cases {
        assert_eq!(cut.sections_of(&(Pfn::new(start)..Pfn::new(end))), sections, "{start} to {end}");
    }
    let ragged = geometry(1000, 100_000);
    assert_eq!(ragged.frames_of(ragged.sections() - 1), 98_304..100_352);
}
