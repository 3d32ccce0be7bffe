//! Builds the book in `docs` with mdBook, and finds dead links in it.
//!
//! The command is `cargo run --manifest-path dev/book/Cargo.toml`. The pages are read in two places. In the repository,
//! their links may lead to any file. The book contains only its own files. So links that leave the book are rewritten
//! before the book is rendered ([`outward`]). Then every link of the rendered pages is followed ([`links`]), because
//! only the rendered book shows which pages and anchors exist.

mod error;
mod links;
mod outward;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use error::Error;
use mdbook_driver::MDBook;
use outward::Outward;

/// Folder of the pages.
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

/// Builds the book in docs, and finds dead links in it.
#[derive(Debug, Parser)]
#[command(name = "freehold-book")]
struct Args {
    /// Write the book to DIR instead of target/book
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match build(Path::new(DOCS), args.out).and_then(|folder| follow(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("freehold-book: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the book whose pages are in `docs`, and returns its folder.
fn build(docs: &Path, out: Option<PathBuf>) -> Result<PathBuf, Error> {
    let mut book = MDBook::load(docs).map_err(Error::Builder)?;
    if let Some(out) = out {
        book.config.build.build_dir = std::path::absolute(&out).map_err(error::on_file(&out))?;
    }
    book.with_preprocessor(Outward::new(docs));
    book.build().map_err(Error::Builder)?;
    Ok(book.build_dir_for("html"))
}

/// Follows every link of the book in `folder`, and prints the dead links.
fn follow(folder: &Path) -> Result<(), Error> {
    let followed = links::follow(folder)?;
    for dead in &followed.dead {
        eprintln!("{dead}");
    }
    if !followed.dead.is_empty() {
        return Err(Error::DeadLinks { count: followed.dead.len(), links: followed.links });
    }
    println!("{} pages, {} links in {}", followed.pages, followed.links, folder.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Creates a repository with a book and two files outside the book.
    fn repository(page: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        let settings =
            "[book]\nsrc = \".\"\n[build]\nuse-default-preprocessors = false\n[output.html]\ninput-404 = \"\"\n";
        let files = [
            ("docs/book.toml", settings),
            ("docs/SUMMARY.md", "# Summary\n\n[A](index.md)\n- [B](in/b.md)\n- [C](c.md)\n"),
            ("docs/index.md", page),
            ("docs/in/b.md", "# B\n\n## Its part\n\n[A](../index.md), [a file](../../src/lib.rs)\n"),
            ("docs/c.md", "# C\n\n{{#include ../FORMAT.md}}\n"),
            ("FORMAT.md", "# Format\n\n## Columns\n\n[`lib.rs`](src/lib.rs), [B](docs/in/b.md#its-part)\n"),
            ("src/lib.rs", ""),
        ];
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("the path has a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        root
    }

    /// Returns the dead links of a book with this first page, and that page as rendered.
    fn dead(page: &str) -> (Vec<String>, String) {
        let root = repository(page);
        let folder = build(&root.path().join("docs"), Some(root.path().join("out"))).expect("a book");
        let followed = links::follow(&folder).expect("the file is readable");
        assert!(followed.pages > 3, "{followed:?}");
        let page = fs::read_to_string(folder.join("index.html")).expect("the page exists");
        (followed.dead.iter().map(ToString::to_string).collect(), page)
    }

    #[test]
    fn book_has_no_dead_links() {
        let out = tempfile::tempdir().expect("a folder");
        let folder = build(Path::new(DOCS), Some(out.path().to_owned())).expect("the book builds");
        let followed = links::follow(&folder).expect("the file is readable");
        let dead: Vec<String> = followed.dead.iter().map(ToString::to_string).collect();
        assert!(dead.is_empty() && followed.links > 0, "{}", dead.join("\n"));
    }

    #[test]
    fn planted_dead_links_are_found() {
        for (link, target) in [
            ("gone.md", "gone.html"),
            ("in/b.md#gone", "in/b.html#gone"),
            ("#gone", "#gone"),
            ("../src/gone.rs", "../src/gone.rs"),
            ("../../outside.txt", "../../outside.txt"),
            ("/in/b.html", "/in/b.html"),
        ] {
            let (dead, _) = dead(&format!("# A\n\n[x]({link})\n"));
            let found = format!("index.html: the link `{target}` has no target");
            assert!(dead.iter().any(|dead| dead.starts_with(&found)), "{link}: {dead:?}");
        }
        let (dead, _) = dead("# A\n\n![x](gone.svg)\n");
        assert!(dead[0].contains("`gone.svg`"), "{dead:?}");
    }

    #[test]
    fn links_to_pages_anchors_files_and_hosts_are_accepted() {
        let page = "# A\n\n[B](in/b.md#its-part), [a](#a), [file](../src/lib.rs), <https://example.org/>, \
                    [the format](../FORMAT.md#columns)\n";
        let (dead, rendered) = dead(page);
        assert_eq!(dead, [""; 0]);
        assert!(rendered.contains("file (<code>src/lib.rs</code>)"), "{rendered}");
        assert!(rendered.contains("href=\"c.html#columns\""), "{rendered}");
    }

    #[test]
    fn missing_included_page_is_an_error() {
        let root = repository("# A\n");
        fs::remove_file(root.path().join("FORMAT.md")).expect("the old page is still there");
        let error = build(&root.path().join("docs"), Some(root.path().join("out")))
            .expect_err("the book misses the included file");
        assert!(error.to_string().contains("FORMAT.md"), "{error}");
    }
}
