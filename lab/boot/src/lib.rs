//! Boots a real kernel in QEMU, runs a workload in it, and returns a recording of both.
//!
//! In the order of execution: a [`Kernel`] is opened from an [`image`] that the user names, or a [`Store`] returns it
//! by its [`version`] or fetches it from [`debian`]. [`config`] checks its options.
//! [`module`] builds Freehold's kernel module for it, if the
//! [`Workload`] needs that. [`initramfs`] packs the recorder, the workload and the [`Setting`]s for the guest.
//! [`machine`] boots it in an [`emulator`], follows its [`console`], and stops it in every case. [`delivery`] checks
//! that the recording is complete, and only then gives it its name.
//!
//! Under emulation, time in the guest is not that of any real machine. Order, counts and states are exactly the
//! kernel's.
//!
//! # Design
//!
//! The reference for the engine is a real kernel. A kernel is a file: the user's `bzImage`, or Debian's package of a
//! version, which is unpacked and never installed. The guest contains nothing of the host except a busybox, this
//! program and the libraries that it loads.

mod accelerator;
mod boot;
pub mod config;
mod console;
mod debian;
mod delivery;
mod emulator;
mod error;
mod fingerprint;
mod guest;
mod host;
mod image;
mod initramfs;
mod interrupt;
mod kernel;
mod kvm;
mod machine;
mod module;
mod outcome;
mod payload;
mod series;
mod setting;
mod size;
mod store;
mod tools;
mod version;
mod workload;

pub use accelerator::Accelerator;
pub use boot::{boot, prepare, try_out};
pub use error::Error;
pub use guest::Guest;
pub use interrupt::Interrupts;
pub use kernel::Kernel;
pub use outcome::{BootOutcome, RecordingEnd};
pub use series::{Series, SeriesRun};
pub use setting::Setting;
pub use size::Mebibytes;
pub use store::Store;
pub use tools::{Program, Tools};
pub use version::Version;
pub use workload::Workload;
