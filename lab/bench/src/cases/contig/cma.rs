//! A complete iteration on a CMA area: 16384 pages are allocated and released, as a driver does with a buffer.

use std::mem::MaybeUninit;

use freehold::base::{Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{CmaArea, Config, MinFree, PageAllocator, Range};
use freehold::platform::host::Threads;
use freehold::platform::{NoProbe, Platform};
use freehold_policies::NamedPolicy;
use freehold_timing::clock::time;

use super::ranges::LARGE_PAGES;
use crate::engine::{Engine, GIB};
use crate::error::Error;
use crate::subject::{Sample, Subject, Then};

/// CMA area of an engine.
pub(super) type Area<'m> = CmaArea<'m, <Threads<NoProbe> as Platform>::Lock>;

/// First frame of the area, and the frame after its end.
const AREA: (u32, u32) = (GIB / 2, GIB / 2 + 2 * LARGE_PAGES);

/// Timed part of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimedPart {
    /// Allocation and release.
    Whole,
    /// The release only.
    Release,
}

/// The iteration under a policy, as one side of a comparison.
pub(super) struct CmaSubject {
    name: String,
    policy: NamedPolicy,
    timed: TimedPart,
}

impl CmaSubject {
    /// Returns the subject that times whole iterations.
    pub(super) fn new(policy: &NamedPolicy) -> CmaSubject {
        CmaSubject { name: policy.name.clone(), policy: policy.clone(), timed: TimedPart::Whole }
    }

    /// Returns the subject that times the whole or a part of an iteration, with the part in its name.
    pub(super) fn part(policy: &NamedPolicy, timed: TimedPart) -> CmaSubject {
        let part = match timed {
            TimedPart::Whole => "whole iteration",
            TimedPart::Release => "release only",
        };
        CmaSubject { name: format!("{}: {part}", policy.name), policy: policy.clone(), timed }
    }
}

impl Subject for CmaSubject {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, operations: u64, then: &mut Then<'_>) -> Result<(), Error> {
        with_area(&self.policy, |engine, area| then(&mut || Ok(iterate(engine, area, operations, self.timed))))?
    }
}

/// Times a number of iterations, or a part of each.
pub(super) fn iterate<'m>(engine: &Engine<'m>, area: &Area<'m>, iterations: u64, timed: TimedPart) -> Sample {
    (0..iterations)
        .map(|_| match timed {
            TimedPart::Whole => time(1, || release(engine, area, allocate(engine, area))),
            TimedPart::Release => {
                let start = allocate(engine, area);
                time(1, || release(engine, area, start))
            }
        })
        .sum()
}

/// Allocates a large range from the area.
fn allocate<'m>(engine: &Engine<'m>, area: &Area<'m>) -> Pfn {
    engine.cma_alloc(area, LARGE_PAGES, 1, Gfp::KERNEL).expect("the area is large enough")
}

/// Releases a large range into the area.
fn release<'m>(engine: &Engine<'m>, area: &Area<'m>, start: Pfn) {
    engine.cma_release(area, start, LARGE_PAGES).expect("the range is allocated");
}

/// Builds a machine of one gibibyte with a CMA area in its second half.
///
/// # Errors
/// When the machine cannot be built.
pub(super) fn with_area<R>(
    policy: &NamedPolicy,
    run: impl for<'m> FnOnce(&Engine<'m>, &Area<'m>) -> R,
) -> Result<R, Error> {
    let config = Config { policy: policy.policy, ..Config::default() };
    let range = Range { start: Pfn::new(0), end: Pfn::new(GIB), node: NodeId(0), kind: ZoneKind::Normal };
    let (start, end) = (Pfn::new(AREA.0), Pfn::new(AREA.1));
    let mut fixed = bytes(config.metadata_layout::<Threads<NoProbe>>());
    let mut bitmap = bytes(Area::layout(AREA.1 - AREA.0, Order::ZERO));
    let mut sections;
    let engine =
        PageAllocator::new(Threads::default(), &config, &mut fixed).map_err(|error| refusal(policy, &error))?;
    sections = bytes(engine.online_layout(&range));
    engine.online(&range, &mut sections).map_err(|error| refusal(policy, &error))?;
    let area = engine.reserve_cma(start..end, Order::ZERO, &mut bitmap).map_err(|error| refusal(policy, &error))?;
    for (start, end) in [(range.start, start), (end, range.end)] {
        engine.release(start, end).map_err(|error| refusal(policy, &error))?;
    }
    engine.set_up_watermarks(MinFree::BySize);
    Ok(run(&engine, &area))
}

/// Returns the error for a policy under which no machine can be built.
fn refusal(policy: &NamedPolicy, error: &dyn std::fmt::Display) -> Error {
    Error::Input(format!("no machine can be built under `{}`: {error}", policy.name))
}

/// Allocates memory for a piece of this layout at any alignment of the allocation.
fn bytes(layout: std::alloc::Layout) -> Box<[MaybeUninit<u8>]> {
    Box::new_uninit_slice(layout.size() + layout.align())
}
