//! Two maps over one table of sections, and a table of one's own.
use freehold::base::memmap::{Geometry, MemMap, Section};

fn attack(sections: &[Section<'_>], geometry: Geometry) {
    let _ = MemMap::new(sections, geometry);
    let _ = Section::absent();
}

fn main() {}
