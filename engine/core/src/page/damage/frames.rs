//! Damage to frames, pageblocks and the table that leads to them.

use super::{Damage, Field, SectionPart};
use crate::base::Pfn;
use crate::base::word::Word;
use crate::platform::Platform;

/// No frame has this number: the end of a list.
const NIL: u32 = u32::MAX;

impl<P: Platform> Damage<'_, '_, P> {
    /// The bits of a frame's word, to be changed and written back.
    pub fn word(&self, pfn: Pfn) -> u32 {
        self.0.map.frame(pfn).word().bits()
    }

    /// Writes them, be they the word of a state or not.
    pub fn set_word(&self, pfn: Pfn, bits: u32) {
        self.0.map.frame(pfn).plant_word(Word::raw(bits));
    }

    /// Writes the links of a frame: the frame after it on its list, and the one before.
    pub fn set_links(&self, pfn: Pfn, next: Option<Pfn>, prev: Option<Pfn>) {
        self.0.map.plant_links(pfn, next.map_or(NIL, Pfn::raw), prev.map_or(NIL, Pfn::raw));
    }

    /// Writes one field of a pageblock, as the number that it is.
    pub fn set_pageblock(&self, pfn: Pfn, field: Field, value: u32) {
        self.0.map.pageblock(pfn).plant(field, value);
    }

    /// Spoils part of a section's slot.
    pub fn set_section(&self, index: usize, part: SectionPart) {
        self.0.map.plant_section(index, part);
    }
}
