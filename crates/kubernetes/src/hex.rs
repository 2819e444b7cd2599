//! Bytes in hexadecimal, for digests in names, annotations and messages.

/// Bytes in hexadecimal, with lower-case letters. It is here because this is the lowest crate that those which write
/// digests share; crates that do not depend on it write their own.
///
/// ```
/// assert_eq!(federate_kubernetes::hex::to_hex(&[0, 0x1f, 0xff]), "001fff");
/// ```
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |text, byte| text + &format!("{byte:02x}"))
}
