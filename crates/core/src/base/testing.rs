//! What the unit tests of this folder share: metadata of one section, on the heap.

extern crate std;

use std::boxed::Box;

use super::Order;
use super::carve::Carver;
use super::memmap::{MemMap, Section};

/// Runs on a map of one section.
pub fn with_map(run: impl FnOnce(&MemMap<'_>)) {
    let order = Order::new(9);
    let layout = MemMap::section_layout(order);
    let mut metadata = Box::new_uninit_slice(layout.size() + layout.align());
    let sections = [Section::absent()];
    let map = MemMap::new(&sections, order);
    assert!(map.add_section(0, &mut Carver::new(&mut metadata[..])));
    run(&map);
}
