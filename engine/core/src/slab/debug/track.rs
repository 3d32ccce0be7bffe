//! Records of the calls that allocated and freed an object. A track is five words after the object. The last word is a
//! checksum of the others, so that an overwritten track is not used.
//!
//! linux: mm/slub.c:set_track, print_track

use core::panic::Location;

use super::super::layout::TRACK_WORDS;
use super::super::mix::mix;
use crate::base::CpuId;
use crate::platform::report::{Track, Who};

/// Index of the track of the object's last allocation.
pub(super) const ALLOCATED: u32 = 0;
/// Index of the track of the object's last free.
pub(super) const FREED: u32 = 1;

/// Encodes a track: kind of place, place, CPU, time, and checksum.
pub(super) fn encode(who: Who, cpu: CpuId, now: u64) -> [u64; TRACK_WORDS] {
    let (is_code, place) = match who {
        Who::Source(place) => (false, core::ptr::from_ref(place).expose_provenance() as u64),
        Who::Code(address) => (true, address as u64),
    };
    let words = [u64::from(is_code), place, u64::from(cpu.0), now];
    [words[0], words[1], words[2], words[3], proof(words)]
}

/// Decodes a track; returns `None` if none was written or it was overwritten.
pub(super) fn decode(words: [u64; TRACK_WORDS], now: u64) -> Option<Track> {
    let [is_code, place, cpu, when, proven] = words;
    if proof([is_code, place, cpu, when]) != proven {
        return None;
    }
    let who = if is_code == u64::from(false) {
        // SAFETY: the checksum is valid, so `encode` wrote these words. For this kind of place, it stored the address
        // of a `&'static Location`, whose provenance it exposed and which is valid for ever.
        Who::Source(unsafe { &*core::ptr::with_exposed_provenance::<Location<'static>>(place as usize) })
    } else {
        Who::Code(place as usize)
    };
    Some(Track { who, cpu: CpuId(cpu as u16), age: now.saturating_sub(when) })
}

fn proof(words: [u64; TRACK_WORDS - 1]) -> u64 {
    words.into_iter().fold(0x7472_6163_6b73, |proof, word| mix(proof ^ word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overwritten_track_is_rejected() {
        let words = encode(Who::Source(Location::caller()), CpuId(3), 40);
        let track = decode(words, 42).expect("the track differs from what was written");
        assert!(matches!(track.who, Who::Source(place) if place.file().ends_with("track.rs")));
        assert_eq!((track.cpu, track.age), (CpuId(3), 2));
        for word in 0..TRACK_WORDS {
            let mut wrong = words;
            wrong[word] ^= 1 << 17;
            assert!(decode(wrong, 42).is_none(), "{word}");
        }
        assert!(decode([0; TRACK_WORDS], 42).is_none(), "an empty track was read as a track");
    }
}
