//! Protocols without a lock, in every order of steps that the memory model allows.
//!
//! [`world`] has a small machine, and [`objects`] has its caches. The other modules have scenes: frees that meet at one
//! block ([`claim`]), pages that return to their owner ([`pages`]), objects that return to their slab ([`slab`]), and
//! sheaves that move between CPUs ([`sheaves`]).
//!
//! ```text
//! RUSTFLAGS='--cfg loom' cargo test --release --manifest-path engine/loom/Cargo.toml
//! ```
//!
//! # Design
//!
//! This package is a workspace of its own, which compiles the engine's sources again on loom's atomics. As a dependency
//! of the engine for one target, loom and forty other packages were in the lock file of every program that depends on
//! the engine, and were never built. For the same reason zeroed memory of the host comes from the standard library and
//! not from a package.
#![cfg(loom)]

mod objects;
mod world;

mod claim;
mod pages;
mod sheaves;
mod slab;
