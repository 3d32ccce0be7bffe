//! Words that make sense on one machine only: absolute paths, and the hosts of private registries.
//!
//! An absolute path of a private disk or an address in a private network is useless to other readers, and may reveal
//! private information.

use super::tree::{Finding, Tree};

/// Forbidden words, and the reason for each. They are split so that the check does not find them in this file.
const WORDS: [(&str, &str); 6] = [
    (concat!("/wo", "rk/"), "an absolute path of one machine; make it relative to the workspace's root"),
    (concat!("/ho", "me/"), "an absolute path of one machine; make it relative to the workspace's root"),
    (concat!("/ro", "ot/"), "an absolute path of one machine; make it relative to the workspace's root"),
    (concat!("/t", "mp/"), "an absolute path; use a folder of the caller's choice"),
    (concat!("arti", "factory"), "the host of a private registry; leave registries to the user's settings"),
    (concat!("local", "host:"), "an address of one machine; let the user set it"),
];

/// Files that may contain a word: the folder or file, the word, and the reason.
const EXCEPTIONS: [(&str, &str, &str); 1] =
    [("lab/boot/", concat!("/t", "mp/"), "the guest is a machine of our own making")];

/// Finds words that no committed file may contain.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.texts() {
        for (number, line) in text.lines().enumerate() {
            for (word, why) in WORDS {
                if contains(line, word) && !is_exception(file, word) {
                    let sentence = format!("`{word}` is {why}");
                    findings.push(Finding { file: file.to_owned(), line: number + 1, sentence });
                }
            }
        }
    }
    findings
}

/// Returns whether `line` contains `word`. A path counts only at its start, not inside a longer path.
fn contains(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let inside = before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | '*'));
        !word.starts_with('/') || !inside
    })
}

fn is_exception(file: &str, word: &str) -> bool {
    EXCEPTIONS.iter().any(|(place, allowed, _)| file.starts_with(place) && word == *allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_findings(file: &str, text: &str) -> usize {
        check(&Tree::from_texts(&[(file, text)])).len()
    }

    #[test]
    fn machine_paths_and_registry_hosts_are_found() {
        for (word, _) in WORDS {
            assert_eq!(count_findings("README.md", &format!("See {word}x here.\n")), 1, "{word}");
        }
    }

    #[test]
    fn relative_paths_and_exceptions_are_accepted() {
        assert_eq!(count_findings("README.md", concat!("engine/wo", "rk/x and ../ho", "me/y\n")), 0);
        assert_eq!(count_findings("lab/boot/guest/init.sh", concat!("mount /t", "mp/x\n")), 0);
        assert_eq!(count_findings("lab/boot/guest/init.sh", concat!("mount /ho", "me/x\n")), 1);
    }
}
