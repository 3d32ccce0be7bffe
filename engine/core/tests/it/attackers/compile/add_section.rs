//! Metadata slipped into a map past the allocator.
use freehold::base::carve::Carver;
use freehold::base::memmap::MemMap;

fn attack(map: &MemMap<'static>) {
    let mut bytes = [core::mem::MaybeUninit::uninit(); 64];
    map.add_section(0, &mut Carver::new(&mut bytes));
}

fn main() {}
