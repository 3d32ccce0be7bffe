//! What a reader of any format hands on, and what its file says besides.

use std::collections::BTreeMap;

use freehold_trace::event::Row;
use freehold_trace::format::{EventFormat, Field};

use crate::coverage::{Coverage, Sampling};
use crate::drops::Drops;
use crate::error::Error;

/// One thing that a file tells, in the order of its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// An event about memory, and the thread in whose context it fired. The row's time is that of the file's clock, and
    /// its task is not set.
    Row {
        /// Number of the thread.
        pid: u32,
        row: Row,
    },
    /// A thread has this name from now on.
    Named { pid: u32, name: String },
    /// A thread begins, under a number that another may have had. Without a name it has that of its parent.
    Born { pid: u32, parent: u32, name: String },
    /// So many events were lost.
    Lost(u64),
    /// Some events were lost, and nobody knows how many.
    Gap,
}

/// Takes items. An error ends the reading.
pub(crate) type Sink<'s> = &'s mut dyn FnMut(Item) -> Result<(), Error>;

/// Facts that a file states about its machine and about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceFacts {
    /// `uname -r`.
    pub kernel_release: Option<String>,
    /// `uname -m`.
    pub machine: Option<String>,
    /// Bytes in a page.
    pub page_size: Option<u32>,
    /// CPUs.
    pub cpus: Option<u32>,
    /// Bytes of memory that the kernel has for use.
    pub memory: Option<u64>,
    /// The kernel's own GFP flags.
    pub gfp_names: BTreeMap<String, u64>,
    /// Events that the tool had switched on, as `system:name`; nothing if the file does not say.
    pub enabled: Option<Vec<String>>,
    /// Events of which no rows are made, by name.
    pub passed: BTreeMap<String, u64>,
    /// Whether it begins or ends in the middle of something, so that a part is missing.
    pub is_cut: bool,
    /// Lines of a text.
    pub lines: u64,
    /// Lines before the first event, and lines of a log between events.
    pub preamble: u64,
    /// Events that stood after a later one, and were put in order.
    pub sorted: u64,
    /// Events that could not be used, by reason.
    pub drops: Drops,
    /// What part of the machine's events it has, as far as it says.
    pub coverage: Coverage,
    /// How each event was sampled, as far as it says.
    pub sampling: Vec<(String, Sampling)>,
    /// Parts of the file that are not read, as phrases: other buffers.
    pub unread: Vec<String>,
    /// Events that the tool counted, and that are not in the file.
    pub absent: u64,
    /// Whether its frees have the names of kernels before Linux 3.3.
    pub has_old_frees: bool,
    /// What is worth knowing, in sentences.
    pub notes: Vec<String>,
}

/// Places in an event that gives a thread a name: `task:task_newtask`, `task:task_rename` or `sched:sched_process_fork`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameEvent {
    /// The thread that the event is about.
    pid: Field,
    /// The thread in whose context it fires: the parent, at a birth.
    current: Field,
    name: Field,
    is_birth: bool,
}

impl NameEvent {
    /// Finds the fields in an event, if it is one of the three. Some kernels (6.16 is one) do not say which thread is
    /// renamed: then it is the current one.
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

    /// What a record of it says.
    pub(crate) fn read(&self, record: &[u8]) -> Option<Item> {
        let pid = self.pid.unsigned(record)? as u32;
        // A text of its own length is a place in the record, of four bytes.
        let text = if self.name.size == 4 { self.name.located_text(record)? } else { self.name.text(record)? };
        let name = String::from_utf8_lossy(text).into_owned();
        let parent = self.current.unsigned(record)? as u32;
        Some(if self.is_birth { Item::Born { pid, parent, name } } else { Item::Named { pid, name } })
    }
}
