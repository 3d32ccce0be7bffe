//! Redis, driven by its own benchmark through a socket, to measure the costs of the server.
//!
//! The server uses the malloc of this process; the benchmark uses the malloc of the C library, or the one it is linked
//! with.

use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, set_parent_process_death_signal};

use super::cost::{Cost, Status};
use super::system::children_usage;

/// Names of the server and of the benchmark.
pub(super) const SERVER: &str = "redis-server";
pub(super) const DRIVER: &str = "redis-benchmark";
/// Maximum time in which the server must start.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends `requests` requests of each kind.
pub(super) fn redis(requests: usize) -> io::Result<Cost> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("socket");
    let mut server = Server(serve(folder.path(), &socket)?);
    server.wait_for(&socket)?;
    let output = Command::new(DRIVER)
        .args(["-q", "-r", "100000", "-d", "200", "-P", "16", "-c", "20"])
        .args(["-t", "set,get,incr,lpush,rpop,sadd,hset,zadd", "-n", &requests.to_string(), "-s"])
        .arg(&socket)
        .env_remove("LD_PRELOAD")
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{DRIVER} failed with {}: {}", output.status, said.trim())));
    }
    server.cost(requests)
}

/// Starts the server, which is killed when this process ends.
fn serve(folder: &Path, socket: &Path) -> io::Result<Child> {
    let mut command = Command::new(SERVER);
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"]);
    command.arg(folder).arg("--unixsocket").arg(socket).stdout(Stdio::null());
    if std::env::var_os("LD_PRELOAD").is_none() {
        // The server may be linked with its own malloc; preloading the C library makes it use that library's malloc.
        command.env("LD_PRELOAD", "libc.so.6");
    }
    // SAFETY: between `fork` and `exec` the closure makes one system call, which is async-signal-safe, and it allocates
    // no memory.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
    command.spawn()
}

/// A server that is killed when this value is dropped.
struct Server(Child);

impl Server {
    /// Waits until the server accepts connections.
    fn wait_for(&mut self, socket: &Path) -> io::Result<()> {
        let start = Instant::now();
        while UnixStream::connect(socket).is_err() {
            if self.0.try_wait()?.is_some() || start.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("{SERVER} did not start; run it by hand to see the reason")));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Kills the server, and returns its costs.
    fn cost(mut self, steps: usize) -> io::Result<Cost> {
        let status = Status::read(&self.0.id().to_string())?;
        let (peak, resident) = (status.kib("VmHWM")?, status.kib("VmRSS")?);
        // The usage of children includes a child only after it was waited for, and there is no other running child.
        let (before, _) = children_usage()?;
        self.0.kill()?;
        self.0.wait()?;
        let (after, _) = children_usage()?;
        Ok(Cost { cpu_ns: after - before, peak, resident, steps, ..Cost::default() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server's data is not needed any more, so it is killed without a shutdown.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
