//! Recorded cases, migrated.
