//! Rust files as tokens, which include the contents of macros. A syntax tree does not.

use proc_macro2::{TokenStream, TokenTree};

/// Returns the tokens of a file. The result is empty if the file is not Rust; the compiler reports that error better.
pub(crate) fn parse(text: &str) -> TokenStream {
    text.parse().unwrap_or_default()
}

/// Returns whether `tree` is the identifier `word`.
pub(crate) fn is_word(tree: Option<&TokenTree>, word: &str) -> bool {
    matches!(tree, Some(TokenTree::Ident(ident)) if ident == word)
}

/// Returns the line on which `tree` begins, counted from 1.
pub(crate) fn line(tree: &TokenTree) -> usize {
    tree.span().start().line
}

/// Returns the number of words in a comment. A word contains a letter or a digit.
pub(crate) fn words(comment: &str) -> usize {
    comment.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}
