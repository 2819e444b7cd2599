//! Findings about what is in a repo and is not a template as it is written: what kustomize, Helm and other engines build,
//! objects that several documents define, and objects that SOPS encrypted.
//!
//! Whether such a thing matters depends on the policies: what a policy would place must not be missing from the output
//! without an error, and what no policy selects must not stop the rest.

use std::collections::{BTreeMap, BTreeSet};

use federate_kubernetes::sops::{CiphertextForm, contains_ciphertext, find_ciphertext, is_encrypted};
use federate_kubernetes::unfilled::list_unfilled;
use federate_kubernetes::{Finding, Object, ObjectRef, Severity, finding};
use federate_repo::config::UnplacedTemplates;
use federate_repo::duplicates::differing_folders;
use federate_repo::engine_syntax::UNKNOWN_NAME;
use federate_repo::{BuildRoot, BuildTool, Duplicate, Role};

use crate::Session;
use crate::candidates::CandidatePlacement;
use crate::source_proposals::ChosenKustomization;

/// The code of the finding about objects that would be placed and that another tool builds.
pub(crate) const NOT_BUILT_CODE: &str = "not-built";

/// The code of the finding about objects that SOPS encrypted.
pub(crate) const SOPS_CODE: &str = "sops";

/// The code of the finding about objects whose MAC does not hold for what is rendered.
pub(crate) const MAC_CODE: &str = "sops-mac";

/// How many objects or folders a message names.
const MAX_NAMES: usize = 3;

/// Findings about policies and overrides that follow from objects that are not built.
const CONSEQUENCE_CODES: [&str; 4] =
    ["unused-policy", "unused-override", "unused-selector", "unknown-reference"];

/// What is known about files that are not templates as they are written.
#[derive(Default)]
pub(crate) struct SourceReview {
    findings: Vec<Finding>,
    /// The policies and overrides that are about objects that other tools build.
    concerned: BTreeSet<ObjectRef>,
}

impl Session {
    /// The findings about files that are not templates as they are written.
    pub(crate) fn source_findings(&self) -> &[Finding] {
        &self.source_review().findings
    }

    /// Whether a finding only follows from objects that are not read.
    pub(crate) fn follows_from_sources(&self, finding: &Finding) -> bool {
        let concerned = &self.source_review().concerned;
        CONSEQUENCE_CODES.contains(&finding.code)
            && finding.object.as_ref().is_some_and(|object| concerned.contains(object))
    }

    fn source_review(&self) -> &SourceReview {
        self.sources.get_or_init(|| {
            let mut findings = self.review_builds();
            findings.extend(self.review_duplicates());
            findings.extend(self.review_encrypted());
            findings.extend(self.review_names());
            findings.extend(self.review_describing());
            SourceReview { findings, concerned: self.concerned_policies() }
        })
    }

    fn review_builds(&self) -> Vec<Finding> {
        let builds = &self.repo().builds;
        if builds.is_empty() {
            return Vec::new();
        }
        let provided = Provided::new(self);
        let clusters: BTreeSet<&str> = self.clusters().iter().map(|cluster| &*cluster.name).collect();
        let mut reviews: Vec<BuildReview<'_>> =
            builds.iter().map(|build| BuildReview::new(build, &provided, &clusters)).collect();
        let objects: Vec<&Object> = reviews.iter().flat_map(|review| &review.objects).copied().collect();
        let mut placed = self.place_candidates(&objects).into_iter();
        let claimed: BTreeSet<&ObjectRef> =
            self.repo().claimed.iter().map(|claimed| &claimed.object.id).collect();
        let previous = &self.settings().previous;
        for review in &mut reviews {
            for object in &review.objects {
                let before = previous.find_row(&object.id).filter(|row| !row.clusters.is_empty());
                let before = before.map(|row| CandidatePlacement { policy: row.policy.clone() });
                if let Some(placement) = placed.next().flatten().or(before) {
                    review.placed.push((&object.id, placement));
                }
            }
            // An object that contains its placement needs no policy.
            let bundles = review.build.bundles.iter().map(|bundle| &bundle.object.id);
            let missing = bundles.filter(|id| !claimed.contains(id));
            review.placed.extend(missing.map(|id| (id, CandidatePlacement { policy: None })));
        }
        reviews.iter().filter_map(|review| review.to_finding(self.repo().config.unplaced)).collect()
    }

    /// The policies and overrides whose selectors name objects that other tools build.
    fn concerned_policies(&self) -> BTreeSet<ObjectRef> {
        let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for build in &self.repo().builds {
            for object in build.objects.iter().chain(&build.unlisted) {
                names.entry(&object.id.kind).or_default().insert(&object.id.name);
            }
        }
        for object in self.repo().excluded.iter().filter(|object| object.is_never_placed()) {
            names.entry(&object.id.kind).or_default().insert(&object.id.name);
        }
        if names.is_empty() {
            return BTreeSet::new();
        }
        let mut concerned = BTreeSet::new();
        for claimed in &self.repo().claimed {
            let (Role::Placement | Role::Override) = claimed.role else { continue };
            let Some(dialect) = self.dialects().get(claimed.dialect) else { continue };
            let selectors = dialect.advice().find_references(&claimed.object).selectors;
            let concerns = selectors.iter().any(|selector| {
                let known = names.get(selector.kind.name.as_str());
                match &selector.name {
                    Some(name) => {
                        known.is_some_and(|names| names.contains(name.name.as_str())) || selector.with_content
                    }
                    None => known.is_some(),
                }
            });
            if concerns {
                concerned.insert(claimed.object.id.clone());
            }
        }
        concerned
    }

    /// The selectors that name objects as they are written, although a build changes their names.
    fn review_names(&self) -> Vec<Finding> {
        let renamed = &self.repo().renamed;
        if renamed.is_empty() {
            return Vec::new();
        }
        let templates = self.repo().templates.iter().map(|template| &template.object.id);
        let known: BTreeSet<(&str, &str)> =
            templates.map(|id| (id.kind.as_str(), id.name.as_str())).collect();
        let mut findings = Vec::new();
        for claimed in self
            .repo()
            .claimed
            .iter()
            .filter(|claimed| matches!(claimed.role, Role::Placement | Role::Override))
        {
            let Some(dialect) = self.dialects().get(claimed.dialect) else { continue };
            for selector in dialect.advice().find_references(&claimed.object).selectors {
                let (kind, Some(name)) = (&selector.kind.name, &selector.name) else { continue };
                let Some(one) = renamed.iter().find(|one| one.kind == *kind && one.written == name.name)
                else {
                    continue;
                };
                if known.contains(&(kind, &name.name)) {
                    continue;
                }
                let message = format!(
                    "{} names {kind} `{}`, which kustomize builds as `{}`",
                    claimed.object.id, one.written, one.built
                );
                let help = "name it as it is built, or select it by labels: a hash at the end changes with the content";
                findings.push(
                    Finding::warning("unbuilt-name", &claimed.object, message)
                        .with_pointer(selector.pointer.as_str())
                        .with_help(help),
                );
            }
        }
        findings
    }

    /// Objects of Flux and Argo CD that describe sources, although a policy selects them: what they describe would be both built here
    /// and applied by the controller where they are placed.
    fn review_describing(&self) -> Vec<Finding> {
        let objects: Vec<&Object> = self.repo().describing.iter().collect();
        let placed = self.place_candidates(&objects);
        let selected =
            objects.iter().zip(placed).filter_map(|(object, placed)| Some((*object, placed?.policy?)));
        selected
            .map(|(object, policy)| {
                let message = format!(
                    "{policy} selects {}, which `sources` in federate.yaml builds: its controller would apply the same objects again",
                    object.id
                );
                Finding::error("placed-source", object, message)
                    .with_help("let the policy select what is built, or remove the object from `sources`")
            })
            .collect()
    }

    fn review_duplicates(&self) -> Vec<Finding> {
        let duplicates = &self.repo().duplicates;
        let different: Vec<&Object> = duplicates.iter().flat_map(|duplicate| &duplicate.different).collect();
        let mut placed = self.place_candidates(&different).into_iter();
        let mut findings = Vec::new();
        let mut harmless: BTreeMap<DuplicateCause, Vec<&Duplicate>> = BTreeMap::new();
        for duplicate in duplicates {
            let others: Vec<bool> =
                duplicate.different.iter().map(|_| placed.next().flatten().is_some()).collect();
            if !duplicate.different.is_empty()
                && (others.contains(&true) || self.placed_in(self.plan(), &duplicate.id).is_some())
            {
                findings.push(duplicate.to_finding());
                continue;
            }
            harmless.entry(DuplicateCause::from_duplicate(duplicate)).or_default().push(duplicate);
        }
        findings.extend(harmless.into_iter().filter_map(|(cause, all)| warn_of_duplicates(cause, &all)));
        findings
    }

    fn review_encrypted(&self) -> Vec<Finding> {
        let repo = self.repo();
        let broken = repo.claimed.iter().filter(|claimed| {
            let body = &claimed.object.body;
            let holds_values = || find_ciphertext(body) == Some(CiphertextForm::Values);
            (is_encrypted(body) && contains_ciphertext(body.get("spec").unwrap_or(body)))
                || (claimed.role == Role::Bundle && holds_values())
                || !list_unfilled(body).is_empty()
        });
        let mut findings: Vec<Finding> = broken
            .map(|claimed| {
                let id = &claimed.object.id;
                let unfilled = finding::join_names(&list_unfilled(&claimed.object.body).into_iter().collect::<Vec<_>>(), MAX_NAMES);
                let message = match claimed.role {
                    _ if !unfilled.is_empty() => {
                        format!("{id} has values that are not known ({unfilled}), so that it cannot be read")
                    }
                    Role::Bundle => format!(
                        "{id} is encrypted by SOPS, and what it places has no `sops` part: no reader could decrypt it"
                    ),
                    _ => format!("{id} is encrypted by SOPS, so that its rules cannot be read"),
                };
                Finding::error("sops-changed", &claimed.object, message)
                    .with_help("write it in plain text, and keep what is secret in a Secret that is encrypted")
            })
            .collect();
        let placed = self.placed_encrypted();
        let readable: Vec<&Object> = placed
            .iter()
            .filter(|(_, form)| matches!(form, CiphertextForm::File | CiphertextForm::Document))
            .map(|(template, _)| &template.object)
            .collect();
        if let Some(first) = readable.first().filter(|_| !self.decrypts()) {
            let names = list_objects(readable.iter().map(|object| &object.id));
            let (are, them) = if readable.len() == 1 { ("is", "it") } else { ("are", "them") };
            let message = format!(
                "{names} {are} encrypted by SOPS: `render` and `commit` keep {them} encrypted, and `apply` and `sync` to clusters \
                 refuse {them} without `--decrypt sops`"
            );
            let finding = Finding::warning(SOPS_CODE, first, message).with_help(
                "let the reader of the rendered files decrypt (Flux with `spec.decryption`), decrypt for clusters (`--decrypt sops`), \
                 or use a SealedSecret or an ExternalSecret",
            );
            let origin = repo.encrypted_inputs.locate_object(first).or(finding.origin);
            findings.push(Finding { object: None, origin, ..finding });
        }
        let documents = placed.iter().filter(|(_, form)| *form == CiphertextForm::Document);
        let broken: Vec<&Object> = documents
            .flat_map(|(template, _)| template.bodies())
            .filter(|object| is_encrypted(&object.body) && !self.keeps_mac(object))
            .collect();
        if let Some(first) = broken.first() {
            let ids: BTreeSet<&ObjectRef> = broken.iter().map(|object| &object.id).collect();
            let message = format!(
                "the MAC of {} does not hold for what is rendered, because it covers other values than those of the rendered object: \
                 readers that verify it, as `sops --decrypt` does, refuse it, and Flux does not verify it",
                list_objects(ids.into_iter())
            );
            let finding = Finding::warning(MAC_CODE, first, message).with_help(
                "set `mac_only_encrypted: true` and encrypt the file again, keep one object in a file, or write in the file what a \
                 kustomization changes",
            );
            findings.push(Finding { object: None, ..finding });
        }
        findings
    }
}

/// The objects that the repo has as templates, to tell what was built and committed.
pub(crate) struct Provided<'r> {
    objects: BTreeSet<(&'r str, &'r str, Option<&'r str>, &'r str)>,
    /// The names of charts whose output is in the repo.
    charts: BTreeSet<String>,
}

impl<'r> Provided<'r> {
    pub(crate) fn new(session: &'r Session) -> Self {
        let repo = session.repo();
        let templates = repo.templates.iter().map(|template| &template.object);
        let mut charts = BTreeSet::new();
        if repo.builds.iter().any(|build| build.tool == BuildTool::Helm) {
            let files: BTreeSet<&str> = templates.clone().map(|object| &*object.origin.file).collect();
            let texts = repo.texts.iter().filter(|(path, _)| files.contains(&***path));
            for (_, text) in texts {
                let text = String::from_utf8_lossy(text);
                let sources = text.lines().filter_map(|line| line.strip_prefix("# Source: "));
                charts.extend(sources.filter_map(|source| Some(source.split_once('/')?.0.to_owned())));
            }
            let labels = templates.clone().filter_map(|object| object.label("helm.sh/chart"));
            charts.extend(labels.filter_map(|label| Some(label.rsplit_once('-')?.0.to_owned())));
        }
        Self { objects: templates.map(|object| object.id.unversioned()).collect(), charts }
    }

    /// Whether the output of a chart with this name is in the repo.
    pub(crate) fn has_chart(&self, name: &str) -> bool {
        self.charts.contains(name)
    }

    /// Whether the repo has an object that a build gives.
    fn has_object(&self, build: &BuildRoot, object: &Object) -> bool {
        if self.objects.contains(&object.id.unversioned()) {
            return true;
        }
        // The names of generated objects end in a hash.
        let is_generated = object.origin.file == build.file;
        is_generated && {
            let (group, kind, namespace, name) = object.id.unversioned();
            let start = format!("{name}-");
            let from = (group, kind, namespace, start.as_str());
            let next = self.objects.range(from..).next();
            next.is_some_and(|(g, k, ns, found)| {
                (*g, *k, *ns) == (group, kind, namespace)
                    && found.strip_prefix(start.as_str()).is_some_and(|hash| hash.len() == 10)
            })
        }
    }
}

/// What is known about one build.
struct BuildReview<'r> {
    build: &'r BuildRoot,
    /// The objects that the repo does not have as templates.
    objects: Vec<&'r Object>,
    /// Those that would be placed.
    placed: Vec<(&'r ObjectRef, CandidatePlacement)>,
    /// Whether the output of the build is in the repo.
    is_provided: bool,
    /// The names of the clusters.
    clusters: &'r BTreeSet<&'r str>,
}

impl<'r> BuildReview<'r> {
    fn new(build: &'r BuildRoot, provided: &Provided<'_>, clusters: &'r BTreeSet<&'r str>) -> Self {
        let is_provided = build.tool == BuildTool::Helm && provided.has_chart(&build.name);
        let all = build.objects.iter().chain(&build.unlisted);
        let objects = all.filter(|object| !is_provided && !provided.has_object(build, object)).collect();
        Self { build, objects, placed: Vec::new(), is_provided, clusters }
    }

    /// Whether the output would lack what the repo means.
    fn is_missing(&self, unplaced: UnplacedTemplates) -> bool {
        // A policy whose very name is an expression is one only after its engine has run.
        let has_policies = !self.is_provided
            && self
                .build
                .unread
                .iter()
                .any(|policy| self.build.tool == BuildTool::Helm || !policy.name.contains(UNKNOWN_NAME));
        match unplaced {
            UnplacedTemplates::Warn => !self.placed.is_empty() || has_policies,
            UnplacedTemplates::Error | UnplacedTemplates::Everywhere => {
                !self.placed.is_empty()
                    || has_policies
                    || !self.objects.is_empty()
                    || (self.build.unknown.is_some() && !self.is_provided)
            }
        }
    }

    fn to_finding(&self, unplaced: UnplacedTemplates) -> Option<Finding> {
        let build = self.build;
        if build.is_built {
            return self.report_unlisted();
        }
        let (unknown, changed) = (build.unknown.filter(|_| !self.is_provided), !build.changed.is_empty());
        let nothing = self.objects.is_empty() && self.placed.is_empty() && unknown.is_none();
        if self.is_provided || (nothing && !changed && build.unread.is_empty()) {
            return None;
        }
        let is_missing = self.is_missing(unplaced);
        let code = match build.tool {
            _ if is_missing => NOT_BUILT_CODE,
            BuildTool::Kustomize if !build.alternatives.is_empty() => "ambiguous-build",
            BuildTool::Kustomize => "kustomization",
            BuildTool::Helm => "helm-chart",
            BuildTool::Template(_) => "other-template",
        };
        let mut message = if is_missing { self.say_missing(unplaced) } else { self.say_unread() };
        if let Some(unknown) = unknown.filter(|_| !is_missing || self.placed.is_empty()) {
            message.push_str(&format!(" (not all of its objects are known: {unknown})"));
        }
        if !build.unread.is_empty() {
            let (it, are) =
                (list_objects(build.unread.iter()), if build.unread.len() == 1 { "is" } else { "are" });
            message.push_str(&match build.tool {
                BuildTool::Template(_) => format!(" ({it} among them)"),
                _ => format!("; {it} in it {are} not read"),
            });
        }
        if changed {
            let names = list_objects(build.changed.iter());
            let are = if build.changed.len() == 1 { "is" } else { "are" };
            message.push_str(&format!(
                "; {names} in it {are} read as written, without what the kustomization changes"
            ));
        }
        let place = build.failure.as_ref().and_then(|failure| failure.place.as_ref());
        let (file, line) =
            place.map_or((build.file.clone(), build.line), |(file, line)| (file.as_str().into(), *line));
        let at = (line > 0).then_some(federate_yaml::Position { line, column: 1 });
        let finding = Finding::in_file(Severity::Warning, code, &file, at, message);
        let cause = build.failure.as_ref().map(|failure| failure.why.clone());
        Some(Finding { cause, ..finding.with_help(self.suggest_remedy(is_missing)) })
    }

    /// Objects in the folder of a kustomization that it does not name: kustomize does not build them.
    fn report_unlisted(&self) -> Option<Finding> {
        let build = self.build;
        if self.objects.is_empty() {
            return None;
        }
        let names = list_objects(self.objects.iter().map(|object| &object.id));
        let (lie, them) = if self.objects.len() == 1 { ("lies", "it") } else { ("lie", "them") };
        let not_named = format!("`{}` does not name {them}, so kustomize does not build {them}", build.file);
        let message = match self.placed.first() {
            Some((_, CandidatePlacement { policy: Some(policy) })) => {
                format!("{policy} would place {names}, but {not_named}")
            }
            _ => format!("{names} {lie} beside a kustomization, but {not_named}"),
        };
        let code = if self.placed.is_empty() { "not-in-kustomization" } else { NOT_BUILT_CODE };
        let finding = Finding::in_file(Severity::Warning, code, &build.file, None, message);
        Some(finding.with_help("add the file to `resources`, or list it in .federateignore"))
    }

    /// The folders that build the same objects, as the `sources` that name one of them.
    fn propose_sources(&self) -> String {
        let chosen = ChosenKustomization::from_folders(&self.build.alternatives, self.clusters);
        let folder = &chosen.folder;
        match &chosen.overlays {
            Some(pattern) if chosen.is_complete => {
                format!("`sources: [{{kustomize: {folder}, perCluster: \"{pattern}\"}}]`")
            }
            Some(pattern) => format!("`sources: [{{kustomize: {{}}, perCluster: \"{pattern}\"}}]`"),
            None => format!("`sources: [{{kustomize: {folder}}}]`, and list the others in .federateignore"),
        }
    }

    /// What builds the objects, and that federate does not.
    fn say_tool(&self) -> String {
        match self.build.tool {
            BuildTool::Kustomize if !self.build.alternatives.is_empty() => {
                let folders: Vec<&str> = self.build.alternatives.iter().map(String::as_str).collect();
                format!(
                    "the kustomizations {} build the same objects, of which federate cannot choose",
                    finding::join_names(&folders, MAX_NAMES)
                )
            }
            _ if self.build.failure.is_some() => {
                let why = self.build.failure.as_ref().map_or("", |failure| &failure.why);
                format!("the kustomization {} cannot be built: {why}", quote_folder(&self.build.folder))
            }
            BuildTool::Kustomize => {
                format!("kustomize builds {}, and federate does not run it", quote_folder(&self.build.folder))
            }
            BuildTool::Helm => {
                format!(
                    "{} is a Helm chart, which federate.yaml does not name",
                    quote_folder(&self.build.folder)
                )
            }
            BuildTool::Template(engine) => match self.build.files.as_slice() {
                [_] => format!("this is a template: {}", engine.display_name()),
                files => {
                    let names: Vec<&str> = files.iter().map(AsRef::as_ref).collect();
                    let listed = finding::join_names(&names, MAX_NAMES);
                    format!("{} files are templates of {}: {listed}", files.len(), engine.display_name())
                }
            },
        }
    }

    fn say_unread(&self) -> String {
        let tool = self.say_tool();
        if matches!(self.build.tool, BuildTool::Template(_)) {
            return match self.build.files.len() {
                1 => format!("{tool}, so its objects are not read"),
                _ => format!("{tool}; their objects are not read"),
            };
        }
        match self.objects.len() {
            0 => tool,
            1 => format!("{tool}: the object in it is not a template, and no policy selects it"),
            count => format!("{tool}: its {count} objects are not templates, and no policy selects them"),
        }
    }

    fn say_missing(&self, unplaced: UnplacedTemplates) -> String {
        let tool = self.say_tool();
        let Some((_, first)) = self.placed.first() else {
            let why = match unplaced {
                UnplacedTemplates::Everywhere => "`unplaced: everywhere` would place what it gives",
                UnplacedTemplates::Error => "no policy places what it gives",
                UnplacedTemplates::Warn => "it holds policies",
            };
            return format!("{tool}, and {why}");
        };
        let names = list_objects(self.placed.iter().map(|(id, _)| *id));
        let by = match &first.policy {
            Some(policy) => policy.to_string(),
            None if unplaced == UnplacedTemplates::Everywhere => "`unplaced: everywhere`".to_owned(),
            None => "their own rules".to_owned(),
        };
        let (it, is) = if self.placed.len() == 1 { ("it", "is") } else { ("they", "are") };
        if self.placed.iter().all(|(id, _)| self.build.unlisted.iter().any(|object| object.id == **id)) {
            let file = &self.build.file;
            return format!(
                "{by} would place {names}, but {tool}, and `{file}` does not list {it}: {it} {is} missing from the output"
            )
            .replace("list they", "list them");
        }
        format!("{by} would place {names}, but {tool}: {it} {is} missing from the output")
    }

    fn suggest_remedy(&self, is_missing: bool) -> String {
        let end = if is_missing { "; `render`, `commit`, `apply` and `sync` stop until then" } else { "" };
        if !self.build.alternatives.is_empty() {
            return format!("say which one in federate.yaml: {}{end}", self.propose_sources());
        }
        let failure = self.build.failure.as_ref();
        let remedy = failure.and_then(|failure| failure.help.as_ref()).map(|help| format!("{help}; or "));
        if let Some(remedy) = remedy {
            return format!("{remedy}{}", self.help_without_build(end));
        }
        self.help_without_build(end)
    }

    /// What to do about files that are not built.
    fn help_without_build(&self, end: &str) -> String {
        let folder = if self.build.folder.is_empty() { "." } else { &self.build.folder };
        let last = folder.rsplit('/').next().filter(|name| *name != ".").unwrap_or("all");
        match self.build.tool {
            BuildTool::Kustomize if self.build.folder.is_empty() => format!(
                "commit the output of the build (`kubectl kustomize . > rendered.yaml`) and list the files that it is built \
                 from in .federateignore; list only kustomization.yaml there to read the files as they are written{end}"
            ),
            BuildTool::Kustomize => format!(
                "commit the output of the build outside of the folder (`kubectl kustomize {folder} > rendered/{last}.yaml`), or \
                 list the folder in .federateignore{end}"
            ),
            BuildTool::Helm => format!(
                "build it (`sources: [{{chart: {folder}, release: {}, namespace: default}}]` in federate.yaml), or list the \
                 folder in .federateignore{end}",
                self.build.name
            ),
            BuildTool::Template(_) => {
                let files = if self.build.files.len() == 1 { "the file" } else { "the files" };
                format!("add its output to the repo, or list {files} in .federateignore{end}")
            }
        }
    }
}

/// Why objects are defined several times, as far as their paths and contents show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DuplicateCause {
    /// A definition is a patch of another one.
    Patch,
    /// A tool that is installed by these files applies them by itself.
    Tool,
    /// The files are in one folder.
    SameFolder,
    /// The files are in different folders, such as those of environments.
    Folders,
}

impl DuplicateCause {
    fn from_duplicate(duplicate: &Duplicate) -> Self {
        let mut places = std::iter::once(&*duplicate.origin.file).chain(duplicate.id.namespace.as_deref());
        let is_of_tool = places.any(|text| SELF_APPLYING_TOOLS.iter().any(|name| text.contains(name)));
        let other = duplicate.others.first().map_or("", |origin| &origin.file);
        match differing_folders(&duplicate.origin.file, other) {
            _ if duplicate.is_patch => Self::Patch,
            _ if is_of_tool => Self::Tool,
            None => Self::SameFolder,
            Some(_) => Self::Folders,
        }
    }

    fn suggest_remedy(self, folder: &str) -> String {
        match self {
            Self::Patch => {
                "a patch belongs to a kustomization that lists it, or in .federateignore".to_owned()
            }
            Self::Tool => {
                "the tool that is installed by these files applies them by itself: list the folders in \
                           .federateignore"
                    .to_owned()
            }
            Self::SameFolder => "remove all definitions but one".to_owned(),
            Self::Folders => format!(
                "if the folders are environments, name one at a time (`--path {folder}`), or list the others in \
                 .federateignore"
            ),
        }
    }
}

/// Parts of paths and namespaces of tools that apply themselves.
const SELF_APPLYING_TOOLS: [&str; 5] = ["flux-system", "gotk-", "argocd", "argo-cd", "bootstrap"];

/// How many folders or places a warning about duplicates names.
const COUNTED_FOLDERS: usize = 5;

/// A folder in a sentence.
fn quote_folder(folder: &str) -> String {
    if folder.is_empty() { "the repo's folder".to_owned() } else { format!("`{folder}`") }
}

/// One warning about duplicates of the same cause, counted by the folders that define them.
fn warn_of_duplicates(cause: DuplicateCause, all: &[&Duplicate]) -> Option<Finding> {
    let first = all.first()?;
    let mut by_folder: BTreeMap<&str, (usize, BTreeSet<&str>)> = BTreeMap::new();
    for duplicate in all {
        let file: &str = &duplicate.origin.file;
        let mut own = folder_of(file);
        let mut others = BTreeSet::new();
        for other in &duplicate.others {
            match differing_folders(file, &other.file) {
                Some((one, another)) => {
                    own = one;
                    others.insert(another);
                }
                None => drop(others.insert(folder_of(&other.file))),
            }
        }
        let (count, folders) = by_folder.entry(own).or_default();
        *count += 1;
        folders.extend(others.into_iter().filter(|folder| *folder != own));
    }
    let folders: Vec<String> = by_folder
        .iter()
        .map(|(own, (count, others))| {
            let others: Vec<String> = others.iter().map(|folder| quote_folder(folder)).collect();
            let others: Vec<&str> = others.iter().map(String::as_str).collect();
            match others.as_slice() {
                [] => format!("{count} in {}", quote_folder(own)),
                others => {
                    format!("{count} in {} and {}", quote_folder(own), finding::join_names(others, MAX_NAMES))
                }
            }
        })
        .collect();
    let folders: Vec<&str> = folders.iter().map(String::as_str).collect();
    let differ = all.iter().filter(|duplicate| !duplicate.different.is_empty()).count();
    let objects = match all.len() {
        1 => format!("{} is defined several times", first.id),
        count => format!("{count} objects are defined several times"),
    };
    let differ = match (differ, all.len()) {
        (0, _) => ", equally".to_owned(),
        (1, 1) => ", differently, and nothing places it".to_owned(),
        (differ, _) => format!(" ({differ} differently, which nothing places)"),
    };
    let message = if all.len() == 1 {
        format!("{objects}{differ}: {}", list_places(first))
    } else {
        let listed = finding::join_names(&folders, COUNTED_FOLDERS);
        let names = list_objects(all.iter().map(|duplicate| &duplicate.id));
        format!("{objects}{differ}: {listed}; {names}")
    };
    let folder = by_folder.keys().next().filter(|folder| !folder.is_empty()).unwrap_or(&".");
    let other = first.others.first()?;
    let finding = Finding::in_file(Severity::Warning, "duplicate-object", &other.file, None, message);
    Some(Finding { origin: Some(other.clone()), ..finding.with_help(cause.suggest_remedy(folder)) })
}

/// The first places that define an object, and the number of the others.
fn list_places(duplicate: &Duplicate) -> String {
    let places = std::iter::once(&duplicate.origin).chain(&duplicate.others).map(ToString::to_string);
    let places: Vec<String> = places.collect();
    let places: Vec<&str> = places.iter().map(String::as_str).collect();
    finding::join_names(&places, COUNTED_FOLDERS)
}

/// The first objects by name, and the number of the others.
fn list_objects<'o>(ids: impl Iterator<Item = &'o ObjectRef>) -> String {
    let names: Vec<String> = ids.map(ToString::to_string).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    finding::join_names(&names, MAX_NAMES)
}

/// The folder of a file.
fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}
