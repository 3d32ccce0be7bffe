//! Damage to each part of the engine's state, and the part that detects it.
//!
//! There are two tables. In `asserted`, each row damages one thing on a small machine and continues with ordinary
//! operations. An assertion of the responsible module must end these operations with the right message, without a check
//! of the whole machine. In `checked`, each row damages one thing that [`check`](freehold::page::PageAllocator::check)
//! verifies, and no other operation runs; the check must report exactly that violation. Every row is also played
//! without the damage, and then no violation may be found.
//!
//! Debug assertions detect the damage of the first table, so these tests run only in builds that have them.

mod asserted;
mod checked;
mod stage;
