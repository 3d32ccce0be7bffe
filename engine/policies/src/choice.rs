//! Types of the tables from which a policy is built: sets, fields with their choices, and numbers.

use freehold::Policy;

/// A named complete policy.
#[derive(Debug)]
pub struct Set {
    /// Name of the set.
    pub name: &'static str,
    /// Description of the set.
    pub about: &'static str,
    /// Policy of the set.
    pub policy: Policy,
    /// Reason for its choices, and where to read more: one or two sentences.
    pub why: &'static str,
}

/// A decision with named alternatives.
#[derive(Debug)]
pub struct Field {
    /// Name of the field.
    pub name: &'static str,
    /// Description of the decision.
    pub about: &'static str,
    /// Values of the field.
    pub choices: &'static [Choice],
}

/// One value of a field.
#[derive(Debug)]
pub struct Choice {
    /// Name of the value.
    pub name: &'static str,
    /// Description of its effect.
    pub about: &'static str,
    pub(crate) apply: fn(&mut Policy),
}

/// A number that replaces a rule of Linux.
#[derive(Debug)]
pub struct Number {
    /// Name of the number.
    pub name: &'static str,
    /// Description, including the behaviour of a set that leaves the number to Linux.
    pub about: &'static str,
    /// Unit of the number.
    pub unit: &'static str,
    /// Smallest value.
    pub min: u32,
    /// Largest value.
    pub max: u32,
    pub(crate) place: fn(&mut Policy) -> &mut Option<u32>,
}

impl Choice {
    /// Returns whether `policy` already has this choice.
    pub fn is_made_by(&self, policy: &Policy) -> bool {
        let mut changed = *policy;
        (self.apply)(&mut changed);
        changed == *policy
    }
}

impl Number {
    /// Returns the value of this number in `policy`, if the policy does not leave it to Linux.
    pub(crate) fn value_in(&self, mut policy: Policy) -> Option<u32> {
        *(self.place)(&mut policy)
    }
}
