//! Decoder of this kernel's events for the recorder: rows, starts and names of tasks, and stacks.
//!
//! `freehold-trace` decodes ring pages and records, and converts events about memory to rows. This module adds two task
//! events, which are not rows but give the names of the tasks of other events, and stacks, which directly follow the
//! allocation that they belong to.

use freehold_trace::decode::Decoder;
use freehold_trace::event::Row;
use freehold_trace::format::{EventFormat, Field, FormatError};
use freehold_trace::ring::{PageLayout, RawEvent};

/// Start of a task: its id, its name, and (as the event's own task) its parent.
pub(crate) const TASK_BORN: &str = "task/task_newtask";
/// A kernel stack.
pub(crate) const STACK: &str = "ftrace/kernel_stack";
/// New name of a task, by `exec` or by the task itself.
pub(crate) const TASK_RENAMED: &str = "task/task_rename";

/// One decoded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// An event about memory, and the thread in whose context it fired. The row's task is not set yet.
    Row(u32, Row),
    /// A thread created another one.
    Born {
        /// The creating thread.
        parent: u32,
        /// The new thread.
        child: u32,
        /// Initial name of the new thread.
        name: String,
    },
    /// The stack of the last allocation on its CPU.
    Stack {
        /// The CPU.
        cpu: u16,
        /// The thread.
        pid: u32,
        /// Return addresses, the innermost function first.
        addresses: Vec<u64>,
    },
    /// A thread took a name.
    Renamed {
        /// The thread.
        pid: u32,
        /// Its new name.
        name: String,
    },
}

/// Decoder of the raw pages of one kernel.
#[derive(Debug)]
pub(crate) struct RingDecoder {
    /// Layout of a page.
    pub layout: PageLayout,
    rows: Decoder,
    born: Option<NameEvent>,
    renamed: Option<NameEvent>,
    stack: Option<StackEvent>,
}

/// Fields of an event with a stack.
#[derive(Clone, Copy, Debug)]
struct StackEvent {
    id: u16,
    current: Field,
    size: Field,
    /// The first addresses; the others follow.
    callers: Field,
}

impl StackEvent {
    fn new(format: &EventFormat) -> Result<StackEvent, FormatError> {
        let (current, size) = (format.require("common_pid")?, format.require("size")?);
        Ok(StackEvent { id: format.id, current, size, callers: format.require("caller")? })
    }

    fn read(&self, record: &[u8]) -> Option<(u32, Vec<u64>)> {
        let size = usize::try_from(self.size.unsigned(record)?).ok()?;
        let (words, _) = record.get(self.callers.offset..)?.as_chunks();
        let addresses = words.iter().take(size).map(|word| u64::from_ne_bytes(*word)).collect();
        Some((self.current.unsigned(record)? as u32, addresses))
    }
}

/// Fields of an event that gives a thread a name.
#[derive(Clone, Copy, Debug)]
struct NameEvent {
    id: u16,
    /// Thread in whose context the event fired.
    current: Field,
    /// Thread that gets the name.
    pid: Field,
    name: Field,
}

impl NameEvent {
    /// Returns the fields of `task_newtask`: the named thread is the new one.
    fn born(format: &EventFormat) -> Result<NameEvent, FormatError> {
        let current = format.require("common_pid")?;
        Ok(NameEvent { id: format.id, current, pid: format.require("pid")?, name: format.require("comm")? })
    }

    /// Returns the fields of `task_rename`. Some kernels (for example 6.16) do not record the thread. Then it is taken
    /// to be the current one, which is wrong only for a name that one thread gives to another through `/proc`.
    fn renamed(format: &EventFormat) -> Result<NameEvent, FormatError> {
        let current = format.require("common_pid")?;
        let pid = format.field("pid").unwrap_or(current);
        Ok(NameEvent { id: format.id, current, pid, name: format.require("newcomm")? })
    }

    /// Returns the current thread, the named thread, and the name.
    fn read(&self, record: &[u8]) -> Option<(u32, u32, String)> {
        let name = String::from_utf8_lossy(self.name.text(record)?).into_owned();
        // Thread ids are positive and fit 32 bits.
        Some((self.current.unsigned(record)? as u32, self.pid.unsigned(record)? as u32, name))
    }
}

impl RingDecoder {
    /// Creates a decoder for pages of this layout. `rows` decodes the rows.
    pub(crate) fn new(layout: PageLayout, rows: Decoder) -> RingDecoder {
        RingDecoder { layout, rows, born: None, renamed: None, stack: None }
    }

    /// Adds the format of the event `SYSTEM/NAME`.
    ///
    /// # Errors
    /// If the event lacks a required field.
    pub(crate) fn add(&mut self, event: &str, format: &EventFormat) -> Result<(), FormatError> {
        match event {
            TASK_BORN => self.born = Some(NameEvent::born(format)?),
            STACK => self.stack = Some(StackEvent::new(format)?),
            TASK_RENAMED => self.renamed = Some(NameEvent::renamed(format)?),
            _ => {
                self.rows.add(format)?;
            }
        }
        Ok(())
    }

    /// Returns the item of an event that fired on `cpu`; `None` if a recording does not use the event.
    #[inline]
    pub(crate) fn decode(&self, event: &RawEvent<'_>, cpu: u16) -> Option<Item> {
        match self.rows.decode(event, cpu) {
            Some(decoded) => Some(Item::Row(decoded.pid, decoded.row)),
            None => self.decode_other(event, cpu),
        }
    }

    #[cold]
    fn decode_other(&self, event: &RawEvent<'_>, cpu: u16) -> Option<Item> {
        let id = Decoder::event_id(event.data)?;
        if let Some(stack) = self.stack.filter(|stack| stack.id == id) {
            let (pid, addresses) = stack.read(event.data)?;
            return Some(Item::Stack { cpu, pid, addresses });
        }
        if let Some(born) = self.born.filter(|born| born.id == id)
            && let Some((parent, child, name)) = born.read(event.data)
        {
            return Some(Item::Born { parent, child, name });
        }
        let (_, pid, name) = self.renamed.filter(|renamed| renamed.id == id)?.read(event.data)?;
        Some(Item::Renamed { pid, name })
    }
}

#[cfg(test)]
mod tests {
    use freehold_trace::gfp::GfpMap;

    use super::*;

    const PAGE: &str = include_str!("../../trace/tests/fixtures/linux-6.18/header_page");
    /// Format of Linux 6.12, 7.2 and 7.3.
    const WITH_PID: &str = "name: task_rename\nID: 204\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:char oldcomm[16];\toffset:12;\tsize:16;\tsigned:0;\n\
        \tfield:char newcomm[16];\toffset:28;\tsize:16;\tsigned:0;\n";
    /// Format of Linux 6.16 and 6.18.
    const WITHOUT_PID: &str = "name: task_rename\nID: 204\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char oldcomm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:char newcomm[16];\toffset:24;\tsize:16;\tsigned:0;\n";

    fn decoder(event: &str, format: &str) -> Result<RingDecoder, FormatError> {
        let rows = Decoder::new(GfpMap::new(&std::collections::BTreeMap::new()), Vec::new());
        let mut decoder = RingDecoder::new(PageLayout::parse(PAGE).unwrap(), rows);
        decoder.add(event, &EventFormat::parse(format).unwrap())?;
        Ok(decoder)
    }

    /// Returns a record of event 204 by thread 77, with the name at offset `name`, and 78 in the field in which a
    /// kernel may record the thread.
    fn record(name: usize) -> Vec<u8> {
        let mut data = vec![0; name + 16];
        data[..2].copy_from_slice(&204_u16.to_ne_bytes());
        data[4..8].copy_from_slice(&77_u32.to_ne_bytes());
        data[8..12].copy_from_slice(&78_u32.to_ne_bytes());
        data[name..name + 3].copy_from_slice(b"cc1");
        data
    }

    #[test]
    fn renames_apply_to_the_named_or_current_thread() {
        for (format, name, pid) in [(WITH_PID, 28, 78), (WITHOUT_PID, 24, 77)] {
            let decoder = decoder(TASK_RENAMED, format).unwrap();
            let item = decoder.decode(&RawEvent { time: 0, data: &record(name) }, 0);
            assert_eq!(item, Some(Item::Renamed { pid, name: "cc1".to_owned() }));
        }
    }

    #[test]
    fn birth_event_without_the_new_thread_is_an_error() {
        assert!(decoder(TASK_BORN, &WITHOUT_PID.replace("newcomm", "comm")).is_err());
        assert!(decoder(TASK_RENAMED, &WITHOUT_PID.replace("newcomm", "name")).is_err());
    }
}
