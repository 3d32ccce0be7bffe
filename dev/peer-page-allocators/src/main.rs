//! `freehold-peers`: times page-frame allocators published as Rust packages on the cases of Freehold's own benchmark.
//! It takes one sample per request, so that the calling program can alternate between allocators.
//!
//! This file only dispatches. The measurements are in [`case`] and [`machine`], the peers in [`roster`] and [`peer`],
//! and the protocol in [`request`] and [`serve`].

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

/// Times page-frame allocators published as Rust packages, for comparison with Freehold.
///
/// `freehold bench pages` runs this program automatically once it is built.
#[derive(Debug, Parser)]
#[command(name = "freehold-peers", version, max_term_width = 100)]
#[command(after_help = "By hand: echo 'SAMPLE talc order-0-pair 1000000' | freehold-peers --serve")]
struct Cli {
    /// Print the peers, their versions and their cases as JSON.
    #[arg(long)]
    list: bool,
    /// Answer requests on stdin, one per line: `SAMPLE <peer> <case> <operations>` with
    /// `OK <nanoseconds> <operations>`, `PIN <cpu>` with `OK`, and failed requests with `ERR <sentence>`.
    #[arg(long, conflicts_with = "list")]
    serve: bool,
}

fn main() -> ExitCode {
    freehold_peer_protocol::exit_code("freehold-peers", run(&Cli::parse()))
}

/// Runs the mode that `cli` selects; prints the help if it selects none.
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
