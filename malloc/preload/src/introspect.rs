//! What was used, in the forms that glibc has; and what may be asked of the allocator.

use core::ffi::{c_int, c_void};
use core::fmt::{self, Write};

use freehold_malloc::os::platform::StandardError;
use freehold_malloc::process::stats::{self, Summary};
use freehold_malloc::process::{keep, options};

/// glibc's numbers, as far as they mean something here.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Mallinfo<T> {
    /// Bytes that came from the system for objects: in use, idle and free.
    pub arena: T,
    /// Free blocks: not counted.
    pub ordblks: T,
    /// Not counted.
    pub smblks: T,
    /// Not counted.
    pub hblks: T,
    /// Bytes of runs of pages.
    pub hblkhd: T,
    /// Not counted.
    pub usmblks: T,
    /// Not counted.
    pub fsmblks: T,
    /// Bytes in use.
    pub uordblks: T,
    /// Bytes that are free.
    pub fordblks: T,
    /// Bytes that `malloc_trim` would give back.
    pub keepcost: T,
}

fn mallinfo_of<T: Default>(of: impl Fn(usize) -> T) -> Mallinfo<T> {
    let Summary { objects, idle_in_slabs, runs, free, .. } = stats::summary().unwrap_or_default();
    Mallinfo {
        arena: of(objects + idle_in_slabs + free),
        hblkhd: of(runs),
        uordblks: of(objects + runs),
        fordblks: of(idle_in_slabs + free),
        keepcost: of(free),
        ..Mallinfo::default()
    }
}

/// glibc: `mallinfo2`. Costs a look at each page that has been used.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> Mallinfo<usize> {
    mallinfo_of(|bytes| bytes)
}

/// glibc: `mallinfo`, whose numbers end at 2 GiB.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> Mallinfo<c_int> {
    mallinfo_of(|bytes| c_int::try_from(bytes).unwrap_or(c_int::MAX))
}

/// glibc: `malloc_stats`, to standard error.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    say_all(&mut StandardError);
}

/// What was used as a whole, in a line.
pub(crate) fn say_summary(to: &mut dyn Write) {
    if let Some(summary) = stats::summary() {
        // SAFETY: asks for a number alone.
        let process = unsafe { libc::getpid() };
        let _written = writeln!(to, "freehold: process {process}: {summary}");
    }
}

/// The same, and of each size.
pub(crate) fn say_all(to: &mut dyn Write) {
    say_summary(to);
    let _written = writeln!(to, "freehold: {:<16}{:>12}{:>12}{:>10}", "size", "in use", "room for", "slabs");
    stats::each_size(|cache, usage| {
        if usage.slabs > 0 {
            let _written = writeln!(
                to,
                "freehold: {:<16}{:>12}{:>12}{:>10}",
                cache.object_size(),
                usage.active,
                usage.objects,
                usage.slabs
            );
        }
    });
    let _written = to.write_str("freehold: free blocks of 4 KiB, 8 KiB, and so on:\n");
    let _written = stats::write_free_blocks(to);
}

/// A stream of C's, to write text to.
struct Stream(*mut libc::FILE);

impl Write for Stream {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: so many bytes are there, and the caller of `malloc_info` gave a stream.
        let written = unsafe { libc::fwrite(text.as_ptr().cast::<c_void>(), 1, text.len(), self.0) };
        if written == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// glibc: `malloc_info`, as XML of this allocator's own.
///
/// # Safety
/// It is a stream that can be written to.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 || stream.is_null() {
        return libc::EINVAL;
    }
    if write_info(&mut Stream(stream)).is_ok() { 0 } else { -1 }
}

fn write_info(to: &mut dyn Write) -> fmt::Result {
    let Summary { objects, idle_in_slabs, runs, free, returned } = stats::summary().unwrap_or_default();
    writeln!(to, "<malloc version=\"freehold-1\">\n<sizes>")?;
    let mut result = Ok(());
    stats::each_size(|cache, usage| {
        let line = writeln!(
            to,
            "  <size bytes=\"{}\" used=\"{}\" total=\"{}\" slabs=\"{}\"/>",
            cache.object_size(),
            usage.active,
            usage.objects,
            usage.slabs
        );
        result = result.and(line);
    });
    result?;
    writeln!(to, "</sizes>")?;
    for (kind, bytes) in
        [("objects", objects), ("idle", idle_in_slabs), ("runs", runs), ("free", free), ("returned", returned)]
    {
        writeln!(to, "<total type=\"{kind}\" size=\"{bytes}\"/>")?;
    }
    writeln!(to, "</malloc>")
}

/// glibc: `malloc_trim`. What to keep is not asked: nothing is.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_keep: usize) -> c_int {
    stats::trim().into()
}

/// glibc: `mallopt`. `M_TRIM_THRESHOLD` says how many bytes are kept when they are free; what else glibc knows means
/// nothing here and is taken as it is, since programs ask for it; other numbers are refused.
// SAFETY: the name is C's, and so is what it does.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(parameter: c_int, value: c_int) -> c_int {
    match parameter {
        libc::M_TRIM_THRESHOLD => {
            // -1 says never; the largest number is as good.
            keep(usize::try_from(value).unwrap_or(options::KEEP_ALL));
            1
        }
        libc::M_MXFAST
        | libc::M_TOP_PAD
        | libc::M_MMAP_THRESHOLD
        | libc::M_MMAP_MAX
        | libc::M_CHECK_ACTION
        | libc::M_PERTURB
        | libc::M_ARENA_TEST
        | libc::M_ARENA_MAX => 1,
        _ => 0,
    }
}
