//! What a file imports from its crate's root, read from tokens, so that macros are seen into.
//!
//! A path leads through the root when it starts with `crate` (`$crate` in a macro) or climbs there by `super`; braces
//! on the way are opened. Whoever takes the root itself, by another name or with all that is in it, could go anywhere
//! from there without our seeing it. So that is an import of its own kind.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::tokens;

/// What is taken from the root.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// A name at the root, which is a room's mostly.
    Name(String),
    /// The root itself: renamed, handed to a macro, or with all its names.
    Root,
    /// The root as a crate with a name of its own, which all files of the crate then know.
    Crate,
    /// Nothing yet: a macro that files further down will know.
    Macro,
}

/// One import.
#[derive(Debug)]
pub struct Import {
    /// What is taken.
    pub target: Target,
    /// The line on which it is named.
    pub line: usize,
    /// Whether it stands in a module for tests.
    pub is_in_test: bool,
}

/// The imports of a file whose module lies `depth` modules below the root.
pub fn of(text: &str, depth: usize) -> Vec<Import> {
    let mut found = Vec::new();
    Place { depth, is_test: false }.collect(tokens::of(text), &mut found);
    found
}

/// Where in the crate tokens stand.
#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    is_test: bool,
}

impl Place {
    /// Walks tokens and all groups among them.
    fn collect(self, stream: TokenStream, found: &mut Vec<Import>) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        for at in 0..trees.len() {
            let rest = &trees[at..];
            match &rest[0] {
                TokenTree::Group(_) if is_visibility(&trees, at) => {}
                TokenTree::Group(group) => self.inside(&trees, at).collect(group.stream(), found),
                TokenTree::Ident(word) if word == "crate" && !tokens::is_word_before(&trees, at, "extern") => {
                    self.leave_root(&rest[0], &rest[1..], found);
                }
                TokenTree::Ident(word) if word == "crate" && tokens::is_word(rest.get(1), "self") => {
                    self.add(Target::Crate, &rest[0], found);
                }
                TokenTree::Ident(word) if word == "macro_rules" || word == "macro_use" => {
                    self.add(Target::Macro, &rest[0], found);
                }
                TokenTree::Ident(word) if word == "super" && !is_climbing(&trees, at) => {
                    let climbed = climb(rest);
                    if climbed == self.depth {
                        self.leave_root(&rest[0], &rest[3 * climbed - 2..], found);
                    }
                }
                _ => {}
            }
        }
    }

    /// The place inside the group at `at`: a module's lies deeper, braces after `super::` higher.
    fn inside(self, trees: &[TokenTree], at: usize) -> Place {
        if at >= 2 && tokens::is_word(trees.get(at - 2), "mod") {
            return Place { depth: self.depth + 1, is_test: self.is_test || is_for_tests(&trees[..at - 2]) };
        }
        let is_step =
            |step: &&[TokenTree]| tokens::is_word(step.first(), "super") && tokens::is_path_separator(&step[1..]);
        let climbed = trees[..at].rchunks(3).take_while(is_step).count();
        Place { depth: self.depth.saturating_sub(climbed), ..self }
    }

    /// Adds what the path takes from the root, which `root` named; `rest` follows it.
    fn leave_root(self, root: &TokenTree, rest: &[TokenTree], found: &mut Vec<Import>) {
        if tokens::is_path_separator(rest) {
            self.names(&rest[2..], found);
        } else {
            self.add(Target::Root, root, found);
        }
    }

    /// The names at the start of `trees`: one, or each of a group in braces.
    fn names(self, trees: &[TokenTree], found: &mut Vec<Import>) {
        match trees.first() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                for item in inner.split(|tree| tokens::is_sign(tree, ',')) {
                    self.names(item, found);
                }
            }
            Some(tree @ TokenTree::Ident(word)) if word == "self" => self.add(Target::Root, tree, found),
            Some(tree @ TokenTree::Ident(word)) => self.add(Target::Name(word.to_string()), tree, found),
            Some(tree) if tokens::is_sign(tree, '*') => self.add(Target::Root, tree, found),
            _ => {}
        }
    }

    fn add(self, target: Target, at: &TokenTree, found: &mut Vec<Import>) {
        found.push(Import { target, line: tokens::line(at), is_in_test: self.is_test });
    }
}

/// Whether the group at `at` is that of `pub(crate)` and the like, which imports nothing.
fn is_visibility(trees: &[TokenTree], at: usize) -> bool {
    let TokenTree::Group(group) = &trees[at] else { return false };
    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
    tokens::is_word_before(trees, at, "pub") && (inner.len() == 1 || tokens::is_word(inner.first(), "in"))
}

/// Whether the module declared after `before` is for tests alone.
fn is_for_tests(before: &[TokenTree]) -> bool {
    let mut attributes = before.rchunks(2).map_while(|pair| match pair {
        [sign, TokenTree::Group(group)] if tokens::is_sign(sign, '#') => Some(group.stream().to_string()),
        _ => None,
    });
    attributes.any(|attribute| attribute.replace(' ', "") == "cfg(test)")
}

/// Whether the `super` at `at` goes on a climb that began before it.
fn is_climbing(trees: &[TokenTree], at: usize) -> bool {
    at >= 3 && tokens::is_word(trees.get(at - 3), "super") && tokens::is_path_separator(&trees[at - 2..])
}

/// Length of the chain of `super` at the start of `trees`.
fn climb(trees: &[TokenTree]) -> usize {
    let is_super = |step: &&[TokenTree]| tokens::is_word(step.first(), "super");
    let is_last = |step: &&[TokenTree]| !tokens::is_path_separator(&step[1..]);
    let steps = trees.chunks(3).take_while(is_super);
    steps.clone().position(|step| is_last(&step)).map_or_else(|| steps.count(), |last| last + 1)
}
