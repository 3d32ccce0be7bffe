//! A server that runs under the malloc of this process until its client has ended.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::subject::check_preload;
use crate::malloc::cost::Cost;
use crate::malloc::system::wait_for_child;

/// Maximum time in which a server must start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server, killed when this value is dropped.
pub(super) struct Server {
    name: &'static str,
    /// The process; `None` after it was stopped.
    child: Option<Child>,
    /// The command, which owns the control group of the process.
    _command: Command,
    /// File with its standard error.
    errors: PathBuf,
}

impl Server {
    /// Starts a server, and waits until `is_ready`. Its standard error is written to the file `errors`.
    pub(super) fn start(
        name: &'static str,
        mut command: Command,
        errors: PathBuf,
        is_ready: impl Fn() -> bool,
    ) -> io::Result<Server> {
        let child = command.stderr(File::create(&errors)?).spawn()?;
        let mut server = Server { name, child: Some(child), _command: command, errors };
        let start = Instant::now();
        while !is_ready() {
            if server.has_ended()? || start.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("{name} did not start: {}", server.last_error())));
            }
            thread::sleep(Duration::from_millis(5));
        }
        check_preload(&fs::read_to_string(&server.errors)?)?;
        Ok(server)
    }

    /// Returns the number of the process.
    pub(super) fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Sends a signal that ends the server, waits for it, and returns its CPU time and that of the child processes that
    /// it waited for. `memory` has the memory that was measured before.
    pub(super) fn stop(mut self, signal: Signal, memory: Cost) -> io::Result<Cost> {
        let Some(child) = self.child.take() else { return Ok(memory) };
        kill_process(Pid::from_child(&child), signal)?;
        Ok(Cost { cpu_ns: wait_for_child(child)?.cpu_ns, ..memory })
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.child.as_mut().map_or(Ok(None), Child::try_wait)?.is_some())
    }

    /// Returns the last line of its standard error.
    fn last_error(&self) -> String {
        let text = fs::read_to_string(&self.errors).unwrap_or_default();
        let line = text.lines().rfind(|line| !line.trim().is_empty());
        line.map_or_else(|| format!("run {} by hand to see the reason", self.name), str::to_owned)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The data is not needed any more, so a server that was not stopped is killed without a shutdown.
        if let Some(child) = &mut self.child {
            _ = child.kill();
            _ = child.wait();
        }
    }
}
