//! Tests of recordings through the public interface: written and read back, damaged, made by other programs, and
//! decoded from a kernel's own records.

mod bad_files;
mod bad_rows;
mod common;
mod decode;
mod foreign_writers;
mod fuzz;
mod round_trip;
