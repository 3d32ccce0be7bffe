//! What several tests share.

pub mod machine;
pub mod world;
