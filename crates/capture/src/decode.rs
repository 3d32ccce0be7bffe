//! This kernel's events as the recorder needs them: rows, and the births and names of tasks.
//!
//! `freehold-trace` knows how a ring page and a record are laid out and makes rows of the events about memory.
//! Here the two task events are added, which are no rows of a recording but tell whose events the others are.

use freehold_trace::decode::Decoder;
use freehold_trace::event::Row;
use freehold_trace::format::{EventFormat, Field, FormatError};
use freehold_trace::ring::{PageLayout, RawEvent};

use super::events::{TASK_BORN, TASK_RENAMED};

/// One decoded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An event about memory, and the thread in whose context it fired. The row's task is not set yet.
    Row(u32, Row),
    /// A thread made another one.
    Born {
        /// Who made it.
        parent: u32,
        /// The new thread.
        child: u32,
        /// The name it starts with.
        name: String,
    },
    /// A thread took a name.
    Renamed {
        /// The thread.
        pid: u32,
        /// Its new name.
        name: String,
    },
}

/// Decodes the raw pages of one kernel.
#[derive(Debug)]
pub struct RingDecoder {
    /// How a page is laid out.
    pub layout: PageLayout,
    rows: Decoder,
    born: Option<NameEvent>,
    renamed: Option<NameEvent>,
}

/// Places in an event that gives a thread a name.
#[derive(Clone, Copy, Debug)]
struct NameEvent {
    id: u16,
    /// The thread in whose context the event fired.
    current: Field,
    /// The thread it is about.
    pid: Field,
    name: Field,
}

impl NameEvent {
    fn new(format: &EventFormat, name: &str) -> Result<NameEvent, FormatError> {
        Ok(NameEvent {
            id: format.id,
            current: format.require("common_pid")?,
            pid: format.require("pid")?,
            name: format.require(name)?,
        })
    }

    /// The current thread, the named thread, and the name.
    fn read(&self, record: &[u8]) -> Option<(u32, u32, String)> {
        // Thread ids are positive and fit 32 bits.
        let pid = |field: Field| field.unsigned(record).map(|pid| pid as u32);
        let name = String::from_utf8_lossy(self.name.text(record)?).into_owned();
        Some((pid(self.current)?, pid(self.pid)?, name))
    }
}

impl RingDecoder {
    /// A decoder for pages laid out by `layout`, whose rows `rows` decodes.
    pub fn new(layout: PageLayout, rows: Decoder) -> RingDecoder {
        RingDecoder { layout, rows, born: None, renamed: None }
    }

    /// Tells the decoder the format of the event `SYSTEM/NAME`.
    ///
    /// # Errors
    /// When the event lacks a field that is needed.
    pub fn add(&mut self, event: &str, format: &EventFormat) -> Result<(), FormatError> {
        match event {
            TASK_BORN => self.born = Some(NameEvent::new(format, "comm")?),
            TASK_RENAMED => self.renamed = Some(NameEvent::new(format, "newcomm")?),
            _ => {
                self.rows.add(format)?;
            }
        }
        Ok(())
    }

    /// The item of an event that fired on `cpu`; `None` if the event means nothing to a recording.
    #[inline]
    pub fn decode(&self, event: &RawEvent<'_>, cpu: u16) -> Option<Item> {
        match self.rows.decode(event, cpu) {
            Some(decoded) => Some(Item::Row(decoded.pid, decoded.row)),
            None => self.decode_task(event),
        }
    }

    #[cold]
    fn decode_task(&self, event: &RawEvent<'_>) -> Option<Item> {
        let id = Decoder::event_id(event.data)?;
        let of = |place: Option<NameEvent>| place.filter(|place| place.id == id)?.read(event.data);
        if let Some((parent, child, name)) = of(self.born) {
            return Some(Item::Born { parent, child, name });
        }
        let (_, pid, name) = of(self.renamed)?;
        Some(Item::Renamed { pid, name })
    }
}
