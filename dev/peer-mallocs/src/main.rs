//! `freehold-mallocs`: C's malloc, those that are published as Rust packages, and Freehold's, timed on the loops of
//! `freehold bench slab`, one sample at a time, for a program that takes turns between them.
//!
//! All of them are in this one program under names of their own, and none is the program's own allocator. This file
//! only dispatches. What is measured stands in `dev/object-loops`, which mallocs in [`roster`], [`ours`] and
//! [`version`], and how one asks in [`request`] and [`serve`].

mod ours;
mod request;
mod roster;
mod serve;
mod version;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use serve::Session;

/// C's malloc and those published as Rust packages, to be measured beside Freehold's.
///
/// `freehold bench slab` runs this program by itself once it is built.
#[derive(Debug, Parser)]
#[command(name = "freehold-mallocs", version, max_term_width = 100)]
#[command(after_help = "By hand: printf 'PIN 1 0\\nSAMPLE libc pair 64 10000 5\\n' | freehold-mallocs --serve")]
struct Cli {
    /// Print the mallocs and their versions as JSON.
    #[arg(long)]
    list: bool,
    /// Answer requests on stdin until it ends, a line each: `SAMPLE <malloc> <loop> <bytes> <objects> <rounds>` by
    /// `OK <objects> <ticks>...`, `PIN <cpu> [<second cpu>]` by `OK`, what cannot be done by `ERR <sentence>`.
    #[arg(long, conflicts_with = "list")]
    serve: bool,
}

fn main() -> ExitCode {
    freehold_peer_protocol::exit_code("freehold-mallocs", run(&Cli::parse()))
}

/// Does what `cli` asks for; without anything, prints the help.
fn run(cli: &Cli) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if cli.list {
        serde_json::to_writer_pretty(&mut stdout, &roster::list())?;
        writeln!(stdout)
    } else if cli.serve {
        Session::start().serve(io::stdin().lock(), stdout)
    } else {
        Cli::command().write_long_help(&mut stdout)
    }
}
