//! Rust files as tokens, which see into macros where a syntax tree does not.

use proc_macro2::{TokenStream, TokenTree};

/// The tokens of a file; none when it is not Rust, which the compiler will say better than we could.
pub fn of(text: &str) -> TokenStream {
    text.parse().unwrap_or_default()
}

/// Whether `tree` is the word `word`.
pub fn is_word(tree: Option<&TokenTree>, word: &str) -> bool {
    matches!(tree, Some(TokenTree::Ident(ident)) if ident == word)
}

/// Whether `trees` begins with `::`.
pub fn is_path_separator(trees: &[TokenTree]) -> bool {
    let is_colon = |tree: Option<&TokenTree>| matches!(tree, Some(TokenTree::Punct(p)) if p.as_char() == ':');
    is_colon(trees.first()) && is_colon(trees.get(1))
}

/// The line on which `tree` begins, counted from 1.
pub fn line(tree: &TokenTree) -> usize {
    tree.span().start().line
}

/// Whether the tree before the one at `at` is the word `word`.
pub fn is_word_before(trees: &[TokenTree], at: usize, word: &str) -> bool {
    at >= 1 && is_word(trees.get(at - 1), word)
}

/// Whether `tree` is the sign `sign`.
pub fn is_sign(tree: &TokenTree, sign: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == sign)
}

/// Words of a comment: what has a letter or a digit in it.
pub fn words(comment: &str) -> usize {
    comment.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}
