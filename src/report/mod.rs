//! How results are shown.
