//! `freehold disasm`: the machine code of rival functions in this very program, counted and side by side.
//!
//! What is shown is what runs: [`subjects`] names the functions, [`image`] finds their bytes in the program's own file,
//! [`listing`] decodes and counts them, [`report`] sets them side by side. Nothing is compiled for the occasion, so a
//! build with other settings has other figures.

mod image;
mod listing;
mod report;
pub mod subjects;

use std::env::consts::ARCH;
use std::io;

use image::Image;
pub use listing::Counts;
use listing::Listing;
use serde::Serialize;
use subjects::{Function, Pair, Subject};

/// The only architecture whose code is understood.
const UNDERSTOOD: &str = "x86_64";

/// Why code could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// Another processor's code.
    #[error(
        "this program is built for {ARCH}, and only {UNDERSTOOD} code can be shown; build and run it on such a machine"
    )]
    Architecture,

    /// The program cannot look at itself.
    #[error("cannot read {path}: {source}; mount /proc, where Linux shows a program its own file")]
    Read {
        /// What is missing.
        path: &'static str,
        /// What the system said.
        source: io::Error,
    },

    /// It is not known where the function begins and ends.
    #[error("this program's file does not tell the extent of `{name}`: {reason}; build it with cargo's own settings")]
    Extent {
        /// The function.
        name: &'static str,
        /// What is missing.
        reason: String,
    },

    /// The function holds bytes that are no instruction.
    #[error("the bytes of `{name}` at +{offset:#x} are no known instruction; build for a processor of today")]
    Instruction {
        /// The function.
        name: &'static str,
        /// Bytes from the function's first.
        offset: u64,
    },
}

/// The code of some subjects.
#[derive(Debug, Serialize)]
pub struct Disassembly {
    /// The processor's architecture.
    architecture: &'static str,
    /// Whether the program was built as users have it.
    optimized: bool,
    subjects: Vec<SubjectListing>,
}

/// One subject's code.
#[derive(Debug, Serialize)]
struct SubjectListing {
    name: &'static str,
    about: &'static str,
    pairs: Vec<PairListing>,
    further: &'static str,
}

/// One function's code, before and after.
#[derive(Debug, Serialize)]
struct PairListing {
    name: &'static str,
    before: FunctionListing,
    after: FunctionListing,
    likeness: Likeness,
}

/// One function's code.
#[derive(Debug, Serialize)]
struct FunctionListing {
    function: &'static str,
    address: u64,
    #[serde(flatten)]
    listing: Listing,
}

/// How two functions' codes compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Likeness {
    /// They are at the same address.
    Merged,
    /// They have the same instructions.
    Same,
    /// They have not.
    Different,
}

/// Looks up and decodes every function of `subjects`.
///
/// # Errors
/// [`CodeError`], before anything is shown.
pub fn disassemble(subjects: &[&Subject]) -> Result<Disassembly, CodeError> {
    if ARCH != UNDERSTOOD {
        return Err(CodeError::Architecture);
    }
    let image = Image::open_this_program()?;
    let shown = subjects.iter().map(|subject| SubjectListing::new(subject, &image)).collect::<Result<_, _>>()?;
    Ok(Disassembly { architecture: ARCH, optimized: !cfg!(debug_assertions), subjects: shown })
}

/// Counts of a subject's code, for a page that does not show the code.
#[derive(Debug)]
pub struct CodeCounts {
    /// Each function, before the change and after it: what it does, its name, its counts.
    pub functions: Vec<(&'static str, &'static str, Counts)>,
    /// How the two of each pair compare, in a sentence.
    pub sentences: Vec<String>,
}

/// Counts the code of a subject.
///
/// # Errors
/// As [`disassemble`].
pub fn count(subject: &Subject) -> Result<CodeCounts, CodeError> {
    let mut counts = CodeCounts { functions: Vec::new(), sentences: Vec::new() };
    for pair in disassemble(&[subject])?.subjects.iter().flat_map(|subject| &subject.pairs) {
        let functions = [&pair.before, &pair.after];
        counts.functions.extend(functions.map(|function| (pair.name, function.function, function.counts())));
        counts.sentences.push(pair.meaning());
    }
    Ok(counts)
}

impl SubjectListing {
    fn new(subject: &Subject, image: &Image) -> Result<SubjectListing, CodeError> {
        let pairs = subject.pairs.iter().map(|pair| PairListing::new(pair, image)).collect::<Result<_, _>>()?;
        Ok(SubjectListing { name: subject.name, about: subject.about, pairs, further: subject.further })
    }
}

impl PairListing {
    fn new(pair: &Pair, image: &Image) -> Result<PairListing, CodeError> {
        let before = FunctionListing::new(pair.before, image)?;
        let after = FunctionListing::new(pair.after, image)?;
        let likeness = Likeness::compare(&before, &after);
        Ok(PairListing { name: pair.name, before, after, likeness })
    }
}

impl FunctionListing {
    fn new(function: Function, image: &Image) -> Result<FunctionListing, CodeError> {
        let code = image.function(function.name, (function.address)())?;
        let listing = Listing::decode(code).map_err(|offset| CodeError::Instruction { name: function.name, offset })?;
        Ok(FunctionListing { function: function.name, address: code.address, listing })
    }

    fn counts(&self) -> Counts {
        self.listing.counts
    }

    /// Returns the instructions as text.
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.listing.lines.iter().map(|line| line.text.as_str())
    }
}

impl Likeness {
    /// Calls of the same place from different places have different bytes and the same text, so texts are compared.
    fn compare(before: &FunctionListing, after: &FunctionListing) -> Likeness {
        if before.address == after.address {
            Likeness::Merged
        } else if before.texts().eq(after.texts()) {
            Likeness::Same
        } else {
            Likeness::Different
        }
    }
}
