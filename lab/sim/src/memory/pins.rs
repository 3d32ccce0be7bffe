//! Pinned pages: a device reads or writes them for a while, and they are neither moved nor reclaimed meanwhile.
//!
//! All pins last equally long, so the oldest pin ends first. A free ends the pin of a page, since its task waits for
//! the device first. A pin refers to a page, not to its owner. So if a page is freed, allocated and pinned again before
//! its first pin would have ended, the second pin ends together with the first.
//!
//! linux: mm/gup.c:pin_user_pages

use std::cell::RefCell;
use std::collections::VecDeque;

use freehold::base::Pfn;

use super::frames::Frames;

/// All pins with their end times, earliest first.
#[derive(Default)]
pub(super) struct Pins(RefCell<VecDeque<(u64, Pfn)>>);

impl Pins {
    /// Returns the number of pins, including pins of freed pages.
    pub(super) fn count(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    /// Pins an allocated page until `until`.
    pub(super) fn pin(&self, frames: &Frames, pfn: Pfn, until: u64) {
        frames.set_owner(pfn, frames.owner(pfn).pinned());
        self.0.borrow_mut().push_back((until, pfn));
    }

    /// Ends the pins whose end time is `now` or earlier.
    #[inline]
    pub(super) fn expire(&self, frames: &Frames, now: u64) {
        let mut pins = self.0.borrow_mut();
        while let Some(&(until, pfn)) = pins.front()
            && until <= now
        {
            pins.pop_front();
            frames.set_owner(pfn, frames.owner(pfn).unpinned());
        }
    }
}
