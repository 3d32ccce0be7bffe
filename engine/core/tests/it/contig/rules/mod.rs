//! The rules of ranges, one scene per rule.

mod bulk;
mod chunks;
mod cma;
mod compound;
mod isolated;
mod left_out;
mod search;
mod taken;
