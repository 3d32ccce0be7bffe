//! What a load took, as it says itself.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::request::{Load, Request};
use super::roster::{Malloc, Place};
use crate::error::Error;

/// Variables by which a process is given a malloc, and options for it.
pub(crate) const CHOOSING: [&str; 4] = ["LD_PRELOAD", "FREEHOLD_OPTIONS", "MALLOC_CONF", "GLIBC_TUNABLES"];

/// How long a load may take before it is said to hang.
const PATIENCE: Duration = Duration::from_secs(120);

/// CPU time and memory of a process that made a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Cost {
    /// Nanoseconds that its threads ran.
    pub cpu_ns: u64,
    /// The most that was resident, in KiB.
    pub peak_kib: u64,
    /// What was resident at the end.
    pub resident_kib: u64,
    /// Bytes that were in use then, as they were asked for.
    pub live_bytes: u64,
    /// What was resident when the load began, in KiB.
    pub start_kib: u64,
    /// Page faults that took no reading from a disk.
    pub faults: u64,
    /// How often the load did what it does.
    pub steps: u64,
    /// Children that did not end well.
    pub lost: u64,
}

/// What every malloc took for every load: by round, load and malloc; nothing where it failed.
pub(super) type Rounds = Vec<Vec<Vec<Option<Cost>>>>;

/// How a load ended.
pub(super) enum Ending {
    /// With what it took.
    Done(Cost),
    /// Not as it should have: a sentence without an end.
    Failed(String),
}

/// Makes a load under a malloc.
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
    let child = spawned.map_err(|error| broken_load(load, malloc, format_args!("it cannot be run: {error}")))?;
    let said = wait_for_output(child)
        .map_err(|error| broken_load(load, malloc, format_args!("it cannot be waited for: {error}")))?;
    let Some(ProcessOutput { status, out, err }) = said else {
        return Ok(Ending::Failed(format!("it did not end in {} seconds", PATIENCE.as_secs())));
    };
    if !status.success() {
        return Ok(Ending::Failed(format!("{status}; {}", err.lines().next().unwrap_or("it says nothing"))));
    }
    // The loader says on standard error what it cannot preload, and goes on without it.
    if !err.is_empty() {
        return Err(broken_load(load, malloc, err.trim()));
    }
    serde_json::from_str(&out)
        .map(Ending::Done)
        .map_err(|error| broken_load(load, malloc, format_args!("what it says is no cost: {error}")))
}

/// Returns the error of a load that cannot be measured.
fn broken_load(load: &Load, malloc: &Malloc, what: impl std::fmt::Display) -> Error {
    Error::Input(format!("the load `{}` under {}: {what}", load.name, malloc.name))
}

/// What a process said, and how it ended.
struct ProcessOutput {
    status: ExitStatus,
    out: String,
    err: String,
}

/// Waits for a process, and ends it where it takes too long.
fn wait_for_output(mut child: Child) -> std::io::Result<Option<ProcessOutput>> {
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (send, receive) = channel();
    // Who ends the process closes its pipes, and so ends these. Children of it may hold them longer, and are not waited
    // for.
    thread::spawn(move || {
        let err = thread::spawn(move || text(err));
        _ = send.send((text(out), err.join().unwrap_or_default()));
    });
    let Ok((out, err)) = receive.recv_timeout(PATIENCE) else {
        child.kill()?;
        child.wait()?;
        return Ok(None);
    };
    Ok(Some(ProcessOutput { status: child.wait()?, out, err }))
}

fn text(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // What could not be read is missed by who reads the text.
    _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}
