//! Redis, driven by its own benchmark through a socket, to measure the costs of the server.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use super::limit::Limit;
use super::server::Server;
use super::subject::{read_output, under_libc, under_malloc};
use crate::malloc::cost::{Cost, Status};

/// Names of the server and of the benchmark.
pub(super) const SERVER: &str = "redis-server";
pub(super) const DRIVER: &str = "redis-benchmark";

/// Requests that the benchmark sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::malloc) enum Traffic {
    /// Eight kinds of requests with values of 200 bytes.
    Mixed,
    /// Reads of the first 100 elements of a list.
    Lrange,
    /// Additions to a list that grows.
    Lpush,
    /// Values of 3 KB, written and read.
    Large,
}

impl Traffic {
    /// Returns the number of requests of each kind in the full load.
    pub(super) fn requests(self) -> usize {
        match self {
            Traffic::Mixed => 60_000,
            Traffic::Lrange => 100_000,
            Traffic::Lpush => 500_000,
            Traffic::Large => 200_000,
        }
    }

    /// Returns the arguments of the benchmark: kinds of requests, bytes of a value, and number of keys.
    fn arguments(self) -> [&'static str; 6] {
        let (kinds, bytes, keys) = match self {
            Traffic::Mixed => ("set,get,incr,lpush,rpop,sadd,hset,zadd", "200", "100000"),
            Traffic::Lrange => ("lrange_100", "200", "1"),
            Traffic::Lpush => ("lpush", "200", "1"),
            Traffic::Large => ("set,get", "3000", "10000"),
        };
        ["-t", kinds, "-d", bytes, "-r", keys]
    }
}

/// Sends `requests` requests of each kind.
pub(super) fn redis(traffic: Traffic, requests: usize, limit: Option<Limit>) -> io::Result<Cost> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("socket");
    let errors = folder.path().join("errors");
    let command = server_command(folder.path(), &socket, limit)?;
    let server = Server::start(SERVER, command, errors, || UnixStream::connect(&socket).is_ok())?;
    let mut driver = under_libc(DRIVER);
    driver.args(["-q", "-P", "16", "-c", "20", "-n", &requests.to_string()]).args(traffic.arguments());
    read_output(driver.arg("-s").arg(&socket))?;
    let status = Status::read(&server.id().to_string())?;
    let (peak, resident) = (status.kib("VmHWM")?, status.kib("VmRSS")?);
    server.stop(Signal::KILL, Cost { peak, resident, steps: requests, ..Cost::default() })
}

fn server_command(folder: &Path, socket: &Path, limit: Option<Limit>) -> io::Result<Command> {
    let mut command = under_malloc(SERVER, limit)?;
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"]);
    command.arg(folder).arg("--unixsocket").arg(socket);
    Ok(command)
}
