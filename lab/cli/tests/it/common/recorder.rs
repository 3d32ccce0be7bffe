//! Recorders that run in the background of a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// Returns whether this machine can be recorded; prints a message if not.
pub(crate) fn can_record() -> bool {
    let tracefs = Path::new("/sys/kernel/tracing/instances").is_dir();
    let can = tracefs && rustix::process::geteuid().is_root() && fs::File::open("/proc/kpageflags").is_ok();
    if !can {
        eprintln!("skipped: recording needs root, tracefs on /sys/kernel/tracing, and /proc/kpageflags");
    }
    can
}

/// A recorder in the background, and its ftrace instance, which exists as long as it records.
pub(crate) struct Recorder {
    pub child: Child,
    pub instance: PathBuf,
}

impl Recorder {
    /// Starts the recorder, and returns when its instance exists.
    pub(crate) fn start(arguments: &[&str]) -> Recorder {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("freehold"));
        let mut child = command.args(arguments).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let instance = Path::new("/sys/kernel/tracing/instances").join(format!("freehold-{}", child.id()));
        while !instance.is_dir() {
            assert_eq!(child.try_wait().unwrap(), None, "the recorder ended before it created its instance");
            std::thread::yield_now();
        }
        Recorder { child, instance }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

/// A tmpfs of a few pages, unmounted on drop.
pub(crate) struct SmallDisk {
    pub folder: PathBuf,
}

impl SmallDisk {
    /// Mounts the tmpfs; `None` if this process may not mount.
    pub(crate) fn mount(folder: PathBuf) -> Option<SmallDisk> {
        fs::create_dir(&folder).ok()?;
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(&folder).status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallDisk { folder })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The sandbox cannot be removed while something is mounted in it; nothing else depends on the result.
        let _ = Command::new("umount").arg(&self.folder).status();
    }
}
