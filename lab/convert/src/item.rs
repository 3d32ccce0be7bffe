//! Items that the readers of all formats return, and the other facts in their files.

use std::collections::BTreeMap;

use freehold_trace::event::Row;
use freehold_trace::format::{EventFormat, Field};

use crate::coverage::{Coverage, Sampling};
use crate::drops::Drops;
use crate::error::Error;

/// One item of a file, in order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// An event about memory, and the thread in whose context it fired. The row's time is that of the file's clock, and
    /// its task is not set.
    Row {
        /// Thread id.
        pid: u32,
        row: Row,
    },
    /// A thread has this name from now on.
    Named { pid: u32, name: String },
    /// A thread starts. Its id may have been used by another thread before. Without a name it has that of its parent.
    Born { pid: u32, parent: u32, name: String },
    /// Number of events that were lost.
    Lost(u64),
    /// An unknown number of events was lost.
    Gap,
}

/// Receiver of items. An error ends the reading.
pub(crate) type Sink<'s> = &'s mut dyn FnMut(Item) -> Result<(), Error>;

/// Facts of a file about its machine and about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceFacts {
    /// `uname -r`.
    pub kernel_release: Option<String>,
    /// `uname -m`.
    pub machine: Option<String>,
    /// Bytes in a page.
    pub page_size: Option<u32>,
    /// Number of CPUs.
    pub cpus: Option<u32>,
    /// Bytes of memory that the kernel can use.
    pub memory: Option<u64>,
    /// The kernel's own GFP flags.
    pub gfp_names: BTreeMap<String, u64>,
    /// Events that the tool enabled, as `system:name`; `None` if the file does not list them.
    pub enabled: Option<Vec<String>>,
    /// Events of which no rows are made, by name.
    pub passed: BTreeMap<String, u64>,
    /// Whether the file begins or ends in the middle of a record or a line, so that a part is missing.
    pub is_cut: bool,
    /// Lines of a text.
    pub lines: u64,
    /// Lines before the first event, and lines of a log between events.
    pub preamble: u64,
    /// Events after a later one, which were sorted.
    pub sorted: u64,
    /// Events that could not be used, by reason.
    pub drops: Drops,
    /// Coverage of the machine, as far as the file shows it.
    pub coverage: Coverage,
    /// Sampling of each event, as far as the file shows it.
    pub sampling: Vec<(String, Sampling)>,
    /// Parts of the file that are not read, as phrases: other buffers.
    pub unread: Vec<String>,
    /// Events that the tool counted but that are not in the file.
    pub absent: u64,
    /// Whether frees have the event name of kernels before Linux 3.3.
    pub has_old_frees: bool,
    /// Remarks, in sentences.
    pub notes: Vec<String>,
}

/// Fields of an event that gives a thread a name: `task:task_newtask`, `task:task_rename` or
/// `sched:sched_process_fork`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameEvent {
    /// Thread that the event is about.
    pid: Field,
    /// Thread in whose context the event fires, which is the parent when a thread starts.
    current: Field,
    name: Field,
    is_birth: bool,
}

impl NameEvent {
    /// Finds the fields of an event, if it is one of the three. Some kernels (for example 6.16) do not record which
    /// thread is renamed; then it is the current one.
    pub(crate) fn find(system: &str, format: &EventFormat) -> Option<NameEvent> {
        let (pid, current) = (format.field("pid"), format.field("common_pid")?);
        let (pid, name, is_birth) = match (system, format.name.as_str()) {
            ("task", "task_newtask") => (pid?, format.field("comm")?, true),
            ("task", "task_rename") => (pid.unwrap_or(current), format.field("newcomm")?, false),
            ("sched", "sched_process_fork") => (format.field("child_pid")?, format.field("child_comm")?, true),
            _ => return None,
        };
        Some(NameEvent { pid, current, name, is_birth })
    }

    /// Returns the item of a record of this event.
    pub(crate) fn read(&self, record: &[u8]) -> Option<Item> {
        let pid = self.pid.unsigned(record)? as u32;
        // A text of variable length is stored as a location in the record, of four bytes.
        let text = if self.name.size == 4 { self.name.located_text(record)? } else { self.name.text(record)? };
        let name = String::from_utf8_lossy(text).into_owned();
        let parent = self.current.unsigned(record)? as u32;
        Some(if self.is_birth { Item::Born { pid, parent, name } } else { Item::Named { pid, name } })
    }
}
