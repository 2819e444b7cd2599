//! The control planes that federate knows.
//!
//! A dialect is registered here and nowhere else. The layers above take their dialects as an argument, so that a change of
//! a dialect builds only its crate, this one and the command line again.
//!
//! ```
//! assert_eq!(federate_dialects::DIALECTS.names(), ["karmada", "kubeadmiral", "kubefleet", "kubefed", "ocm"]);
//! ```

use federate_dialect::Dialects;

/// All dialects, in the order of the table in the documentation.
pub const DIALECTS: Dialects = Dialects::new(&[
    &federate_karmada::Karmada,
    &federate_kubeadmiral::KubeAdmiral,
    &federate_kubefleet::KubeFleet,
    &federate_kubefed::KubeFed,
    &federate_ocm::Ocm,
]);
