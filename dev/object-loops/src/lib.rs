//! Loops that time how objects are allocated and freed, written once for every allocator: the slab under its
//! policies, and the mallocs of other people.
//!
//! They are those of Christoph Lameter's table: so many objects of one size allocated and then freed in the order of
//! allocation, and objects freed as soon as they are allocated; and one more, objects that another CPU frees. What is
//! counted is ticks of the processor's time stamp counter ([`clock`]). An allocator is anything that implements
//! [`Objects`]; mallocs with C's two functions have a ready one, [`Entries`].
//!
//! ```text
//! clock     what a tick is           objects   an allocator              entries   two functions, as C has them
//! array     where objects wait       alone     fill, pair: one thread   remote    one allocates, another frees
//! rounds    sizes, numbers of rounds, errors
//! work      the loops by name, and what they answer
//! ```
//!
//! A loop does nothing with an object but keep its address. [`Touched`] is the same allocator for a caller that uses
//! what it gets: a byte of each object is written when it comes, and read before it goes.

mod alone;
mod array;
pub mod clock;
mod entries;
mod objects;
mod remote;
mod rounds;
mod touched;
mod work;

#[cfg(test)]
mod fake;

pub use entries::{Entries, Hook};
pub use objects::Objects;
pub use rounds::{Rounds, Size, Trouble};
pub use touched::Touched;
pub use work::{Ticks, Work};
