//! nginx, which sends a small file in compressed form. The client is part of this process and is not measured.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;

use rustix::process::Signal;

use super::find::find_program;
use super::limit::Limit;
use super::server::Server;
use super::subject::under_malloc;
use super::tree::{sample_peak, tree_kib};
use crate::malloc::cost::Cost;

pub(super) const NGINX: &str = "nginx";
/// Requests of all clients.
pub(super) const REQUESTS: usize = 12_000;
/// Clients that send requests at the same time.
const CLIENTS: usize = 8;
/// Lines of the file that is sent.
const LINES: usize = 200;

/// Sends `requests` requests, each on a connection of its own.
pub(super) fn nginx(requests: usize, limit: Option<Limit>) -> io::Result<Cost> {
    let folder = tempfile::tempdir()?;
    let address = free_address()?;
    let command = server_command(folder.path(), address, limit)?;
    let errors = folder.path().join("errors");
    let server = Server::start(NGINX, command, errors, || TcpStream::connect(address).is_ok())?;
    let (result, peak) = sample_peak(server.id(), || send_all(address, requests));
    result?;
    let memory = Cost { peak, resident: tree_kib(server.id()), steps: requests, ..Cost::default() };
    server.stop(Signal::TERM, memory)
}

/// Returns an address of the loopback device with a port that no program used a moment ago.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

fn server_command(folder: &Path, address: SocketAddr, limit: Option<Limit>) -> io::Result<Command> {
    let text: String =
        (0..LINES).map(|line| format!("line {line} of a small file, {}\n", line * 7919 % 1000)).collect();
    fs::write(folder.join("file.txt"), text)?;
    fs::write(folder.join("nginx.conf"), configuration(folder, address))?;
    let mut command = under_malloc(find_program(NGINX).unwrap_or_else(|| NGINX.into()), limit)?;
    command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf")).args(["-e", "stderr"]);
    Ok(command)
}

/// Returns the text of the configuration. All files are in `folder`.
fn configuration(folder: &Path, address: SocketAddr) -> String {
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let paths: String = kinds.iter().map(|kind| format!("{kind}_temp_path {}/{kind};\n", folder.display())).collect();
    format!(
        "daemon off;\nworker_processes 1;\npid {folder}/pid;\nerror_log stderr warn;\n{user}\
         events {{ worker_connections 64; }}\n\
         http {{\naccess_log off;\n{paths}default_type text/plain;\n\
         gzip on;\ngzip_types text/plain;\ngzip_min_length 1;\ngzip_http_version 1.0;\n\
         server {{ listen {address}; root {folder}; }}\n}}\n",
        folder = folder.display(),
        user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" },
    )
}

/// Sends requests from several threads.
fn send_all(address: SocketAddr, requests: usize) -> io::Result<()> {
    let threads: Vec<_> = (0..CLIENTS)
        .map(|number| thread::spawn(move || (number..requests).step_by(CLIENTS).try_for_each(|_| send(address))))
        .collect();
    threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| io::Error::other("a client panicked"))?)
}

/// Sends a request, reads the answer to its end, and checks that it has the compressed file.
fn send(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /file.txt HTTP/1.0\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let head = String::from_utf8_lossy(&answer[..answer.len().min(1000)]).into_owned();
    let is_expected = head.starts_with("HTTP/1.1 200 ") && head.contains("Content-Encoding: gzip");
    if is_expected { Ok(()) } else { Err(io::Error::other("nginx did not send the compressed file")) }
}
