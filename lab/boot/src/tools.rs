//! Programs of this machine that a boot needs.

use std::path::PathBuf;

use crate::error::Error;
use crate::host;

/// Paths of the programs that a boot needs.
#[derive(Clone, Debug)]
pub struct Tools {
    pub(crate) qemu: PathBuf,
    pub(crate) busybox: PathBuf,
    pub(crate) setpriv: PathBuf,
    pub(crate) freehold: PathBuf,
}

impl Tools {
    /// Finds the programs. `freehold` is the program that records in the guest.
    ///
    /// # Errors
    /// [`Error::Missing`] with the Debian package to install.
    pub fn find(freehold: PathBuf) -> Result<Tools, Error> {
        Ok(Tools {
            qemu: host::find("qemu-system-x86_64", "qemu-system-x86")?,
            busybox: host::find("busybox", "busybox-static")?,
            setpriv: host::find("setpriv", "util-linux")?,
            freehold,
        })
    }
}
