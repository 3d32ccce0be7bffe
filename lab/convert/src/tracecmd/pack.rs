//! Unpacking of zlib and zstd, with no more memory than the size that a file claims.

use std::io::Read;

use super::head::Packing;

/// Unpacks bytes; `None` if they are damaged, or shorter than `whole` after unpacking.
pub(super) fn unpacked(packing: Packing, bytes: &[u8], whole: u64) -> Option<Vec<u8>> {
    let mut unpacked = Vec::new();
    let read = match packing {
        Packing::None => bytes.take(whole).read_to_end(&mut unpacked),
        Packing::Zlib => flate2::read::ZlibDecoder::new(bytes).take(whole).read_to_end(&mut unpacked),
        Packing::Zstd => {
            zstd::stream::read::Decoder::new(bytes).and_then(|decoder| decoder.take(whole).read_to_end(&mut unpacked))
        }
    };
    (read.ok()? as u64 == whole).then_some(unpacked)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn unpacking_stops_at_the_stated_size() {
        let text = vec![7; 100_000];
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(&text).unwrap();
        let packed =
            [(Packing::Zlib, zlib.finish().unwrap()), (Packing::Zstd, zstd::bulk::compress(&text, 1).unwrap())];
        for (packing, bytes) in packed {
            assert_eq!(unpacked(packing, &bytes, 100_000), Some(text.clone()));
            assert_eq!(unpacked(packing, &bytes, 100).map(|bytes| bytes.len()), Some(100));
            assert_eq!(unpacked(packing, &bytes, 100_001), None);
            assert_eq!(unpacked(packing, &bytes[..bytes.len() / 2], 100_000), None);
        }
        assert_eq!(unpacked(Packing::None, b"abc", 3), Some(b"abc".to_vec()));
    }
}
