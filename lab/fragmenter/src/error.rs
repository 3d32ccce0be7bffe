//! Errors of fragmentation, each as one sentence with a remedy. After every error, everything has been undone.

use std::io;

use freehold_record::CaptureError;
use freehold_report::room::TooLittle;
use freehold_trace::procfs::ProcError;

/// Reason why the requested fragmentation could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process is not root, which frame numbers and unmovable pages require.
    #[error("only root may fragment a running machine's memory; run it again with sudo")]
    NotRoot,

    /// The pageblocks have a size for which the layouts are not made.
    #[error("this kernel's pageblocks have {0} KiB, but ages need 2048 KiB; use a machine with such pageblocks")]
    Pageblocks(u64),

    /// The request has no pins, which are the only kind that `--sustain` renews.
    #[error("--sustain renews pins, but there are none; name pins in --with, or give more --memory")]
    NoPins,

    /// The request exceeds the free memory beyond the machine's reserve.
    #[error("{asked} MiB are requested, but only {room} MiB are free beyond the machine's reserve; give less --memory")]
    TooMuch {
        /// Requested MiB.
        asked: u64,
        /// Available MiB.
        room: u64,
    },

    /// The request is too small for shares of it to be meaningful.
    #[error("{asked} MiB are too little; give a --memory of at least {least} MiB")]
    TooSmall {
        /// Requested MiB.
        asked: u64,
        /// Minimum MiB.
        least: u64,
    },

    /// The request exceeds a limit of this process, its control group or the machine.
    #[error("{0}; raise that limit, or give less --memory")]
    Limit(#[from] TooLittle),

    /// The request exceeds the limit of open files.
    #[error(
        "this keeps about {needed} files open, but the limit is {limit}; raise it (`ulimit -n`), or give less --memory"
    )]
    Files {
        /// Number of files that would be open.
        needed: u64,
        /// Limit of open files.
        limit: u64,
    },

    /// The request exceeds the limit of private memory.
    #[error("this maps {needed} MiB, but `ulimit -d` allows {limit} MiB; raise it, or give less --memory")]
    Data {
        /// MiB that would be mapped.
        needed: u64,
        /// Limit, in MiB.
        limit: u64,
    },

    /// Free memory is fragmented already.
    #[error(
        "no whole pageblock could be allocated, so pages cannot be placed page by page, and everything was undone; \
         enable transparent huge pages, give more --memory, or give other kinds with --with"
    )]
    NothingWhole,

    /// Other programs took memory meanwhile.
    #[error(
        "only {free} MiB are still free, less than the machine's reserve of {floor} MiB, so everything was undone; \
         give less --memory, or wait until other programs use less"
    )]
    Short {
        /// Free MiB.
        free: u64,
        /// MiB that are left to the machine.
        floor: u64,
    },

    /// A system call failed midway.
    #[error("cannot {what} ({source}), so everything was undone; give less --memory, or other kinds with --with")]
    Refused {
        /// Action that failed.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },

    /// A file of the kernel could not be used.
    #[error(
        "cannot use {path} ({source}); this needs Linux 5.14 or newer with CONFIG_PROC_PAGE_MONITOR, and root in the \
         initial user namespace"
    )]
    Kernel {
        /// Path of the file.
        path: &'static str,
        /// Error of the system.
        source: io::Error,
    },

    /// A text of `/proc` could not be parsed.
    #[error(transparent)]
    Proc(#[from] ProcError),

    /// The command was not found, or does not start.
    #[error(transparent)]
    Command(CaptureError),

    /// The user interrupted the program before memory was as requested.
    #[error("interrupted; everything was undone")]
    Interrupted,
}

impl From<CaptureError> for Error {
    fn from(error: CaptureError) -> Error {
        match error {
            CaptureError::Aborted => Error::Interrupted,
            error => Error::Command(error),
        }
    }
}

impl Error {
    /// Returns a function for `map_err` after a failed system call.
    pub fn refused<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Error {
        move |source| Error::Refused { what, source: source.into() }
    }

    /// Returns a function for `map_err` after a failure at a file of the kernel.
    pub fn kernel(path: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Kernel { path, source }
    }
}
