//! Events of a contest, and contestants.

use freehold_object_loops::{Size, Ticks, Work};

use crate::error::Error;

/// What everybody does: a loop over objects of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The loop.
    pub work: Work,
    /// Bytes of an object.
    pub size: Size,
    /// Objects of a round.
    pub objects: usize,
    /// Rounds, of which the middle one counts.
    pub rounds: u32,
}

/// Does an event: a time for each figure of the loop.
pub(super) type Play<'p> = dyn FnMut(Event) -> Result<Vec<Ticks>, Error> + 'p;

/// What is done while a contestant is open.
pub(crate) type Then<'t> = dyn FnMut(&mut Play<'_>) -> Result<(), Error> + 't;

/// Somebody who takes part.
pub(crate) trait Contestant {
    /// Its name in tables.
    fn name(&self) -> &str;

    /// Whether it takes part in events of this loop.
    fn does(&self, work: Work) -> bool;

    /// Builds what it needs, lets `then` play, and takes it apart.
    ///
    /// # Errors
    /// When it cannot be built, or `then` fails.
    fn open(&self, then: &mut Then<'_>) -> Result<(), Error>;
}

/// One figure of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The loop.
    pub work: Work,
    /// Its place among [`Work::figures`].
    pub figure: usize,
    /// Bytes of an object.
    pub size: Size,
}

impl Cell {
    /// The figure's name.
    pub(crate) fn name(self) -> &'static str {
        self.work.figures()[self.figure]
    }
}

/// Returns the figures of events, in the order of events.
pub(super) fn figures(events: &[Event]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for event in events {
        let count = event.work.figures().len();
        cells.extend((0..count).map(|figure| Cell { work: event.work, figure, size: event.size }));
    }
    cells
}
