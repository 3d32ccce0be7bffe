//! Loads: page traffic that the shell loops of a workload cannot make.
//!
//! Every subcommand does a fixed amount of work and ends by itself; nothing depends on time or chance. Sizes are in
//! MiB. An allocation failure is part of the experiment, so it is reported on stderr, and the work continues where
//! possible.

mod command;
pub mod corruption;
mod files;
pub mod malloc;
mod memory;
mod network;
mod pages;
mod server;
mod tasks;

use std::io;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use pages::Pages;

/// Which load is made, and how much of it.
#[derive(Debug, Args)]
pub struct LoadArgs {
    #[command(subcommand)]
    load: Load,
}

#[derive(Debug, Subcommand)]
enum Load {
    /// Map and touch memory in pieces of a pageblock, unmap every other piece, touch new ones, and exit.
    Hog {
        #[arg(long)]
        mib: usize,
        #[arg(long, value_enum)]
        pages: Pages,
    },
    /// Fill memory, punch holes so that only some pages stay, run a command, and exit.
    Holes {
        #[arg(long)]
        mib: usize,
        /// Pages that stay in each group.
        #[arg(long)]
        keep: usize,
        /// Pages in a group.
        #[arg(long)]
        out_of: usize,
        /// Command to run while the holes exist.
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Write through a pipe: allocated on one CPU, freed on the other.
    Pipe {
        #[arg(long)]
        from: usize,
        #[arg(long)]
        to: usize,
        #[arg(long)]
        mib: usize,
    },
    /// Fill pipes with 16 immovable pages each, and run a command while they are full.
    Pipes {
        #[arg(long)]
        mib: usize,
        /// Command to run while the pipes are full.
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Run a number of threads at once, for kernel stacks.
    Threads {
        #[arg(long)]
        count: usize,
    },
    /// Send over TCP on the loopback device.
    Loopback {
        /// Size of each stream, in MiB.
        #[arg(long)]
        mib: usize,
        #[arg(long)]
        streams: usize,
    },
    /// Open a number of TCP connections at once, for sockets that the kernel allocates in atomic context.
    Connections {
        #[arg(long)]
        count: usize,
    },
    /// Send datagrams over UDP on the loopback device, and over a Unix socket.
    Datagrams {
        #[arg(long)]
        mib: usize,
        /// Size of a datagram, in bytes.
        #[arg(long)]
        bytes: usize,
    },
    /// Receive requests on many threads, and answer and free them on few, as a server does.
    Server {
        /// Memory that is allocated and freed untouched first, in MiB.
        #[arg(long, default_value_t = 0)]
        before: usize,
        #[arg(long)]
        receiving: usize,
        #[arg(long)]
        answering: usize,
        #[arg(long)]
        requests: usize,
        /// Requests that wait for an answer, in MiB.
        #[arg(long)]
        backlog: usize,
        /// Number of times that each request is read.
        #[arg(long)]
        work: usize,
    },
    /// Run one of several loads on the process's malloc, and print the costs.
    Malloc(malloc::MallocArgs),
    /// Allocate, free and become idle, and print the memory that the process's malloc keeps.
    Idle(malloc::idle::IdleArgs),
    /// Misuse memory in one way, and print the result, unless the malloc detects the misuse and terminates the process.
    Corruption(corruption::CorruptionArgs),
    /// Create, read and remove small files, for inodes, directory entries and page cache.
    Files {
        #[arg(long)]
        folder: PathBuf,
        #[arg(long)]
        count: usize,
    },
}

/// Runs the load.
///
/// # Errors
/// Returns an error of the system if the work cannot continue after it.
pub fn run(args: LoadArgs) -> io::Result<()> {
    match args.load {
        Load::Hog { mib, pages } => memory::hog(mib, pages),
        Load::Holes { mib, keep, out_of, command } => memory::holes(mib, keep, out_of, &command),
        Load::Pipe { from, to, mib } => tasks::pipe(from, to, mib),
        Load::Pipes { mib, command } => tasks::pipes(mib, &command),
        Load::Threads { count } => tasks::threads(count),
        Load::Loopback { mib, streams } => network::loopback(mib, streams),
        Load::Connections { count } => network::connections(count),
        Load::Datagrams { mib, bytes } => network::datagrams(mib, bytes),
        Load::Server { before, receiving, answering, requests, backlog, work } => {
            let [before, backlog] = [before, backlog].map(server::mib);
            server::serve(server::Server { before, receiving, answering, requests, backlog, work })
        }
        Load::Malloc(args) => malloc::run(&args),
        Load::Idle(args) => malloc::idle::run(&args),
        Load::Corruption(args) => corruption::run(&args),
        Load::Files { folder, count } => files::churn(&folder, count),
    }
}
