//! Modules that several tests share: the machine's CPUs, a small world of slabs, and messages about skipped tests.

pub(crate) mod machine;
pub(crate) mod skip_message;
pub(crate) mod world;
