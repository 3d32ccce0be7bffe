//! The page allocator: zones of free lists, per-CPU lists before them, and the rules that connect the two.
//!
//! A request passes through these modules from top to bottom, and a free from bottom to top:
//!
//! ```text
//! alloc       chooses the zone by its watermark; `slowpath` if no zone has enough
//! pcp         per-CPU lists (`percpu`): most requests end here, under an uncontended lock
//! zone        free lists and counters of a zone, and all that its lock protects
//! free        checks the block, then puts it on this CPU's list or into the zone
//! allocator   the tables that all of them share
//! ```
//!
//! Other modules: `contig` (ranges of frames allocated and freed by number), `isolation` (pageblocks and blocks off the
//! free lists), `compaction`, `reclaim`, `kswapd`, `kcompactd`, `watermark` (how low a zone may run), `highatomic` (a
//! reserve), `bulk`, `refcount`, `poison` (frames taken out of use), `boot` and `offline` (memory comes and goes), and
//! `check` (the proof that nothing is lost).

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
mod poison;
mod reclaim;
mod refcount;
mod restore;
mod slowpath;
mod watermark;
mod zone;

pub use allocator::PageAllocator;
pub use background::Background;
pub use boot::{Mobility, OnlineError, Range};
pub use check::{Census, Violation};
pub use config::{Config, ConfigError};
pub use contig::{CmaArea, CmaError};
pub use error::{AllocError, ContigError, FreeError, RangeError};
pub use percpu::{PCP_LISTS, Pcp, PcpLists, has_pcp_list};
pub use restore::Restoring;
pub use watermark::MinFree;
pub use zone::{Fragments, FreeArea, FreeAreas, Zone, ZoneFlag};
