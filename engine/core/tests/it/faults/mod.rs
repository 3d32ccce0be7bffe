//! Platforms that fail, lie, overdo it and call back: whatever they answer, a request ends, nothing is lost, and a
//! promise that was broken is reported by name.
//!
//! `misdeeds` holds each fault by itself, with a check of the whole allocator after every call; `every` lets all of
//! them meet each other; `asks` counts how much help a request asks for.

mod asks;
mod every;
mod faulty;
mod misdeeds;

use freehold::page::PageAllocator;
use freehold::platform::{Event, Promise};

use crate::common::Host;

type Engine<'m, 'h> = PageAllocator<'m, Host<'h>>;

/// Promises that were broken since this was asked last; events are kept from the first time on.
fn broken(engine: &Engine<'_, '_>) -> Vec<Promise> {
    let mut promises = Vec::new();
    for event in engine.platform().events.take() {
        if let Event::BrokenPromise { promise } = event {
            promises.push(promise);
        }
    }
    promises
}

/// Whether everything is accounted for, and exactly so many pages are allocated.
fn judge(engine: &Engine<'_, '_>, held: usize) -> Result<(), String> {
    let census = engine.check().map_err(|violation| violation.to_string())?;
    if census.allocated == held as u64 {
        Ok(())
    } else {
        Err(format!("{} pages are allocated, {held} are held", census.allocated))
    }
}
