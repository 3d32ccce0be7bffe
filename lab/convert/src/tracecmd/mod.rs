//! Reader of trace-cmd's `trace.dat`: texts of tracefs, and raw pages of the kernel's ring, CPU by CPU.
//!
//! ```text
//! head    contents of both versions: formats, options, and the locations of each CPU's pages
//! v6      layout of version 6
//! v7      sections of version 7, some of them compressed
//! pack    zlib and zstd
//! merge   the pages of all CPUs as one stream in order of time
//! ```
//!
//! Pages are decoded by the recorder's own decoder, [`freehold_trace::ring`]. trace-cmd:
//! Documentation/trace-cmd/trace-cmd.dat.v6.5.txt, trace-cmd.dat.v7.5.txt

mod head;
mod merge;
mod pack;
mod v6;
mod v7;

use std::path::Path;

use freehold_trace::ring::PageLayout;

use crate::bytes::Cursor;
use crate::error::Error;
use crate::input::Input;
use crate::item::{Item, Sink, SourceFacts};
use crate::records::Records;
use crate::tracing;
use head::Head;
use merge::Merge;

pub(crate) use head::FORMAT;

/// Largest number of bytes before the pages that are read. Real files have some MiB.
const HEAD_MAX: usize = 128 << 20;

/// Reads a file to its end.
///
/// # Errors
/// If it cannot be read, or its clock does not measure time.
pub(crate) fn read(path: &Path, input: Input, sink: Sink<'_>) -> Result<SourceFacts, Error> {
    let bytes = input.beginning(HEAD_MAX).map_err(Error::read(path))?;
    let head = read_head(&bytes, &input).map_err(|reason| damaged(path, reason))?;
    drop(bytes);
    let clock = head.clock().map_err(|reason| damaged(path, reason))?;
    let layout = PageLayout::parse(&head.tracing.header_page).map_err(|error| damaged(path, error.to_string()))?;
    let mut records = Records::new(&head.tracing);
    for (pid, name) in &head.tracing.names {
        sink(Item::Named { pid: *pid, name: name.clone() })?;
    }
    let merge = Merge::new(&input, &head, layout, clock).map_err(|reason| damaged(path, reason))?;
    let losses = merge.run(path, &mut records, sink)?;
    let lost = losses.lost.max(head.lost);
    if lost > 0 {
        sink(Item::Lost(lost))?;
    }
    let mut notes = records.notes.clone();
    notes.extend(head.notes.iter().cloned());
    notes.extend(head.unread.iter().map(|part| format!("{part} was not read")));
    notes.extend(losses.notes());
    if head.has_local_clocks() {
        notes.push(
            "its clock, `local`, may differ between CPUs, so events may be out of order; record with -C mono"
                .to_owned(),
        );
    }
    Ok(SourceFacts {
        kernel_release: head.release.clone(),
        machine: head.machine.clone(),
        page_size: (head.tracing.page_size > 0).then_some(head.tracing.page_size),
        cpus: head.cpus.or(u32::try_from(head.data.len()).ok()),
        memory: None,
        gfp_names: records.gfp_names.clone(),
        enabled: None,
        drops: records.drops.clone(),
        unread: head.unread.clone(),
        absent: head.read_events.saturating_sub(losses.events),
        has_old_frees: head.tracing.format("kmem", "mm_page_free_direct").is_some(),
        passed: records.passed(),
        is_cut: head.is_cut,
        notes,
        ..SourceFacts::default()
    })
}

fn damaged(path: &Path, reason: String) -> Error {
    Error::Damaged { path: path.to_path_buf(), format: FORMAT, reason }
}

/// Reads all parts of a file except the pages.
///
/// # Errors
/// Returns the problem as a clause.
fn read_head(bytes: &[u8], input: &Input) -> Result<Head, String> {
    const CUT_OFF: &str = "it ends in the middle of the event formats";
    let cursor = &mut Cursor::new(bytes);
    let opening = tracing::opening(cursor).ok_or(CUT_OFF)?;
    if opening.is_big_endian {
        return Err("it is from a machine with the other byte order; import it on such a machine".to_owned());
    }
    let read = match opening.version.as_str() {
        "6" => v6::read(cursor)?,
        "7" => v7::read(cursor, input)?,
        other => return Err(format!("it has version `{other}`, but only versions 6 and 7 are supported")),
    };
    let mut head = read.ok_or(CUT_OFF)?;
    head.tracing.page_size = opening.page_size;
    Ok(head)
}
