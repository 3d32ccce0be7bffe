//! What several tests share.

pub mod left_out;
pub mod machine;
pub mod world;
