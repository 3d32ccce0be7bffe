//! `freehold-peers`: page-frame allocators that are published as Rust packages, timed on the cases of Freehold's own
//! bench, one sample at a time, for a program that takes turns between them.
//!
//! This file only dispatches. What is measured stands in [`case`] and [`machine`], which peers in [`roster`] and
//! [`peer`], and how one asks in [`request`] and [`serve`].

mod case;
mod machine;
mod peer;
mod request;
mod roster;
mod serve;
mod units;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use case::MACHINE_FRAMES;
use serve::Session;

/// Page-frame allocators published as Rust packages, to be measured beside Freehold.
///
/// `freehold bench pages` runs this program by itself once it is built.
#[derive(Debug, Parser)]
#[command(name = "freehold-peers", version, max_term_width = 100)]
#[command(after_help = "By hand: echo 'SAMPLE talc order-0-pair 1000000' | freehold-peers --serve")]
struct Cli {
    /// Print the peers, their versions and their cases as JSON.
    #[arg(long)]
    list: bool,
    /// Answer requests on stdin until it ends, a line each: `SAMPLE <peer> <case> <operations>` by
    /// `OK <nanoseconds> <operations>`, `PIN <cpu>` by `OK`, what cannot be done by `ERR <sentence>`.
    #[arg(long, conflicts_with = "list")]
    serve: bool,
}

fn main() -> ExitCode {
    freehold_peer_protocol::exit_code("freehold-peers", run(&Cli::parse()))
}

/// Does what `cli` asks for; without anything, prints the help.
fn run(cli: &Cli) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if cli.list {
        serde_json::to_writer_pretty(&mut stdout, &roster::list())?;
        writeln!(stdout)
    } else if cli.serve {
        Session::new(MACHINE_FRAMES).serve(io::stdin().lock(), stdout)
    } else {
        Cli::command().write_long_help(&mut stdout)
    }
}
