//! Why a recording could not be made, each in one sentence that says what to do.

use std::io;
use std::path::{Path, PathBuf};

/// A failure of the recorder. Whatever it is, the tracefs instance is gone and no file was left that looks
/// like a recording.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Only root may trace the kernel and read page flags.
    #[error("the kernel's page flags, and its tracing, are only root's to read; run it again with sudo")]
    NotRoot,

    /// There is no tracefs, and mounting it failed.
    #[error(
        "there is no tracefs and mounting it on /sys/kernel/tracing failed ({0}); boot a kernel with CONFIG_FTRACE, or allow this container to mount it"
    )]
    NoTracefs(io::Error),

    /// A file of the kernel's that every supported kernel has could not be used.
    #[error(
        "cannot use {path} ({source}); recording needs a Linux kernel with CONFIG_FTRACE and CONFIG_PROC_PAGE_MONITOR, and root in its own namespace",
        path = path.display()
    )]
    Kernel {
        /// The file in tracefs, procfs or sysfs.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },

    /// A file of the kernel's is there and has nothing in it.
    #[error("{0} is empty here; a container may hide it, so run it outside of the container")]
    Empty(&'static str),

    /// A file of the kernel's says something this program does not understand.
    #[error("cannot understand this kernel's {what} ({reason}); please report it with the output of `uname -r`")]
    Format {
        /// The file or format.
        what: String,
        /// What was wrong, in a few words.
        reason: String,
    },

    /// The kernel lacks one of the two events without which a recording means nothing.
    #[error("this kernel does not offer the event {0}; boot one with CONFIG_TRACEPOINTS and its kmem events")]
    MissingEvent(&'static str),

    /// The kernel had no memory for even the smallest ring.
    #[error(
        "the kernel has no memory for a ring of {kib} KiB on each CPU ({source}); free some memory or give --ring a smaller size"
    )]
    Ring {
        /// The size that was refused.
        kib: u64,
        /// What the kernel said.
        source: io::Error,
    },

    /// The spool that holds raw events during the run could not be written.
    #[error("cannot keep raw events in {path} ({source}); free some space there or name another folder with --spool", path = path.display())]
    Spool {
        /// The folder of the spool.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// The command does not exist.
    #[error("there is no program `{0}`; check its spelling, or give its full path")]
    UnknownCommand(String),

    /// The command exists but does not start.
    #[error("the program `{command}` does not start ({source})")]
    Spawn {
        /// The command's name.
        command: String,
        /// What the system said.
        source: io::Error,
    },

    /// The user pressed Ctrl-C before the command ran, or once more while the recording was finished.
    #[error("interrupted before the recording was whole; nothing was kept")]
    Aborted,

    /// Somebody records already.
    #[error(
        "another flight recorder runs on this machine, and one is enough; send it SIGUSR1 for a recording, or end it"
    )]
    Occupied,

    /// No counter or log tells a trigger.
    #[error("this kernel does not tell `{0}`, or not to this container; leave it out of --on")]
    Untold(&'static str),

    /// The kernel hides the names of its functions.
    #[error(
        "this kernel hides the addresses of its functions, so that stacks would have no names; \
         `sysctl kernel.kptr_restrict=1` shows them to root, or leave out --stacks"
    )]
    HiddenSymbols,

    /// The kernel takes no stacks.
    #[error("this kernel takes no stacks ({0}); leave out --stacks, or boot one with CONFIG_STACKTRACE")]
    NoStacks(Box<CaptureError>),

    /// All recordings of a flight recorder would have one name.
    #[error(
        "a flight recorder writes many files, and `{}` is no folder that there is, nor a name with {{time}} in it; make \
         the folder, or write {{time}} once in the name (and {{trigger}}, if you like)",
        .0.display()
    )]
    Pattern(PathBuf),

    /// More memory was asked for than a machine should give up for it.
    #[error("{asked} MiB for events are more than half of this machine's {whole} MiB; give less to --memory")]
    TooMuchMemory {
        /// What was asked for.
        asked: u64,
        /// The machine's.
        whole: u64,
    },

    /// There is no folder for recordings.
    #[error("there is no folder {}; make it, or give another one with --out", .0.display())]
    NoFolder(PathBuf),

    /// Something the system should always grant was refused.
    #[error("cannot {what} ({source}); nothing was recorded")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },

    /// The recording could not be written.
    #[error(transparent)]
    Trace(#[from] freehold_trace::Error),

    /// A text of `/proc` says something this program does not understand.
    #[error(transparent)]
    Proc(#[from] freehold_trace::procfs::ProcError),

    /// This kernel lays its events out in a way this program does not understand.
    #[error(transparent)]
    Layout(#[from] freehold_trace::format::FormatError),
}

impl CaptureError {
    /// For `map_err`: a failure at a file of the kernel's.
    pub fn kernel(path: &Path) -> impl FnOnce(io::Error) -> CaptureError {
        let path = path.to_path_buf();
        move |source| CaptureError::Kernel { path, source }
    }

    /// For `map_err`: a refused system call.
    pub fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> CaptureError {
        move |source| CaptureError::System { what, source: source.into() }
    }
}
