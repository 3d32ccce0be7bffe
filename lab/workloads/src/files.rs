//! Loads on the file system: inodes and directory entries, which are reclaimable slab.

use std::fs;
use std::io;
use std::path::Path;

/// Makes `count` small files in `folder`, looks at each, and removes all but every eighth.
pub fn churn(folder: &Path, count: usize) -> io::Result<()> {
    let name = |number: usize| folder.join(format!("small.{number}"));
    for number in 0..count {
        fs::write(name(number), [1_u8; 600])?;
    }
    for number in 0..count {
        fs::metadata(name(number))?;
    }
    for number in (0..count).filter(|number| number % 8 != 0) {
        fs::remove_file(name(number))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_eighth_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        churn(folder.path(), 20).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}
