//! Each rule of ranges in a scene of its own.

mod bulk;
mod chunks;
mod cma;
mod compound;
mod isolated;
mod left_out;
mod search;
mod taken;
