//! Conversion of a profile to pprof's format.
//!
//! A block of `s` bytes was sampled with probability `1 - exp(-s / mean)`, so a sample represents the inverse of this
//! probability in blocks. A return address is that of the instruction after a call; the address one less is inside the
//! call.

use std::collections::HashMap;
use std::time::SystemTime;

use crate::names::{Binary, Call};
use crate::proto;
use crate::strings::{StringTable, compress};
use crate::text::{Mapping, Profile, Sample};

/// Converts a profile to pprof's compressed format, with function names from the files of this machine.
pub fn to_pprof(profile: &Profile, taken: SystemTime) -> Vec<u8> {
    compress(&encode(profile, taken))
}

fn encode(profile: &Profile, taken: SystemTime) -> proto::Profile {
    let mut builder = Builder::new(&profile.mappings);
    let samples = profile.samples.iter().map(|sample| builder.sample(sample, profile.mean)).collect();
    let types = vec![builder.value_type("inuse_objects", "count"), builder.value_type("inuse_space", "bytes")];
    let period_type = builder.value_type("space", "bytes");
    let since = taken.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    proto::Profile {
        default_sample_type: types[1].r#type,
        sample_type: types,
        sample: samples,
        period_type: Some(period_type),
        period: i64::try_from(profile.mean).unwrap_or(i64::MAX),
        time_nanos: i64::try_from(since.as_nanos()).unwrap_or(0),
        ..builder.finish()
    }
}

/// Returns the estimated number of blocks, and of bytes, that a sample represents.
fn estimate(sample: &Sample, mean: u64) -> [i64; 2] {
    let each = sample.bytes as f64 / sample.count as f64;
    let likely = -(-each / mean as f64).exp_m1();
    [sample.count, sample.bytes].map(|number| if likely > 0.0 { (number as f64 / likely).round() as i64 } else { 0 })
}

/// Tables to which samples refer.
struct Builder<'p> {
    mappings: &'p [Mapping],
    binaries: HashMap<&'p str, Binary>,
    encoded: Vec<proto::Mapping>,
    locations: Vec<proto::Location>,
    by_address: HashMap<u64, u64>,
    functions: Vec<proto::Function>,
    by_name: HashMap<(String, String), u64>,
    strings: StringTable,
}

impl<'p> Builder<'p> {
    fn new(mappings: &'p [Mapping]) -> Builder<'p> {
        let mut builder = Builder {
            mappings,
            binaries: HashMap::new(),
            encoded: Vec::new(),
            locations: Vec::new(),
            by_address: HashMap::new(),
            functions: Vec::new(),
            by_name: HashMap::new(),
            strings: StringTable::new(),
        };
        for (mapping, id) in mappings.iter().zip(1..) {
            let binary = builder.binaries.entry(&mapping.file).or_insert_with(|| Binary::read(&mapping.file));
            let build_id = binary.build_id.clone();
            let encoded = proto::Mapping {
                id,
                memory_start: mapping.range.start,
                memory_limit: mapping.range.end,
                file_offset: mapping.offset,
                filename: builder.strings.intern(&mapping.file),
                build_id: builder.strings.intern(&build_id),
                ..proto::Mapping::default()
            };
            builder.encoded.push(encoded);
        }
        builder
    }

    fn sample(&mut self, sample: &Sample, mean: u64) -> proto::Sample {
        let location_id = sample.stack.iter().map(|&address| self.location(address.saturating_sub(1))).collect();
        proto::Sample { location_id, value: estimate(sample, mean).to_vec() }
    }

    fn location(&mut self, address: u64) -> u64 {
        if let Some(&id) = self.by_address.get(&address) {
            return id;
        }
        let index = self.mappings.iter().position(|mapping| mapping.range.contains(&address));
        let calls = index.map(|index| self.calls(index, address)).unwrap_or_default();
        let line = calls.iter().map(|call| self.line(call)).collect();
        let id = self.locations.len() as u64 + 1;
        let mapping_id = index.map_or(0, |index| self.encoded[index].id);
        self.locations.push(proto::Location { id, mapping_id, address, line });
        self.by_address.insert(address, id);
        id
    }

    /// Returns the calls at an address of a mapping, and records in the mapping which information it has.
    fn calls(&mut self, index: usize, address: u64) -> Vec<Call> {
        let mapping = &self.mappings[index];
        let offset = address - mapping.range.start + mapping.offset;
        let calls = self.binaries.get(&*mapping.file).map(|binary| binary.calls(offset)).unwrap_or_default();
        let encoded = &mut self.encoded[index];
        encoded.has_functions |= !calls.is_empty();
        encoded.has_inline_frames |= calls.len() > 1;
        encoded.has_filenames |= calls.iter().any(|call| !call.file.is_empty());
        encoded.has_line_numbers |= calls.iter().any(|call| call.line > 0);
        calls
    }

    fn line(&mut self, call: &Call) -> proto::Line {
        let key = (call.system_name.clone(), call.file.clone());
        let known = self.by_name.get(&key).copied();
        let function_id = known.unwrap_or_else(|| {
            let id = self.functions.len() as u64 + 1;
            let texts = [&call.name, &call.system_name, &call.file];
            let [name, system_name, filename] = texts.map(|text| self.strings.intern(text));
            self.functions.push(proto::Function { id, name, system_name, filename });
            self.by_name.insert(key, id);
            id
        });
        proto::Line { function_id, line: call.line }
    }

    fn value_type(&mut self, name: &str, unit: &str) -> proto::ValueType {
        proto::ValueType { r#type: self.strings.intern(name), unit: self.strings.intern(unit) }
    }

    fn finish(self) -> proto::Profile {
        proto::Profile {
            mapping: self.encoded,
            location: self.locations,
            function: self.functions,
            string_table: self.strings.into_strings(),
            ..proto::Profile::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::fs;

    use super::*;

    /// Returns a profile of this program with two blocks whose stack contains this function.
    fn own_profile() -> String {
        let here = (own_profile as *const ()).addr() + 1;
        let mut text = String::from("heap profile: 2: 8292 [0: 0] @ heap_v2/4096\n");
        writeln!(text, "1: 100 [0: 0] @ {here:#x} 0x10").unwrap();
        writeln!(text, "1: 8192 [0: 0] @ {here:#x}\n\nMAPPED_LIBRARIES:").unwrap();
        text + &fs::read_to_string("/proc/self/maps").unwrap()
    }

    fn text(profile: &proto::Profile, index: i64) -> &str {
        &profile.string_table[usize::try_from(index).unwrap()]
    }

    #[test]
    fn samples_are_scaled_and_symbolised() {
        let profile = encode(&Profile::parse(&own_profile()).unwrap(), SystemTime::UNIX_EPOCH);
        // The factors are 1 / (1 - exp(-100 / 4096)) and 1 / (1 - exp(-2)).
        assert_eq!(profile.sample[0].value, [41, 4146]);
        assert_eq!(profile.sample[1].value, [1, 9474]);
        assert_eq!(profile.sample[0].location_id, [1, 2]);
        assert_eq!((profile.sample[1].location_id.len(), profile.location.len()), (1, 2));
        let function = &profile.function[profile.location[0].line.last().unwrap().function_id as usize - 1];
        assert!(text(&profile, function.name).ends_with("own_profile"), "{}", text(&profile, function.name));
        let mapping = &profile.mapping[profile.location[0].mapping_id as usize - 1];
        assert!(mapping.has_functions && text(&profile, mapping.filename).contains("freehold_pprof"));
        assert_eq!((profile.location[1].mapping_id, text(&profile, profile.default_sample_type)), (0, "inuse_space"));
    }

    #[test]
    fn pprof_output_round_trips_through_gzip() {
        use std::io::Read;

        use prost::Message;

        let profile = Profile::parse(&own_profile()).unwrap();
        let mut bytes = Vec::new();
        let written = to_pprof(&profile, SystemTime::UNIX_EPOCH);
        flate2::read::GzDecoder::new(&*written).read_to_end(&mut bytes).unwrap();
        assert_eq!(proto::Profile::decode(&*bytes).unwrap(), encode(&profile, SystemTime::UNIX_EPOCH));
    }
}
