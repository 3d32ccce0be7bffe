//! A list, a chain and a free area made outside, and frames put on them.
use freehold::base::list::List;
use freehold::base::{Pfn, word::Word};
use freehold::base::memmap::MemMap;
use freehold::page::FreeAreas;

fn attack(map: &MemMap<'_>, word: Word) {
    let mut list = List::EMPTY;
    list.push_head(map, Pfn::new(0), word);
    let _ = FreeAreas::EMPTY;
}

fn main() {}
