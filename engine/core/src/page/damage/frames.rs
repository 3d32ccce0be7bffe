//! Damage to frames, pageblocks and the section table.

use super::{Damage, Field, SectionPart};
use crate::base::Pfn;
use crate::base::word::Word;
use crate::platform::Platform;

/// The frame number that marks the end of a list.
const NIL: u32 = u32::MAX;

impl<P: Platform> Damage<'_, '_, P> {
    /// Returns the bits of a frame's word, to be changed and stored again.
    pub fn word(&self, pfn: Pfn) -> u32 {
        self.0.map.frame(pfn).word().bits()
    }

    /// Stores bits as a frame's word. They need not be a valid state.
    pub fn set_word(&self, pfn: Pfn, bits: u32) {
        self.0.map.frame(pfn).plant_word(Word::raw(bits));
    }

    /// Stores the links of a frame: the next and the previous frame on its list.
    pub fn set_links(&self, pfn: Pfn, next: Option<Pfn>, prev: Option<Pfn>) {
        self.0.map.plant_links(pfn, next.map_or(NIL, Pfn::raw), prev.map_or(NIL, Pfn::raw));
    }

    /// Stores one field of a pageblock, as its number.
    pub fn set_pageblock(&self, pfn: Pfn, field: Field, value: u32) {
        self.0.map.pageblock(pfn).plant(field, value);
    }

    /// Damages part of a section's entry in the table.
    pub fn set_section(&self, index: usize, part: SectionPart) {
        self.0.map.plant_section(index, part);
    }
}
