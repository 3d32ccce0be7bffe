//! Metadata of one section on the heap, for the unit tests of this module.

extern crate std;

use std::boxed::Box;
use std::vec::Vec;

use super::carve::Carver;
use super::memmap::{Geometry, MemMap, Section};
use super::word::Word;
use super::{Order, Pfn};

/// Number of frames of the test map: one section, or four pageblocks in Miri, which takes minutes to set up a section.
pub(in crate::base) const PAGES: u32 = if cfg!(miri) { 1 << 11 } else { 1 << 15 };

/// Runs a test on a map of [`PAGES`] frames. All of them are claimed pages, on no list and in no other use.
pub(in crate::base) fn with_map(run: impl FnOnce(&MemMap<'_>)) {
    let geometry = Geometry::new(Pfn::new(0), Pfn::new(PAGES), Order::new(9));
    let layout = geometry.layout_of(0..geometry.sections());
    let mut metadata = Box::new_uninit_slice(layout.size() + layout.align());
    let sections: Vec<Section<'_>> = (0..geometry.sections()).map(|_| Section::absent()).collect();
    let (map, mut carver) = (MemMap::new(&sections, geometry), Carver::new(&mut metadata[..]));
    assert!((0..geometry.sections()).all(|index| map.add_section(index, &mut carver)));
    for word in [Word::RESERVED, Word::INTERIOR, Word::claimed_of(Order::ZERO)] {
        Pfn::new(0).up_to(Pfn::new(PAGES)).for_each(|pfn| map.frame(pfn).set(word));
    }
    run(&map);
}
