//! `freehold disasm`: shows the machine code of rival functions in this program side by side, with counts.
//!
//! The code shown is the code that runs. [`subjects`] names the functions, [`image`] finds their bytes in the program's
//! own file, [`listing`] decodes and counts them, and [`report`] shows them side by side. Nothing is compiled
//! separately, so a build with other settings has other figures.

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

/// The supported architecture.
const UNDERSTOOD: &str = "x86_64";

/// Reason why code could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// The program is built for another architecture.
    #[error(
        "this program is built for {ARCH}, but only {UNDERSTOOD} code can be shown; build and run it on such a machine"
    )]
    Architecture,

    /// The program cannot read its own file.
    #[error("cannot read {path}: {source}; mount /proc, which has a link to the program's own file")]
    Read {
        /// Missing file.
        path: &'static str,
        /// Error of the system.
        source: io::Error,
    },

    /// The extent of the function is unknown.
    #[error(
        "cannot find the extent of `{name}` in this program's file: {reason}; build it with this repository's settings"
    )]
    Extent {
        /// Name of the function.
        name: &'static str,
        /// Reason.
        reason: String,
    },

    /// The function contains bytes that are not an instruction.
    #[error("unknown instruction in `{name}` at +{offset:#x}; build for a common x86-64 processor")]
    Instruction {
        /// Name of the function.
        name: &'static str,
        /// Offset of the bytes from the function's start.
        offset: u64,
    },
}

/// Machine code of some subjects.
#[derive(Debug, Serialize)]
pub struct Disassembly {
    /// Architecture of the processor.
    architecture: &'static str,
    /// Whether the program was built without debug assertions, as it is for users.
    optimized: bool,
    subjects: Vec<SubjectListing>,
}

/// Machine code of one subject.
#[derive(Debug, Serialize)]
struct SubjectListing {
    name: &'static str,
    about: &'static str,
    pairs: Vec<PairListing>,
    further: &'static str,
}

/// Machine code of one function, before and after the change.
#[derive(Debug, Serialize)]
struct PairListing {
    name: &'static str,
    before: FunctionListing,
    after: FunctionListing,
    likeness: Likeness,
}

/// Machine code of one function.
#[derive(Debug, Serialize)]
struct FunctionListing {
    function: &'static str,
    address: u64,
    #[serde(flatten)]
    listing: Listing,
}

/// Result of comparing the code of two functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Likeness {
    /// Both functions are at the same address.
    Merged,
    /// Both functions have the same instructions.
    Same,
    /// The instructions differ.
    Different,
}

/// Finds and decodes every function of `subjects`.
///
/// # Errors
/// [`CodeError`] for the first function that cannot be decoded.
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
    /// Description, name and counts of each function, before and after the change.
    pub functions: Vec<(&'static str, &'static str, Counts)>,
    /// Sentences that compare the two functions of each pair.
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
    /// Compares two functions by the text of their instructions. Calls of the same address from different places have
    /// different bytes but equal text.
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
