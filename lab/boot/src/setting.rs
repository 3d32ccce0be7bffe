//! Settings of the guest, by the names that recordings use.
//!
//! Settings whose names begin with one of four folders are files below `/sys/kernel/mm`, such as
//! `transparent_hugepage.enabled` and `lru_gen.enabled`. All other settings are sysctls, such as `vm.min_free_kbytes`,
//! and are files below `/proc/sys`.

use std::fmt;
use std::str::FromStr;

/// Folders below `/sys/kernel/mm`. A setting whose name begins with one of them is a file there.
const OF_MM: [&str; 4] = ["transparent_hugepage", "lru_gen", "ksm", "numa"];

/// A setting and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    name: String,
    value: String,
}

impl Setting {
    /// Returns the path of the file that is written.
    pub fn path(&self) -> String {
        let below = self.name.replace('.', "/");
        let is_of_mm = self.name.split('.').next().is_some_and(|first| OF_MM.contains(&first));
        format!("{}/{below}", if is_of_mm { "/sys/kernel/mm" } else { "/proc/sys" })
    }

    /// Returns the value that is written into the file.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Setting, String> {
        match text.split_once('=') {
            Some((name, value)) if is_name(name) && !value.is_empty() && !value.chars().any(char::is_control) => {
                Ok(Setting { name: name.to_owned(), value: value.to_owned() })
            }
            _ => Err(format!("`{text}` is not NAME=VALUE; write it like vm.min_free_kbytes=65536")),
        }
    }
}

/// Returns whether a text consists of at least two words separated by dots.
fn is_name(text: &str) -> bool {
    text.contains('.') && text.split('.').all(is_word)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_map_to_their_files() {
        for (text, path) in [
            ("vm.min_free_kbytes=1", "/proc/sys/vm/min_free_kbytes"),
            ("transparent_hugepage.enabled=never", "/sys/kernel/mm/transparent_hugepage/enabled"),
            ("lru_gen.enabled=y", "/sys/kernel/mm/lru_gen/enabled"),
        ] {
            assert_eq!(text.parse::<Setting>().unwrap().path(), path);
        }
    }

    #[test]
    fn invalid_settings_are_errors() {
        for text in ["", "vm", "vm=1", "vm.x", "vm.x=", "vm..x=1", "../x.y=1", "vm.x=1\n2", "vm.x y=1", "vm./etc=1"] {
            assert!(text.parse::<Setting>().is_err(), "{text}");
        }
    }

    #[test]
    fn setting_text_round_trips() {
        let text = "vm.lowmem_reserve_ratio=256 256 32";
        assert_eq!(text.parse::<Setting>().unwrap().to_string(), text);
    }
}
