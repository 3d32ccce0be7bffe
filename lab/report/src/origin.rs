//! Origin of a result: the command and the program version and, if time was measured, the machine.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::sync::OnceLock;

use rustix::system::uname;
use serde::Serialize;

/// Commit that the program was built from.
static COMMIT: OnceLock<Option<&'static str>> = OnceLock::new();

/// Records the commit that the program was built from, for all results. Only the first call has an effect.
pub fn built_from(commit: Option<&'static str>) {
    // A second call passes the same commit, so its error is ignored.
    let _ = COMMIT.set(commit);
}

thread_local! {
    /// Arguments of the current command on this thread, if they are not those of the process.
    static ASKED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Runs `work` on behalf of a command with these arguments, which replace the arguments of the process. Results that
/// the work produces name this command.
pub fn asked_by<T>(words: &[String], work: impl FnOnce() -> T) -> T {
    struct Before(Option<Vec<String>>);
    impl Drop for Before {
        fn drop(&mut self) {
            ASKED.set(self.0.take());
        }
    }
    let _before = Before(ASKED.replace(Some(words.to_vec())));
    work()
}

/// The program that produced a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Program {
    /// Command line that produces the result, without options that affect only the output.
    pub command: String,
    /// Version of this program.
    pub freehold: &'static str,
    /// Commit that the program was built from; `None` if it was built outside of a repository.
    pub commit: Option<&'static str>,
}

impl Program {
    /// Returns the description of this process and its current command.
    pub fn this() -> Program {
        let words = ASKED.with_borrow(Clone::clone).unwrap_or_else(|| words(std::env::args_os()));
        Program { command: command(words.into_iter()), freehold: VERSION, commit: commit() }
    }

    /// Returns the version of the program and the commit.
    pub fn version(&self) -> String {
        version_of(self.freehold, self.commit)
    }
}

/// Version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the version of this program and the commit, independent of the current command.
pub fn version() -> String {
    version_of(VERSION, commit())
}

fn version_of(version: &str, commit: Option<&str>) -> String {
    match commit {
        Some(commit) => format!("{version}, commit {commit}"),
        None => format!("{version}, built outside of a repository"),
    }
}

fn commit() -> Option<&'static str> {
    COMMIT.get().copied().flatten()
}

/// Returns the arguments after the program's name. Bytes of a file name that are not UTF-8 are replaced.
fn words(arguments: impl Iterator<Item = OsString>) -> Vec<String> {
    arguments.skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The machine on which time was measured, and the build profile of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Build profile: `release` or `debug`.
    pub build: &'static str,
    /// Name of the processor.
    pub cpu_model: String,
    /// Version of the running kernel, without the suffix of its builder.
    pub kernel_release: String,
}

impl Machine {
    /// Returns the description of this machine.
    pub fn this() -> Machine {
        Machine {
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            cpu_model: cpu_model(),
            kernel_release: kernel_release(),
        }
    }
}

/// Options with a value that affect only the place or the look of the output.
const ELSEWHERE: [&str; 10] =
    ["--json", "--csv", "--markdown", "--html", "--mmtests", "--format", "--color", "--picture", "--resume", "--jobs"];
/// Options without a value that affect only the look of the output.
const LOOKS: [&str; 4] = ["--hosts-table", "--all", "--quiet", "-q"];

/// Returns the command line without the options that affect only the place or the look of the output, because these do
/// not change the result.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let mut words = vec!["freehold".to_owned()];
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument.split('=').next() {
            Some(option) if ELSEWHERE.contains(&option) && !argument.contains('=') => drop(arguments.next()),
            Some(option) if ELSEWHERE.contains(&option) || LOOKS.contains(&option) => {}
            _ => words.push(argument),
        }
    }
    quoted(words.iter().map(String::as_str))
}

/// Returns a command of this program as a line for a shell. Words with special characters are quoted.
pub fn command_of<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    quoted(["freehold"].into_iter().chain(words))
}

fn quoted<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let quoted = words.into_iter().map(|word| {
        match word.chars().all(|letter| PLAIN.contains(letter) || letter.is_ascii_alphanumeric()) {
            true if !word.is_empty() => word.to_owned(),
            // Inside single quotes, the shell interprets no character but the closing quote.
            _ => format!("'{}'", word.replace('\'', "'\\''")),
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Characters, besides ASCII letters and digits, that have no special meaning to a shell.
const PLAIN: &str = "-_./,:=+@%{}";

/// Returns the name of the processor as the kernel prints it, or else the architecture.
fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    model_in(&text).unwrap_or(std::env::consts::ARCH).to_owned()
}

/// Returns the version of the running kernel, without the suffix of its builder, which may contain a host name.
fn kernel_release() -> String {
    version_in(&uname().release().to_string_lossy()).to_owned()
}

/// Returns the version part of a kernel release as `uname -r` prints it.
pub fn version_in(release: &str) -> &str {
    release.split_once(['-', '+']).map_or(release, |(version, _)| version)
}

fn model_in(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn shorten_command(words: &str) -> String {
        command(words.split(' ').map(str::to_owned))
    }

    #[test]
    fn recorded_command_omits_output_options() {
        assert_eq!(
            shorten_command("bench --json x.json flags --margin 5 --color=never"),
            "freehold bench flags --margin 5"
        );
        assert_eq!(shorten_command("sim purge --csv x.csv --markdown=- --all -q --format json"), "freehold sim purge");
        assert_eq!(
            shorten_command("bench --b linux-6.12,flags=plain --json=-"),
            "freehold bench --b linux-6.12,flags=plain"
        );
    }

    #[test]
    fn non_unicode_arguments_are_shown_lossily() {
        let hostile = OsString::from_vec(b"\xff.parquet".to_vec());
        assert_eq!(words(["freehold".into(), hostile].into_iter()), ["\u{fffd}.parquet"]);
    }

    #[test]
    fn nested_work_records_its_own_command() {
        let words = ["replay", "x.parquet", "--html=-"].map(str::to_owned);
        let command = asked_by(&words, || asked_by(&[], Program::this).command + "; " + &Program::this().command);
        assert_eq!(command, "freehold; freehold replay x.parquet");
        assert_ne!(Program::this().command, "freehold replay x.parquet");
    }

    #[test]
    fn recorded_command_is_quoted_for_a_shell() {
        let words = ["map", "a b;touch c.parquet", "it's", "--policy", "linux-6.12,pcp=off"];
        let expected = "freehold map 'a b;touch c.parquet' 'it'\\''s' --policy linux-6.12,pcp=off";
        assert_eq!(command_of(words), expected);
    }

    #[test]
    fn kernel_version_omits_the_host_suffix() {
        assert_eq!(["6.18.44-host-7", "6.12.0+", "6.12.117"].map(version_in), ["6.18.44", "6.12.0", "6.12.117"]);
    }

    #[test]
    fn cpu_model_is_read_from_cpuinfo() {
        assert_eq!(model_in("processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n"), Some("AMD EPYC"));
        assert_eq!(model_in("processor\t: 0\nCPU implementer\t: 0x41\n"), None);
    }
}
