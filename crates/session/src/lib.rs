//! The application layer: the one place where the engine is put together with the control planes.

use federate_dialect::Dialects;

/// Every control plane that federate knows, in the order of the contract's table.
pub const DIALECTS: Dialects = Dialects::new(&[
    &federate_karmada::Karmada,
    &federate_kubeadmiral::KubeAdmiral,
    &federate_kubefleet::KubeFleet,
    &federate_kubefed::KubeFed,
]);
