//! The mallocs by name: a description, and their two functions. A new malloc needs one row here.
//!
//! All are called through function pointers, so that a call has the same cost for each.

use freehold_object_loops::Entries;
use serde::Serialize;

use crate::{ours, version};

/// Malloc in the roster.
pub(crate) struct Candidate {
    /// Name on the command line and in reports.
    pub(crate) name: &'static str,
    /// Package that contains the malloc.
    package: &'static str,
    /// Function that returns the version.
    version: fn(&'static str) -> String,
    /// Description in one line.
    about: &'static str,
    /// Functions of the malloc.
    pub(crate) entries: Entries,
    /// Function that must be called before a loop, on the thread that runs the loop.
    pub(crate) start: fn(),
}

/// Does nothing, for mallocs that need no start.
fn no_start() {}

/// Name of mimalloc with its major version.
const MIMALLOC: &str = if cfg!(feature = "mimalloc-2") { "mimalloc-2" } else { "mimalloc-3" };

/// All mallocs.
pub(crate) static ROSTER: [Candidate; 6] = [
    Candidate {
        name: "freehold",
        package: "freehold-malloc",
        version: version::of_package,
        about: "a list of free objects for each CPU: the slab allocator with its size classes",
        // SAFETY: the functions behave like C's once `ours::start` has been called, and `start` below is called before
        // each loop.
        entries: unsafe { Entries::new(ours::malloc, ours::free) },
        start: ours::start,
    },
    Candidate {
        name: "libc",
        package: "libc",
        version: version::of_libc,
        about: "the malloc of the C library",
        // SAFETY: these are C's own `malloc` and `free`.
        entries: unsafe { Entries::new(libc::malloc, libc::free) },
        start: no_start,
    },
    Candidate {
        name: "jemalloc",
        package: "tikv-jemalloc-sys",
        version: version::of_package,
        about: "arenas by CPU, a cache of objects for each thread",
        // SAFETY: these are jemalloc's `malloc` and `free` under prefixed names, which behave like C's.
        entries: unsafe { Entries::new(tikv_jemalloc_sys::malloc, tikv_jemalloc_sys::free) },
        start: no_start,
    },
    Candidate {
        name: MIMALLOC,
        package: "libmimalloc-sys",
        version: version::of_mimalloc,
        about: "a list of free objects for each page of a thread",
        // SAFETY: mimalloc documents these functions with the behaviour of C's `malloc` and `free`.
        entries: unsafe { Entries::new(libmimalloc_sys::mi_malloc, libmimalloc_sys::mi_free) },
        start: no_start,
    },
    Candidate {
        name: "snmalloc",
        package: "snmalloc-sys",
        version: version::of_package,
        about: "a list of free objects for each thread; remote frees return to the owner in batches",
        // SAFETY: snmalloc documents these functions with the behaviour of C's `malloc` and `free`.
        entries: unsafe { Entries::new(snmalloc_sys::sn_malloc, snmalloc_sys::sn_free) },
        start: no_start,
    },
    Candidate {
        name: "rpmalloc",
        package: "rpmalloc-sys",
        version: version::of_package,
        about: "spans of each thread; the program must announce its threads",
        // SAFETY: the functions behave like C's on a thread that is initialised. `start` initialises the first thread,
        // and the hooks initialise and finalise any other.
        entries: unsafe {
            Entries::new(rpmalloc_sys::rpmalloc, rpmalloc_sys::rpfree)
                .with_threads(rpmalloc_sys::rpmalloc_thread_initialize, rpmalloc_sys::rpmalloc_thread_finalize)
        },
        start: start_rpmalloc,
    },
];

fn start_rpmalloc() {
    // SAFETY: the function may be called repeatedly, and no other function of rpmalloc is called before it.
    let refused = unsafe { rpmalloc_sys::rpmalloc_initialize() };
    assert_eq!(refused, 0, "rpmalloc is initialised");
}

impl Candidate {
    /// Returns the malloc of this name.
    pub(crate) fn find(name: &str) -> Option<&'static Candidate> {
        ROSTER.iter().find(|candidate| candidate.name == name)
    }
}

/// Malloc as `--list` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct RosterRow {
    malloc: &'static str,
    version: String,
    package: &'static str,
    about: &'static str,
}

/// Returns the whole roster for `--list`.
pub(crate) fn list() -> Vec<RosterRow> {
    let listed = |candidate: &Candidate| RosterRow {
        malloc: candidate.name,
        version: (candidate.version)(candidate.package),
        package: candidate.package,
        about: candidate.about,
    };
    ROSTER.iter().map(listed).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::thread;

    use freehold_object_loops::{Objects, Size};

    use super::*;

    #[test]
    fn names_are_unique_and_versions_known() {
        for candidate in &ROSTER {
            assert!(std::ptr::eq(Candidate::find(candidate.name).unwrap(), candidate));
            assert!(!candidate.name.contains(char::is_whitespace), "a name is one word of a request");
            assert!((candidate.version)(candidate.package).starts_with(|c: char| c.is_alphanumeric()));
        }
        assert!(Candidate::find("malloc").is_none());
    }

    /// Writes a number to all bytes of each object and checks it at the free. Half of the objects are freed on another
    /// thread.
    #[test]
    fn every_malloc_returns_distinct_writable_memory() {
        for candidate in &ROSTER {
            (candidate.start)();
            for size in Size::TABLE {
                let bytes = size.bytes();
                let objects: Vec<usize> =
                    (0..500).map(|_| candidate.entries.malloc(bytes).expose_provenance()).collect();
                assert!(objects.iter().all(|&object| object != 0 && object % bytes.min(16) == 0), "{}", candidate.name);
                assert_eq!(objects.iter().collect::<BTreeSet<_>>().len(), objects.len(), "{}", candidate.name);
                for (at, &object) in objects.iter().enumerate() {
                    // SAFETY: the object was allocated above with `bytes` bytes and is used only by this test.
                    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(object).write_bytes(at as u8, bytes) }
                }
                let free = |from: usize| {
                    for (at, &object) in objects.iter().enumerate().skip(from).step_by(2) {
                        let object = std::ptr::with_exposed_provenance_mut::<u8>(object);
                        // SAFETY: the object was allocated with `bytes` bytes, which were all written above. Each
                        // thread frees its own half, once.
                        unsafe {
                            assert!((0..bytes).all(|byte| *object.add(byte) == at as u8), "{} {size}", candidate.name);
                            candidate.entries.free(object);
                        }
                    }
                };
                free(0);
                thread::scope(|scope| {
                    scope.spawn(|| {
                        candidate.entries.enter_thread();
                        free(1);
                        candidate.entries.leave_thread();
                    });
                });
            }
        }
    }
}
