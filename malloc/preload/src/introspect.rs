//! Statistics in the formats of glibc, and glibc's controls of the allocator.

use core::ffi::{c_int, c_void};
use core::fmt::{self, Write};

use freehold_malloc::os::platform::StandardError;
use freehold_malloc::process::stats::{self, SizeSummary};
use freehold_malloc::process::usage::Usage;
use freehold_malloc::process::{keep, line, options};

/// glibc's `mallinfo` structure. Fields that have no meaning for this allocator are zero. The sum of `uordblks` and
/// `fordblks` is that of `arena` and `hblkhd`. No field has the returned bytes; they are `usmblks` without `arena` and
/// `hblkhd`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Mallinfo<T> {
    /// Bytes from the system beside those in `hblkhd`: objects in use, cached and idle, and free pages.
    pub arena: T,
    /// Number of free blocks; always zero.
    pub ordblks: T,
    /// Always zero.
    pub smblks: T,
    /// Always zero.
    pub hblks: T,
    /// Bytes of runs of pages in use or cached.
    pub hblkhd: T,
    /// Bytes that were taken from the system, including those that were returned. glibc: the highest number of bytes,
    /// which it does not count any more.
    pub usmblks: T,
    /// Cached bytes: freed blocks in caches of CPUs and nodes. glibc: those in its fast bins.
    pub fsmblks: T,
    /// Live bytes: blocks in use by the program. In a hardened process, also freed blocks that are held.
    pub uordblks: T,
    /// Cached and kept bytes: all memory that is not in use and was not returned.
    pub fordblks: T,
    /// Bytes of free pages, which `malloc_trim` would return to the system. Kept bytes also have idle parts of slabs.
    pub keepcost: T,
}

fn mallinfo_of<T: Default>(convert: fn(usize) -> T) -> Mallinfo<T> {
    let summary = stats::summary().unwrap_or_default();
    let runs = summary.runs + summary.cached_runs;
    let all = summary.live() + summary.cached() + summary.kept();
    Mallinfo {
        arena: convert(all - runs),
        hblkhd: convert(runs),
        usmblks: convert(all + summary.returned),
        fsmblks: convert(summary.cached()),
        uordblks: convert(summary.live()),
        fordblks: convert(summary.cached() + summary.kept()),
        keepcost: convert(summary.free),
        ..Mallinfo::default()
    }
}

/// glibc: `mallinfo2`. Reads the state of each page that has been used.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> Mallinfo<usize> {
    mallinfo_of(|bytes| bytes)
}

/// glibc: `mallinfo`, whose numbers saturate at 2 GiB.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> Mallinfo<c_int> {
    mallinfo_of(|bytes| c_int::try_from(bytes).unwrap_or(c_int::MAX))
}

/// glibc: `malloc_stats`, which writes to standard error.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    say_all(&mut StandardError);
}

/// Writes a summary in one line.
pub(crate) fn say_summary(to: &mut dyn Write) {
    say_usage(&Usage::of_process(), to);
}

/// Writes a summary in one line, with the process's memory and CPU time as they were before.
pub(crate) fn say_usage(usage: &Usage, to: &mut dyn Write) {
    if let Some(summary) = stats::summary() {
        line::write(usage, &summary, to);
    }
}

/// Writes the summary, a table by size, and the free blocks.
pub(crate) fn say_all(to: &mut dyn Write) {
    say_summary(to);
    let _written = writeln!(to, "freehold: {:<16}{:>12}{:>12}{:>10}", "size", "in use", "capacity", "slabs");
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
    let _written = to.write_str("freehold: number of free blocks of 4 KiB, 8 KiB, and so on:\n");
    let _written = stats::write_free_blocks(to);
}

/// A stream of C's standard library as a writer.
struct Stream(*mut libc::FILE);

impl Write for Stream {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the pointer and the length are those of the live `text`, and the caller of `malloc_info` promised a
        // valid stream.
        let written = unsafe { libc::fwrite(text.as_ptr().cast::<c_void>(), 1, text.len(), self.0) };
        if written == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// glibc: `malloc_info`, as XML with elements of this allocator.
///
/// # Safety
/// `stream` is null or a stream that can be written to.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 || stream.is_null() {
        return libc::EINVAL;
    }
    if write_info(&mut Stream(stream)).is_ok() { 0 } else { -1 }
}

/// Writes the memory of each size, of runs and of free pages, and their sums. All numbers are bytes, except `slabs`.
fn write_info(to: &mut dyn Write) -> fmt::Result {
    // The numbers are taken before the stream allocates its buffer.
    let snapshot = stats::snapshot().unwrap_or_default();
    let summary = &snapshot.summary;
    writeln!(to, "<malloc version=\"freehold-1\">\n<sizes>")?;
    for SizeSummary { size, live, cached, kept, slabs } in snapshot.sizes() {
        writeln!(
            to,
            "  <size bytes=\"{size}\" live=\"{live}\" cached=\"{cached}\" kept=\"{kept}\" slabs=\"{slabs}\"/>"
        )?;
    }
    writeln!(to, "</sizes>")?;
    writeln!(to, "<runs live=\"{}\" cached=\"{}\"/>", summary.runs, summary.cached_runs)?;
    writeln!(to, "<pages kept=\"{}\" returned=\"{}\"/>", snapshot.kept_pages(), summary.returned)?;
    let totals = [
        ("live", summary.live()),
        ("cached", summary.cached()),
        ("kept", summary.kept()),
        ("returned", summary.returned),
    ];
    for (kind, bytes) in totals {
        writeln!(to, "<total type=\"{kind}\" size=\"{bytes}\"/>")?;
    }
    writeln!(to, "</malloc>")
}

/// glibc: `malloc_trim`. The number of bytes to keep is ignored: all free memory is returned.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_keep: usize) -> c_int {
    stats::trim().into()
}

/// glibc: `mallopt`. `M_TRIM_THRESHOLD` sets the number of free bytes that are kept. Other parameters of glibc are
/// accepted and ignored, because programs set them; unknown parameters are refused.
// SAFETY: the function implements the C library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(parameter: c_int, value: c_int) -> c_int {
    match parameter {
        libc::M_TRIM_THRESHOLD => {
            // The value -1 means never, for which the largest number serves as well.
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
