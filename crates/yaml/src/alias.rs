//! The anchors of a document, and the limits for aliases.
//!
//! The limit for the share of aliased nodes is that of `kubectl`. The limit in bytes is federate's own.

use serde_json::Value;
use std::collections::BTreeMap;

/// The total number of bytes that anchors and aliases of one document may copy.
const MAX_COPIED: usize = 64 << 20;
const TOO_MUCH: &str = "aliases repeat too much of this document: write the values out";

/// The anchors of a document so far.
#[derive(Default)]
pub(super) struct Aliases {
    anchors: BTreeMap<usize, Anchor>,
    /// The number of nodes so far, including aliased ones.
    pub(super) nodes: usize,
    aliased: usize,
    copied: usize,
}

/// The node of an anchor.
struct Anchor {
    /// `None` until the node is complete.
    value: Option<Value>,
    nodes: usize,
    bytes: usize,
}

impl Aliases {
    /// Records the beginning of a collection with an anchor.
    pub(super) fn open(&mut self, anchor: usize) {
        self.anchors.insert(anchor, Anchor { value: None, nodes: 0, bytes: 0 });
    }

    /// Stores a value with `nodes` nodes for the aliases of `anchor`.
    pub(super) fn keep(&mut self, anchor: usize, value: &Value, nodes: usize) -> Result<(), &'static str> {
        let bytes = weight(value);
        self.spend(bytes)?;
        self.anchors.insert(anchor, Anchor { value: Some(value.clone()), nodes, bytes });
        Ok(())
    }

    /// Returns the value of an alias.
    pub(super) fn repeat(&mut self, anchor: usize) -> Result<Value, &'static str> {
        let found = self.anchors.get(&anchor).ok_or("this alias has no anchor before it")?;
        let (nodes, bytes) = (found.nodes, found.bytes);
        self.nodes += nodes;
        self.aliased += nodes;
        if self.excessive() {
            return Err(TOO_MUCH);
        }
        self.spend(bytes)?;
        let value = self.anchors.get(&anchor).and_then(|found| found.value.clone());
        value.ok_or("this alias is inside the value that it repeats")
    }

    /// Counts copied bytes, or other work that is not limited by the length of the text.
    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.copied = self.copied.saturating_add(bytes);
        if self.copied > MAX_COPIED { Err(TOO_MUCH) } else { Ok(()) }
    }

    /// Whether too many nodes are aliased: more than 99 % of a small document, or 10 % of a large one.
    #[allow(clippy::cast_precision_loss)] // counts stay far below 2^52
    fn excessive(&self) -> bool {
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

/// Returns the approximate number of bytes of a copy of `value`.
fn weight(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(weight).sum(),
            Value::Object(map) => map.iter().map(|(key, value)| 40 + key.len() + weight(value)).sum(),
            _ => 0,
        }
}
