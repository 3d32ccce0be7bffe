//! The module that the copy has more than the library: it knows which mutant was chosen, and which sites were met.
//!
//! Which one is the number in `FREEHOLD_MUTANT`; without one the program does what the original does. If a file is
//! named by `FREEHOLD_MUTANT_HITS`, each site's number is appended there when the site is met first, four bytes a
//! number. What the compiler evaluates is always the original, so functions stay `const`: that choice is not stable
//! Rust, and the pinned compiler takes it by `RUSTC_BOOTSTRAP`.

/// Environment variable that chooses a mutant by number.
pub(super) const CHOSEN: &str = "FREEHOLD_MUTANT";
/// Names the file of the sites that were met.
pub(super) const HITS: &str = "FREEHOLD_MUTANT_HITS";
/// What the library's root must begin with.
pub(super) const FEATURES: &str = "#![feature(const_eval_select, core_intrinsics)]\n";
/// Declaration that the library's root gets at its end.
pub(super) const DECLARATION: &str = "\nmod mutant;\n";

/// The module's text, for numbers below `count`.
pub(super) fn module(count: usize) -> String {
    TEXT.replace("COUNT", &count.to_string()).replace("CHOSEN_BY", CHOSEN).replace("HITS_IN", HITS)
}

const TEXT: &str = r#"//! Which mutant was chosen, and which sites were met.

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
    if chosen < RECORDING { chosen == id } else { asked(id) }
}

#[cold]
#[inline(never)]
fn asked(id: u32) -> bool {
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
        let path = std::env::var_os("HITS_IN").expect("a file is named while sites are recorded");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(&id.to_le_bytes())).expect("the file of sites can be written");
    }
    false
}
"#;
