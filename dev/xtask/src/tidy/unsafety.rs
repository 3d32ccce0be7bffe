//! Unsafe code: `unsafe` may be used in few places only, and each use needs its argument.
//!
//! A block, an implementation and a foreign block need a comment with `SAFETY:` and a few words, on the same line or
//! directly above their statement. An unsafe function or trait needs a `# Safety` section in its documentation.
//! Functions that implement a trait inherit the section of the trait. The check reads tokens instead of syntax, so that
//! it also finds uses in macros.

use proc_macro2::{TokenStream, TokenTree};

use super::tokens;
use super::tree::{Finding, Tree};

/// Places where `unsafe` may be used, and why each needs it. A place that ends in `/` is a folder, any other is a file.
const PLACES: [(&str, &str); 23] = [
    ("engine/core/src/base/", "frames, lists and locks share metadata by address"),
    ("engine/core/src/machine/objects.rs", "owns the memory of a machine of frames"),
    ("engine/core/src/kernel/", "trusts a machine's memory map, and allocates its memory"),
    ("engine/core/src/slab/", "writes links into the memory it manages, and allocates it"),
    ("engine/core/src/platform/host.rs", "implements the unsafe lock trait of base, by forwarding"),
    ("engine/core/examples/kernel.rs", "describes a machine, and provides its memory"),
    ("engine/core/examples/wrong_frees.rs", "makes invalid frees, and counts those that are detected"),
    ("engine/core/tests/", "implements locks that preempt; frees objects, and damages them"),
    ("engine/loom/tests/", "implements locks for loom, and frees objects"),
    ("engine/baremetal/", "is a kernel that runs without an operating system"),
    ("malloc/heap/", "manages raw memory"),
    ("malloc/preload/", "implements functions of the C library"),
    ("lab/fiber/src/", "suspends code in the middle of a call"),
    ("lab/sim/src/virtual_time/lock.rs", "implements the unsafe lock trait of base"),
    ("lab/bench/src/cases/slab/", "allocates objects, and trusts the code that frees them"),
    ("lab/record/src/", "uses system calls for clocks, mappings and the end of a child process"),
    ("lab/fragmenter/src/region.rs", "maps memory for its frames, and moves pages to pipes"),
    ("lab/workloads/src/corruption/", "misuses memory on purpose, in a separate process"),
    ("lab/workloads/src/malloc/", "forks with the C library, since Rust has no fork"),
    ("lab/cli/src/stdout.rs", "examines stdout before `main`"),
    ("dev/peer-page-allocators/src/", "provides raw memory to peers, which trust the code that frees"),
    ("dev/object-loops/src/", "allocates objects as raw memory, and trusts the code that frees them"),
    ("dev/peer-mallocs/", "calls C functions, whose contracts it must keep"),
];

/// Maximum lines of a statement between its comment and its `unsafe`.
const STATEMENT_LINES: usize = 4;

/// Minimum number of words in a SAFETY comment.
const WORDS_MIN: usize = 4;
/// Minimum number of words in a `# Safety` section. It may be only the name of an item with the same requirements.
const REQUIRED_WORDS_MIN: usize = 1;

/// Finds uses of `unsafe` in other places, and uses without an argument.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.ending(".rs") {
        let mut uses = Vec::new();
        collect(tokens::parse(text), Around::Other, &mut uses);
        let lines: Vec<&str> = text.lines().collect();
        for (line, kind) in uses {
            if let Some(sentence) = judge(file, &lines, line, kind) {
                findings.push(Finding { file: file.to_owned(), line, sentence });
            }
        }
    }
    findings
}

/// Kind of a use of `unsafe`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Proof of a promise: a block, an implementation, foreign functions, an unsafe attribute.
    Argued,
    /// Promise required of the caller or implementer: a function, a trait.
    Required,
    /// Function of a trait implementation, whose requirements are those of the trait.
    Inherited,
}

/// Item that directly encloses the tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    TraitImplementation,
    Other,
}

fn judge(file: &str, lines: &[&str], line: usize, kind: Kind) -> Option<String> {
    let allowed = PLACES.iter().any(|(place, _)| file == *place || place.ends_with('/') && file.starts_with(place));
    if !allowed {
        let places: Vec<&str> = PLACES.iter().map(|(place, _)| *place).collect();
        return Some(format!("`unsafe` is allowed only in {}", places.join(", ")));
    }
    let (mark, words_min, advice) = match kind {
        Kind::Argued => ("SAFETY:", WORDS_MIN, "explain in a `// SAFETY:` comment above why this `unsafe` is sound"),
        Kind::Required => ("# Safety", REQUIRED_WORDS_MIN, "list the caller's obligations in a `# Safety` section"),
        Kind::Inherited => return None,
    };
    match argument_words(lines, line, mark) {
        None => Some(advice.to_owned()),
        Some(words) if words < words_min => Some(format!("{advice}, in at least {words_min} words")),
        Some(_) => None,
    }
}

/// Returns the number of words after `mark`, on the line itself or in the comment block above its statement.
fn argument_words(lines: &[&str], line: usize, mark: &str) -> Option<usize> {
    let own = lines[line - 1].split_once("//").and_then(|(_, comment)| comment.split_once(mark));
    match own {
        Some((_, argument)) => Some(tokens::words(argument)),
        None => comment_above(lines, line).split_once(mark).map(|(_, argument)| tokens::words(argument)),
    }
}

/// Returns the comment block above the statement of a line.
fn comment_above(lines: &[&str], line: usize) -> String {
    let above = lines[..line - 1].iter().rev().copied();
    let between = above.clone().take(STATEMENT_LINES).take_while(|line| !is_comment(line)).count();
    let mut comment: Vec<&str> = above.skip(between).take_while(|line| is_comment(line)).collect();
    comment.reverse();
    comment.join("\n")
}

/// Returns whether a line contains only a comment.
fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

fn collect(stream: TokenStream, around: Around, uses: &mut Vec<(usize, Kind)>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut inside = Around::Other;
    for (at, tree) in trees.iter().enumerate() {
        if tokens::is_word(Some(tree), "unsafe")
            && let Some(kind) = kind(&trees[at + 1..], around)
        {
            uses.push((tokens::line(tree), kind));
        }
        if tokens::is_word(Some(tree), "impl")
            && before_braces(&trees[at..]).any(|tree| tokens::is_word(Some(tree), "for"))
        {
            inside = Around::TraitImplementation;
        }
        if let TokenTree::Group(group) = tree {
            collect(group.stream(), inside, uses);
            inside = Around::Other;
        }
    }
}

fn before_braces(trees: &[TokenTree]) -> impl Iterator<Item = &TokenTree> {
    trees.iter().take_while(|tree| !matches!(tree, TokenTree::Group(_)))
}

/// Returns the kind of the `unsafe` before `rest`, or `None` if it is part of a type (`unsafe fn(...)`).
fn kind(rest: &[TokenTree], around: Around) -> Option<Kind> {
    let word = before_braces(rest).find_map(|tree| match tree {
        TokenTree::Ident(ident) if ident != "extern" && ident != "auto" => Some(ident.to_string()),
        _ => None,
    });
    match word.as_deref() {
        Some("fn") if is_type(rest) => None,
        Some("fn") if around == Around::TraitImplementation => Some(Kind::Inherited),
        Some("fn" | "trait") => Some(Kind::Required),
        _ => Some(Kind::Argued),
    }
}

/// Returns whether the `fn` has no name, so that it is a type.
fn is_type(rest: &[TokenTree]) -> bool {
    let mut after = rest.iter().skip_while(|tree| !tokens::is_word(Some(tree), "fn")).skip(1);
    matches!(after.next(), Some(TokenTree::Group(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &str = "engine/core/src/base/list.rs";

    fn count_findings(file: &str, text: &str) -> usize {
        check(&Tree::from_texts(&[(file, text)])).len()
    }

    #[test]
    fn unsafe_in_the_wrong_place_is_found() {
        let text = "// SAFETY: none of your business\nfn f() { unsafe { g() } }\n";
        assert_eq!(count_findings("engine/core/src/page/zone.rs", text), 1);
        assert_eq!(count_findings("lab/trace/src/ring.rs", "m! { unsafe impl Send for X {} }"), 1);
        assert_eq!(count_findings(PLACE, text), 0);
    }

    #[test]
    fn unsafe_without_argument_is_found() {
        assert_eq!(count_findings(PLACE, "fn f() {\n    let x = unsafe { g() };\n}\n"), 1);
        assert_eq!(
            count_findings(
                PLACE,
                "fn f() {\n    // SAFETY: fine, as g says\n    let x =\n        unsafe { g() };\n}\n"
            ),
            0
        );
        assert_eq!(count_findings(PLACE, "unsafe impl Send for X {}\n"), 1);
        assert_eq!(count_findings(PLACE, "/// Does.\npub unsafe fn f() {}\n"), 1);
        assert_eq!(count_findings(PLACE, "/// Does.\n///\n/// # Safety\n/// Be good.\npub unsafe fn f() {}\n"), 0);
        assert_eq!(count_findings(PLACE, "/// Locks.\npub unsafe trait T {}\n"), 1);
    }

    #[test]
    fn argument_without_words_is_found() {
        for note in
            ["// SAFETY:", "// SAFETY: ok.", "// SAFETY: this is sound", "// SAFETY:\n//\n//", "// SAFETY: - - - -"]
        {
            assert_eq!(count_findings(PLACE, &format!("{note}\nunsafe impl Send for X {{}}\n")), 1, "{note}");
            assert_eq!(
                count_findings(PLACE, &format!("fn f() {{\n{note}\nlet x = unsafe {{ g() }};\n}}\n")),
                1,
                "{note}"
            );
        }
        assert_eq!(count_findings(PLACE, "fn f() { unsafe { g() } } // SAFETY: ok.\n"), 1);
        assert_eq!(count_findings(PLACE, "/// Does.\n///\n/// # Safety\n///\npub unsafe fn f() {}\n"), 1);
        assert_eq!(count_findings(PLACE, "// SAFETY: it\n// is sound by its type\nunsafe impl Send for X {}\n"), 0);
        assert_eq!(count_findings(PLACE, "fn f() { unsafe { g() } } // SAFETY: g asks for nothing\n"), 0);
    }

    #[test]
    fn code_without_need_for_an_argument_is_accepted() {
        assert_eq!(
            count_findings(PLACE, "// SAFETY: T asks nothing of us\nunsafe impl T for X { unsafe fn f() {} }\n"),
            0
        );
        assert_eq!(count_findings(PLACE, "type F = unsafe fn(u8);\n"), 0);
        assert_eq!(count_findings("README.rs", "// unsafe in a comment\nconst S: &str = \"unsafe\";\n"), 0);
    }
}
