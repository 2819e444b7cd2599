//! Text as it is kept in `ConfigMap`s: compressed, in parts that each fit into one.
//!
//! Facts: a `ConfigMap` holds up to 1 MiB; binary data is written in base64, which adds a third.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

/// The bytes in a part.
pub const PART_BYTES: usize = 512 << 10;
/// The most bytes that a text may have; no plan is so large.
const MAX_TEXT_BYTES: u64 = 256 << 20;
/// The bytes that any text may have, and how many more per compressed byte. Plans shrink to some twentieth; what shrinks much
/// further was made to fill the memory of whoever reads it.
const FREE_TEXT_BYTES: u64 = 4 << 20;
const MAX_RATIO: u64 = 100;

/// Compresses a text.
pub fn compress_text(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    let _ = encoder.write_all(text);
    encoder.finish().unwrap_or_default()
}

/// Returns the text that was compressed.
///
/// # Errors
///
/// The bytes are damaged, or are a text of a size that no plan has.
pub fn decompress_text(packed: &[u8]) -> std::io::Result<Vec<u8>> {
    let limit = MAX_TEXT_BYTES.min(FREE_TEXT_BYTES + MAX_RATIO * packed.len() as u64);
    let mut text = Vec::new();
    ZlibDecoder::new(packed).take(limit + 1).read_to_end(&mut text)?;
    if text.len() as u64 > limit {
        return Err(std::io::Error::other(format!("it has more than {limit} bytes when it is unpacked")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_return_and_bombs_do_not() {
        let plan =
            (0..20_000).map(|number| format!("{{\"name\":\"web-{number}\"}},")).collect::<Vec<_>>().concat();
        assert_eq!(decompress_text(&compress_text(plan.as_bytes())).unwrap(), plan.as_bytes());
        assert_eq!(decompress_text(&compress_text(&vec![b' '; 3 << 20])).unwrap().len(), 3 << 20);
        let bomb = compress_text(&vec![b' '; 64 << 20]);
        assert!(bomb.len() < 100_000 && decompress_text(&bomb).is_err());
    }
}
