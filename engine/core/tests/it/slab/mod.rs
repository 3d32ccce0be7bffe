//! The slab: a naive one beside the engine, and everything that can go wrong around it.
//!
//! `model` takes random steps, and shortens those that fail; `bugs` holds what earlier designs did wrong; `mistakes` is
//! what callers do wrong, which changes nothing; `rules` is what Linux says; `kept` is what lies idle at most, and
//! `waste` what of a slab is no object; `comings` has caches come and go; `exhaustion` has a request for pages fail in
//! every place, `moved` has the caller moved to another CPU in every place; `panics` has the platform panic at every
//! event, and `reentrant` has it call back, as it must not; `threads` is everybody at once, and `guarded` the same with
//! a kernel's sections. All of it in shrunken worlds: slabs of one to three objects, limits of none and one. What loom
//! plays with the same words is in `loom_slab.rs`.

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
