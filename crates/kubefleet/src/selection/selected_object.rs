//! An object that a placement selects, with how it is sent.

use federate_kubernetes::Object;
use federate_repo::Template;

/// An object that a placement selects.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SelectedObject<'a> {
    /// An object that is sent without what the hub wrote into it.
    Plain(&'a Template),
    /// An envelope: the objects in it are sent.
    Envelope(&'a Object),
    /// Another object of the control plane's own, which some releases send.
    Own(&'a Object),
}

impl<'a> SelectedObject<'a> {
    /// The object itself.
    pub(crate) fn object(&self) -> &'a Object {
        match self {
            Self::Plain(template) => &template.object,
            Self::Envelope(object) | Self::Own(object) => object,
        }
    }
}
