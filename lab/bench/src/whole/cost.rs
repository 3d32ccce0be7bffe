//! Runs a load under a malloc and reads the cost that the load reports.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::request::{Load, Request};
use super::roster::{Malloc, Place};
use crate::error::Error;

/// Environment variables that select a malloc, or set its options.
pub(crate) const CHOOSING: [&str; 4] = ["LD_PRELOAD", "FREEHOLD_OPTIONS", "MALLOC_CONF", "GLIBC_TUNABLES"];

/// Maximum time of a load; after it the load counts as hung.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// CPU time and memory of a process that ran a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Cost {
    /// CPU time of its threads, in nanoseconds.
    pub cpu_ns: u64,
    /// Peak resident memory, in KiB.
    pub peak_kib: u64,
    /// Resident memory at the end, in KiB.
    pub resident_kib: u64,
    /// Requested bytes of the blocks that were live at the end.
    pub live_bytes: u64,
    /// Resident memory when the load began, in KiB.
    pub start_kib: u64,
    /// Minor page faults (without reading from a disk).
    pub faults: u64,
    /// Number of steps of the load.
    pub steps: u64,
    /// Number of child processes that failed.
    pub lost: u64,
    /// Memory that is charged to the control group of the load, in KiB; 0 if the load has none.
    pub charged_kib: u64,
}

/// Costs of all loads under all mallocs: by round, load and malloc; `None` where the load failed.
pub(super) type Rounds = Vec<Vec<Vec<Option<Cost>>>>;

/// End of a load.
pub(super) enum Ending {
    /// The load ended and reported its cost.
    Done(Cost),
    /// The load failed; the reason, without a final full stop.
    Failed(String),
}

/// Runs a load under a malloc.
pub(super) fn run_load(request: &Request, load: &Load, malloc: &Malloc) -> Result<Ending, Error> {
    let mut command = Command::new(&request.program);
    command.args(["load", "malloc"]).args(&load.arguments).args(["--percent", &request.percent.to_string()]);
    for variable in CHOOSING {
        command.env_remove(variable);
    }
    if let Place::Library(path) = &malloc.place {
        command.env("LD_PRELOAD", path);
    }
    if !malloc.options.is_empty() {
        command.env("FREEHOLD_OPTIONS", &malloc.options);
    }
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = spawned.map_err(|error| broken_load(load, malloc, format_args!("cannot be run: {error}")))?;
    let output = wait_for_output(child)
        .map_err(|error| broken_load(load, malloc, format_args!("waiting for it failed: {error}")))?;
    let Some(ProcessOutput { status, out, err }) = output else {
        return Ok(Ending::Failed(format!("it did not end within {} seconds", TIME_LIMIT.as_secs())));
    };
    if !status.success() {
        return Ok(Ending::Failed(format!("{status}; {}", err.lines().next().unwrap_or("without a message"))));
    }
    // The dynamic loader reports on standard error that it cannot preload a library, and then continues without it.
    if !err.is_empty() {
        return Err(broken_load(load, malloc, err.trim()));
    }
    serde_json::from_str(&out)
        .map(Ending::Done)
        .map_err(|error| broken_load(load, malloc, format_args!("its output is not a cost: {error}")))
}

/// Returns the error for a load that cannot be measured.
fn broken_load(load: &Load, malloc: &Malloc, what: impl std::fmt::Display) -> Error {
    Error::Input(format!("the load `{}` under {}: {what}", load.name, malloc.name))
}

/// Output and exit status of a process.
struct ProcessOutput {
    status: ExitStatus,
    out: String,
    err: String,
}

/// Waits for a process and its output. Kills the process and returns `None` if it runs for longer than [`TIME_LIMIT`].
fn wait_for_output(mut child: Child) -> std::io::Result<Option<ProcessOutput>> {
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (send, receive) = channel();
    // Killing the process closes its ends of the pipes, which ends these threads. Child processes of it may hold the
    // pipes open for longer, so the threads are not joined.
    thread::spawn(move || {
        let err = thread::spawn(move || text(err));
        _ = send.send((text(out), err.join().unwrap_or_default()));
    });
    let Ok((out, err)) = receive.recv_timeout(TIME_LIMIT) else {
        child.kill()?;
        child.wait()?;
        return Ok(None);
    };
    Ok(Some(ProcessOutput { status: child.wait()?, out, err }))
}

fn text(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // A read error is ignored: the reader of the text notices that part of it is missing.
    _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}
