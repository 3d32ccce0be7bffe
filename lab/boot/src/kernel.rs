//! A kernel that can be booted: its image, and its modules if there are any beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, on_file};
use crate::{host, image};

/// A kernel on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Release, as `uname -r` prints it.
    pub release: String,
    /// Path of the image.
    pub image: PathBuf,
    /// Folder with the modules: `lib/modules/RELEASE`.
    modules: Option<PathBuf>,
    /// Folder that the kernel's packages were unpacked in.
    packages_folder: Option<PathBuf>,
}

impl Kernel {
    /// Opens the kernel with the image at `image`. Modules are searched where packages and builds put them.
    ///
    /// # Errors
    /// [`Error::Input`] if the file is not an image.
    pub fn open(image: &Path) -> Result<Kernel, Error> {
        let release = image::release(image)?;
        let folder = image.parent().unwrap_or(Path::new("."));
        let roots = [folder.join(".."), folder.join("../usr"), PathBuf::from("/")];
        let places = roots.map(|root| root.join("lib/modules").join(&release));
        let modules = std::iter::once(folder.to_owned())
            .chain(places)
            .find(|place| place.join("modules.dep").is_file() || place.join("kernel").is_dir());
        Ok(Kernel { release, image: image.to_owned(), modules, packages_folder: None })
    }

    /// Returns the kernel that is unpacked below `root`, in the layout of Debian's packages: the image is in `boot`
    /// before 7.0, and beside its modules since then. Returns `None` if there is no image.
    pub(crate) fn below(root: &Path) -> Option<Kernel> {
        let in_boot = entries(&root.join("boot")).find(|path| file_name(path).starts_with("vmlinuz-"));
        let image = in_boot
            .or_else(|| image_beside_modules(&root.join("usr/lib/modules")))
            .or_else(|| image_beside_modules(&root.join("lib/modules")))?;
        let mut kernel = Kernel::open(&image).ok()?;
        let places = ["usr/lib/modules", "lib/modules"].map(|folder| root.join(folder).join(&kernel.release));
        kernel.modules = places.into_iter().find(|place| place.join("kernel").is_dir());
        kernel.packages_folder = Some(root.to_owned());
        Some(kernel)
    }

    /// Returns the folder that the kernel's packages were unpacked in; `None` for an image that the user named.
    pub(crate) fn packages_folder(&self) -> Option<&Path> {
        self.packages_folder.as_deref()
    }

    /// Returns the folder of the build that made the image, if the image is still in it: from its files, modules for
    /// this kernel can be built. `None` if the folder was built again as another release.
    pub(crate) fn build_folder(&self) -> Option<PathBuf> {
        let image = fs::canonicalize(&self.image).ok()?;
        let is_build = |folder: &&Path| {
            let release = fs::read_to_string(folder.join("include/config/kernel.release"));
            release.is_ok_and(|release| release.trim() == self.release)
        };
        image.ancestors().find(is_build).map(Path::to_owned)
    }

    /// Returns the module `name`, decompressed; `None` if there is no such file, in which case it may be built in.
    ///
    /// # Errors
    /// When the file cannot be read or decompressed.
    pub fn module(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some(path) = self.modules.as_deref().and_then(|modules| find_module(&modules.join("kernel"), name)) else {
            return Ok(None);
        };
        let unpacker = match path.extension().and_then(|extension| extension.to_str()) {
            Some("xz") => "xzcat",
            Some("gz") => "zcat",
            Some("zst") => "zstdcat",
            _ => return fs::read(&path).map(Some).map_err(on_file("read", &path)),
        };
        host::output(Command::new(unpacker).arg(&path)).map(Some)
    }
}

/// Returns the image beside the modules of a release, below a folder `lib/modules`.
fn image_beside_modules(folder: &Path) -> Option<PathBuf> {
    entries(folder).map(|modules| modules.join("vmlinuz")).find(|image| image.is_file())
}

/// Returns the path of the module `name` below `folder`.
fn find_module(folder: &Path, name: &str) -> Option<PathBuf> {
    let stem = format!("{name}.ko");
    entries(folder).find_map(|entry| match entry.is_dir() {
        true => find_module(&entry, name),
        false => file_name(&entry).starts_with(&stem).then_some(entry),
    })
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::image::tests::image_bytes;

    /// Creates an unpacked package of `release`, whose image is at `image` below `root`.
    pub(crate) fn unpack_package(root: &Path, release: &str, image: &str) {
        let image_path = root.join(image);
        let modules = root.join("lib/modules").join(release).join("kernel/drivers/block");
        fs::create_dir_all(image_path.parent().unwrap()).unwrap();
        fs::create_dir_all(&modules).unwrap();
        fs::write(image_path, image_bytes(release)).unwrap();
        fs::write(modules.join("virtio_blk.ko"), "module").unwrap();
    }

    #[test]
    fn both_package_layouts_are_found() {
        for (release, image) in
            [("6.12.9-cloud", "boot/vmlinuz-6.12.9-cloud"), ("7.3.4-cloud", "lib/modules/7.3.4-cloud/vmlinuz")]
        {
            let root = tempfile::tempdir().unwrap();
            unpack_package(root.path(), release, image);
            let kernel = Kernel::below(root.path()).unwrap();
            assert_eq!(kernel.release, release);
            assert_eq!(kernel.module("virtio_blk").unwrap().as_deref(), Some(b"module".as_slice()));
            assert_eq!(kernel.module("nothing").unwrap(), None);
        }
    }

    #[test]
    fn single_image_has_no_modules() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("bzImage");
        fs::write(&image, image_bytes("6.1.0-mine")).unwrap();
        let kernel = Kernel::open(&image).unwrap();
        assert_eq!((kernel.release.as_str(), kernel.module("virtio_blk").unwrap()), ("6.1.0-mine", None));
        assert!(Kernel::below(folder.path()).is_none());
    }

    #[test]
    fn build_folder_is_that_of_the_same_release() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("arch/x86/boot/bzImage");
        let release = folder.path().join("include/config/kernel.release");
        for path in [&image, &release] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        fs::write(&image, image_bytes("6.1.0-mine")).unwrap();
        let kernel = Kernel::open(&image).unwrap();
        assert_eq!(kernel.build_folder(), None);
        fs::write(&release, "6.1.0-mine\n").unwrap();
        assert_eq!(kernel.build_folder(), Some(fs::canonicalize(folder.path()).unwrap()));
        fs::write(&release, "6.1.0-other\n").unwrap();
        assert_eq!(kernel.build_folder(), None);
    }
}
