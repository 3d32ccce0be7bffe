//! `freehold-mallocs`: times C's malloc, mallocs published as Rust packages, and Freehold's malloc on the loops of
//! `freehold bench slab`. It takes one sample per request, so that the calling program can alternate between mallocs.
//!
//! All mallocs are in this one program under different names, and none is the program's own allocator. This file only
//! dispatches. The loops are in `dev/object-loops`, the mallocs in [`roster`], [`ours`] and [`version`], and the
//! protocol in [`request`] and [`serve`].

mod ours;
mod request;
mod roster;
mod serve;
mod version;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use serve::Session;

/// Times C's malloc and mallocs published as Rust packages, for comparison with Freehold's.
///
/// `freehold bench slab` runs this program automatically once it is built.
#[derive(Debug, Parser)]
#[command(name = "freehold-mallocs", version, max_term_width = 100)]
#[command(after_help = "By hand: printf 'PIN 1 0\\nSAMPLE libc pair 64 10000 5\\n' | freehold-mallocs --serve")]
struct Cli {
    /// Print the mallocs and their versions as JSON.
    #[arg(long)]
    list: bool,
    /// Answer requests on stdin, one per line: `SAMPLE <malloc> <loop> <bytes> <objects> <rounds>` with
    /// `OK <objects> <ticks>...`, `PIN <cpu> [<second cpu>]` with `OK`, and failed requests with `ERR <sentence>`.
    #[arg(long, conflicts_with = "list")]
    serve: bool,
}

fn main() -> ExitCode {
    freehold_peer_protocol::exit_code("freehold-mallocs", run(&Cli::parse()))
}

/// Runs the mode that `cli` selects; prints the help if it selects none.
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
