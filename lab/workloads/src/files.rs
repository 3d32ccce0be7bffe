//! Loads on the file system: inodes and directory entries, which are reclaimable slab.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Makes `count` small files in `folder`, calls `stat` on each, and removes all but every eighth.
pub(crate) fn churn(folder: &Path, count: usize) -> io::Result<()> {
    let paths: Vec<PathBuf> = (0..count).map(|number| folder.join(format!("small.{number}"))).collect();
    for path in &paths {
        fs::write(path, [1_u8; 600])?;
    }
    for path in &paths {
        fs::metadata(path)?;
    }
    for (_, path) in paths.iter().enumerate().filter(|(number, _)| number % 8 != 0) {
        fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_eighth_file_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        churn(folder.path(), 20).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}
