//! Conversion between policies and text: parses `SET[,field=value...]`, and formats a policy in the same form.

use freehold::Policy;

use crate::choice::{Field, Set};
use crate::rules::RULES;
use crate::tables::{BASELINE, FIELDS, NUMBERS, SETS, SWITCHES};

/// Name of the change that replaces the rules by those of a kernel.
pub const ON: &str = "on";
/// Minimum similarity of a word to a name (Jaro-Winkler, 0 to 1) for the name to be suggested.
const LIKENESS_MIN: f64 = 0.75;

/// First kernel for which a set has the nearest rules, the latest first. The first set is the nearest for older kernels.
/// `freehold_trace::kernel` has the same table for recorded kernels; a test of the command compares the two.
const NEAREST_KERNELS: [((u32, u32), &str); 3] =
    [((7, 3), "linux-7.3"), ((7, 2), "linux-7.2"), ((6, 16), "linux-6.18")];
/// Largest minor number of a release before Linux 7.
const LAST_MINOR: u32 = 20;

/// A policy and the text that it was parsed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPolicy {
    /// Text of the policy.
    pub name: String,
    /// Parsed policy.
    pub policy: Policy,
}

/// Error of parsing a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The set does not exist.
    #[error("there is no policy `{name}`; {hint} (see `freehold policies`)")]
    Set {
        /// Name as written.
        name: String,
        /// Suggestion.
        hint: String,
    },
    /// The field or number does not exist.
    #[error("policies have no field `{name}`; {hint} (see `freehold policies`)")]
    Field {
        /// Name as written.
        name: String,
        /// Suggestion.
        hint: String,
    },
    /// The field has no such value.
    #[error("the field `{field}` has no value `{value}`; {hint} (see `freehold policies`)")]
    Value {
        /// Name of the field.
        field: &'static str,
        /// Value as written.
        value: String,
        /// Suggestion.
        hint: String,
    },
    /// The value is not a whole number within the bounds.
    #[error("`{name}` cannot be `{value}`; give a whole number of {unit} from {min} to {max}")]
    Number {
        /// Name of the number.
        name: &'static str,
        /// Value as written.
        value: String,
        /// Unit of the number.
        unit: &'static str,
        /// Smallest value.
        min: u32,
        /// Largest value.
        max: u32,
    },
    /// A change has no `=`.
    #[error("`{part}` is not a change; write field=value after the set, as in `linux-6.12,pcp=merge`")]
    NoValue {
        /// Change as written.
        part: String,
    },
    /// A field is set twice.
    #[error("`{name}` is set twice; keep one of the two")]
    Twice {
        /// Name of the field.
        name: String,
    },
}

/// Parses a policy.
///
/// # Errors
/// See [`PolicyError`]: an unknown name with a suggestion, a number outside of its bounds, a change without `=`, or a
/// field that is set twice.
pub fn parse(text: &str) -> Result<NamedPolicy, PolicyError> {
    let mut parts = text.split(',').map(str::trim);
    let mut policy = find_set(parts.next().unwrap_or_default())?.policy;
    let mut seen: Vec<&str> = Vec::new();
    for part in parts {
        let (name, value) = part.split_once('=').ok_or_else(|| PolicyError::NoValue { part: part.to_owned() })?;
        let (name, value) = (name.trim(), value.trim());
        if seen.contains(&name) {
            return Err(PolicyError::Twice { name: name.to_owned() });
        }
        seen.push(name);
        change(&mut policy, name, value)?;
    }
    Ok(NamedPolicy { name: text.to_owned(), policy })
}

/// Describes a policy in a few words: the effect of its one choice, or its set; `None` if it makes several choices.
pub fn describe(policy: &str) -> Option<&'static str> {
    let mut parts = policy.split(',').filter(|part| !part.starts_with("on="));
    let set = parts.next()?;
    let about = match (parts.next(), parts.next()) {
        (None, _) => SETS.iter().find(|known| known.name == set)?.about,
        (Some(change), None) => {
            let (name, value) = change.split_once('=')?;
            let field = fields().find(|field| field.name == name)?;
            field.choices.iter().find(|choice| choice.name == value)?.about
        }
        (Some(_), Some(_)) => return None,
    };
    about.split(';').next()
}

fn find_set(name: &str) -> Result<&'static Set, PolicyError> {
    let named = SETS.iter().find(|set| set.name == name);
    named.ok_or_else(|| PolicyError::Set { name: name.to_owned(), hint: set_hint(name) })
}

/// Suggests a set for a name that names none: a set with this change, or the set of the nearest kernel, or the most
/// similar name.
fn set_hint(name: &str) -> String {
    let change = format!("{BASELINE},{name}");
    if parse(&change).is_ok() {
        return format!("perhaps `{change}` is meant");
    }
    match kernel_version(name).map(nearest_kernel) {
        Some(kernel) => format!("the nearest kernel is `{kernel}`"),
        None => hint(name, SETS.iter().map(|set| set.name)),
    }
}

/// Returns the set whose rules are nearest to this kernel's.
fn nearest_kernel(version: (u32, u32)) -> &'static str {
    NEAREST_KERNELS.iter().find(|(from, _)| version >= *from).map_or(BASELINE, |(_, set)| set)
}

/// Returns the version in `linux-MAJOR.MINOR`, also without `linux-` or MINOR, and with `v` or a patch level; `None` if
/// there was no such release, so that digits in a wrong order are treated as a misspelled name.
fn kernel_version(name: &str) -> Option<(u32, u32)> {
    let release = name.strip_prefix("linux-").unwrap_or(name);
    let mut numbers = release.strip_prefix('v').unwrap_or(release).split('.').map(str::parse);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next().unwrap_or(Ok(0)).ok()?);
    (major >= 7 || minor <= LAST_MINOR).then_some((major, minor))
}

/// Returns the policy `linux-6.12`, the kernel that other policies are compared with.
pub fn baseline() -> NamedPolicy {
    NamedPolicy { name: BASELINE.to_owned(), policy: Policy::LINUX_6_12 }
}

/// Formats a policy as `field=value,...`: its choice in each field, the switches that differ from their default, and
/// its numbers. Appended to `linux-6.12,` the text names the same policy.
pub fn choices(policy: &Policy) -> String {
    let mut parts = Vec::new();
    let thrown_switches = RULES.iter().chain(SWITCHES).filter(|switch| !switch.choices[0].is_made_by(policy));
    for field in FIELDS.iter().chain(thrown_switches) {
        if let Some(choice) = field.choices.iter().find(|choice| choice.is_made_by(policy)) {
            parts.push(format!("{}={}", field.name, choice.name));
        }
    }
    for number in NUMBERS {
        if let Some(value) = number.value_in(*policy) {
            parts.push(format!("{}={value}", number.name));
        }
    }
    parts.join(",")
}

fn fields() -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().chain(RULES).chain(SWITCHES)
}

/// Replaces the rules of a policy by those of a kernel, except for the rules in which the policy differs from Linux
/// 6.12.
fn apply_kernel(policy: &mut Policy, kernel: &Policy) {
    let pinned = Policy::LINUX_6_12;
    for field in fields() {
        let rules = field.choices.iter().find(|choice| choice.is_made_by(kernel));
        let is_pinned = field.choices.iter().any(|choice| choice.is_made_by(policy) && choice.is_made_by(&pinned));
        if let (Some(rules), true) = (rules, is_pinned) {
            (rules.apply)(policy);
        }
    }
    for number in NUMBERS {
        if number.value_in(*policy) == number.value_in(pinned) {
            *(number.place)(policy) = number.value_in(*kernel);
        }
    }
}

fn change(policy: &mut Policy, name: &str, value: &str) -> Result<(), PolicyError> {
    if name == ON {
        apply_kernel(policy, &find_set(value)?.policy);
        return Ok(());
    }
    if let Some(field) = fields().find(|field| field.name == name) {
        let Some(choice) = field.choices.iter().find(|choice| choice.name == value) else {
            let hint = hint(value, field.choices.iter().map(|choice| choice.name));
            return Err(PolicyError::Value { field: field.name, value: value.to_owned(), hint });
        };
        (choice.apply)(policy);
        return Ok(());
    }
    let Some(number) = NUMBERS.iter().find(|number| number.name == name) else {
        let field_names = fields().map(|field| field.name);
        let names = [ON].into_iter().chain(field_names).chain(NUMBERS.iter().map(|number| number.name));
        return Err(PolicyError::Field { name: name.to_owned(), hint: hint(name, names) });
    };
    let in_bounds = value.parse().ok().filter(|parsed| (number.min..=number.max).contains(parsed));
    let parsed = in_bounds.ok_or_else(|| PolicyError::Number {
        name: number.name,
        value: value.to_owned(),
        unit: number.unit,
        min: number.min,
        max: number.max,
    })?;
    *(number.place)(policy) = Some(parsed);
    Ok(())
}

/// Suggests the nearest of `names`, or lists all of them if none is similar.
pub fn hint<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    let by_likeness = names.iter().map(|name| (strsim::jaro_winkler(word, name), name));
    match by_likeness.max_by(|(a, _), (b, _)| a.total_cmp(b)) {
        Some((likeness, name)) if likeness >= LIKENESS_MIN => format!("perhaps `{name}` is meant"),
        _ => format!("there are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::BEST;
    use freehold::policy::PcpPolicy;

    fn policy(text: &str) -> Policy {
        parse(text).expect("the text names a policy").policy
    }

    #[test]
    fn set_name_parses_to_the_set() {
        assert_eq!(parse("linux-6.12").unwrap().policy, Policy::LINUX_6_12);
        assert_eq!(parse("freehold").unwrap().policy, Policy::FREEHOLD);
    }

    #[test]
    fn changes_apply_to_the_set() {
        let named = parse("linux-6.12,pcp=merge,pcp.batch=31").unwrap();
        assert_eq!(named.name, "linux-6.12,pcp=merge,pcp.batch=31");
        assert_eq!(named.policy.pcp, PcpPolicy::Merge);
        assert_eq!(named.policy.numbers.pcp_batch, Some(31));
        assert_eq!(named.policy.flags, Policy::LINUX_6_12.flags);
    }

    #[test]
    fn typo_errors_suggest_the_nearest_name() {
        for (text, near) in [
            ("linux-6.21", "perhaps `linux-6.12` is meant"),
            ("linux-7.0", "the nearest kernel is `linux-6.18`"),
            ("linux-6.12.118", "the nearest kernel is `linux-6.12`"),
            ("linux-5.10", "the nearest kernel is `linux-6.12`"),
            ("linux-v6.18", "the nearest kernel is `linux-6.18`"),
            ("linux-9", "the nearest kernel is `linux-7.3`"),
            ("6.12", "the nearest kernel is `linux-6.12`"),
            ("freehold,on=7.0", "the nearest kernel is `linux-6.18`"),
            ("pcp.batch=31", "perhaps `linux-6.12,pcp.batch=31` is meant"),
            ("linux6.18", "`linux-6.18`"),
            ("freehodl", "`freehold`"),
            ("linux-6.12,pcpp=merge", "`pcp`"),
            ("linux-6.12,pcp=mergge", "`merge`"),
            ("linux-6.12,pcp.bach=31", "`pcp.batch`"),
            ("linux-6.12,flags=plian", "`plain`"),
            ("zebra", "linux-6.12, linux-6.18, linux-7.2, linux-7.3, freehold"),
            ("", "linux-6.12, linux-6.18, linux-7.2, linux-7.3, freehold"),
            ("linux-6.12,pcp.batch=0", "from 1 to 4096"),
            ("linux-6.12,pcp.batch=many", "from 1 to 4096"),
            ("linux-6.12,pcp.batch=-1", "from 1 to 4096"),
            ("linux-6.12,pcp.high_fraction=7", "from 8 to 1000000"),
            ("linux-6.12,merge", "field=value"),
            ("linux-6.12,", "field=value"),
            ("linux-6.12,pcp=merge,pcp=linux", "twice"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(near), "{text}: {error}");
            assert!(!error.contains('\n') && !error.ends_with('.'), "{text}: {error}");
        }
    }

    #[test]
    fn each_set_has_one_choice_per_field() {
        for set in SETS {
            for field in fields() {
                let made = field.choices.iter().filter(|choice| choice.is_made_by(&set.policy));
                assert_eq!(made.count(), 1, "{} {}", set.name, field.name);
            }
        }
    }

    #[test]
    fn choices_of_a_policy_round_trip() {
        let names = ["freehold,pcp.batch=31,slab.order=random", "linux-6.12,slab.max_order=0"];
        for name in SETS.iter().map(|set| set.name).chain(names) {
            let policy = parse(name).unwrap().policy;
            assert_eq!(parse(&format!("{BASELINE},{}", choices(&policy))).unwrap().policy, policy, "{name}");
        }
    }

    #[test]
    fn on_applies_kernel_rules_except_own_changes() {
        for set in SETS.iter().filter(|set| set.name != BEST) {
            assert_eq!(policy(&format!("linux-6.12,on={}", set.name)), set.policy);
            let on_base = policy(&format!("{},on=linux-6.12", set.name));
            assert_eq!(on_base, set.policy, "`on=linux-6.12` changes a set");
        }
        let freehold = policy("freehold,on=linux-7.2");
        assert_eq!((freehold.drain, freehold.kswapd), (Policy::LINUX_7_2.drain, Policy::LINUX_7_2.kswapd));
        assert_eq!((freehold.pcp, freehold.slab), (Policy::FREEHOLD.pcp, Policy::FREEHOLD.slab));
        assert_eq!(freehold.highatomic, Policy::FREEHOLD.highatomic, "`on` keeps the set's own choice");
        assert_eq!(freehold.numbers.pcp_free_high, Some(50));
        assert_eq!(freehold.numbers.slab_sheaf, Policy::FREEHOLD.numbers.slab_sheaf);
        assert_eq!(policy("freehold,on=linux-7.2,pcp.free_high=0").numbers.pcp_free_high, Some(0));
        let error = parse("freehold,on=linux-6.81").expect_err("no set is named linux-6.81").to_string();
        assert!(error.contains("`linux-6.18`"), "{error}");
    }

    #[test]
    fn overview_of_policies_lists_the_choices_of_freehold() {
        let (linux, freehold) = (choices(&Policy::LINUX_6_12), choices(&Policy::FREEHOLD));
        let own: Vec<&str> = freehold.split(',').filter(|part| linux.split(',').all(|other| other != *part)).collect();
        assert_eq!(parse(&format!("{BASELINE},{}", own.join(","))).unwrap().policy, Policy::FREEHOLD);
        let overview = include_str!("../../../docs/policies/index.md");
        for part in own {
            assert!(overview.contains(&format!("`{part}`")), "docs/policies/index.md lacks {part}");
        }
    }

    #[test]
    fn switch_is_listed_only_if_changed() {
        assert!(!choices(&Policy::LINUX_6_12).contains("reserve."));
        let thrown = parse("linux-6.12,reserve.list=open").unwrap().policy;
        assert_eq!(choices(&thrown), choices(&Policy::LINUX_6_12) + ",reserve.list=open");
        for (set, switch) in SETS.iter().flat_map(|set| SWITCHES.iter().map(move |switch| (set, switch))) {
            assert!(switch.choices[0].is_made_by(&set.policy), "{} {}", set.name, switch.name);
        }
    }

    #[test]
    fn changed_rules_start_with_the_pinned_kernel() {
        for rule in RULES {
            let first = &rule.choices[0];
            assert!(first.is_made_by(&Policy::LINUX_6_12) && first.is_made_by(&Policy::FREEHOLD), "{}", rule.name);
            for choice in &rule.choices[1..] {
                let is_made = SETS.iter().any(|set| choice.is_made_by(&set.policy));
                assert!(is_made, "no kernel has {}={}", rule.name, choice.name);
            }
        }
    }

    #[test]
    fn each_choice_and_number_yields_a_distinct_policy() {
        let mut reached = Vec::new();
        for number in NUMBERS {
            let text = format!("linux-6.12,{}={}", number.name, number.max);
            reached.push(parse(&text).unwrap().policy);
        }
        for (field, choice) in fields().flat_map(|field| field.choices.iter().map(move |choice| (field, choice))) {
            let policy = parse(&format!("linux-6.12,{}={}", field.name, choice.name)).unwrap().policy;
            assert!(choice.is_made_by(&policy));
            if policy != Policy::LINUX_6_12 {
                reached.push(policy);
            }
        }
        for (index, policy) in reached.iter().enumerate() {
            assert_ne!(*policy, Policy::LINUX_6_12);
            assert!(!reached[..index].contains(policy), "{policy:?} is reached twice");
        }
    }
}
