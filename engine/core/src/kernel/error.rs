//! Errors of setting up a kernel's allocator, and of its requests.

use core::fmt;

use crate::page::{AllocError, CmaError, ConfigError, ContigError, OnlineError};
use crate::slab::{CreateError, ObjectError, SlabError};

/// Error of setting up the allocator or of adding memory to it. Nothing has changed then, except for the contents of
/// memory that the map calls usable, and for the lower part of an added range that crosses a limit of zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// The allocator is already set up, or another CPU is setting it up.
    Twice,
    /// The kernel is not the one that [`Cpu::kernel`](super::Cpu::kernel) returns. Handles store no pointer to their
    /// kernel and use the memory of that one.
    NotTheKernel,
    /// Memory was to be added to an allocator that is not set up.
    NotSetUp,
    /// Checks of caches were requested, but [`Cpu::SLAB_DEBUG`](super::Cpu::SLAB_DEBUG) is off.
    NoSlabDebug,
    /// The offset of the direct map is not a multiple of the largest block.
    DirectMap {
        /// Bytes of the largest block.
        largest: usize,
    },
    /// No whole frame of the map is usable and unreserved.
    NoMemory,
    /// A region or a reserved range ends before it starts.
    Backwards {
        /// Start address of the range.
        start: u64,
        /// End address of the range.
        end: u64,
    },
    /// No piece of free memory is large enough for the metadata.
    NoRoom {
        /// Bytes of metadata.
        needed: u64,
        /// Bytes of the largest piece.
        largest: u64,
    },
    /// The added memory does not consist of whole pageblocks.
    Misaligned {
        /// Misaligned address.
        address: u64,
        /// Required alignment in bytes.
        bytes: u64,
    },
    /// The engine refused the configuration.
    Config(ConfigError),
    /// A range of memory did not come online.
    Online(OnlineError),
    /// The slab refused the memory for objects, for example because of the direct map's offset.
    Slab(SlabError),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::Twice => {
                f.write_str("the allocator is set up already, or another CPU sets it up now; call init() once, at boot")
            }
            SetupError::NotTheKernel => {
                f.write_str("`Cpu::kernel` returns another kernel; set up that one, or give this one its own type")
            }
            SetupError::NotSetUp => f.write_str("the allocator is not set up; call init() first"),
            SetupError::NoSlabDebug => {
                f.write_str("the kernel is built without checks of objects; set `Cpu::SLAB_DEBUG` to build them in")
            }
            SetupError::DirectMap { largest } => {
                write!(f, "the direct map must begin at a multiple of {largest:#x} bytes, so that blocks are aligned")
            }
            SetupError::NoMemory => f.write_str("the memory map has no whole frame that is usable and not reserved"),
            SetupError::Backwards { start, end } => {
                write!(
                    f,
                    "the region at {start:#x} ends at {end:#x}, before it starts; the end of the last region is \
                     u64::MAX"
                )
            }
            SetupError::NoRoom { needed, largest } => {
                write!(f, "metadata needs {needed} contiguous bytes, but the largest free region has {largest}")
            }
            SetupError::Misaligned { address, bytes } => {
                write!(f, "{address:#x} is not a multiple of {bytes:#x}; add memory in whole pageblocks")
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

/// Error of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The allocator is not set up yet.
    NotSetUp,
    /// The kernel has no slab: [`Cpu::CACHES`](super::Cpu::CACHES) is 0.
    NoCaches,
    /// No such block of pages could be allocated.
    Pages(AllocError),
    /// No such object could be allocated.
    Object(ObjectError),
    /// No such range could be allocated.
    Contig(ContigError),
    /// The cache could not be created.
    Cache(CreateError),
    /// The CMA area could not be created.
    Cma(CmaError),
}

impl Error {
    /// Returns whether the request may succeed after idle memory was freed. Invalid arguments stay invalid.
    pub(super) fn is_shortage(self) -> bool {
        matches!(
            self,
            Error::Pages(AllocError::OutOfMemory)
                | Error::Object(ObjectError::Pages(AllocError::OutOfMemory))
                | Error::Contig(ContigError::NoRange)
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotSetUp => f.write_str("the allocator is not set up; call init() first"),
            Error::NoCaches => f.write_str("the kernel has no slab allocator; set the number of caches, `Cpu::CACHES`"),
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
