//! The anchors of a document, and limits for aliases.
//!
//! The limit for the share of a document that comes from aliases is that of `kubectl`; the limit in bytes is
//! our own.

use serde_json::Value;
use std::collections::BTreeMap;

/// The largest number of bytes that anchors and aliases of a document copy.
const MAX_COPIED_BYTES: usize = 64 << 20;
const TOO_MUCH: &str = "aliases repeat too much of this document: write the values in full";

/// The anchors of a document.
#[derive(Default)]
pub(super) struct Aliases {
    anchors: BTreeMap<usize, Anchor>,
    /// The number of nodes so far, including those from aliases.
    pub(super) nodes: usize,
    aliased: usize,
    copied: usize,
}

/// The value of an anchor; `None` until its node is complete.
struct Anchor {
    value: Option<Value>,
    nodes: usize,
    bytes: usize,
}

impl Aliases {
    /// Starts a collection with an anchor.
    pub(super) fn open_collection(&mut self, anchor: usize) {
        self.anchors.insert(anchor, Anchor { value: None, nodes: 0, bytes: 0 });
    }

    /// Stores a value of `nodes` nodes for the aliases of `anchor`.
    pub(super) fn store_value(
        &mut self,
        anchor: usize,
        value: &Value,
        nodes: usize,
    ) -> Result<(), &'static str> {
        let bytes = estimate_size(value);
        self.charge_bytes(bytes)?;
        self.anchors.insert(anchor, Anchor { value: Some(value.clone()), nodes, bytes });
        Ok(())
    }

    /// The value of an alias.
    pub(super) fn expand_alias(&mut self, anchor: usize) -> Result<Value, &'static str> {
        let found = self.anchors.get(&anchor).ok_or("this alias has no anchor before it")?;
        let (nodes, bytes) = (found.nodes, found.bytes);
        self.nodes += nodes;
        self.aliased += nodes;
        if self.is_excessive() {
            return Err(TOO_MUCH);
        }
        self.charge_bytes(bytes)?;
        let value = self.anchors.get(&anchor).and_then(|found| found.value.clone());
        value.ok_or("this alias is inside the value that it repeats")
    }

    /// Counts copied bytes, and other work that the length of the text does not limit.
    pub(super) fn charge_bytes(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.copied = self.copied.saturating_add(bytes);
        if self.copied > MAX_COPIED_BYTES { Err(TOO_MUCH) } else { Ok(()) }
    }

    /// Nearly all of a small document may come from aliases, and a tenth of a large one.
    #[allow(clippy::cast_precision_loss)] // counts stay far below 2^52
    fn is_excessive(&self) -> bool {
        const SMALL: f64 = 400_000.0;
        const LARGE: f64 = 4_000_000.0;
        if self.aliased <= 100 || self.nodes <= 1000 {
            return false;
        }
        let (nodes, aliased) = (self.nodes as f64, self.aliased as f64);
        let allowed = 0.99 - 0.89 * ((nodes - SMALL) / (LARGE - SMALL)).clamp(0.0, 1.0);
        aliased / nodes > allowed
    }
}

/// The approximate number of bytes in a copy of `value`.
fn estimate_size(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(estimate_size).sum(),
            Value::Object(map) => map.iter().map(|(key, value)| 40 + key.len() + estimate_size(value)).sum(),
            _ => 0,
        }
}
