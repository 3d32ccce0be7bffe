//! Rust files as tokens, which see into macros where a syntax tree does not.

use proc_macro2::{TokenStream, TokenTree};

/// The tokens of a file; none when it is not Rust, which the compiler will say better than we could.
pub(crate) fn parse(text: &str) -> TokenStream {
    text.parse().unwrap_or_default()
}

/// Whether `tree` is the word `word`.
pub(crate) fn is_word(tree: Option<&TokenTree>, word: &str) -> bool {
    matches!(tree, Some(TokenTree::Ident(ident)) if ident == word)
}

/// The line on which `tree` begins, counted from 1.
pub(crate) fn line(tree: &TokenTree) -> usize {
    tree.span().start().line
}

/// Words of a comment: what has a letter or a digit in it.
pub(crate) fn words(comment: &str) -> usize {
    comment.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}
