//! Sizes: files of at most 500 lines and functions of at most 70 lines, so that a reader can keep them in mind.
//!
//! The lines of a function are those from its signature to its closing brace. Comments before it are not counted,
//! because a longer explanation must not require shorter code.

use syn::visit::{self, Visit};

use super::tree::{Finding, Tree};

/// Maximum lines of a file.
const FILE_LINES_MAX: usize = 500;
/// Maximum lines of a function.
const FUNCTION_LINES_MAX: usize = 70;
/// Extensions of files that are written by hand and read as code.
const CODE: [&str; 4] = [".rs", ".sh", ".py", ".toml"];

/// Finds files and functions that are too long.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.texts().filter(|(file, _)| CODE.iter().any(|ending| file.ends_with(ending))) {
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            let sentence = format!("{lines} lines, but at most {FILE_LINES_MAX} are allowed; split the file");
            findings.push(Finding { file: file.to_owned(), line: FILE_LINES_MAX + 1, sentence });
        }
    }
    for (file, text) in tree.ending(".rs") {
        match syn::parse_file(text) {
            Ok(syntax) => Functions { file, findings: &mut findings }.visit_file(&syntax),
            Err(error) => findings.push(Finding {
                file: file.to_owned(),
                line: error.span().start().line,
                sentence: format!("cannot parse this file as Rust: {error}"),
            }),
        }
    }
    findings
}

/// Visitor of the functions of a file.
struct Functions<'a> {
    file: &'a str,
    findings: &'a mut Vec<Finding>,
}

impl Functions<'_> {
    fn measure(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let line = signature.ident.span().start().line;
        let lines = body.brace_token.span.close().end().line + 1 - line;
        if lines > FUNCTION_LINES_MAX {
            let sentence = format!(
                "`{}` has {lines} lines, but at most {FUNCTION_LINES_MAX} are allowed; split the function",
                signature.ident
            );
            self.findings.push(Finding { file: self.file.to_owned(), line, sentence });
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.measure(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_findings(file: &str, text: &str) -> usize {
        check(&Tree::from_texts(&[(file, text)])).len()
    }

    #[test]
    fn long_file_is_found() {
        assert_eq!(count_findings("a.rs", &"\n".repeat(501)), 1);
        assert_eq!(count_findings("a.sh", &"\n".repeat(501)), 1);
        assert_eq!(count_findings("a.rs", &"\n".repeat(500)), 0);
        assert_eq!(count_findings("Cargo.lock", &"\n".repeat(501)), 0);
    }

    fn function_of(lines: usize) -> String {
        format!("fn f() {{{}}}", "\n".repeat(lines - 1))
    }

    #[test]
    fn long_function_is_found_in_any_item() {
        for wrapped in [
            function_of(71),
            format!("impl S {{ {} }}", function_of(71)),
            format!("trait T {{ {} }}", function_of(71)),
            format!("mod m {{ fn g() {{ {} }} }}", function_of(69)),
        ] {
            let expected = 1 - usize::from(wrapped.starts_with("mod"));
            assert_eq!(count_findings("a.rs", &wrapped), expected, "{wrapped}");
        }
        assert_eq!(count_findings("a.rs", &format!("/// Comment\n\n/// more\n#[inline]\n{}", function_of(70))), 0);
    }
}
