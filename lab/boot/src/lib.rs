//! Boot: a real kernel in QEMU, a workload in it, and the recording of both.
//!
//! In the order of execution: a [`Kernel`] is an [`image`] of somebody's, or one that a [`Store`] has by its
//! [`version`] or fetches from [`debian`]; [`module`] builds ours for it, if the [`Workload`] needs that; [`initramfs`]
//! packs the recorder, the workload and the [`Setting`]s for the guest; [`machine`] boots it in an [`emulator`],
//! follows its [`console`], and stops it whatever happens; [`delivery`] checks that what came out is whole, and only
//! then gives it its name.
//!
//! Where QEMU has to emulate, time in the guest is not that of any machine; order, counts and states are exactly the
//! kernel's.

mod accelerator;
mod boot;
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
pub use tools::Tools;
pub use version::Version;
pub use workload::Workload;
