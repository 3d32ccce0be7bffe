//! Errors of the recorder, each worded as one sentence with advice.

use std::io;
use std::path::{Path, PathBuf};

/// Error of the recorder. In every case, the tracefs instance was removed and no incomplete recording remains.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The process is not root. Only root may trace the kernel and read page flags.
    #[error("the kernel's page flags, and its tracing, are only root's to read; run it again with sudo")]
    NotRoot,

    /// There is no tracefs, and mounting it failed.
    #[error(
        "there is no tracefs and mounting it on /sys/kernel/tracing failed ({0}); boot a kernel with CONFIG_FTRACE, or allow this container to mount it"
    )]
    NoTracefs(io::Error),

    /// A kernel file that every supported kernel has could not be used.
    #[error(
        "cannot use {path} ({source}); recording needs a Linux kernel with CONFIG_FTRACE and CONFIG_PROC_PAGE_MONITOR, and root in its own namespace",
        path = path.display()
    )]
    Kernel {
        /// File in tracefs, procfs or sysfs.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },

    /// A kernel file is empty.
    #[error("{0} is empty here; a container may hide it, so run it outside of the container")]
    Empty(&'static str),

    /// A kernel file has contents that cannot be parsed.
    #[error("cannot understand this kernel's {what} ({reason}); please report it with the output of `uname -r`")]
    Format {
        /// Name of the file or format.
        what: String,
        /// Reason, in a few words.
        reason: String,
    },

    /// The kernel lacks one of the two events that every recording needs.
    #[error("this kernel does not offer the event {0}; boot one with CONFIG_TRACEPOINTS and its kmem events")]
    MissingEvent(&'static str),

    /// The kernel had no memory even for the smallest ring.
    #[error(
        "the kernel has no memory for a ring of {kib} KiB on each CPU ({source}); free some memory or give --ring a smaller size"
    )]
    Ring {
        /// Refused size of the ring in KiB.
        kib: u64,
        /// The kernel's error.
        source: io::Error,
    },

    /// The spool for raw events could not be written.
    #[error("cannot keep raw events in {path} ({source}); free some space there or name another folder with --spool", path = path.display())]
    Spool {
        /// Folder of the spool.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// The command does not exist.
    #[error("there is no program `{0}`; check its spelling, or give its full path")]
    UnknownCommand(String),

    /// The command exists but cannot be started.
    #[error("the program `{command}` does not start ({source})")]
    Spawn {
        /// Name of the command.
        command: String,
        /// The system's error.
        source: io::Error,
    },

    /// The user pressed Ctrl-C before the command ran, or once more while the recording was being finished.
    #[error("interrupted before the recording was whole; nothing was kept")]
    Aborted,

    /// Another flight recorder runs on this machine.
    #[error(
        "another flight recorder runs on this machine, and one is enough; send it SIGUSR1 for a recording, or end it"
    )]
    Occupied,

    /// No counter or log shows the events of a trigger.
    #[error("this kernel does not tell `{0}`, or not to this container; leave it out of --on")]
    Untold(&'static str),

    /// The kernel hides the names of its functions.
    #[error(
        "this kernel hides the addresses of its functions, so that stacks would have no names; \
         `sysctl kernel.kptr_restrict=1` shows them to root, or leave out --stacks"
    )]
    HiddenSymbols,

    /// The kernel does not support stacks.
    #[error("this kernel takes no stacks ({0}); leave out --stacks, or boot one with CONFIG_STACKTRACE")]
    NoStacks(Box<CaptureError>),

    /// All recordings of a flight recorder would have the same name.
    #[error(
        "a flight recorder writes many files, and `{}` is no folder that there is, nor a name with {{time}} in it; make \
         the folder, or write {{time}} once in the name (and {{trigger}}, if you like)",
        .0.display()
    )]
    Pattern(PathBuf),

    /// More than half of the machine's memory was requested.
    #[error("{asked} MiB for events are more than half of this machine's {whole} MiB; give less to --memory")]
    TooMuchMemory {
        /// Requested memory in MiB.
        asked: u64,
        /// Memory of the machine in MiB.
        whole: u64,
    },

    /// The folder for recordings does not exist.
    #[error("there is no folder {}; make it, or give another one with --out", .0.display())]
    NoFolder(PathBuf),

    /// The system refused an operation that it should always allow.
    #[error("cannot {what} ({source}); nothing was recorded")]
    System {
        /// Description of the operation.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },

    /// The recording could not be written.
    #[error(transparent)]
    Trace(#[from] freehold_trace::Error),

    /// A text of `/proc` cannot be parsed.
    #[error(transparent)]
    Proc(#[from] freehold_trace::procfs::ProcError),

    /// The format of this kernel's events cannot be parsed.
    #[error(transparent)]
    Layout(#[from] freehold_trace::format::FormatError),
}

impl CaptureError {
    /// Returns a function for `map_err` that creates the error of a kernel file.
    pub fn kernel(path: &Path) -> impl FnOnce(io::Error) -> CaptureError {
        let path = path.to_path_buf();
        move |source| CaptureError::Kernel { path, source }
    }

    /// Returns a function for `map_err` that creates the error of a refused system call.
    pub fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> CaptureError {
        move |source| CaptureError::System { what, source: source.into() }
    }
}
