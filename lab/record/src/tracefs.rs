//! tracefs: its location, and a private instance of it.
//!
//! An *instance* is a set of ring buffers with its own events, clock and switch, so that recording neither sees nor
//! disturbs other users of ftrace. The instance exists as long as the [`Instance`] value: dropping the value stops
//! tracing and removes the directory, also on errors and panics. An instance is left behind only if the process ends
//! without dropping the value: by SIGKILL, by a signal that it does not handle, or by a further signal during the
//! removal. The directory's name contains the id of the process that created it. The next recording removes the
//! instances of processes that no longer exist.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::error::CaptureError;

/// Usual mount point of tracefs on Linux.
const USUAL_PLACE: &str = "/sys/kernel/tracing";
/// Prefix of the names of instances; the id of the creating process follows.
const INSTANCE_PREFIX: &str = "freehold-";
/// Initial size of a buffer for a text of tracefs in bytes, which is rarely exceeded.
const TEXT_BYTES: usize = 64 << 10;
/// Smallest ring that is tried, in KiB for each CPU.
const RING_MIN_KIB: u64 = 256;

/// The mounted tracefs. Dropping the value unmounts it, if it was mounted by this process.
#[derive(Debug)]
pub(crate) struct Tracefs {
    /// Root directory.
    pub root: PathBuf,
    mounted: MountOrigin,
}

/// The origin of the mount.
#[derive(Debug, PartialEq, Eq)]
enum MountOrigin {
    /// It was mounted before.
    Before,
    /// It was mounted by this process.
    Now,
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        if self.mounted == MountOrigin::Now {
            // Fails if another process uses it by now, and then it stays mounted.
            let _ = unmount(&self.root, UnmountFlags::empty());
        }
    }
}

impl Tracefs {
    /// Finds tracefs in `/proc/mounts`, or mounts it at the usual mount point.
    pub(crate) fn find() -> Result<Tracefs, CaptureError> {
        let mounts = Path::new("/proc/mounts");
        let text = fs::read_to_string(mounts).map_err(CaptureError::kernel(mounts))?;
        if let Some(root) = mount_point(&text, "tracefs") {
            return Ok(Tracefs { root, mounted: MountOrigin::Before });
        }
        mount("tracefs", USUAL_PLACE, "tracefs", MountFlags::empty(), None)
            .map_err(|errno| CaptureError::NoTracefs(errno.into()))?;
        Ok(Tracefs { root: PathBuf::from(USUAL_PLACE), mounted: MountOrigin::Now })
    }
}

/// Returns the first mount point of a file system of `kind` in the text of `/proc/mounts`.
fn mount_point(mounts: &str, kind: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let place = fields.nth(1)?;
        (fields.next()? == kind).then(|| PathBuf::from(unescape(place)))
    })
}

/// Replaces the octal escapes (`\040` for a space) of `/proc/mounts`.
fn unescape(place: &str) -> String {
    let mut text = String::with_capacity(place.len());
    let mut rest = place;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        match rest.get(at + 1..at + 4).and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            Some(byte) => {
                text.push(char::from(byte));
                rest = &rest[at + 4..];
            }
            None => {
                text.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    text.push_str(rest);
    text
}

/// One tracefs instance, removed when dropped. Files opened below it must be closed before.
#[derive(Debug)]
pub(crate) struct Instance {
    path: PathBuf,
}

impl Instance {
    /// Creates the instance of this process, and removes those of processes that no longer exist.
    pub(crate) fn create(tracefs: &Tracefs) -> Result<Instance, CaptureError> {
        let instances = tracefs.root.join("instances");
        remove_stale(&instances);
        let path = instances.join(format!("{INSTANCE_PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(CaptureError::kernel(&path))?;
        Ok(Instance { path })
    }

    /// Returns the path of a file of the instance.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Reads a file of the instance.
    pub(crate) fn read(&self, name: &str) -> Result<String, CaptureError> {
        let path = self.file(name);
        read_text(&path).map_err(CaptureError::kernel(&path))
    }

    /// Writes a file of the instance.
    pub(crate) fn write(&self, name: &str, value: &str) -> Result<(), CaptureError> {
        let path = self.file(name);
        fs::write(&path, value).map_err(CaptureError::kernel(&path))
    }

    /// Returns whether the kernel has the event `SYSTEM/NAME`.
    pub(crate) fn offers(&self, event: &str) -> bool {
        self.file("events").join(event).join("enable").exists()
    }

    /// Allocates `kib` KiB of ring for each CPU, and halves the size, down to [`RING_MIN_KIB`], as long as the kernel
    /// has too little memory for it. Returns the allocated size.
    pub(crate) fn size_ring(&self, kib: u64) -> Result<u64, CaptureError> {
        let path = self.file("buffer_size_kb");
        let mut kib = kib;
        loop {
            match fs::write(&path, kib.to_string()) {
                Ok(()) => return Ok(kib),
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory && kib / 2 >= RING_MIN_KIB => kib /= 2,
                Err(source) => return Err(CaptureError::Ring { kib, source }),
            }
        }
    }

    /// Starts writing events into the ring.
    pub(crate) fn start(&self) -> Result<(), CaptureError> {
        self.write("tracing_on", "1")
    }

    /// Stops writing events into the ring. Its events can still be read.
    pub(crate) fn stop(&self) -> Result<(), CaptureError> {
        self.write("tracing_on", "0")
    }
}

/// Reads a file of tracefs. Some of them, for example `header_page`, return data only for the first read of an open
/// file, so that read must be large enough. The standard library begins with a small one.
fn read_text(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0; TEXT_BYTES];
    let mut len = 0;
    loop {
        match file.read(&mut bytes[len..])? {
            0 => break,
            read => len += read,
        }
        if len == bytes.len() {
            bytes.resize(2 * len, 0);
        }
    }
    bytes.truncate(len);
    String::from_utf8(bytes).map_err(io::Error::other)
}

impl Drop for Instance {
    fn drop(&mut self) {
        // A failure here cannot be handled; the next recording tries again.
        let _ = fs::write(self.path.join("tracing_on"), "0");
        let _ = fs::write(self.path.join("events/enable"), "0");
        let _ = fs::remove_dir(&self.path);
    }
}

/// Removes instances whose processes are gone.
fn remove_stale(instances: &Path) {
    let Ok(entries) = fs::read_dir(instances) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(INSTANCE_PREFIX));
        let Some(maker) = maker.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        let alive = Path::new("/proc").join(maker.to_string()).exists();
        if !alive || maker == std::process::id() {
            drop(Instance { path: entry.path() });
        }
    }
}

/// Lock for tests that create an instance. They are in one process, and would take each other's instance for a stale
/// one.
#[cfg(test)]
pub(crate) static INSTANCES: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracefs_mount_point_is_parsed() {
        let mounts = "proc /proc proc rw 0 0\nnodev /my\\040trace\\134s tracefs rw,relatime 0 0\n";
        assert_eq!(mount_point(mounts, "tracefs"), Some(PathBuf::from("/my trace\\s")));
        assert_eq!(mount_point(mounts, "debugfs"), None);
        assert_eq!(mount_point("tracefs\n\n x", "tracefs"), None);
    }

    #[test]
    fn invalid_octal_escape_keeps_its_backslash() {
        assert_eq!(unescape("a\\9b"), "a\\9b");
        assert_eq!(unescape("a\\"), "a\\");
    }

    #[test]
    fn panic_removes_the_tracing_instance() {
        let _alone = INSTANCES.lock();
        let tracefs = Tracefs::find();
        let made = tracefs.as_ref().map(Instance::create);
        let Ok(Ok(instance)) = made else {
            eprintln!("skipped: making an instance needs root and tracefs");
            return;
        };
        let path = instance.path.clone();
        assert!(path.is_dir());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _instance = instance;
            panic!("as a bug would");
        }));
        assert!(panicked.is_err());
        assert!(!path.exists(), "{path:?}");
    }
}
