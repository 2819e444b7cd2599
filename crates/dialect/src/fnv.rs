//! The hash by which control planes written in Go order clusters and detect changes.

/// The 32-bit FNV-1 hash of bytes.
pub fn compute_fnv1(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash: u32, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte))
}
