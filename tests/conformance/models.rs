//! The cycles of hub controllers around the rules that commands run. They stand here because only recorded cases run a
//! whole cycle; a rule that a command needs is called from the product.

pub(crate) mod cluster_readiness;
pub(crate) mod failover;
pub(crate) mod federated_object;
pub(crate) mod member_agent;
pub(crate) mod member_deletion;
pub(crate) mod placement_scheduler;
pub(crate) mod replica_scheduler;
pub(crate) mod work_replica_set;
