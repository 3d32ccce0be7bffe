//! Reasons for which a program keeps its own malloc, with the sentences that report them.

use std::fmt;

/// Reason for which a program keeps its own malloc. Its text continues the name of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// Static linking: the program has no dynamic loader.
    Static,
    /// Word size that differs from the library's.
    Width,
    /// Processor that differs from the library's.
    Processor,
    /// C library musl.
    Musl,
    /// Sanitizer that checks the program's memory.
    Sanitizer,
    /// Rights that the program's user does not have: the loader ignores preloaded libraries.
    Rights,
    /// Malloc that the program exports, which takes precedence.
    Malloc,
}

impl Obstacle {
    /// Returns whether the library may be preloaded nevertheless: the program ignores it, and its child processes may
    /// use it.
    pub(super) fn allows_preload(self) -> bool {
        match self {
            Obstacle::Static | Obstacle::Rights | Obstacle::Malloc => true,
            Obstacle::Width | Obstacle::Processor | Obstacle::Musl | Obstacle::Sanitizer => false,
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Obstacle::Static => "is linked statically and keeps its malloc; link it dynamically, or with libfreehold.a",
            Obstacle::Width => {
                "has another word size (32 or 64 bits) than the library, so the program and its child processes keep \
                 their malloc; run a build with the word size of the library"
            }
            Obstacle::Processor => {
                "is for another processor, so the program and its child processes keep their malloc; run a build for \
                 this machine's processor"
            }
            Obstacle::Musl => {
                "uses musl, but the library needs glibc; the program and its child processes keep their malloc; link \
                 the program with a libfreehold.a for musl"
            }
            Obstacle::Sanitizer => {
                "is built with a sanitizer, so the program and its child processes keep their malloc; build it without \
                 one"
            }
            Obstacle::Rights => {
                "gets rights that its user does not have, so the loader ignores the library and the program keeps its \
                 malloc; run it as the user whose rights it gets"
            }
            Obstacle::Malloc => "contains a malloc of its own and keeps it; build it without one",
        })
    }
}
