//! Events and contestants of a contest.

use freehold_object_loops::{Size, Ticks, Work};

use crate::error::Error;

/// Work that every contestant does: a loop over objects of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Loop.
    pub work: Work,
    /// Size of an object.
    pub size: Size,
    /// Objects per round.
    pub objects: usize,
    /// Rounds; the median round counts.
    pub rounds: u32,
}

/// Function that does an event and returns a time for each figure of the loop.
pub(super) type Play<'p> = dyn FnMut(Event) -> Result<Vec<Ticks>, Error> + 'p;

/// Callback that runs while a contestant is open.
pub(crate) type Then<'t> = dyn FnMut(&mut Play<'_>) -> Result<(), Error> + 't;

/// Participant in a contest.
pub(crate) trait Contestant {
    /// Returns the name for tables.
    fn name(&self) -> &str;

    /// Returns whether the contestant takes part in events of this loop.
    fn does(&self, work: Work) -> bool;

    /// Builds what the contestant needs, calls `then`, and tears it down.
    ///
    /// # Errors
    /// When it cannot be built, or `then` fails.
    fn open(&self, then: &mut Then<'_>) -> Result<(), Error>;
}

/// One figure of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Loop.
    pub work: Work,
    /// Index of the figure in [`Work::figures`].
    pub figure: usize,
    /// Size of an object.
    pub size: Size,
}

impl Cell {
    /// Returns the name of the figure.
    pub(crate) fn name(self) -> &'static str {
        self.work.figures()[self.figure]
    }
}

/// Returns the figures of events, in the order of the events.
pub(super) fn figures(events: &[Event]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for event in events {
        let count = event.work.figures().len();
        cells.extend((0..count).map(|figure| Cell { work: event.work, figure, size: event.size }));
    }
    cells
}
