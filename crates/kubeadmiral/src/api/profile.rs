//! `SchedulingProfile`.

use serde::Deserialize;

use federate_kubernetes::crd;
use federate_kubernetes::schema::Shape;

const COUNT: Shape = Shape::Integer(0, i64::MAX);

crd! {
    /// `spec` of a `SchedulingProfile`.
    #[derive(Default, Deserialize)]
    pub(crate) struct ProfileSpec {
        pub(crate) plugins: ExtensionPoints = optional("plugins"),
    }
    unread {
        optional("pluginConfig", Shape::Any),
    }
}

crd! {
    /// The plugins by extension point.
    #[derive(Default, Deserialize)]
    pub(crate) struct ExtensionPoints {
        pub(crate) filter: PluginSet = optional("filter"),
        pub(crate) score: PluginSet = optional("score"),
        pub(crate) select: PluginSet = optional("select"),
    }
}

crd! {
    /// The plugins that are enabled and disabled at an extension point.
    #[derive(Default, Deserialize)]
    pub(crate) struct PluginSet {
        pub(crate) enabled: Vec<Plugin> = optional("enabled"),
        pub(crate) disabled: Vec<Plugin> = optional("disabled"),
    }
}

crd! {
    /// A plugin.
    #[derive(Default, Deserialize)]
    pub(crate) struct Plugin {
        pub(crate) name: String = optional("name"),
    }
    unread {
        optional("type", Shape::OneOf(&["Webhook"])),
        optional("wait", COUNT),
        optional("weight", COUNT),
    }
}
