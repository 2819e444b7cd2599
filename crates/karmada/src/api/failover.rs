//! The `failover` of a propagation policy, which its bindings carry, too.

use serde::Deserialize;

use federate_kubernetes::crd;
use federate_kubernetes::schema::Shape;

use Shape::{Integer, OneOf};

crd! {
    /// How workloads leave clusters that fail.
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub struct Failover {
        pub(crate) application: Option<ApplicationFailover> = optional("application"),
        pub(crate) cluster: Option<ClusterFailover> = optional("cluster"),
    }
}

crd! {
    /// How an application leaves a cluster where it is unhealthy.
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub(crate) struct ApplicationFailover {
        pub decision_conditions: DecisionConditions = optional("decisionConditions"),
        /// The releases know different modes; admission checks them by release.
        pub purge_mode: String = optional("purgeMode"),
        pub grace_period_seconds: Option<i64> =
            optional("gracePeriodSeconds", Integer(1, i32::MAX as i64)),
        pub state_preservation: Option<StatePreservation> = optional("statePreservation"),
    }
}

crd! {
    /// When an application counts as failed.
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub(crate) struct DecisionConditions {
        pub toleration_seconds: Option<i64> = optional("tolerationSeconds", Integer(0, i32::MAX as i64)),
    }
}

crd! {
    /// How workloads leave a cluster that fails.
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub(crate) struct ClusterFailover {
        pub purge_mode: String = optional("purgeMode", OneOf(&["Directly", "Gracefully"])),
        pub state_preservation: Option<StatePreservation> = optional("statePreservation"),
    }
}

crd! {
    /// The values of the status that follow the application as labels.
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub(crate) struct StatePreservation {
        pub rules: Vec<StateRule> = required("rules"),
    }
}

crd! {
    /// One value of the status and the label that carries it.
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub struct StateRule {
        pub(crate) alias_label_name: String = required("aliasLabelName"),
        pub(crate) json_path: String = required("jsonPath"),
    }
}
