//! The pipeline over any dialect.
