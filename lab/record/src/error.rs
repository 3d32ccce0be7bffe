//! Errors of the recorder, each worded as one sentence with advice.

use std::io;
use std::path::{Path, PathBuf};

/// Error of the recorder. In every case, no incomplete recording remains. The tracefs instance was removed, unless a
/// flight recorder continues after the error.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The process is not root. Only root may trace the kernel and read page flags.
    #[error("reading the kernel's page flags and events needs root; run the command again with sudo")]
    NotRoot,

    /// There is no tracefs, and mounting it failed.
    #[error(
        "there is no tracefs, and mounting tracefs on /sys/kernel/tracing failed ({0}); boot a kernel with \
         CONFIG_FTRACE, or allow this container to mount tracefs"
    )]
    NoTracefs(io::Error),

    /// A kernel file that every supported kernel has could not be used.
    #[error(
        "cannot use {path} ({source}); recording needs a Linux kernel with CONFIG_FTRACE and \
         CONFIG_PROC_PAGE_MONITOR, and root in the kernel's initial namespace",
        path = path.display()
    )]
    Kernel {
        /// File in tracefs, procfs or sysfs.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },

    /// A kernel file is empty.
    #[error("{0} is empty; if a container hides its contents, run the command outside of the container")]
    Empty(&'static str),

    /// A kernel file has contents that cannot be parsed.
    #[error("cannot parse this kernel's {what} ({reason}); report it with the output of `uname -r`")]
    Format {
        /// Name of the file or format.
        what: String,
        /// Reason, in a few words.
        reason: String,
    },

    /// The kernel lacks one of the two events that every recording needs.
    #[error("this kernel has no event {0}; boot a kernel with CONFIG_TRACEPOINTS and the kmem events")]
    MissingEvent(&'static str),

    /// The kernel had no memory even for the smallest ring.
    #[error(
        "the kernel cannot allocate a ring buffer of {kib} KiB for each CPU ({source}); free some memory, or give a \
         smaller --ring"
    )]
    Ring {
        /// Refused size of the ring in KiB.
        kib: u64,
        /// The kernel's error.
        source: io::Error,
    },

    /// The spool for raw events could not be written.
    #[error(
        "cannot write raw events to {path} ({source}); free some space there, or give another folder with --spool",
        path = path.display()
    )]
    Spool {
        /// Folder of the spool.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// The command does not exist.
    #[error("there is no program `{0}`; check the spelling, or give the full path")]
    UnknownCommand(String),

    /// The command exists but cannot be started.
    #[error("cannot start the program `{command}` ({source})")]
    Spawn {
        /// Name of the command.
        command: String,
        /// The system's error.
        source: io::Error,
    },

    /// The user pressed Ctrl-C before the command ran, or once more while the recording was being finished.
    #[error("interrupted before the recording was complete; nothing was kept")]
    Aborted,

    /// Another flight recorder runs on this machine.
    #[error("another flight recorder runs on this machine; send SIGUSR1 to it for a recording, or end it")]
    Occupied,

    /// No counter or log shows the events of a trigger.
    #[error("the trigger `{0}` is not available on this kernel or in this container; leave it out of --on")]
    Untold(&'static str),

    /// The kernel hides the names of its functions.
    #[error(
        "this kernel hides the addresses of its functions, so stacks would have no names; run \
         `sysctl kernel.kptr_restrict=1`, or leave out --stacks"
    )]
    HiddenSymbols,

    /// The kernel does not support stacks.
    #[error("this kernel cannot record stacks ({0}); leave out --stacks, or boot a kernel with CONFIG_STACKTRACE")]
    NoStacks(Box<CaptureError>),

    /// All recordings of a flight recorder would have the same name.
    #[error(
        "a flight recorder writes several files, but `{}` is neither an existing folder nor a name that contains \
         {{time}}; make the folder, or write {{time}} once in the name (and optionally {{trigger}})",
        .0.display()
    )]
    Pattern(PathBuf),

    /// More than half of the machine's memory was requested.
    #[error("{asked} MiB for events are more than half of this machine's {whole} MiB; give a smaller --memory")]
    TooMuchMemory {
        /// Requested memory in MiB.
        asked: u64,
        /// Memory of the machine in MiB.
        whole: u64,
    },

    /// The folder for recordings does not exist.
    #[error("there is no folder {}; make the folder, or give another --out", .0.display())]
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
