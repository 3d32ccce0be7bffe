//! Profiles of stacks whose calls have names but no addresses, such as the laboratory's own event names.

use std::collections::HashMap;

use crate::proto;
use crate::strings::{StringTable, compress};

/// Stacks, and the values of each.
#[derive(Debug, Default)]
pub struct NamedStacks {
    types: Vec<(i64, i64)>,
    strings: StringTable,
    /// Index of each function's name. Each function has one location.
    functions: Vec<i64>,
    by_name: HashMap<i64, u64>,
    stacks: Vec<(Vec<u64>, Vec<i64>)>,
    by_stack: HashMap<Vec<u64>, usize>,
}

impl NamedStacks {
    /// Creates an empty profile. Each type is the quantity and the unit of a value: `("alloc_space", "bytes")`.
    pub fn new(types: &[(&str, &str)]) -> NamedStacks {
        let mut stacks = NamedStacks::default();
        for (name, unit) in types {
            let value_type = (stacks.strings.intern(name), stacks.strings.intern(unit));
            stacks.types.push(value_type);
        }
        stacks
    }

    /// Returns the number of a stack, given by the names of its calls, innermost call first. Costs a hash of each name,
    /// and a hash of the stack.
    pub fn stack<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) -> usize {
        let calls: Vec<u64> = names.into_iter().map(|name| self.function(name)).collect();
        if let Some(&place) = self.by_stack.get(&calls) {
            return place;
        }
        let place = self.stacks.len();
        self.stacks.push((calls.clone(), vec![0; self.types.len()]));
        self.by_stack.insert(calls, place);
        place
    }

    /// Adds to a value of a stack.
    ///
    /// # Panics
    /// If there is no such stack, or no such type.
    pub fn add(&mut self, stack: usize, of_type: usize, more: i64) {
        let value = &mut self.stacks[stack].1[of_type];
        *value = value.saturating_add(more);
    }

    /// Returns a value of a stack, if the stack exists.
    pub fn value(&self, calls: &[&str], of_type: usize) -> Option<i64> {
        let functions = calls.iter().map(|name| self.by_name.get(&self.strings.get(name)?).copied());
        let stack = functions.collect::<Option<Vec<u64>>>()?;
        self.by_stack.get(&stack).and_then(|&place| self.stacks[place].1.get(of_type)).copied()
    }

    /// Returns the profile in pprof's compressed format. `nanoseconds` is the duration of the recording.
    pub fn to_pprof(&self, nanoseconds: u64) -> Vec<u8> {
        compress(&self.encode(nanoseconds))
    }

    fn encode(&self, nanoseconds: u64) -> proto::Profile {
        let types = self.types.iter().map(|&(name, unit)| proto::ValueType { r#type: name, unit });
        let samples = self
            .stacks
            .iter()
            .map(|(calls, values)| proto::Sample { location_id: calls.clone(), value: values.clone() });
        let functions = (1..).zip(&self.functions);
        proto::Profile {
            sample_type: types.collect(),
            sample: samples.collect(),
            location: functions
                .clone()
                .map(|(id, _)| proto::Location {
                    id,
                    line: vec![proto::Line { function_id: id, line: 0 }],
                    ..proto::Location::default()
                })
                .collect(),
            function: functions
                .map(|(id, &name)| proto::Function { id, name, system_name: name, filename: 0 })
                .collect(),
            string_table: self.strings.strings().to_vec(),
            duration_nanos: i64::try_from(nanoseconds).unwrap_or(i64::MAX),
            ..proto::Profile::default()
        }
    }

    fn function(&mut self, text: &str) -> u64 {
        let name = self.strings.intern(text);
        let NamedStacks { functions, by_name, .. } = self;
        *by_name.entry(name).or_insert_with(|| {
            functions.push(name);
            functions.len() as u64
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_stacks_are_merged_and_values_saturate() {
        let mut stacks = NamedStacks::new(&[("alloc_objects", "count"), ("alloc_space", "bytes")]);
        let one = stacks.stack(["order 0", "GFP_KERNEL", "cc1"]);
        let other = stacks.stack(["order 3", "GFP_KERNEL", "cc1"]);
        assert_eq!(stacks.stack(["order 0", "GFP_KERNEL", "cc1"]), one);
        stacks.add(one, 0, 2);
        stacks.add(one, 0, 1);
        stacks.add(other, 1, i64::MAX);
        stacks.add(other, 1, 1);
        let profile = stacks.encode(77);
        assert_eq!((profile.location.len(), profile.function.len(), profile.duration_nanos), (4, 4, 77));
        let values: Vec<_> = profile.sample.iter().map(|sample| sample.value.clone()).collect();
        assert_eq!(values, [vec![3, 0], vec![0, i64::MAX]]);
        let functions = profile.sample[1].location_id.iter().map(|&id| &profile.function[id as usize - 1]);
        let calls: Vec<&str> = functions.map(|function| &*profile.string_table[function.name as usize]).collect();
        assert_eq!(calls, ["order 3", "GFP_KERNEL", "cc1"]);
    }
}
