//! Tests of the slab: a simple model beside the engine, and all failures around it.
//!
//! `model` takes random steps, and shortens failing lists of steps. `regressions` has regressions of earlier designs.
//! `invalid_calls` has mistakes of callers, which change nothing. `rules` has the rules of Linux. `empty_slabs` bounds
//! the idle slabs, and `waste` the unused bytes of a slab. `cache_lifetimes` creates and destroys caches during walks.
//! `exhaustion` fails requests for pages at every place, and `migration` moves the caller to another CPU at every
//! place. `panics` has a platform that panics at every event, and `reentrant` one that calls back although it must not.
//! `threads` runs concurrent threads, and `interrupts_off` does so with a kernel's sections. All of them use shrunken
//! worlds: slabs of one to three objects, limits of zero and one slab. The loom tests of these words are in
//! `loom_slab.rs`.

mod cache_lifetimes;
mod empty_slabs;
mod exhaustion;
mod interfering_local;
mod interrupts_off;
mod invalid_calls;
mod migration;
mod model;
mod object_model;
mod panics;
mod reentrant;
mod regressions;
mod rules;
mod scenario;
mod threads;
mod waste;
mod world;
