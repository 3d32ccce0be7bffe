//! Chooses the mutants to try. Every site is equally likely, so the share of survivors estimates the share among all
//! sites.
//!
//! The position of a site in the order depends on the seed and on the site itself, not on other sites. So a change of
//! the core changes the drawn set little: the few mutants of the gate stay the same until their own code changes.

use super::site::Site;
use crate::error::Error;

/// Iterator over sites in the order of a seed, numbered from 1.
pub(crate) struct Drawn<'s> {
    sites: std::vec::IntoIter<&'s Site>,
    last: u32,
}

impl<'s> Drawn<'s> {
    /// Sorts the sites into the order of a seed.
    pub(crate) fn new(sites: &[&'s Site], seed: u64) -> Drawn<'s> {
        let mut sites = sites.to_vec();
        sites.sort_by_cached_key(|site| place(site, seed));
        Drawn { sites: sites.into_iter(), last: 0 }
    }
}

/// Returns the sort key of a site under a seed.
fn place(site: &Site, seed: u64) -> u64 {
    let words = [&site.file, &site.function, &site.original, &site.mutated];
    // FNV-1a needs no table and gives the same result on every machine. The random number generator after it mixes in
    // the last bytes.
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed;
    for byte in words.iter().flat_map(|word| word.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    fastrand::Rng::with_seed(hash).u64(..)
}

impl<'s> Iterator for Drawn<'s> {
    type Item = (u32, &'s Site);

    fn next(&mut self) -> Option<(u32, &'s Site)> {
        let site = self.sites.next()?;
        self.last += 1;
        Some((self.last, site))
    }
}

/// Returns the sites at the places in `only`, or all sites if `only` is empty. A place is a file or a folder, as a path
/// from the root or from the library's sources. A colon and a line number may follow.
///
/// # Errors
/// Returns [`Error::Usage`] if there is no site at one of the places.
pub(crate) fn requested<'s>(sites: &'s [Site], folder: &str, only: &[String]) -> Result<Vec<&'s Site>, Error> {
    if let Some(place) = only.iter().find(|place| !sites.iter().any(|site| is_at(folder, site, place))) {
        return Err(Error::Usage(format!(
            "there is no mutant at `{place}`; give a file or folder below {folder}, or FILE:LINE"
        )));
    }
    Ok(sites.iter().filter(|site| only.is_empty() || only.iter().any(|place| is_at(folder, site, place))).collect())
}

/// Returns whether a site is in the file or folder of `place`, and on its line if it names one.
fn is_at(folder: &str, site: &Site, place: &str) -> bool {
    let (path, line) = match place.rsplit_once(':') {
        Some((path, line)) => (path, line.parse().ok()),
        None => (place, None),
    };
    let path = path.trim_end_matches('/');
    let short = site.file.strip_prefix(folder).map_or(site.file.as_str(), |short| short.trim_start_matches('/'));
    let is_below = [site.file.as_str(), short]
        .iter()
        .filter_map(|file| file.strip_prefix(path))
        .any(|rest| rest.is_empty() || rest.starts_with('/'));
    is_below && line.is_none_or(|line: usize| site.line == line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(file: &str, line: usize) -> Site {
        let text = String::new;
        Site { file: file.to_owned(), line, function: text(), original: text(), mutated: text(), edits: Vec::new() }
    }

    fn draw_lines(sites: &[&Site], seed: u64) -> Vec<usize> {
        Drawn::new(sites, seed).map(|(_, site)| site.line).collect::<Vec<_>>()
    }

    fn count_at(sites: &[Site], only: &str) -> Result<usize, Error> {
        requested(sites, "core/src", &[only.to_owned()]).map(|sites| sites.len())
    }

    #[test]
    fn draw_depends_only_on_seed_and_site() {
        let sites: Vec<Site> = (0..100).map(|number| site(&format!("{number}.rs"), number)).collect();
        let sites: Vec<&Site> = sites.iter().collect();
        assert_eq!(draw_lines(&sites, 1), draw_lines(&sites, 1));
        assert_ne!(draw_lines(&sites, 1), draw_lines(&sites, 2));
        assert_eq!(Drawn::new(&sites, 1).next().unwrap().0, 1);
        // Other sites do not change the order.
        let few: Vec<usize> = draw_lines(&sites, 1).into_iter().filter(|line| *line < 50).collect();
        assert_eq!(draw_lines(&sites[..50], 1), few);
    }

    #[test]
    fn places_are_files_folders_and_lines() {
        let sites = [site("core/src/page/free.rs", 3), site("core/src/page/free.rs", 4), site("core/src/page.rs", 1)];
        assert_eq!(count_at(&sites, "page").unwrap(), 2);
        assert_eq!(count_at(&sites, "core/src/page/free.rs:4").unwrap(), 1);
        assert_eq!(count_at(&sites, "page.rs").unwrap(), 1);
        assert_eq!(requested(&sites, "core/src", &[]).unwrap().len(), 3);
        assert!(count_at(&sites, "pag").unwrap_err().to_string().contains("`pag`"));
    }
}
