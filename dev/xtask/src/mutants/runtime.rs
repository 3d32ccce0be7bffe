//! Module that is added to the library in the copy. It reads which mutant was chosen and records which sites are
//! executed.
//!
//! The environment variable `FREEHOLD_MUTANT` contains the number of the mutant. Without it, the program behaves like
//! the original. If `FREEHOLD_MUTANT_HITS` names a file, the number of each site is appended to that file at the site's
//! first execution, four bytes per number. Code evaluated at compile time is always the original, so functions can stay
//! `const`. Choosing between compile time and run time is not stable Rust; `RUSTC_BOOTSTRAP` makes the pinned compiler
//! accept it.

/// Environment variable with the number of the chosen mutant.
pub(super) const CHOSEN: &str = "FREEHOLD_MUTANT";
/// Environment variable with the name of the file for executed sites.
pub(super) const HITS: &str = "FREEHOLD_MUTANT_HITS";
/// Text to insert at the start of the library's root file.
pub(super) const FEATURES: &str = "#![feature(const_eval_select, core_intrinsics)]\n";
/// Text to append to the library's root file: the declaration of the module.
pub(super) const DECLARATION: &str = "\nmod mutant;\n";

/// Returns the module's text for mutant numbers below `count`.
pub(super) fn module(count: usize) -> String {
    TEXT.replace("COUNT", &count.to_string()).replace("CHOSEN_BY", CHOSEN).replace("HITS_IN", HITS)
}

const TEXT: &str = r#"//! The chosen mutant, and the sites that a test reached.

extern crate std;

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::io::Write;

const UNREAD: u32 = u32::MAX;
const RECORDING: u32 = u32::MAX - 1;

static CHOSEN: AtomicU32 = AtomicU32::new(UNREAD);
static MET: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

#[inline(always)]
pub const fn is(id: u32) -> bool {
    core::intrinsics::const_eval_select((id,), never, now)
}

const fn never(_: u32) -> bool {
    false
}

#[inline(always)]
fn now(id: u32) -> bool {
    let chosen = CHOSEN.load(Relaxed);
    if chosen < RECORDING { chosen == id } else { is_chosen_now(id) }
}

#[cold]
#[inline(never)]
fn is_chosen_now(id: u32) -> bool {
    if CHOSEN.load(Relaxed) == UNREAD {
        let number = std::env::var("CHOSEN_BY").ok().and_then(|text| text.parse().ok());
        let is_recording = std::env::var_os("HITS_IN").is_some();
        CHOSEN.store(number.unwrap_or(if is_recording { RECORDING } else { 0 }), Relaxed);
    }
    if CHOSEN.load(Relaxed) != RECORDING {
        return CHOSEN.load(Relaxed) == id;
    }
    let met = &MET[id as usize];
    if !met.load(Relaxed) && !met.swap(true, Relaxed) {
        let path = std::env::var_os("HITS_IN").expect("the variable names a file while sites are recorded");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(&id.to_le_bytes())).expect("the file of sites is writable");
    }
    false
}
"#;
