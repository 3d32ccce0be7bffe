//! PostgreSQL, driven by `pgbench` through a socket in a temporary folder.
//!
//! The server refuses to run as root. If this process has root's rights, the server runs as another user, who owns the
//! folder.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Signal, geteuid};

use super::find::find_program;
use super::limit::Limit;
use super::server::Server;
use super::subject::{preloaded_library, read_output, under_libc, under_malloc};
use super::tree::{sample_peak, tree_kib};
use crate::malloc::cost::Cost;

pub(super) const SERVER: &str = "postgres";
pub(super) const INITDB: &str = "initdb";
pub(super) const DRIVER: &str = "pgbench";
/// Transactions of each connection.
pub(super) const TRANSACTIONS: usize = 2000;
/// Number of connections.
const CONNECTIONS: &str = "4";
/// Users that the server may run as instead of root, the preferred one first.
const USERS: [&str; 2] = ["postgres", "nobody"];
/// Name of the administrator, and of the database.
const NAME: &str = "postgres";
/// Settings: no network, little shared memory, and no writes to the disk that are waited for.
const SETTINGS: [&str; 5] =
    ["listen_addresses=", "shared_buffers=16MB", "fsync=off", "autovacuum=off", "logging_collector=off"];

/// A user and the user's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct User {
    user: u32,
    group: u32,
}

/// Runs `transactions` transactions on each connection.
pub(super) fn postgres(transactions: usize, limit: Option<Limit>) -> io::Result<Cost> {
    let folder = tempfile::tempdir()?;
    let user = server_user()?;
    let path = folder.path();
    if let Some(User { user, group }) = user {
        chown(path, Some(user), Some(group))?;
    }
    let data = path.join("data");
    let mut initdb = under_libc(INITDB);
    run_as(&mut initdb, user).args(["--no-sync", "--auth=trust", "-U", NAME, "-D"]).arg(&data).current_dir(path);
    read_output(&mut initdb)?;
    let command = server_command(path, &data, user, limit)?;
    let server = Server::start(SERVER, command, path.join("errors"), || accepts(&data))?;
    read_output(driver(path).args(["-i", "-q", "-s", "2", NAME]))?;
    let mut run = driver(path);
    run.args(["-n", "-c", CONNECTIONS, "-t", &transactions.to_string(), NAME]);
    let (result, peak) = sample_peak(server.id(), || read_output(&mut run));
    result?;
    let memory = Cost { peak, resident: tree_kib(server.id()), steps: transactions, ..Cost::default() };
    server.stop(Signal::INT, memory)
}

/// Returns whether the server accepts connections, which it writes to a file.
fn accepts(data: &Path) -> bool {
    fs::read_to_string(data.join("postmaster.pid")).is_ok_and(|text| text.lines().any(|line| line.trim() == "ready"))
}

fn server_command(folder: &Path, data: &Path, user: Option<User>, limit: Option<Limit>) -> io::Result<Command> {
    let server = find_program(SERVER).unwrap_or_else(|| SERVER.into());
    let mut command = under_malloc(server, limit)?;
    if let Some(library) = preloaded_library().filter(|_| user.is_some()) {
        // The other user may not be allowed to read the folder of the library.
        let copy = folder.join("malloc.so");
        fs::copy(library, &copy)?;
        command.env("LD_PRELOAD", copy);
    }
    run_as(&mut command, user).arg("-D").arg(data).arg("-k").arg(folder).current_dir(folder);
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    Ok(command)
}

/// Returns a command for the benchmark that connects to the server.
fn driver(folder: &Path) -> Command {
    let mut command = under_libc(DRIVER);
    command.args(["-U", NAME, "-h"]).arg(folder);
    command
}

fn run_as(command: &mut Command, user: Option<User>) -> &mut Command {
    match user {
        Some(User { user, group }) => command.uid(user).gid(group),
        None => command,
    }
}

/// Returns the user that the server runs as; `None` is the user of this process.
fn server_user() -> io::Result<Option<User>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let user = USERS.iter().find_map(|name| parse_user(&users, name));
    user.map(Some).ok_or_else(|| io::Error::other("there is no user that the server could run as"))
}

/// Returns the user with this name from the text of `/etc/passwd`.
fn parse_user(users: &str, name: &str) -> Option<User> {
    let line = users.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let mut fields = line.split(':').skip(1);
    Some(User { user: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? })
}

/// Returns a sentence if the server cannot run as any user.
pub(super) fn obstacle() -> Option<String> {
    server_user().err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_parsed() {
        let users = "root:x:0:0:root:/root:/bin/sh\nnobody2:x:1:1::/:\nnobody:x:65534:65533:none:/:/bin/false\n";
        assert_eq!(parse_user(users, "nobody"), Some(User { user: 65534, group: 65533 }));
        assert_eq!(parse_user(users, "postgres"), None);
    }
}
