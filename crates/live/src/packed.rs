//! Text as it is kept in `ConfigMap`s: compressed, in parts that each fit into one.
//!
//! Facts: a `ConfigMap` holds up to 1 MiB; binary data is written in base64, which adds a third.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

/// The bytes in a part.
pub const PART: usize = 512 << 10;
/// The most bytes that a text may have; no plan is so large.
const LARGEST: u64 = 1 << 30;

/// Compresses a text.
pub fn pack(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    let _ = encoder.write_all(text);
    encoder.finish().unwrap_or_default()
}

/// Returns the text that was compressed.
pub fn unpack(packed: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    ZlibDecoder::new(packed).take(LARGEST).read_to_end(&mut text)?;
    Ok(text)
}
