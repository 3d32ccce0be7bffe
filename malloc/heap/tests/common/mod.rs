//! What several tests share: the machine's CPUs, a small world of slabs, and what was left out.

pub(crate) mod left_out;
pub(crate) mod machine;
pub(crate) mod world;
