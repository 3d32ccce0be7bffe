//! Platforms that fail, lie, free too much and call back. With any of their answers a request ends, no page is lost,
//! and a broken promise is reported by name.
//!
//! `single_faults` tests each fault alone, with a check of the whole allocator after every call. `combinations`
//! combines all faults. `request_flags` counts how often a request calls for help.

mod combinations;
mod faulty;
mod request_flags;
mod single_faults;

use freehold::page::PageAllocator;
use freehold::platform::{Event, Promise};

use crate::common::Host;

type Engine<'m, 'h> = PageAllocator<'m, Host<'h>>;

/// Returns the promises that were broken since the last call. Events are kept from the first call on.
fn broken(engine: &Engine<'_, '_>) -> Vec<Promise> {
    let mut promises = Vec::new();
    for event in engine.platform().events.take() {
        if let Event::BrokenPromise { promise } = event {
            promises.push(promise);
        }
    }
    promises
}

/// Checks that the machine is consistent, and that exactly `held` pages are allocated.
fn judge(engine: &Engine<'_, '_>, held: usize) -> Result<(), String> {
    let census = engine.check().map_err(|violation| violation.to_string())?;
    if census.allocated == held as u64 {
        Ok(())
    } else {
        Err(format!("{} pages are allocated, {held} are held", census.allocated))
    }
}
