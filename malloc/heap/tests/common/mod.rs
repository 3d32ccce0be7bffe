//! What several tests share: the machine's CPUs, a small world of slabs, and what was left out.

pub mod left_out;
pub mod machine;
pub mod world;
