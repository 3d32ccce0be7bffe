//! Loops that time the allocation and the free of objects. They are written once for all allocators: the slab under its
//! policies, and mallocs of other projects.
//!
//! The loops are those of Christoph Lameter's table. One allocates a number of objects of one size and then frees them
//! in the order of allocation. Another frees each object as soon as it is allocated. A further loop frees the objects
//! on another CPU. Times are ticks of the processor's time stamp counter ([`clock`]). An allocator is any type that
//! implements [`Objects`]; [`Entries`] implements it for mallocs with C's two functions.
//!
//! ```text
//! clock     ticks                        objects   trait of allocators        entries   malloc as two C functions
//! array     addresses of objects         alone     fill, pair: one thread     remote    one allocates, another frees
//! rounds    sizes, numbers of rounds, errors
//! work      loops by name, and their results
//! ```
//!
//! A loop only keeps the address of an object and does not access it. [`Touched`] wraps an allocator for a caller that
//! uses its objects: it writes a byte of each object after the allocation, and reads the byte before the free.

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
