//! Tests of the slab: a simple model beside the engine, and all failures around it.
//!
//! `model` takes random steps, and shortens failing lists of steps. `bugs` has regressions of earlier designs.
//! `mistakes` has mistakes of callers, which change nothing. `rules` has the rules of Linux. `kept` bounds the idle
//! slabs, and `waste` the unused bytes of a slab. `comings` creates and destroys caches during walks. `exhaustion`
//! fails requests for pages at every place, and `moved` moves the caller to another CPU at every place. `panics` has a
//! platform that panics at every event, and `reentrant` one that calls back although it must not. `threads` runs
//! concurrent threads, and `guarded` does so with a kernel's sections. All of them use shrunken worlds: slabs of one to
//! three objects, limits of zero and one slab. The loom tests of these words are in `loom_slab.rs`.

mod bugs;
mod comings;
mod exhaustion;
mod guarded;
mod kept;
mod meddler;
mod mistakes;
mod model;
mod moved;
mod object_model;
mod panics;
mod reentrant;
mod rules;
mod scenario;
mod threads;
mod waste;
mod world;
