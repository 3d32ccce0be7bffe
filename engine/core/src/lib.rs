//! Linux's page allocator and slab allocator as a library: zones, pageblocks, per-CPU lists, reserves, object caches,
//! and alternative policies for each decision.
//!
//! The crate needs neither `std` nor `alloc`. The caller supplies a memory map, the bytes for the metadata, and a
//! [`Platform`](platform::Platform), which names the running CPU and provides the lock. The page allocator manages
//! frame *numbers* and never touches the memory behind them. The [`slab`] allocator is built on it and hands out
//! memory.
//!
//! ```
//! use freehold::base::{Gfp, Order};
//! use freehold::{machine, page::Config, platform::host::Solo};
//!
//! // A machine in memory (feature `host`): 1 GiB, one CPU, one zone.
//! machine::with_memory(Solo::<freehold::platform::NoProbe>::default(), &Config::default(), 1 << 18, |allocator| {
//!     let order = Order::new(3);
//!     let block = allocator.alloc_pages(Gfp::KERNEL, order).expect("the machine is empty");
//!     allocator.free_pages(block, order).expect("the block is allocated");
//!     assert!(allocator.free_pages(block, order).is_err(), "a double free is an error, not a corruption");
//!     allocator.check().expect("the allocator is consistent");
//! })?;
//! # Ok::<(), freehold::machine::MachineError>(())
//! ```
//!
//! Objects, on real memory:
//!
//! ```
//! use freehold::base::Gfp;
//! use freehold::machine::objects::with_locked_slab;
//! use freehold::platform::{NoProbe, host::Threads};
//! use freehold::{page::Config, slab::CacheConfig};
//!
//! with_locked_slab(Threads::<NoProbe>::default(), &Config::default(), 1 << 15, 0, |slab| {
//!     let inodes = slab.create(&CacheConfig::new("inode", 600)).expect("there are few caches");
//!     let inode = inodes.alloc(Gfp::KERNEL | Gfp::ZERO).expect("the machine is empty");
//!     let buffer = slab.kmalloc(3000, Gfp::KERNEL).expect("the machine is empty");
//!     // SAFETY: both were allocated above, and are not used after the frees.
//!     unsafe {
//!         assert!(inodes.free(buffer).is_err(), "another cache's object is refused");
//!         slab.kfree(buffer).expect("the buffer is allocated");
//!         inodes.free(inode).expect("the inode is allocated");
//!     }
//!     inodes.destroy().expect("no object is in use");
//! })?;
//! # Ok::<(), freehold::machine::MachineError>(())
//! ```
//!
//! Modules form layers, and each layer uses only the layers below it:
//!
//! ```text
//! kernel               a kernel's lock, sections, boot, heap and owned handles
//! slab                 object caches, per-CPU sheaves and slabs, kmalloc
//! page                 zones, free lists, allocation and free paths
//! platform   policy    the interface to the surroundings; choices as data
//! base                 units, flags, frame metadata, lists, locks
//! ```
//!
//! Locks are ranked ([`base::lock::Rank`]) and taken in this order: a CPU's slabs, a node's slabs, the set of online
//! memory, a CMA area's bitmap, a CPU's page lists, a zone.
//!
//! Items that the other crates of the repository share with this one, such as words of metadata and the inputs of
//! policies' rules, are hidden from this documentation. They may change in any version.

#![no_std]

pub mod base;
#[cfg(not(loom))]
pub mod kernel;
#[cfg(feature = "host")]
pub mod machine;
pub mod page;
pub mod platform;
pub mod policy;
pub mod procfs;
pub mod slab;
pub mod stats;

pub use page::PageAllocator;
pub use policy::Policy;
