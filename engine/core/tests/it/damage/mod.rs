//! Damage to each piece of the engine's state, and the part that notices it.
//!
//! Two tables. In `asserted`, each row spoils one thing on a small machine and goes on with ordinary operations: an
//! assertion of the module that owns it must end that, and say what is wrong, long before a walk over everything. In
//! `checked`, each row spoils one thing that [`check`](freehold::page::PageAllocator::check) proves, and nothing else
//! runs: the check must name just that. Every row is played without the damage as well, and then nothing may be found.
//!
//! What is asserted is asserted in builds with debug assertions, so these tests are for such builds only.

mod asserted;
mod checked;
mod stage;
