//! Programs that are not part of this project, as loads: each runs under the malloc of this process. Its costs are
//! those of the program and of the child processes that it waited for.
//!
//! ```text
//! find      files of programs
//! limit     memory limits of a program
//! subject   a program that runs under the malloc and ends by itself
//! server    a program that runs until its client has ended
//! tree      memory of a process and its child processes
//! ```
//!
//! Programs that only prepare a load, or are the client of a server, use the C library's malloc and are not measured. A
//! load that cannot be set up on this machine has an [`obstacle`], and is left out of reports.

mod find;
mod git;
mod java;
mod limit;
mod nginx;
mod node;
mod postgres;
mod python;
mod redis;
mod server;
mod sqlite;
mod subject;
mod tree;

use std::io;

pub(super) use limit::ChargedGroup;
pub(crate) use limit::Limit;
pub(super) use tree::tree_kib;

use super::cost::Cost;
use super::{MallocArgs, Workload};

/// A program that a load runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Redis(redis::Traffic),
    Git,
    Sqlite,
    Python,
    Node,
    Java,
    Postgres,
    Nginx,
}

impl Program {
    /// Returns the program of a load, if the load runs one.
    pub(super) fn of_workload(workload: Workload) -> Option<Program> {
        Some(match workload {
            Workload::Redis => Program::Redis(redis::Traffic::Mixed),
            Workload::RedisLrange => Program::Redis(redis::Traffic::Lrange),
            Workload::RedisLpush => Program::Redis(redis::Traffic::Lpush),
            Workload::RedisLarge => Program::Redis(redis::Traffic::Large),
            Workload::Git => Program::Git,
            Workload::Sqlite => Program::Sqlite,
            Workload::Python => Program::Python,
            Workload::Node => Program::Node,
            Workload::Java => Program::Java,
            Workload::Postgres => Program::Postgres,
            Workload::Nginx => Program::Nginx,
            _ => return None,
        })
    }

    /// Runs the load.
    pub(super) fn run(self, args: &MallocArgs) -> io::Result<Cost> {
        let limit = args.limit;
        match self {
            Program::Redis(traffic) => redis::redis(traffic, args.scale(traffic.requests()), limit),
            Program::Git => git::repack(args.scale(git::COMMITS), limit),
            Program::Sqlite => sqlite::sqlite(args.scale(sqlite::ROWS), limit),
            Program::Python => python::tests(args.scale(python::MODULES.len()), limit),
            Program::Node => node::node(args.scale(node::ROUNDS), limit),
            Program::Java => java::java(args.scale(java::ROUNDS), limit),
            Program::Postgres => postgres::postgres(args.scale(postgres::TRANSACTIONS), limit),
            Program::Nginx => nginx::nginx(args.scale(nginx::REQUESTS), limit),
        }
    }

    /// Returns the reason why the load cannot be run on this machine, if there is one.
    pub(super) fn obstacle(self) -> Option<String> {
        find::missing(self.needs()).or_else(|| match self {
            Program::Git => git::obstacle(),
            Program::Python => python::obstacle(),
            Program::Java => java::obstacle(),
            Program::Postgres => postgres::obstacle(),
            _ => None,
        })
    }

    /// Returns the names of the programs that the load requires.
    fn needs(self) -> &'static [&'static str] {
        match self {
            Program::Redis(_) => &[redis::SERVER, redis::DRIVER],
            Program::Git => &[git::GIT],
            Program::Sqlite => &[sqlite::SQLITE],
            Program::Python => &[python::PYTHON],
            Program::Node => &[node::NODE],
            Program::Java => &[java::JAVA],
            Program::Postgres => &[postgres::SERVER, postgres::INITDB, postgres::DRIVER],
            Program::Nginx => &[nginx::NGINX],
        }
    }
}

/// Returns the reason why a load cannot be run on this machine, if there is one.
pub(super) fn obstacle(workload: Workload, limit: Option<Limit>) -> Option<String> {
    let limited = limit.and_then(Limit::obstacle);
    limited.or_else(|| match workload {
        Workload::Starts => find::missing(&[super::begin::PROGRAM]),
        Workload::Compiler => find::missing(&[super::compiler::COMPILER]),
        Workload::SparseSmall | Workload::SparseLarge => super::sparse::obstacle(),
        _ => Program::of_workload(workload)?.obstacle(),
    })
}
