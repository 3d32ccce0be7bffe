//! Translation of GFP flags from the recorded kernel's numbering to that of `FORMAT.md`.
//!
//! The numbers of these flags differ between kernels and configurations; their names do not. The kernel's format files
//! contain both, as the arguments of `__print_flags`: pairs of a constant C expression and a name. [`parse_names`]
//! evaluates the expressions, and [`GfpMap`] translates each bit by its name.

use std::collections::BTreeMap;

/// Single-bit flags and their numbers in a recording. The numbers are those of Linux 6.12 as far as they are fixed
/// there. Flags whose number depends on the configuration have the next bits.
pub const GFP_BITS: [(&str, u32); 28] = [
    ("__GFP_DMA", 1 << 0),
    ("__GFP_HIGHMEM", 1 << 1),
    ("__GFP_DMA32", 1 << 2),
    ("__GFP_MOVABLE", 1 << 3),
    ("__GFP_RECLAIMABLE", 1 << 4),
    ("__GFP_HIGH", 1 << 5),
    ("__GFP_IO", 1 << 6),
    ("__GFP_FS", 1 << 7),
    ("__GFP_ZERO", 1 << 8),
    ("__GFP_ATOMIC", 1 << 9),
    ("__GFP_DIRECT_RECLAIM", 1 << 10),
    ("__GFP_KSWAPD_RECLAIM", 1 << 11),
    ("__GFP_WRITE", 1 << 12),
    ("__GFP_NOWARN", 1 << 13),
    ("__GFP_RETRY_MAYFAIL", 1 << 14),
    ("__GFP_NOFAIL", 1 << 15),
    ("__GFP_NORETRY", 1 << 16),
    ("__GFP_MEMALLOC", 1 << 17),
    ("__GFP_COMP", 1 << 18),
    ("__GFP_NOMEMALLOC", 1 << 19),
    ("__GFP_HARDWALL", 1 << 20),
    ("__GFP_THISNODE", 1 << 21),
    ("__GFP_ACCOUNT", 1 << 22),
    ("__GFP_ZEROTAGS", 1 << 23),
    ("__GFP_SKIP_ZERO", 1 << 24),
    ("__GFP_SKIP_KASAN", 1 << 25),
    ("__GFP_NOLOCKDEP", 1 << 26),
    ("__GFP_NO_OBJ_EXT", 1 << 27),
];

/// Parses names and values of the flags that a format file's `print fmt` line lists for its GFP field. Flags whose
/// value is not a constant expression are left out. The result is empty if the line has no such list.
pub fn parse_names(print_format: &str) -> BTreeMap<String, u64> {
    const START: &str = "__print_flags(REC->gfp_flags,";
    let Some(start) = print_format.find(START) else {
        return BTreeMap::new();
    };
    // Each pair is `{ EXPRESSION, "NAME" }`; the list ends with a pair without a name.
    let pairs = print_format[start + START.len()..].split('{').skip(1);
    pairs
        .map_while(|pair| {
            let (expression, rest) = pair.split_once(", \"")?;
            let (name, _) = rest.split_once('"')?;
            Some((name, expression))
        })
        .filter_map(|(name, expression)| Some((name.to_owned(), Expression::evaluate(expression)?)))
        .collect()
}

/// Translation of the flags of one kernel.
#[derive(Clone, Debug)]
pub struct GfpMap {
    /// Translation of each value of each of the four low bytes.
    bytes: Box<[[u32; 256]; 4]>,
    unknown: u64,
}

impl GfpMap {
    /// Creates the translation for a kernel with these names.
    pub fn new(names: &BTreeMap<String, u64>) -> GfpMap {
        let mut bits = [0; 32];
        for (name, canonical) in GFP_BITS {
            // Linux 6.12 lists the flag of a zone only under the name of a request (`GFP_DMA32`).
            let listed = names.get(name).or_else(|| names.get(name.trim_start_matches('_')));
            let value = listed.copied().unwrap_or(0);
            if value.is_power_of_two() && value.trailing_zeros() < 32 {
                bits[value.trailing_zeros() as usize] = canonical;
            }
        }
        let mut bytes = Box::new([[0; 256]; 4]);
        for (index, table) in bytes.iter_mut().enumerate() {
            for (value, entry) in table.iter_mut().enumerate() {
                *entry = (0..8).filter(|bit| value >> bit & 1 == 1).fold(0, |sum, bit| sum | bits[8 * index + bit]);
            }
        }
        let known = (0..32).filter(|&bit| bits[bit] != 0).fold(0, |sum, bit| sum | 1u64 << bit);
        GfpMap { bytes, unknown: !known }
    }

    /// Translates flags to the numbering of the recording. Bits without a known name are dropped.
    #[inline]
    pub fn translate(&self, flags: u64) -> u32 {
        let [a, b, c, d] = (flags as u32).to_le_bytes();
        let tables = &self.bytes;
        tables[0][a as usize] | tables[1][b as usize] | tables[2][c as usize] | tables[3][d as usize]
    }

    /// Returns the bits of `flags` that [`translate`](GfpMap::translate) drops.
    pub fn unknown(&self, flags: u64) -> u64 {
        flags & self.unknown
    }
}

/// Parser of constant C expressions over unsigned integers: numbers, casts, `~`, `<<`, `>>`, `&`, `|`, `+`, `-`,
/// parentheses.
struct Expression<'a> {
    rest: &'a str,
}

/// Largest nesting depth of parentheses. The kernel's expressions reach about 20.
const DEPTH_MAX: u32 = 100;

/// Binary operators by increasing precedence, as in C.
const OPERATORS: [&[&str]; 4] = [&["|"], &["&"], &["<<", ">>"], &["+", "-"]];

impl<'a> Expression<'a> {
    fn evaluate(text: &'a str) -> Option<u64> {
        let mut expression = Expression { rest: text };
        let value = expression.binary(0, DEPTH_MAX)?;
        expression.rest.trim().is_empty().then_some(value)
    }

    fn accept(&mut self, token: &str) -> bool {
        let stripped = self.rest.trim_start().strip_prefix(token);
        self.rest = stripped.unwrap_or(self.rest);
        stripped.is_some()
    }

    fn binary(&mut self, rank: usize, depth: u32) -> Option<u64> {
        let Some(operators) = OPERATORS.get(rank) else {
            return self.unary(depth);
        };
        let mut value = self.binary(rank + 1, depth)?;
        while let Some(operator) = operators.iter().find(|operator| self.accept(operator)) {
            let right = self.binary(rank + 1, depth)?;
            value = match *operator {
                "|" => value | right,
                "&" => value & right,
                "<<" => value.checked_shl(u32::try_from(right).ok()?)?,
                ">>" => value.checked_shr(u32::try_from(right).ok()?)?,
                "+" => value.wrapping_add(right),
                _ => value.wrapping_sub(right),
            };
        }
        Some(value)
    }

    fn unary(&mut self, depth: u32) -> Option<u64> {
        let inner = depth.checked_sub(1)?;
        if self.accept("~") {
            return Some(!self.unary(inner)?);
        }
        if !self.accept("(") {
            return self.primary();
        }
        if self.is_cast() {
            return self.unary(inner);
        }
        let value = self.binary(0, inner)?;
        self.accept(")").then_some(value)
    }

    /// Skips a type name and the parenthesis after it, if they come next. All types of GFP flags are unsigned and wide
    /// enough, so a cast does not change the value.
    fn is_cast(&mut self) -> bool {
        let Some((inside, rest)) = self.rest.split_once(')') else {
            return false;
        };
        let mut words = inside.split_ascii_whitespace();
        let is_type =
            words.all(|word| matches!(word, "unsigned" | "long" | "int" | "gfp_t" | "__force" | "u64" | "u32"));
        let is_cast = !inside.trim().is_empty() && is_type;
        if is_cast {
            self.rest = rest;
        }
        is_cast
    }

    fn primary(&mut self) -> Option<u64> {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        match digits.strip_prefix("0x") {
            Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
            None => digits.parse().ok().or_else(|| bit_number(word)),
        }
    }
}

/// Returns the value of a bit number's name (`___GFP_IO_BIT`), which some kernels leave in the text. The numbers up to
/// bit 23 are fixed on all kernels that have these names.
fn bit_number(word: &str) -> Option<u64> {
    let flag = word.strip_prefix('_')?.strip_suffix("_BIT")?;
    let fixed = GFP_BITS.iter().take(24).find(|(name, _)| *name == flag)?;
    Some(fixed.1.trailing_zeros().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_expressions_evaluate_as_in_c() {
        for (text, value) in [
            ("0x400u|0x800u", 0xc00),
            ("( unsigned long)(( gfp_t)((((1UL))) << (10)))", 1 << 10),
            ("(((gfp_t)(0x2u)) | ((gfp_t)0)) & ~((gfp_t)2)", 0),
            ("1 | 2 & 2 << 1", 1),
            ("((1UL) << (___GFP_IO_BIT))", 0x40),
            ("(1 + 2) << 1", 6),
        ] {
            assert_eq!(Expression::evaluate(text), Some(value), "{text}");
        }
        for text in ["", "(", "1 <<", "1 << 64", "what", "1)", "___GFP_NO_OBJ_EXT_BIT", "((1)"] {
            assert_eq!(Expression::evaluate(text), None, "{text}");
        }
        assert_eq!(Expression::evaluate(&"(".repeat(1 << 20)), None, "depth is bounded");
        assert_eq!(Expression::evaluate(&"~".repeat(1 << 20)), None, "depth is bounded");
    }

    #[test]
    fn flag_names_end_with_the_list() {
        let text = r#""x=%s", (REC->gfp_flags) ? __print_flags(REC->gfp_flags, "|", {( unsigned long)((( gfp_t)(0x20u))), "__GFP_HIGH"}, {( unsigned long)(what), "__GFP_ODD"}, {( unsigned long)0x40u, "__GFP_IO"}, { 0, ((void *)0) } ) : "none", {1, "not this"}"#;
        let names = parse_names(text);
        assert_eq!(names, BTreeMap::from([("__GFP_HIGH".to_owned(), 0x20), ("__GFP_IO".to_owned(), 0x40)]));
        assert!(parse_names("\"pfn=%lx\", REC->pfn").is_empty());
    }

    #[test]
    fn gfp_bits_are_translated_by_name() {
        let names = [("__GFP_NO_OBJ_EXT", 1u64 << 24), ("__GFP_IO", 0x80), ("__GFP_FS", 0x40), ("GFP_NOFS", 0x80)];
        let map = GfpMap::new(&names.map(|(name, value)| (name.to_owned(), value)).into());
        assert_eq!(map.translate(1 << 24 | 0x80), 1 << 27 | 0x40);
        assert_eq!(map.translate(0x40), 0x80);
        assert_eq!(map.translate(1 << 31), 0);
        let request = GfpMap::new(
            &[("GFP_DMA32", 4), ("GFP_ATOMIC", 0x820)].map(|(name, value)| (name.to_owned(), value)).into(),
        );
        assert_eq!(request.translate(0x824), 4, "a request of several flags names none of them");
        assert_eq!(map.unknown(1 << 40 | 1 << 31 | 0x80), 1 << 40 | 1 << 31);
    }
}
