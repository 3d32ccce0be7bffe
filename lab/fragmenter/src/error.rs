//! Why memory could not be fragmented, each in one sentence that says what to do. Whatever it is, everything was
//! undone.

use std::io;

use freehold_record::CaptureError;
use freehold_report::room::TooLittle;
use freehold_trace::procfs::ProcError;

/// A failure to make memory as it was ordered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Frame numbers, and what keeps pages from being moved, are root's.
    #[error("only root may fragment a running machine's memory; run it again with sudo")]
    NotRoot,

    /// Pageblocks of another size, which the layouts are not made for.
    #[error(
        "this kernel's pageblocks have {0} KiB, and ages are made of pageblocks of 2048; use a machine that has those"
    )]
    Pageblocks(u64),

    /// Nothing that could be renewed was ordered.
    #[error("what goes on by --sustain are pins, and there are none; name pins in --with, or more --memory")]
    NoPins,

    /// More was ordered than is free beyond what the machine keeps.
    #[error(
        "{asked} MiB are to be worked on, and {room} MiB are free beyond what the machine keeps; give less --memory"
    )]
    TooMuch {
        /// MiB that were ordered.
        asked: u64,
        /// MiB that can be had.
        room: u64,
    },

    /// So little that shares of it mean nothing.
    #[error("{asked} MiB are too little to work on; give a --memory of {least} MiB or more")]
    TooSmall {
        /// MiB that were ordered.
        asked: u64,
        /// The least.
        least: u64,
    },

    /// A limit of this process, its control group or the machine stands against it.
    #[error("{0}; raise that limit, or give less --memory")]
    Limit(#[from] TooLittle),

    /// The limit of open files stands against it.
    #[error(
        "this keeps about {needed} files open, and the limit is {limit}; raise it (`ulimit -n`), or give less --memory"
    )]
    Files {
        /// Files that would be open.
        needed: u64,
        /// The limit.
        limit: u64,
    },

    /// The limit of private memory stands against it.
    #[error("this maps {needed} MiB, and `ulimit -d` allows {limit} MiB; raise it, or give less --memory")]
    Data {
        /// MiB that would be mapped.
        needed: u64,
        /// The limit, in MiB.
        limit: u64,
    },

    /// Free memory lies in pieces already.
    #[error(
        "no pageblock was to be had as a whole, so nothing can be placed page by page and everything was undone; switch \
         transparent huge pages on, give more --memory, or other kinds by --with"
    )]
    NothingWhole,

    /// Others took memory meanwhile.
    #[error(
        "only {free} MiB are free by now, fewer than the {floor} MiB that are left to the machine, so everything was undone; \
         give less --memory, or wait until others take less"
    )]
    Short {
        /// MiB that are free.
        free: u64,
        /// MiB that are left to the machine.
        floor: u64,
    },

    /// The system refused something midway.
    #[error("cannot {what} ({source}), so everything was undone; give less --memory, or other kinds by --with")]
    Refused {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },

    /// A file of the kernel's could not be used.
    #[error(
        "cannot use {path} ({source}); this needs Linux 5.14 or newer with CONFIG_PROC_PAGE_MONITOR, and root in its own \
         namespace"
    )]
    Kernel {
        /// The file.
        path: &'static str,
        /// What the kernel said.
        source: io::Error,
    },

    /// A text of `/proc` says something this program does not understand.
    #[error(transparent)]
    Proc(#[from] ProcError),

    /// The command is not there, or does not start.
    #[error(transparent)]
    Command(CaptureError),

    /// The user gave up before memory was as ordered.
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
    /// For `map_err`: a refused system call.
    pub fn refused<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Error {
        move |source| Error::Refused { what, source: source.into() }
    }

    /// For `map_err`: a failure at a file of the kernel's.
    pub fn kernel(path: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Kernel { path, source }
    }
}
