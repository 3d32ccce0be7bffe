//! The page allocator: zones with free lists, per-CPU lists in front of them, and the rules that connect the two.
//!
//! It depends on `base` (frames, the memory map, locks), `policy` (decisions) and `platform` (the outside world). An
//! allocation starts in `alloc` and a free starts in `free`. Both use the per-CPU lists first, and the zone if the
//! lists do not suffice:
//!
//! ```text
//! alloc       chooses the zone by its watermark; calls `slowpath` if no zone has enough
//! pcp         per-CPU lists (`percpu`): most requests end here, under an uncontended lock
//! zone        free lists and counters of a zone, and everything else that its lock protects
//! free        checks the block, then puts it on this CPU's list or into the zone
//! allocator   the tables that all of these modules share
//! ```
//!
//! The other modules are `slowpath` (the steps of a request when memory is short), `contig` (allocates and frees ranges
//! of frames by number), `isolation` (takes pageblocks and blocks off the free lists), `compaction`, `reclaim`,
//! `kswapd`, `kcompactd`, `background` and `node` (the state of these two tasks), `migrate` (moves a block),
//! `watermark` (how many pages each zone keeps free), `highatomic` (the reserve for atomic requests above order 0),
//! `bulk`, `refcount`, `poison` (frames withdrawn from use), `config` (creates an allocator), `boot` and `offline`
//! (memory is added and removed), `restore` (sets a recorded state), and `check` (verifies that no frame is lost).

mod alloc;
mod allocator;
mod background;
mod boot;
mod bulk;
mod check;
mod compaction;
mod config;
mod contig;
#[cfg(feature = "damage")]
pub mod damage;
mod error;
mod free;
mod highatomic;
mod isolation;
mod kcompactd;
mod kswapd;
mod migrate;
mod node;
mod offline;
mod pcp;
mod percpu;
mod pin;
mod poison;
mod reclaim;
mod refcount;
mod restore;
mod slowpath;
mod watermark;
mod zone;

pub use allocator::PageAllocator;
#[doc(hidden)]
pub use background::Background;
pub use boot::{Mobility, OnlineError, Range};
pub use check::{Census, Violation};
pub use config::{Config, ConfigError};
pub use contig::{CmaArea, CmaError, Placement};
pub use error::{AllocError, ContigError, FreeError, RangeError};
#[doc(hidden)]
pub use percpu::{PCP_LISTS, Pcp, PcpLists, has_pcp_list};
pub use pin::PinError;
#[doc(hidden)]
pub use restore::Restoring;
pub use watermark::MinFree;
#[doc(hidden)]
pub use zone::{Fragments, FreeArea, FreeAreas};
pub use zone::{Zone, ZoneFlag};
