//! What a load took, as it says itself.

use std::process::Command;

use serde::{Deserialize, Serialize};

use super::{Malloc, Place, Request};
use crate::error::Error;

/// Variables by which a process is given a malloc, and options for it.
pub(crate) const CHOOSING: [&str; 4] = ["LD_PRELOAD", "FREEHOLD_OPTIONS", "MALLOC_CONF", "GLIBC_TUNABLES"];

/// CPU time and memory of a process that made a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Nanoseconds that its threads ran.
    pub cpu_ns: u64,
    /// The most that was resident, in KiB.
    pub peak_kib: u64,
    /// What was resident at the end.
    pub resident_kib: u64,
    /// Bytes that were in use then, as they were asked for.
    pub live_bytes: u64,
}

/// Makes a load under a malloc.
pub fn of(request: &Request, load: &str, malloc: &Malloc) -> Result<Cost, Error> {
    let mut command = Command::new(&request.program);
    command.args(["load", "malloc", load, "--percent", &request.percent.to_string()]);
    for variable in CHOOSING {
        command.env_remove(variable);
    }
    if let Place::Library(path) = &malloc.place {
        command.env("LD_PRELOAD", path);
    }
    if !malloc.options.is_empty() {
        command.env("FREEHOLD_OPTIONS", &malloc.options);
    }
    let broken = |what: String| Error::Input(format!("the load `{load}` under {}: {what}", malloc.name));
    let output = command.output().map_err(|error| broken(format!("it cannot be run: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(broken(format!("{}; {}", output.status, said.lines().next().unwrap_or("it says nothing"))));
    }
    // The loader says on standard error what it cannot preload, and goes on without it.
    if !output.stderr.is_empty() {
        return Err(broken(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| broken(format!("what it says is no cost: {error}")))
}
