//! Pins: pages that a device reads or writes for a while. They are neither moved nor reclaimed meanwhile.
//!
//! All pins last equally long, so the oldest ends first. A page whose owner frees it meanwhile is not pinned any more:
//! its task waits for the device first. A pin knows its page, not its owner: if the page is freed, had anew and pinned
//! again while the first pin would last, the second ends with the first.
//!
//! linux: mm/gup.c:pin_user_pages

use std::cell::RefCell;
use std::collections::VecDeque;

use freehold::base::Pfn;

use super::frames::Frames;

/// All pins, from the first that ends to the last, each with the time of its end.
#[derive(Default)]
pub(super) struct Pins(RefCell<VecDeque<(u64, Pfn)>>);

impl Pins {
    /// How many there are, those of freed pages among them.
    pub(super) fn count(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    /// Pins a page that somebody has.
    pub(super) fn pin(&self, frames: &Frames, pfn: Pfn, until: u64) {
        frames.set_owner(pfn, frames.owner(pfn).pinned());
        self.0.borrow_mut().push_back((until, pfn));
    }

    /// Ends the pins that have lasted until now.
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
