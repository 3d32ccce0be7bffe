//! What a reader of any format hands on, and what its file says besides.

use std::collections::BTreeMap;

use freehold_trace::event::Row;
use freehold_trace::format::{EventFormat, Field};

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
    /// A thread begins, under a number that another may have had.
    Born { pid: u32, name: String },
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
    /// Whether it ends in the middle of something, so that what came after is missing.
    pub is_cut: bool,
    /// Lines or records that mean nothing.
    pub not_understood: u64,
    /// What is worth knowing, in sentences.
    pub notes: Vec<String>,
}

/// Places in an event that gives a thread a name: `task:task_newtask` or `task:task_rename`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameEvent {
    pid: Field,
    name: Field,
    is_birth: bool,
}

impl NameEvent {
    /// Finds the fields in an event of the system `task`, if it is one of the two. Some kernels (6.16 is one) do not
    /// say which thread is renamed: then it is the current one.
    pub(crate) fn find(system: &str, format: &EventFormat) -> Option<NameEvent> {
        let pid = format.field("pid");
        let (pid, name, is_birth) = match (system, format.name.as_str()) {
            ("task", "task_newtask") => (pid?, format.field("comm")?, true),
            ("task", "task_rename") => (pid.or(format.field("common_pid"))?, format.field("newcomm")?, false),
            _ => return None,
        };
        Some(NameEvent { pid, name, is_birth })
    }

    /// What a record of it says.
    pub(crate) fn read(&self, record: &[u8]) -> Option<Item> {
        let pid = self.pid.unsigned(record)? as u32;
        let name = String::from_utf8_lossy(self.name.text(record)?).into_owned();
        Some(if self.is_birth { Item::Born { pid, name } } else { Item::Named { pid, name } })
    }
}
