//! Changes to JSON documents: pointers and JSON patches.
