//! What a policy is chosen from: sets, fields with their choices, and numbers.

use freehold::Policy;

/// A named starting point.
#[derive(Debug)]
pub struct Set {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// The policy it stands for.
    pub policy: Policy,
    /// Why it is what it is, and where to read on: a sentence or two.
    pub why: &'static str,
}

/// A decision with named rivals.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it decides.
    pub about: &'static str,
    /// Its values.
    pub choices: &'static [Choice],
}

/// One value of a field.
#[derive(Debug)]
pub struct Choice {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    pub(crate) apply: fn(&mut Policy),
}

/// A number that replaces a rule of Linux.
#[derive(Debug)]
pub struct Number {
    /// Its name.
    pub name: &'static str,
    /// What it is, and what is done under a set that leaves it to Linux.
    pub about: &'static str,
    /// What it counts.
    pub unit: &'static str,
    /// Smallest value.
    pub min: u32,
    /// Largest value.
    pub max: u32,
    pub(crate) place: fn(&mut Policy) -> &mut Option<u32>,
}

impl Choice {
    /// Whether `policy` has made this choice.
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
