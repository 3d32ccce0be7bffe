//! Redis, driven by its own benchmark through a socket: what does the server take?
//!
//! The server has the malloc of this process; the benchmark has the C library's, or whatever it is linked with.

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

/// The server, and what drives it.
pub(super) const SERVER: &str = "redis-server";
pub(super) const DRIVER: &str = "redis-benchmark";
/// How long the server may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends so many requests of each kind.
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
        return Err(io::Error::other(format!("{DRIVER} ended with {}: {}", output.status, said.trim())));
    }
    server.cost(requests)
}

/// Starts the server, which ends when this process does.
fn serve(folder: &Path, socket: &Path) -> io::Result<Child> {
    let mut command = Command::new(SERVER);
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"]);
    command.arg(folder).arg("--unixsocket").arg(socket).stdout(Stdio::null());
    if std::env::var_os("LD_PRELOAD").is_none() {
        // It may be linked with a malloc of its own, which then is not the C library's.
        command.env("LD_PRELOAD", "libc.so.6");
    }
    // SAFETY: the child makes one system call before it becomes the server, and asks for no memory.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
    command.spawn()
}

/// A server that ends with its owner.
struct Server(Child);

impl Server {
    /// Waits until it answers.
    fn wait_for(&mut self, socket: &Path) -> io::Result<()> {
        let start = Instant::now();
        while UnixStream::connect(socket).is_err() {
            if self.0.try_wait()?.is_some() || start.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("{SERVER} does not start")));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends it, and says what it took.
    fn cost(mut self, steps: usize) -> io::Result<Cost> {
        let status = Status::read(&self.0.id().to_string())?;
        let (peak, resident) = (status.kib("VmHWM")?, status.kib("VmRSS")?);
        // A child counts when it was waited for, and none of the others is still there.
        let (before, _) = children_usage()?;
        self.0.kill()?;
        self.0.wait()?;
        let (after, _) = children_usage()?;
        Ok(Cost { cpu_ns: after - before, peak, resident, steps, ..Cost::default() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is over, and what it holds is worth nothing.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
