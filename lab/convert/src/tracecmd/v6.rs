//! Version 6: everything in one order, and nothing compressed.

use super::head::{CpuData, Head};
use crate::bytes::Cursor;
use crate::tracing::{Tracing, sized};

/// Reads what follows the opening; `None` if it breaks off.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Option<Head> {
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
    let mut part = cursor.take(10)?;
    if part == b"options  \0" {
        read_options(&mut head, cursor)?;
        part = cursor.take(10)?;
    }
    // What is printed instead of pages, by latency tracers, has no events of ours.
    (part == b"flyrecord\0").then_some(())?;
    for cpu in 0..cpus {
        let (offset, size) = (cursor.u64()?, cursor.u64()?);
        head.data.push(CpuData { cpu: u16::try_from(cpu).ok()?, offset, size });
    }
    Some(head)
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
