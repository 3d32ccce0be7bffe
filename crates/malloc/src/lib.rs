//! Freehold's engine as a process has it: memory from the system, CPUs that are threads' for a moment only.
//!
//! [`os`] binds the engine to Linux: where memory comes from, which CPU runs a thread, and how a few instructions are
//! made one step on it.

pub mod os;
