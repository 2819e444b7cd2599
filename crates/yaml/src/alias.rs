//! Anchors of a document, and how much of it aliases may repeat.
//!
//! The share of a document that may come by aliases is `kubectl`'s; the bound on bytes is our own.

use serde_json::Value;
use std::collections::BTreeMap;

/// Bytes that anchors and aliases of one document may copy in all.
const MAX_COPIED: usize = 64 << 20;
const TOO_MUCH: &str = "aliases repeat too much of this document: write the values out";

/// The anchors of a document so far.
#[derive(Default)]
pub(super) struct Aliases {
    anchors: BTreeMap<usize, Anchor>,
    /// Nodes so far, those that came by aliases included.
    pub(super) nodes: usize,
    aliased: usize,
    copied: usize,
}

/// What an alias repeats; `None` while its node is still open.
struct Anchor {
    value: Option<Value>,
    nodes: usize,
    bytes: usize,
}

impl Aliases {
    /// A collection with an anchor begins.
    pub(super) fn open(&mut self, anchor: usize) {
        self.anchors.insert(anchor, Anchor { value: None, nodes: 0, bytes: 0 });
    }

    /// Keeps a value of `nodes` nodes for the aliases of `anchor`.
    pub(super) fn keep(&mut self, anchor: usize, value: &Value, nodes: usize) -> Result<(), &'static str> {
        let bytes = weight(value);
        self.spend(bytes)?;
        self.anchors.insert(anchor, Anchor { value: Some(value.clone()), nodes, bytes });
        Ok(())
    }

    /// The value that an alias repeats.
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
        value.ok_or("this alias stands inside the value that it repeats")
    }

    /// Counts bytes copied, or other work that the length of the text does not bound.
    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.copied = self.copied.saturating_add(bytes);
        if self.copied > MAX_COPIED { Err(TOO_MUCH) } else { Ok(()) }
    }

    /// Nearly all of a small document may come by aliases, a tenth of a large one.
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

/// Bytes that a copy of `value` takes, roughly.
fn weight(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(weight).sum(),
            Value::Object(map) => map.iter().map(|(key, value)| 40 + key.len() + weight(value)).sum(),
            _ => 0,
        }
}
