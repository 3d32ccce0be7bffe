//! Every mistake that can be made with a range: the answer names the first frame that is wrong and what it is, and the
//! machine is exactly as it was.

mod alloc;
mod areas;
mod faults;
mod free;
mod poison;
