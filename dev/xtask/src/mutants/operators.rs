//! Replacements of an expression: mistakes that people make.
//!
//! The mistakes are wrong bounds or directions of comparisons, missing conditions, opposite arithmetic operations, and
//! the wrong one of two methods with the same signature. Numbers are off by one, and masks have one bit less.

use syn::spanned::Spanned;
use syn::{BinOp, Expr, ExprBinary, ExprLit, ExprMethodCall, Lit, LitInt, UnOp};

use super::source::{Source, range_of};

/// Pairs of methods with the same parameters and result.
const PAIRS: [(&str, &str); 15] = [
    ("min", "max"),
    ("is_some", "is_none"),
    ("is_ok", "is_err"),
    ("is_some_and", "is_none_or"),
    ("any", "all"),
    ("first", "last"),
    ("wrapping_add", "wrapping_sub"),
    ("saturating_add", "saturating_sub"),
    ("checked_add", "checked_sub"),
    ("fetch_add", "fetch_sub"),
    ("fetch_or", "fetch_and"),
    ("fetch_max", "fetch_min"),
    ("leading_zeros", "trailing_zeros"),
    ("count_ones", "count_zeros"),
    ("take_while", "skip_while"),
];

/// Smallest value of the form 2^n - 1 that counts as a mask.
const MASK_MIN: u128 = 0xf;

/// Returns all replacements of `expr` as a whole.
pub(crate) fn instead(source: &Source, expr: &Expr) -> Vec<String> {
    match expr {
        Expr::Binary(binary) => of_binary(source, binary),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => vec![source.text_of(&unary.expr).to_owned()],
        Expr::Lit(ExprLit { lit, .. }) => of_literal(lit),
        Expr::MethodCall(call) => of_call(source, call).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns whether a condition binds a pattern with `let`, so that it cannot be put in parentheses.
pub(crate) fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// Returns the branch that builds without loom take, if the condition is `cfg!(loom)`. Mutants are never tried in a
/// loom build.
pub(crate) fn branch_without_loom(choice: &syn::ExprIf) -> Option<&Expr> {
    let is_loom = match &*choice.cond {
        Expr::Macro(call) => call.mac.path.is_ident("cfg") && call.mac.tokens.to_string() == "loom",
        _ => false,
    };
    choice.else_branch.as_ref().filter(|_| is_loom).map(|(_, other)| &**other)
}

fn of_binary(source: &Source, binary: &ExprBinary) -> Vec<String> {
    if has_let(&binary.left) || has_let(&binary.right) {
        return Vec::new();
    }
    let (left, right) = (source.text_of(&binary.left), source.text_of(&binary.right));
    if is_assignment(&binary.op) {
        return others(&binary.op).iter().map(|other| format!("{left} {other} {right}")).collect();
    }
    let mut all: Vec<String> = others(&binary.op).iter().map(|other| format!("({left}) {other} ({right})")).collect();
    if matches!(binary.op, BinOp::And(_) | BinOp::Or(_)) {
        all.extend([left.to_owned(), right.to_owned()]);
    }
    all
}

fn is_assignment(operator: &BinOp) -> bool {
    use BinOp::{
        AddAssign, BitAndAssign, BitOrAssign, BitXorAssign, DivAssign, MulAssign, RemAssign, ShlAssign, ShrAssign,
        SubAssign,
    };
    matches!(
        operator,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

/// Returns the operators that may replace an operator.
fn others(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Lt(_) => &["<=", ">="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<="],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["+"],
        BinOp::Div(_) => &["*"],
        BinOp::Rem(_) => &["/"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::BitAnd(_) => &["|"],
        BinOp::BitOr(_) => &["&"],
        BinOp::BitXor(_) => &["|"],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) => &["+="],
        BinOp::MulAssign(_) => &["+="],
        BinOp::DivAssign(_) => &["*="],
        BinOp::RemAssign(_) => &["/="],
        BinOp::ShlAssign(_) => &[">>="],
        BinOp::ShrAssign(_) => &["<<="],
        BinOp::BitAndAssign(_) => &["|="],
        BinOp::BitOrAssign(_) => &["&="],
        BinOp::BitXorAssign(_) => &["|="],
        _ => &[],
    }
}

fn of_literal(literal: &Lit) -> Vec<String> {
    match literal {
        Lit::Bool(truth) => vec![(!truth.value).to_string()],
        Lit::Int(number) => of_number(number),
        _ => Vec::new(),
    }
}

/// Returns the replacements of a number: a mask with one bit less, or any other number plus one and minus one.
pub(crate) fn of_number(number: &LitInt) -> Vec<String> {
    let Ok(value) = number.base10_parse::<u128>() else { return Vec::new() };
    let suffix = number.suffix();
    let is_mask = !number.to_string().starts_with(|c: char| ('1'..='9').contains(&c)) && value >= MASK_MIN;
    if is_mask && (value + 1).is_power_of_two() {
        return vec![format!("{:#x}{suffix}", value >> 1)];
    }
    let others = [value.checked_add(1), value.checked_sub(1)];
    others.into_iter().flatten().map(|other| format!("{other}{suffix}")).collect()
}

fn of_call(source: &Source, call: &ExprMethodCall) -> Option<String> {
    let name = call.method.to_string();
    let other = PAIRS.iter().find_map(|(one, other)| match name.as_str() {
        name if name == *one => Some(other),
        name if name == *other => Some(one),
        _ => None,
    })?;
    let (whole, method) = (range_of(call), call.method.span().byte_range());
    Some(format!("{}{other}{}", &source.text[whole.start..method.start], &source.text[method.end..whole.end]))
}

/// Returns the line on which a node begins.
pub(crate) fn line_of(node: &impl Spanned) -> usize {
    node.span().start().line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutants(text: &str) -> Vec<String> {
        let source = Source::new("a.rs", format!("const A: u8 = {text};")).unwrap();
        let syn::Item::Const(constant) = &source.syntax.items[0] else { panic!("a constant was written") };
        instead(&source, &constant.expr)
    }

    #[test]
    fn expressions_have_mutants_of_their_kind() {
        assert_eq!(mutants("a < b + 1"), ["(a) <= (b + 1)", "(a) >= (b + 1)"]);
        assert_eq!(mutants("a && !b"), ["(a) || (!b)", "a", "!b"]);
        assert_eq!(mutants("!is(b)"), ["is(b)"]);
        assert_eq!(mutants("a.b(c).min(d)"), ["a.b(c).max(d)"]);
        assert_eq!(mutants("a += b << c"), ["a -= b << c"]);
        assert_eq!(mutants("true"), ["false"]);
        assert_eq!(mutants("f(x)"), [""; 0]);
    }

    #[test]
    fn number_mutants_differ_by_one_and_masks_by_a_bit() {
        assert_eq!(mutants("0x7fff_u16"), ["0x3fffu16"]);
        assert_eq!(mutants("0x30"), ["49", "47"]);
        assert_eq!(mutants("15"), ["16", "14"]);
        assert_eq!(mutants("0u8"), ["1u8"]);
    }

    #[test]
    fn let_conditions_are_detected() {
        assert!(has_let(&syn::parse_str("a && let Some(b) = c").unwrap()));
        assert!(!has_let(&syn::parse_str("a && b").unwrap()));
    }
}
