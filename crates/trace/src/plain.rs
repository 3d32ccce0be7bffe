//! Text that strangers chose, made fit for a terminal.
//!
//! A task may call itself anything, and a file may say anything of its machine. What would move a cursor, change a colour
//! or turn the direction of writing round is shown as its code; what is far too long is cut.

/// The text without control characters, each as its code, and of so many characters at most. Cost: a step a character
/// that is kept.
pub fn plain(text: &str, length_max: usize) -> String {
    let mut shown = String::new();
    let mut letters = text.chars();
    for letter in letters.by_ref().take(length_max) {
        match is_harmless(letter) {
            true => shown.push(letter),
            false => shown.extend(letter.escape_default()),
        }
    }
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
}

fn is_harmless(letter: char) -> bool {
    let turns =
        matches!(letter, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
    !letter.is_control() && !turns && letter != '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_as_codes() {
        assert_eq!(plain("cc1 ü", 80), "cc1 ü");
        assert_eq!(plain("a\u{1b}[2J\nb\r\u{7f}\u{9b}\u{202e}", 80), "a\\u{1b}[2J\\nb\\r\\u{7f}\\u{9b}\\u{202e}");
        assert_eq!(plain("abc", 2), "ab…");
    }
}
