//! Finds the sites of a file by a walk over its syntax tree that keeps track of the enclosing function.
//!
//! The walk leaves out code that is not the library's own (tests, other memory models), output for people (`Display`,
//! `Debug`), and code evaluated at compile time (types, lengths, patterns). It also leaves out assertions and all other
//! macros, and the inside of `unsafe` blocks, where a mistake would be undefined behaviour and prove nothing. A
//! constant is a site of its own, written at its uses.

use syn::visit::{self, Visit};
use syn::{Arm, Attribute, BinOp, Block, Expr, ExprBinary, Pat, ReturnType, Signature, Stmt, Type};

use super::constants::{Constant, Use};
use super::operators::{self, has_let, line_of};
use super::site::{Edit, Kind, Site, one_line};
use super::source::{Source, is_conditional, range_of};

/// Traits whose output no program acts on.
const TEXTS: [&str; 2] = ["Debug", "Display"];
/// Call that checks for a planted fault. Planted faults exist in loom builds only.
const PLANTED: &str = "is_planted(";
/// Calls that only let time pass.
const WAITS: [&str; 2] = ["spin_loop", "yield_now"];

/// Sites, constants and uses in a source file.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Sites of edits, except those of constants.
    pub(crate) sites: Vec<Site>,
    /// Constants that the file declares.
    pub(crate) constants: Vec<Constant>,
    /// Places that use a constant of any file.
    pub(crate) uses: Vec<Use>,
}

/// Finds sites, constants and uses in a file.
pub(crate) fn scan(source: &Source) -> Scan {
    let mut scanner = Scanner { source, owners: Vec::new(), functions: Vec::new(), found: Scan::default() };
    scanner.visit_file(&source.syntax);
    let mut found = scanner.found;
    found.sites.sort_by(|a, b| a.edits[0].range.start.cmp(&b.edits[0].range.start).then(a.mutated.cmp(&b.mutated)));
    found.sites.dedup();
    found
}

struct Scanner<'s> {
    source: &'s Source,
    /// Enclosing types and traits, outermost first.
    owners: Vec<String>,
    /// Enclosing functions, outermost first.
    functions: Vec<String>,
    found: Scan,
}

impl Scanner<'_> {
    fn add(&mut self, node: &impl syn::spanned::Spanned, kind: Kind) {
        self.add_at(range_of(node), line_of(node), one_line(self.source.text_of(node)), kind);
    }

    fn add_at(&mut self, range: std::ops::Range<usize>, line: usize, original: String, kind: Kind) {
        let Some(function) = self.functions.last() else { return };
        let function = self.owners.last().map_or(function.clone(), |owner| format!("{owner}::{function}"));
        let (file, mutated) = (self.source.file.clone(), kind.mutated());
        let edits = vec![Edit { file: file.clone(), range, kind }];
        self.found.sites.push(Site { file, line, function, original, mutated, edits });
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, body: &Block) {
        if is_conditional(attributes) {
            return;
        }
        self.functions.push(signature.ident.to_string());
        for answer in early_answers(&signature.output, self.source.text_of(body), body) {
            let at = range_of(&body.brace_token.span.open()).end;
            let line = line_of(&signature.ident);
            self.add_at(at..at, line, "its body".to_owned(), Kind::First(answer.to_owned()));
        }
        if matches!(signature.output, ReturnType::Default) {
            self.unit_block(body);
        }
        self.visit_block(body);
        self.functions.pop();
    }

    /// Visits a block without a value: a call at its end may be left out.
    fn unit_block(&mut self, block: &Block) {
        if let Some(Stmt::Expr(expr, None)) = block.stmts.last() {
            self.unit_expr(expr);
        }
    }

    /// Visits an expression without a value.
    fn unit_expr(&mut self, expr: &Expr) {
        match expr {
            Expr::If(choice) => {
                self.unit_block(&choice.then_branch);
                if let Some((_, other)) = &choice.else_branch {
                    self.unit_expr(other);
                }
            }
            Expr::Match(choice) => choice.arms.iter().for_each(|Arm { body, .. }| self.unit_expr(body)),
            Expr::Block(block) => self.unit_block(&block.block),
            expr if is_step(self.source, expr) => self.add(expr, Kind::LeftOut),
            _ => {}
        }
    }

    fn condition(&mut self, condition: &Expr, forced: &[&str]) {
        if has_let(condition) {
            return self.add(condition, Kind::NotTaken);
        }
        for truth in forced {
            self.add(condition, Kind::Instead((*truth).to_owned()));
        }
    }

    /// Adds sites for the parts of a condition that do not bind patterns.
    fn beside_patterns(&mut self, condition: &ExprBinary) {
        let sides = [&condition.left, &condition.right];
        if matches!(condition.op, BinOp::And(_)) && sides.iter().any(|side| has_let(side)) {
            for side in sides.into_iter().filter(|side| !has_let(side)) {
                self.add(side, Kind::Instead("true".to_owned()));
            }
        }
    }
}

impl Scanner<'_> {
    /// Returns whether an expression is the check for a planted fault, negated or not.
    fn asks_for_fault(&self, expr: &Expr) -> bool {
        self.source.text_of(expr).trim_start_matches('!').starts_with(PLANTED)
    }
}

impl<'ast> Visit<'ast> for Scanner<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_conditional(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let implemented = item.trait_.as_ref().and_then(|(path, _)| path.segments.last());
        let is_text = implemented.is_some_and(|segment| TEXTS.iter().any(|text| segment.ident == text));
        if is_text || is_conditional(&item.attrs) {
            return;
        }
        self.owners.push(name_of(&item.self_ty));
        visit::visit_item_impl(self, item);
        self.owners.pop();
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.owners.push(item.ident.to_string());
        visit::visit_item_trait(self, item);
        self.owners.pop();
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.function(&function.attrs, &function.sig, body);
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        if !is_conditional(&item.attrs) {
            self.found.constants.push(Constant::new(self.source, None, &item.ident, &item.expr));
        }
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        let owner = self.owners.last().cloned();
        self.found.constants.push(Constant::new(self.source, owner, &item.ident, &item.expr));
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if let Stmt::Expr(expr, Some(_)) = statement
            && is_step(self.source, expr)
        {
            self.add(expr, Kind::LeftOut);
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_block(&mut self, block: &'ast Block) {
        let inside = block.stmts.len().saturating_sub(1);
        for statement in &block.stmts[..inside] {
            if let Stmt::Expr(expr, None) = statement {
                self.unit_expr(expr);
            }
        }
        visit::visit_block(self, block);
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        if self.asks_for_fault(expr) {
            return;
        }
        if let Expr::Binary(binary) = expr
            && self.asks_for_fault(&binary.right)
        {
            // Without a planted fault, the left side alone is the value.
            return self.visit_expr(&binary.left);
        }
        for other in operators::instead(self.source, expr) {
            self.add(expr, Kind::Instead(other));
        }
        match expr {
            Expr::Unsafe(_) | Expr::Const(_) | Expr::Macro(_) => {}
            Expr::Repeat(repeat) => self.visit_expr(&repeat.expr),
            Expr::Path(path) => self.found.uses.extend(Use::new(self.source, self.owners.last(), path)),
            _ => visit::visit_expr(self, expr),
        }
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        self.beside_patterns(binary);
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_if(&mut self, choice: &'ast syn::ExprIf) {
        if let Some(other) = operators::branch_without_loom(choice) {
            return self.visit_expr(other);
        }
        let text = self.source.text_of(&choice.cond);
        if text.starts_with(PLANTED) {
            // The first branch is never executed.
            if let Some((_, other)) = &choice.else_branch {
                self.visit_expr(other);
            }
            return;
        }
        if !text.contains(PLANTED) {
            self.condition(&choice.cond, &["true", "false"]);
        }
        if choice.else_branch.is_none() {
            self.unit_block(&choice.then_branch);
        }
        visit::visit_expr_if(self, choice);
    }

    fn visit_expr_while(&mut self, repeated: &'ast syn::ExprWhile) {
        self.condition(&repeated.cond, &["false"]);
        self.unit_block(&repeated.body);
        visit::visit_expr_while(self, repeated);
    }

    fn visit_expr_for_loop(&mut self, repeated: &'ast syn::ExprForLoop) {
        self.unit_block(&repeated.body);
        visit::visit_expr_for_loop(self, repeated);
    }

    fn visit_expr_loop(&mut self, repeated: &'ast syn::ExprLoop) {
        self.unit_block(&repeated.body);
        visit::visit_expr_loop(self, repeated);
    }

    fn visit_pat(&mut self, pattern: &'ast Pat) {
        if let Pat::Guard(guarded) = pattern {
            self.condition(&guarded.guard, &["true", "false"]);
            self.visit_expr(&guarded.guard);
        }
    }

    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
}

/// Returns whether an expression is a complete step: a call, possibly in an `unsafe` block or with `?`, or an
/// assignment.
fn is_step(source: &Source, expr: &Expr) -> bool {
    match expr {
        Expr::Call(call) => !WAITS.iter().any(|wait| source.text_of(&call.func).ends_with(wait)),
        Expr::MethodCall(_) | Expr::Assign(_) => true,
        Expr::Try(tried) => is_step(source, &tried.expr),
        Expr::Unsafe(unproven) => match &unproven.block.stmts[..] {
            [Stmt::Expr(expr, _)] => is_step(source, expr),
            _ => false,
        },
        _ => false,
    }
}

/// Returns the statements with which a function could return at once, except one that equals its whole body.
fn early_answers(output: &ReturnType, text: &str, body: &Block) -> Vec<&'static str> {
    let text = one_line(text.trim_start_matches('{').trim_end_matches('}'));
    let ReturnType::Type(_, answer) = output else {
        let is_one_step =
            matches!(&body.stmts[..], [Stmt::Expr(Expr::Call(_) | Expr::MethodCall(_) | Expr::Unsafe(_), _)]);
        return if body.stmts.is_empty() || is_one_step { Vec::new() } else { vec!["return"] };
    };
    let answers: &[&str] = match &**answer {
        Type::Path(path) => match path.path.segments.last() {
            Some(last) if last.ident == "bool" => &["return true", "return false"],
            Some(last) if last.ident == "Option" => &["return None"],
            Some(last) if last.ident == "Result" && is_of_unit(&last.arguments) => &["return Ok(())"],
            _ => &[],
        },
        _ => &[],
    };
    answers.iter().copied().filter(|answer| answer.trim_start_matches("return ") != text).collect()
}

/// Returns whether the first of these generic arguments is the empty tuple.
fn is_of_unit(arguments: &syn::PathArguments) -> bool {
    let syn::PathArguments::AngleBracketed(arguments) = arguments else { return false };
    let first = arguments.args.first();
    matches!(first, Some(syn::GenericArgument::Type(Type::Tuple(tuple))) if tuple.elems.is_empty())
}

/// Returns the last segment of a type's path.
fn name_of(of: &Type) -> String {
    match of {
        Type::Path(path) => path.path.segments.last().map_or(String::new(), |last| last.ident.to_string()),
        Type::Reference(reference) => name_of(&reference.elem),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutants(text: &str) -> Vec<String> {
        let found = scan(&Source::new("a.rs", text.to_owned()).unwrap());
        found.sites.into_iter().map(|site| site.mutated).collect()
    }

    #[test]
    fn loom_only_code_is_not_mutated() {
        let plain = mutants("fn f(a: u8) -> u8 { a + 1 }");
        assert_eq!(plain, ["(a) - (1)", "0", "2"]);
        assert_eq!(mutants("fn f(a: u8) -> u8 { if cfg!(loom) { 7 } else { a + 1 } }"), plain);
        let owned = mutants("fn f(a: u8) -> u8 { g(a > 1) }");
        assert_eq!(mutants("fn f(a: u8) -> u8 { g(a > 1 && !is_planted(Fault::A)) }"), owned);
        assert_eq!(mutants("fn f(a: u8) -> u8 { g(a > 1 || is_planted(Fault::A)) }"), owned);
    }
}
