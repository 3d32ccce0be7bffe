//! What can be wrong with a kernel's set-up, or with a request, as values.

use core::fmt;

use crate::page::{AllocError, CmaError, ConfigError, ContigError, OnlineError};
use crate::slab::{CreateError, ObjectError, SlabError};

/// Why the allocator was not set up, or memory was not added to it. Nothing has changed then, but for the contents of
/// memory that the map calls usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// It is set up already, or another CPU is at it.
    Twice,
    /// The kernel is not the one that [`Cpu::kernel`](super::Cpu::kernel) returns. Handles do not name their kernel: they
    /// use that one's memory.
    NotTheKernel,
    /// Memory was to be added to an allocator that is not set up.
    NotSetUp,
    /// Caches were to be checked, and the kernel was built without: [`Cpu::SLAB_DEBUG`](super::Cpu::SLAB_DEBUG).
    NoSlabDebug,
    /// The direct map lies at no multiple of the largest block.
    DirectMap {
        /// Bytes of that block.
        largest: usize,
    },
    /// No whole frame of the map is usable and not reserved.
    NoMemory,
    /// A region or a reserved range ends before it starts.
    Backwards {
        /// Where it starts.
        start: u64,
        /// Where it says that it ends.
        end: u64,
    },
    /// No stretch of free memory is large enough for the metadata.
    NoRoom {
        /// Bytes of metadata.
        needed: u64,
        /// Bytes of the largest stretch.
        largest: u64,
    },
    /// What was added is not made of whole pageblocks.
    Misaligned {
        /// The address that is at fault.
        address: u64,
        /// What it must be a multiple of.
        bytes: u64,
    },
    /// The engine refuses the configuration.
    Config(ConfigError),
    /// A range of memory did not come online.
    Online(OnlineError),
    /// The engine refuses the memory for objects: the direct map's offset, for one.
    Slab(SlabError),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::Twice => {
                f.write_str("the allocator is set up already, or another CPU is at it; do so once, at boot")
            }
            SetupError::NotTheKernel => {
                f.write_str("this is not the kernel that `Cpu::kernel` returns; set that one up, or give this one a type of its own")
            }
            SetupError::NotSetUp => f.write_str("the allocator is not set up; call init() first"),
            SetupError::NoSlabDebug => {
                f.write_str("the kernel is built without checks of objects; `Cpu::SLAB_DEBUG` has them built in")
            }
            SetupError::DirectMap { largest } => {
                write!(f, "the direct map must lie at a multiple of {largest:#x} bytes, so that blocks are aligned")
            }
            SetupError::NoMemory => f.write_str("the memory map has no whole frame that is usable and not reserved"),
            SetupError::Backwards { start, end } => {
                write!(
                    f,
                    "the region at {start:#x} ends at {end:#x}; one that ends with all addresses ends at u64::MAX"
                )
            }
            SetupError::NoRoom { needed, largest } => {
                write!(f, "metadata takes {needed} bytes in one piece, and the largest free stretch has {largest}")
            }
            SetupError::Misaligned { address, bytes } => {
                write!(f, "{address:#x} is no multiple of {bytes:#x}; memory is added in whole pageblocks")
            }
            SetupError::Config(error) => error.fmt(f),
            SetupError::Online(error) => error.fmt(f),
            SetupError::Slab(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SetupError {}

impl From<ConfigError> for SetupError {
    fn from(error: ConfigError) -> SetupError {
        SetupError::Config(error)
    }
}

impl From<OnlineError> for SetupError {
    fn from(error: OnlineError) -> SetupError {
        SetupError::Online(error)
    }
}

impl From<SlabError> for SetupError {
    fn from(error: SlabError) -> SetupError {
        SetupError::Slab(error)
    }
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The allocator is not set up yet.
    NotSetUp,
    /// The kernel has no slab: [`Cpu::CACHES`](super::Cpu::CACHES) is 0.
    NoCaches,
    /// There is no such block of pages.
    Pages(AllocError),
    /// There is no such object.
    Object(ObjectError),
    /// There is no such range.
    Contig(ContigError),
    /// There can be no such cache.
    Cache(CreateError),
    /// There can be no such CMA area.
    Cma(CmaError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotSetUp => f.write_str("the allocator is not set up; call init() first"),
            Error::NoCaches => f.write_str("the kernel has no slab: give it numbers for caches, `Cpu::CACHES`"),
            Error::Pages(error) => error.fmt(f),
            Error::Object(error) => error.fmt(f),
            Error::Contig(error) => error.fmt(f),
            Error::Cache(error) => error.fmt(f),
            Error::Cma(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

impl From<AllocError> for Error {
    fn from(error: AllocError) -> Error {
        Error::Pages(error)
    }
}

impl From<ObjectError> for Error {
    fn from(error: ObjectError) -> Error {
        Error::Object(error)
    }
}

impl From<ContigError> for Error {
    fn from(error: ContigError) -> Error {
        Error::Contig(error)
    }
}

impl From<CreateError> for Error {
    fn from(error: CreateError) -> Error {
        Error::Cache(error)
    }
}

impl From<CmaError> for Error {
    fn from(error: CmaError) -> Error {
        Error::Cma(error)
    }
}
