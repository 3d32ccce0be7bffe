//! Configuration of a kernel: the options that a guest needs, and a check of an image's own configuration.
//!
//! The configuration is read from the image (`CONFIG_IKCONFIG`), from `config-RELEASE` or `.config` beside the image, or
//! from the root of the build tree that the image is in. Otherwise it is unknown, and the boot itself shows what is
//! missing.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::kernel::Kernel;
use crate::payload;

/// A feature, and the options that the feature needs.
struct Feature {
    name: &'static str,
    options: &'static [KernelOption],
}

/// An option of a kernel, without `CONFIG_`.
struct KernelOption {
    name: &'static str,
    /// Option that is set in every kernel with the same effect, if `name` is only one way to get it.
    effect: Option<&'static str>,
    /// Name of the module that may contain the code instead of the image.
    module: Option<&'static str>,
}

const fn option(name: &'static str) -> KernelOption {
    KernelOption { name, effect: None, module: None }
}

/// Features without which no guest is recorded.
const REQUIRED: [Feature; 7] = [
    Feature {
        name: "the first process: a script in an initial file system",
        options: &[option("64BIT"), option("BLK_DEV_INITRD"), option("BINFMT_ELF"), option("BINFMT_SCRIPT")],
    },
    Feature {
        name: "the console",
        options: &[option("TTY"), option("SERIAL_8250"), option("SERIAL_8250_CONSOLE"), option("PRINTK")],
    },
    Feature {
        name: "file systems",
        options: &[option("PROC_FS"), option("SYSFS"), option("DEVTMPFS"), option("SHMEM"), option("TMPFS")],
    },
    Feature {
        name: "the scratch disk",
        options: &[
            option("PCI"),
            option("VIRTIO_PCI"),
            KernelOption { name: "VIRTIO_BLK", effect: None, module: Some("virtio_blk") },
            option("EXT4_FS"),
        ],
    },
    Feature { name: "the transfer of the recording", options: &[option("VIRTIO_CONSOLE")] },
    Feature { name: "signals of the recorder: local sockets", options: &[option("NET"), option("UNIX")] },
    Feature {
        name: "recording: events, page flags",
        options: &[
            option("FTRACE"),
            KernelOption { name: "ENABLE_DEFAULT_TRACERS", effect: Some("EVENT_TRACING"), module: None },
            option("PROC_PAGE_MONITOR"),
        ],
    },
];

/// Features that some workloads, options and measures need.
const OPTIONAL: [Feature; 7] = [
    Feature { name: "--setting vm.NAME=VALUE", options: &[option("PROC_SYSCTL")] },
    Feature { name: "counters in recordings", options: &[option("VM_EVENT_COUNTERS")] },
    Feature { name: "slab caches in recordings", options: &[option("SLUB_DEBUG")] },
    Feature { name: "pressure stall information in recordings", options: &[option("PSI")] },
    Feature { name: "compaction", options: &[option("COMPACTION"), option("MIGRATION")] },
    Feature { name: "the workloads huge-pages, pressure, small", options: &[option("TRANSPARENT_HUGEPAGE")] },
    Feature { name: "the workload pressure", options: &[option("SWAP")] },
];

/// Returns the options that a kernel for a guest needs, as a fragment of a kernel configuration.
pub fn fragment() -> String {
    let mut text = "# Kernel options for `freehold boot`. In a kernel tree, merge them with the configuration:\n\
                    # scripts/kconfig/merge_config.sh .config FRAGMENT\n"
        .to_owned();
    for (title, features) in [("Required", &REQUIRED[..]), ("For some workloads and measures", &OPTIONAL)] {
        // A write to a String cannot fail.
        let _ = write!(text, "\n# {title}\n");
        for feature in features {
            let _ = writeln!(text, "# {}", feature.name);
            for option in feature.options {
                let _ = writeln!(text, "CONFIG_{}=y", option.name);
            }
        }
    }
    text
}

/// Checks that a kernel has the options that every guest needs, as far as its configuration is known. Missing options
/// of single workloads and measures are reported to `say`.
///
/// # Errors
/// [`Error::Input`] with the missing options.
pub fn check(kernel: &Kernel, say: &mut dyn FnMut(&str)) -> Result<(), Error> {
    let Some((source, config)) = find(kernel) else { return Ok(()) };
    let optional = missing(&OPTIONAL, &config, kernel);
    if !optional.is_empty() {
        say(&format!("the kernel lacks options of some workloads and measures: {}", optional.join(", ")));
    }
    let required = missing(&REQUIRED, &config, kernel);
    match required.is_empty() {
        true => Ok(()),
        false => Err(Error::Input(format!(
            "the configuration of {} ({source}) lacks {}; `freehold boot --config-fragment` prints the options that a \
             guest needs",
            kernel.image.display(),
            required.join(", ")
        ))),
    }
}

/// Returns the missing options, each with its feature.
fn missing(features: &[Feature], config: &str, kernel: &Kernel) -> Vec<String> {
    let mut missing = Vec::new();
    for feature in features {
        let absent = feature.options.iter().filter(|option| !option.is_in(config, kernel));
        let names: Vec<String> = absent.map(|option| format!("CONFIG_{}", option.name)).collect();
        if !names.is_empty() {
            missing.push(format!("{} ({})", names.join(" and "), feature.name));
        }
    }
    missing
}

impl KernelOption {
    fn is_in(&self, config: &str, kernel: &Kernel) -> bool {
        let mut names = [self.name].into_iter().chain(self.effect);
        names.any(|name| has(config, name, "y"))
            || self.module.is_some_and(|module| {
                has(config, self.name, "m") && kernel.module(module).is_ok_and(|file| file.is_some())
            })
    }
}

/// Returns whether a configuration gives this value to an option.
fn has(config: &str, option: &str, expected: &str) -> bool {
    config.lines().any(|line| value(line, option) == Some(expected))
}

/// Returns the value that a line of a configuration gives to an option.
fn value<'l>(line: &'l str, option: &str) -> Option<&'l str> {
    line.strip_prefix("CONFIG_")?.strip_prefix(option)?.strip_prefix('=')
}

/// Returns the configuration of a kernel and its source; `None` if the configuration is unknown.
fn find(kernel: &Kernel) -> Option<(String, String)> {
    if let Some(config) = payload::configuration(&kernel.image) {
        return Some(("embedded in the image".to_owned(), config));
    }
    files(kernel).into_iter().find_map(|path| {
        let config = fs::read_to_string(&path).ok()?;
        Some((path.display().to_string(), config))
    })
}

/// Returns the files that may contain the configuration of a kernel.
fn files(kernel: &Kernel) -> Vec<PathBuf> {
    let folder = kernel.image.parent().unwrap_or(Path::new(""));
    let mut files =
        vec![folder.join(format!("config-{}", kernel.release)), folder.join("config"), folder.join(".config")];
    if folder.ends_with("arch/x86/boot") || folder.ends_with("arch/x86_64/boot") {
        files.push(folder.join("../../../.config"));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::tests::image_bytes;

    /// Returns the configuration that the fragment describes, without one option.
    fn config_without(option: &str) -> String {
        fragment().lines().filter(|line| value(line, option).is_none()).map(|line| format!("{line}\n")).collect()
    }

    /// Checks the kernel of a build tree with this configuration, and returns the outcome and the notes.
    fn check_tree(config: &str) -> (Result<(), Error>, Vec<String>) {
        let tree = tempfile::tempdir().unwrap();
        let boot = tree.path().join("arch/x86/boot");
        fs::create_dir_all(&boot).unwrap();
        fs::write(boot.join("bzImage"), image_bytes("6.12.9-mine")).unwrap();
        fs::write(tree.path().join(".config"), config).unwrap();
        let mut notes = Vec::new();
        let kernel = Kernel::open(&boot.join("bzImage")).unwrap();
        (check(&kernel, &mut |note| notes.push(note.to_owned())), notes)
    }

    #[test]
    fn missing_options_are_named_with_their_feature() {
        assert!(check_tree(&fragment()).0.is_ok());
        let (outcome, notes) = check_tree(&config_without("VIRTIO_CONSOLE"));
        let sentence = outcome.unwrap_err().to_string();
        assert!(sentence.contains("lacks CONFIG_VIRTIO_CONSOLE (the transfer of the recording);"), "{sentence}");
        assert!(notes.is_empty());
        let (outcome, notes) = check_tree(&config_without("SWAP"));
        assert!(outcome.is_ok() && notes[0].ends_with(": CONFIG_SWAP (the workload pressure)"), "{notes:?}");
        let as_module = fragment().replace("CONFIG_VIRTIO_BLK=y", "CONFIG_VIRTIO_BLK=m");
        assert!(check_tree(&as_module).0.is_err(), "there is no such module");
    }

    #[test]
    fn effect_of_another_option_is_sufficient() {
        let config = config_without("ENABLE_DEFAULT_TRACERS");
        assert!(check_tree(&config).0.is_err());
        assert!(check_tree(&format!("{config}CONFIG_EVENT_TRACING=y\n")).0.is_ok());
    }

    #[test]
    fn debian_kernels_have_all_options() {
        let kernels = crate::Store::for_user().map(|store| store.all()).unwrap_or_default();
        if kernels.is_empty() {
            return eprintln!("left out: no kernel of Debian is stored; `freehold boot --fetch` fetches one");
        }
        // The packages of kernels from 7.2 on contain no configuration.
        let known = kernels.iter().filter_map(|kernel| Some((kernel, find(kernel)?.1)));
        for (kernel, config) in known {
            let missing = [&REQUIRED[..], &OPTIONAL].map(|features| missing(features, &config, kernel));
            assert!(missing.iter().all(Vec::is_empty), "{}: {missing:?}", kernel.release);
        }
    }
}
