//! Keyed digests, which replace secret values.

use std::fmt;

use federate_kubernetes::object::pointer_text;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The key of digests.
#[derive(Clone)]
pub struct DigestKey {
    bytes: [u8; BLOCK_BYTES],
    is_random: bool,
}

/// The beginning of a text that replaces a value.
pub(super) const DIGEST_PREFIX: &str = "<secret ";

/// The beginning of a text that replaces a value that SOPS encrypted.
pub(super) const ENCRYPTED_PREFIX: &str = "<encrypted ";

/// The bytes that a key must have at least.
pub const MIN_KEY_BYTES: usize = 16;

/// The number of bytes in a block of SHA-256.
const BLOCK_BYTES: usize = 64;

impl DigestKey {
    /// Creates a key from a text that a user has chosen; `None` if it is so short that it could be guessed.
    pub fn from_text(text: &[u8]) -> Option<Self> {
        (text.len() >= MIN_KEY_BYTES).then(|| Self::new(text))
    }

    /// Creates a key from bytes of any length. A longer key is harder to guess.
    pub fn new(bytes: &[u8]) -> Self {
        let mut key = [0; BLOCK_BYTES];
        if bytes.len() > BLOCK_BYTES {
            let digest = Sha256::digest(bytes);
            key[..digest.len()].copy_from_slice(&digest);
        } else {
            key[..bytes.len()].copy_from_slice(bytes);
        }
        Self { bytes: key, is_random: false }
    }

    /// Creates a key for one run: its digests cannot be compared with those of another run.
    pub fn from_random(bytes: &[u8]) -> Self {
        Self { is_random: true, ..Self::new(bytes) }
    }

    /// Whether the key is for one run.
    pub fn is_random(&self) -> bool {
        self.is_random
    }

    pub(super) fn compute_hmac(&self, text: &[u8]) -> [u8; 32] {
        let [inner_key, outer_key] = [0x36, 0x5c].map(|pad| self.bytes.map(|byte| byte ^ pad));
        let inner = Sha256::new().chain_update(inner_key).chain_update(text).finalize();
        Sha256::new().chain_update(outer_key).chain_update(inner).finalize().into()
    }

    /// Returns the text that replaces a value at a place.
    pub(super) fn digest_text(&self, place: &ValuePlace, text: &str) -> String {
        let mut message = Vec::new();
        for part in [&*place.object, &*place.pointer, text] {
            message.extend((part.len() as u64).to_be_bytes());
            message.extend(part.as_bytes());
        }
        let [a, b, c, d, ..] = self.compute_hmac(&message);
        format!("{DIGEST_PREFIX}{:08x}>", u32::from_be_bytes([a, b, c, d]))
    }

    /// Returns the text that replaces a value that SOPS encrypted.
    pub(super) fn encrypted_text(&self, place: &ValuePlace, text: &str) -> String {
        self.digest_text(place, text).replacen(DIGEST_PREFIX, ENCRYPTED_PREFIX, 1)
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}

/// Where a value is.
#[derive(Clone, Debug, Default)]
pub(super) struct ValuePlace {
    /// The kind, namespace and name of the object.
    object: String,
    /// The JSON pointer; items of lists have no number in it, because they move.
    pointer: String,
}

impl ValuePlace {
    pub(super) fn in_object(object: &Value) -> Self {
        let names = ["/kind", "/metadata/namespace", "/metadata/name"];
        let object = names.map(|pointer| pointer_text(object, pointer)).join("/");
        Self { object, pointer: String::new() }
    }

    /// An entry of the same object, by its name alone.
    pub(super) fn at_entry(&self, name: &str) -> Self {
        let mut place = Self { object: self.object.clone(), pointer: String::new() };
        place.enter_key(name);
        place
    }

    /// Goes to an entry; returns where to go back to.
    pub(super) fn enter_key(&mut self, key: &str) -> usize {
        let before = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(&federate_kubernetes::pointer::escape(key));
        before
    }

    pub(super) fn leave_key(&mut self, before: usize) {
        self.pointer.truncate(before);
    }
}

/// Whether a text stands for a value that was replaced.
pub(super) fn is_digest_text(text: &str) -> bool {
    text.starts_with(DIGEST_PREFIX) || text.starts_with(ENCRYPTED_PREFIX)
}
