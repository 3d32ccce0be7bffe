//! Loads on the malloc of the process, whichever it is, with the classic patterns of programs.
//!
//! Each load does a fixed amount of work, determined by a seed, and prints its costs at the end: CPU time, peak
//! resident memory, and the bytes in use and resident memory at the end. [`cases()`] assigns the loads to the tables of
//! a report. [`programs`] runs programs of other projects.

mod begin;
mod block;
mod cases;
mod compiler;
mod cost;
mod cycles;
mod fork_server;
mod forks;
mod held;
pub(crate) mod idle;
mod idlers;
mod pairs;
mod phases;
mod producers;
mod programs;
mod sparse;
mod system;
mod threads;
mod work;

pub use cases::{Case, Table, cases};

use std::io::{self, Write};

use block::Live;
use clap::{Args, ValueEnum};
use cost::Cost;
use held::Sizes;
use programs::{Limit, Program};

/// Which load.
#[derive(Debug, Args)]
pub struct MallocArgs {
    #[arg(value_enum)]
    work: Workload,
    /// Part of the load to run, in percent.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    percent: u32,
    /// Memory limit of 64 MiB for the program that the load runs; a fifth of the load is run.
    #[arg(long, value_enum)]
    limit: Option<Limit>,
    #[command(flatten)]
    shape: pairs::Shape,
}

/// A load, in the order of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Threads replace random objects of 8 to 1000 bytes, and pass all their objects to their successors.
    Larson,
    /// One thread allocates what another frees, in batches.
    Pass,
    /// Objects of random sizes to 32 KiB, most of them small, live for random times.
    Random,
    /// Threads keep some objects, swap them with other threads, and free the other objects at once.
    Mixed,
    /// Threads write repeatedly to their own small objects, after each freed an object of another thread.
    Scratch,
    /// Lists of texts grow and are sorted and dropped.
    Texts,
    /// Blocks of 8 to 32 KiB.
    Middle,
    /// Blocks of 32 KiB to 1 MiB.
    Buffers,
    /// Blocks of 1 to 25 MiB are allocated and freed.
    Large,
    /// Two thousand threads, one after the other, each of which allocates and frees.
    Threads,
    /// Four hundred threads at once.
    Burst,
    /// A tree is built and dropped, small nodes of one size.
    Trees,
    /// A redis server that its own benchmark drives.
    Redis,
    /// A C compiler on a program of small functions.
    Compiler,
    /// Blocks of one size, or of a band of sizes, are replaced, and the first byte of each is written.
    Pairs,
    /// Blocks of 16 to 1024 bytes are held, all of them written.
    HeldSmall,
    /// Blocks of 1 KiB to 1 MiB are held, equally many in each doubling of the size.
    HeldWide,
    /// Blocks are held that are one byte larger than a power of two, or than a quarter step to the next one.
    HeldAbove,
    /// Two hundred phases, each with other sizes: 100 MiB of blocks, of which 20 MiB at random stay.
    Phases,
    /// Threads allocate blocks that another thread frees, with 128 MiB between allocation and free.
    Producers,
    /// A thousand threads allocate and free a mixture, and become idle.
    IdleThreads,
    /// Ten thousand threads allocate and free a mixture, a hundred at a time.
    ComeAndGo,
    /// A small program starts and exits.
    Starts,
    /// Five thousand forks while threads allocate; each child allocates and ends.
    Forks,
    /// Live memory of mixed sizes grows from nothing to 64 MiB and shrinks to nothing, many times.
    Cycles,
    /// A parent with a large heap forks children that allocate and free, as a web server that forks in advance.
    ForkServer,
    /// 256 MiB of blocks of 1,000 bytes, of which an eighth of each 2 MiB stays; then a minute without a request.
    SparseSmall,
    /// As `sparse-small`, with blocks of 100,000 bytes.
    SparseLarge,
    /// A redis server whose clients read 100 elements of a list.
    RedisLrange,
    /// A redis server whose clients add to a list.
    RedisLpush,
    /// A redis server with values of 3 KB.
    RedisLarge,
    /// `git repack` of a clone of the repository in the current folder.
    Git,
    /// SQLite in memory: inserts, indexes, joins and deletions.
    Sqlite,
    /// Test modules of Python.
    Python,
    /// Node.js with worker threads that allocate.
    Node,
    /// A Java virtual machine that compiles a program and runs it on threads.
    Java,
    /// A PostgreSQL server that `pgbench` drives.
    Postgres,
    /// An nginx server that sends a compressed file.
    Nginx,
}

impl MallocArgs {
    /// Returns the requested percentage of a number, at least 1. With a memory limit the load is a fifth of that, so
    /// that most programs fit.
    fn scale(&self, full: usize) -> usize {
        let parts = if self.limit.is_some() { 5 } else { 1 };
        (full * self.percent as usize / 100 / parts).max(1)
    }
}

/// Runs the load, and prints its costs as a line of JSON.
///
/// # Errors
/// Returns an error if the costs cannot be read, a program that the load needs cannot be run, or the line cannot be
/// printed.
pub(crate) fn run(args: &MallocArgs) -> io::Result<()> {
    let cost = measure(args)?;
    writeln!(io::stdout(), "{cost}")
}

fn measure(args: &MallocArgs) -> io::Result<Cost> {
    if let Some(program) = Program::of_workload(args.work) {
        return program.run(args);
    }
    if args.limit.is_some() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "--limit is for loads that run a program"));
    }
    measure_pattern(args)
}

/// Measures a load that is part of this project.
fn measure_pattern(args: &MallocArgs) -> io::Result<Cost> {
    let live = match args.work {
        Workload::Larson => threads::larson(args.scale(30)),
        Workload::Pass => threads::pass(args.scale(3000)),
        Workload::Random => work::random(args.scale(6_000_000)),
        Workload::Mixed => threads::mixed(args.scale(1_500_000)),
        Workload::Scratch => threads::scratch(args.scale(400_000)),
        Workload::Texts => work::texts(args.scale(40)),
        Workload::Middle => work::blocks(args.scale(3_000_000), 8 << 10..=32 << 10, 64),
        Workload::Buffers => work::blocks(args.scale(500_000), 32 << 10..=1 << 20, 64),
        Workload::Large => work::blocks(args.scale(6_000), 1 << 20..=25 << 20, 12),
        Workload::Threads => threads::run_in_sequence(args.scale(2000)),
        Workload::Burst => threads::run_at_once(args.scale(400)),
        Workload::Phases => phases::phases(args.scale(200)),
        Workload::Trees => work::trees(args.scale(12)),
        Workload::Cycles => cycles::cycles(args.scale(20)),
        // These loads do not count all costs of this process, or count those of other processes.
        Workload::Starts => return begin::starts(args.scale(20)),
        Workload::Compiler => return compiler::compiler(args.scale(1000)),
        Workload::Pairs => return pairs::pairs(&args.shape, args.scale(1_000_000)),
        Workload::HeldSmall => return held::hold(Sizes::Small, args.scale(128 << 20)),
        Workload::HeldWide => return held::hold(Sizes::Wide, args.scale(256 << 20)),
        Workload::HeldAbove => return held::hold(Sizes::Above, args.scale(128 << 20)),
        Workload::Producers => return producers::producers(args.scale(1200), args.scale(128 << 20)),
        Workload::IdleThreads => return idlers::idle(args.scale(1000)),
        Workload::ComeAndGo => return idlers::come_and_go(args.scale(10_000)),
        Workload::Forks => return forks::forks(args.scale(5000)),
        Workload::SparseSmall => return sparse::sparse(1000, |full| args.scale(full)),
        Workload::SparseLarge => return sparse::sparse(100_000, |full| args.scale(full)),
        Workload::ForkServer => return fork_server::fork_server(args.scale(8), args.percent as usize),
        _ => Live::default(),
    };
    let cost = Cost::so_far(live.bytes);
    drop(live);
    cost
}
