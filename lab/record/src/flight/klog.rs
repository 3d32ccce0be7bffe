//! Failed allocations, from the kernel's log.
//!
//! The kernel has no counter of failed requests, and filtering the tracepoint would add a check to every allocation.
//! But the kernel logs a warning, at most once in ten seconds, and only for requests without `__GFP_NOWARN`,
//! which are the relevant ones. Lines that user space wrote are ignored. linux: mm/page_alloc.c:warn_alloc

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::trigger::Trigger;
use crate::error::CaptureError;

/// Path of the kernel's log.
const LOG: &str = "/dev/kmsg";
/// Text of the warning.
const WARNING: &str = "page allocation failure: order:";
/// Bytes of the buffer for a record. A record has at most 2 KiB. linux: kernel/printk/internal.h:PRINTK_MESSAGE_MAX
const RECORD_BYTES: usize = 8 << 10;
/// Largest number of records that are read at a time, so that a flood of records does not block the recorder.
const RECORDS_MAX: usize = 4096;

/// The kernel's log from now on.
#[derive(Debug)]
pub(super) struct KernelLog {
    file: File,
    buffer: Vec<u8>,
}

impl KernelLog {
    /// Opens the log at its end.
    ///
    /// # Errors
    /// [`CaptureError::Untold`] if it cannot be read.
    pub(super) fn open() -> Result<KernelLog, CaptureError> {
        match open_at_end(Path::new(LOG)) {
            Ok(file) => Ok(KernelLog { file, buffer: vec![1; RECORD_BYTES] }),
            Err(_) => Err(CaptureError::Untold(Trigger::Failure.name())),
        }
    }

    /// Returns whether the kernel has logged a failed request since the last call.
    pub(super) fn tells_failure(&mut self) -> bool {
        let mut failed = false;
        for _ in 0..RECORDS_MAX {
            match self.file.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(len) => failed |= is_failure(&self.buffer[..len]),
                // Records were overwritten before they were read. The next read continues after them.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        failed
    }
}

/// Opens the log after its last record, for reads that do not block.
fn open_at_end(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    file.seek(SeekFrom::End(0))?;
    Ok(file)
}

/// Returns whether a record is the kernel's warning: `priority,sequence,time,flags;text`.
fn is_failure(record: &[u8]) -> bool {
    let record = String::from_utf8_lossy(record);
    let Some((head, text)) = record.split_once(';') else { return false };
    // The bits above the three bits of the level are the facility; 0 is the kernel.
    let priority = head.split(',').next().and_then(|priority| priority.parse::<u32>().ok());
    let line = text.lines().next().unwrap_or("");
    priority.is_some_and(|priority| priority >> 3 == 0) && line.contains(WARNING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kernel_log_warnings_are_failures() {
        let warning = "kworker/0:1: page allocation failure: order:4, mode:0xcc0(GFP_KERNEL), nodemask=(null)\n";
        assert!(is_failure(format!("4,1204,5632178,-;{warning}").as_bytes()));
        assert!(!is_failure(format!("12,1204,5632178,-;{warning}").as_bytes()), "user space says so");
        assert!(!is_failure(b"4,1205,5632178,-;Call Trace:\n"));
        assert!(
            !is_failure(b"4,1205,1,-;harmless\n page allocation failure: order:0\n"),
            "only the first line is text"
        );
        assert!(!is_failure(b"\xff\xfe"));
    }
}
