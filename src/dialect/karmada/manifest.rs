//! stub
pub(super) fn variants(_k: &super::Karmadas<'_>, _p: &crate::dialect::Placement, _t: &crate::repo::Template) -> Vec<crate::dialect::Variant> { Vec::new() }
