//! The fields of kustomizations and of kustomize's built-in generators and transformers, and which of them name files.
//!
//! Only what is listed here is built: a field that kustomize learns later may name a file.
//!
//! Facts: the types of kustomize's API `kustomize.config.k8s.io/v1beta1` with the fields that older releases know, and its
//! built-in plugins. kustomize decodes keys in any case.

/// What a field holds.
#[derive(Debug)]
pub(super) enum FieldShape {
    /// A value that names no file.
    Plain,
    /// The path of a file.
    File,
    /// The path of a file, after a key and `=` if it has one.
    FileWithKey,
    /// The path of a file with objects, or of a folder with a kustomization.
    Resource,
    /// A patch, or the path of a file with one.
    Patch,
    /// Configurations of generators and transformers, or the path of a file or a folder with them.
    Plugin,
    /// The path of a file or a folder with such configurations.
    PluginPath,
    /// Charts, for which kustomize would start Helm.
    Charts,
    /// A list of values.
    List(&'static FieldShape),
    /// A mapping with these fields.
    Fields(&'static Fields),
}

/// A field that names files, or contains fields that do.
#[derive(Debug)]
pub(super) struct ShapedField {
    name: &'static str,
    shape: FieldShape,
}

/// The fields of a mapping.
#[derive(Debug)]
pub(super) struct Fields {
    /// Fields that name no file.
    plain: &'static [&'static str],
    shaped: &'static [ShapedField],
}

/// A field that was found by its key.
pub(super) struct FoundField {
    /// The key as kustomize writes it.
    pub(super) name: &'static str,
    pub(super) shape: &'static FieldShape,
}

impl Fields {
    /// The field that a key names for kustomize.
    pub(super) fn find_field(&self, key: &str) -> Option<FoundField> {
        let plain = self.plain.iter().copied().find(|name| name.eq_ignore_ascii_case(key));
        if let Some(name) = plain {
            return Some(FoundField { name, shape: &FieldShape::Plain });
        }
        let shaped = self.shaped.iter().find(|field| field.name.eq_ignore_ascii_case(key))?;
        Some(FoundField { name: shaped.name, shape: &shaped.shape })
    }
}

const fn shaped(name: &'static str, shape: FieldShape) -> ShapedField {
    ShapedField { name, shape }
}

/// The fields of a kustomization.
pub(super) static KUSTOMIZATION: Fields = Fields {
    plain: &[
        "apiVersion",
        "kind",
        "metadata",
        "namePrefix",
        "nameSuffix",
        "namespace",
        "commonLabels",
        "labels",
        "commonAnnotations",
        "images",
        "imageTags",
        "replicas",
        "vars",
        "sortOptions",
        "generatorOptions",
        "buildMetadata",
        "helmGlobals",
    ],
    shaped: &[
        shaped("resources", FieldShape::List(&FieldShape::Resource)),
        shaped("bases", FieldShape::List(&FieldShape::Resource)),
        shaped("components", FieldShape::List(&FieldShape::Resource)),
        shaped("crds", FieldShape::List(&FieldShape::File)),
        shaped("configurations", FieldShape::List(&FieldShape::File)),
        shaped("openapi", FieldShape::Fields(&OPENAPI)),
        shaped("patches", FieldShape::List(&FieldShape::Fields(&PATCH))),
        shaped("patchesJson6902", FieldShape::List(&FieldShape::Fields(&PATCH))),
        shaped("patchesStrategicMerge", FieldShape::List(&FieldShape::Patch)),
        shaped("replacements", FieldShape::List(&FieldShape::Fields(&REPLACEMENT))),
        shaped("configMapGenerator", FieldShape::List(&FieldShape::Fields(&MAP_GENERATOR))),
        shaped("secretGenerator", FieldShape::List(&FieldShape::Fields(&MAP_GENERATOR))),
        shaped("generators", FieldShape::List(&FieldShape::Plugin)),
        shaped("transformers", FieldShape::List(&FieldShape::Plugin)),
        shaped("validators", FieldShape::List(&FieldShape::Plugin)),
        shaped("helmCharts", FieldShape::Charts),
        shaped("helmChartInflationGenerator", FieldShape::Charts),
    ],
};

/// The fields of a kustomization whose objects are configurations of generators and transformers: what could change a path in
/// them is missing.
pub(super) static PLUGIN_FOLDER: Fields = Fields {
    plain: &["apiVersion", "kind", "metadata", "namePrefix", "nameSuffix", "namespace", "buildMetadata"],
    shaped: &[
        shaped("resources", FieldShape::List(&FieldShape::PluginPath)),
        shaped("bases", FieldShape::List(&FieldShape::PluginPath)),
    ],
};

static OPENAPI: Fields = Fields { plain: &["version"], shaped: &[shaped("path", FieldShape::File)] };

static PATCH: Fields =
    Fields { plain: &["patch", "target", "options"], shaped: &[shaped("path", FieldShape::File)] };

static REPLACEMENT: Fields =
    Fields { plain: &["source", "targets", "sourceValue"], shaped: &[shaped("path", FieldShape::File)] };

static MAP_GENERATOR: Fields = Fields {
    plain: &["name", "namespace", "behavior", "literals", "options", "type"],
    shaped: &[
        shaped("files", FieldShape::List(&FieldShape::FileWithKey)),
        shaped("envs", FieldShape::List(&FieldShape::File)),
        shaped("env", FieldShape::File),
    ],
};

/// A built-in generator or transformer.
#[derive(Debug)]
struct Plugin {
    kind: &'static str,
    fields: Fields,
}

/// The fields of the built-in generator or transformer of a kind, beside those of every object.
pub(super) fn find_plugin(kind: &str) -> Option<&'static Fields> {
    PLUGINS.iter().find(|plugin| plugin.kind == kind).map(|plugin| &plugin.fields)
}

/// The fields that every object has.
pub(super) static OBJECT: Fields = Fields { plain: &["apiVersion", "kind", "metadata"], shaped: &[] };

const fn plugin(
    kind: &'static str,
    plain: &'static [&'static str],
    shaped: &'static [ShapedField],
) -> Plugin {
    Plugin { kind, fields: Fields { plain, shaped } }
}

static PLUGINS: [Plugin; 20] = [
    plugin("AnnotationsTransformer", &["annotations", "fieldSpecs"], &[]),
    plugin("ConfigMapGenerator", MAP_GENERATOR.plain, MAP_GENERATOR.shaped),
    plugin("HashTransformer", &[], &[]),
    plugin("HelmChartInflationGenerator", &[], &[]),
    plugin("IAMPolicyGenerator", &["cloud", "kubernetesService", "serviceAccount"], &[]),
    plugin("ImageTagTransformer", &["imageTag", "fieldSpecs"], &[]),
    plugin("LabelTransformer", &["labels", "fieldSpecs"], &[]),
    plugin("LegacyOrderTransformer", &[], &[]),
    plugin("NamespaceTransformer", &["fieldSpecs", "unsetOnly", "setRoleBindingSubjects"], &[]),
    plugin("PatchJson6902Transformer", &["target", "jsonOp"], &[shaped("path", FieldShape::File)]),
    plugin(
        "PatchStrategicMergeTransformer",
        &["patches"],
        &[shaped("paths", FieldShape::List(&FieldShape::Patch))],
    ),
    plugin("PatchTransformer", PATCH.plain, PATCH.shaped),
    plugin("PrefixSuffixTransformer", &["prefix", "suffix", "fieldSpecs"], &[]),
    plugin("PrefixTransformer", &["prefix", "fieldSpecs"], &[]),
    plugin(
        "ReplacementTransformer",
        &[],
        &[shaped("replacements", FieldShape::List(&FieldShape::Fields(&REPLACEMENT)))],
    ),
    plugin("ReplicaCountTransformer", &["replica", "fieldSpecs"], &[]),
    plugin("SecretGenerator", MAP_GENERATOR.plain, MAP_GENERATOR.shaped),
    plugin("SortOrderTransformer", &["sortOptions"], &[]),
    plugin("SuffixTransformer", &["suffix", "fieldSpecs"], &[]),
    plugin("ValueAddTransformer", &["value", "targets"], &[shaped("targetFilePath", FieldShape::File)]),
];
