//! Protocols without a lock, in every order of steps that the memory model allows.
//!
//! [`world`] has a small machine, and [`objects`] has its caches. The other modules have scenes: frees that meet at one
//! block ([`claim`]), pages that return to their owner ([`pages`]), objects that return to their slab ([`slab`]), and
//! sheaves that move between CPUs ([`sheaves`]).
//!
//! ```text
//! RUSTFLAGS='--cfg loom' cargo test --release --manifest-path engine/loom/Cargo.toml
//! ```
#![cfg(loom)]

mod objects;
mod world;

mod claim;
mod pages;
mod sheaves;
mod slab;
