//! The rules of ranges, one scene per rule.

mod alloc_range;
mod bulk;
mod chunks;
mod cma;
mod compound;
mod excluded_blocks;
mod isolated;
mod pins;
mod search;
