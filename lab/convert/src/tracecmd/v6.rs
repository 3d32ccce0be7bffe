//! Version 6: all parts in a fixed order, without compression.

use super::head::{CpuData, Head};
use crate::bytes::Cursor;
use crate::tracing::{Tracing, sized};

/// Reads the parts after the opening. Returns `Ok(None)` if the file is cut off.
///
/// # Errors
/// Returns any other problem as a clause.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Option<Head>, String> {
    let Some((mut head, cpus)) = read_head(cursor) else { return Ok(None) };
    match cursor.take(10) {
        Some(b"flyrecord\0") => Ok(read_places(&mut head, cpus, cursor).map(|()| head)),
        Some(b"latency  \0") => Err("it has the printed trace of a latency tracer and no events; record \
                                     with `trace-cmd record -e kmem`"
            .to_owned()),
        Some(_) | None => Ok(None),
    }
}

/// Reads the parts before the kind of the trace, and the number of CPUs.
fn read_head(cursor: &mut Cursor<'_>) -> Option<(Head, u32)> {
    let mut tracing = Tracing::default();
    tracing.read_formats(cursor)?;
    for _ in 0..2 {
        // Addresses of functions, and texts of `printk`.
        let size = cursor.u32()?;
        cursor.take(size.into())?;
    }
    let names = sized(cursor)?;
    tracing.take_names(&names);
    let mut head = Head::new(tracing);
    let cpus = cursor.u32()?;
    if cursor.expect(b"options  \0").is_some() {
        read_options(&mut head, cursor)?;
    }
    Some((head, cpus))
}

/// Reads the locations of each CPU's pages.
fn read_places(head: &mut Head, cpus: u32, cursor: &mut Cursor<'_>) -> Option<()> {
    for cpu in 0..cpus {
        let (offset, size) = (cursor.u64()?, cursor.u64()?);
        head.data.push(CpuData { cpu: u16::try_from(cpu).ok()?, offset, size });
    }
    Some(())
}

fn read_options(head: &mut Head, cursor: &mut Cursor<'_>) -> Option<()> {
    loop {
        let id = cursor.u16()?;
        if id == 0 {
            return Some(());
        }
        let size = cursor.u32()?;
        head.take(id, cursor.take(size.into())?)?;
    }
}
