//! The ends that write what was rendered.
