//! `*.j2` files: one rendering a cluster, the same decisions on all.

use serde_json::json;

use super::*;

fn cluster(name: &str, region: &str) -> Cluster {
    Cluster {
        labels: [("env".to_owned(), "prod".to_owned())].into(),
        provider: "cloud".into(),
        region: region.into(),
        zones: vec!["z1".into(), "z2".into()],
        properties: [("k8s.io/nodes".to_owned(), "3".to_owned())].into(),
        ..Cluster::of(&Object::named("x/v1", "Cluster", name, serde_json::Value::Null))
    }
}

fn config() -> Config {
    serde_json::from_value(json!({
        "values": {"image": {"tag": "1", "big": 18_446_744_073_709_551_615_u64, "part": 0.5}, "list": [1, null, true]},
        "clusterValues": {"m2": {"image": {"tag": "2"}}},
    }))
    .unwrap()
}

/// What a template gives for m1 and m2.
fn render(source: &str) -> Result<Vec<String>, Finding> {
    let scopes = sort::Scopes::default();
    let clusters = [cluster("m2", "eu"), cluster("m1", "us")];
    let nobody = |_: &str, _: &str| None;
    let claims = sort::Claiming::new(&nobody, [].iter());
    let renderer = Renderer::new(&clusters, &config(), &scopes, &claims);
    let file = File { path: "web.yaml.j2".into(), bytes: source.as_bytes().into() };
    let rendered =
        renderer.clusters.iter().map(|(name, context)| renderer.render(&file, source, name, context));
    rendered.collect::<Result<_, _>>().map_err(|finding| *finding)
}

fn error(source: &str) -> (String, String) {
    let finding = render(source).unwrap_err();
    assert_eq!(finding.code, "invalid-template");
    let at = format!("{}:{}", finding.origin.unwrap(), finding.column.unwrap_or_default());
    (at, finding.message)
}

#[test]
fn templates_see_the_cluster_and_its_values() {
    for (source, m1, m2) in [
        ("{{ cluster.name }} {{ cluster.region }}", "m1 us", "m2 eu"),
        ("{{ cluster.labels.env }} {{ cluster.provider }}", "prod cloud", "prod cloud"),
        ("{{ cluster.zone }} {{ cluster.zones | join(',') }}", "z1 z1,z2", "z1 z1,z2"),
        ("{{ cluster.properties['k8s.io/nodes'] }}", "3", "3"),
        ("{{ values.image.tag }} {{ values.image.big }}", "1 18446744073709551615", "2 18446744073709551615"),
        (
            "{{ values | tojson }}",
            r#"{"image": {"big": 18446744073709551615, "part": 0.5, "tag": "1"}, "list": [1, null, true]}"#,
            r#"{"image": {"big": 18446744073709551615, "part": 0.5, "tag": "2"}, "list": [1, null, true]}"#,
        ),
        ("{{ cluster.labels.tier | default('web') }}", "web", "web"),
        ("<{{ '<&\"' }}>\n", "<<&\">\n", "<<&\">\n"),
    ] {
        assert_eq!(render(source).unwrap(), [m1, m2], "{source}");
    }
}

#[test]
fn lines_of_tags_alone_leave_nothing() {
    let source = "a:\n  {% for zone in cluster.zones %}\n- {{ zone }}\n  {% endfor %}\nb: 1\n";
    assert_eq!(render(source).unwrap()[0], "a:\n- z1\n- z2\nb: 1\n");
}

#[test]
fn errors_name_template_line_and_column() {
    for (source, at, parts) in [
        ("a: 1\nb: {{ cluster.labels.tier }}\n", "web.yaml.j2:2:14", ["m1", "`cluster.labels.tier`"]),
        ("a: 1\n\n{% if %}\n", "web.yaml.j2:3:7", ["syntax error", "m1"]),
        ("ä: {{ nothing }}\n", "web.yaml.j2:1:7", ["undefined", "`nothing`"]),
        ("{{ 'x' | unknown }}", "web.yaml.j2:1:10", ["unknown filter", "unknown"]),
    ] {
        let (place, message) = error(source);
        for part in parts {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(place, at, "{message}");
    }
}

#[test]
fn an_error_on_one_cluster_only_names_that_cluster() {
    let (_, message) = error("{% if cluster.name == 'm2' %}{{ nothing }}{% endif %}");
    assert!(message.contains("cluster m2"), "{message}");
}

#[test]
fn templates_reach_nothing_outside() {
    for source in [
        "{% include 'other.yaml.j2' %}",
        "{% include '/etc/passwd' %}",
        "{% import 'web.yaml.j2' as x %}",
        "{{ debug() }}",
        "{{ env.HOME }}",
        "{{ now() }}",
    ] {
        error(source);
    }
}

#[test]
fn work_depth_and_output_are_limited() {
    for (source, part) in [
        ("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "fuel"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
        ("{% for a in range(99) %}{{ 'x' * 1000000 }}{% endfor %}", "more than 16 MiB"),
    ] {
        let (_, message) = error(source);
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn documents_are_found_in_the_template() {
    let source = "{% set a = 1 %}\na: 1\n---\n{% if true %}\nb: 1\n{% endif %}\n---\nc: 1\n";
    let lines = document_lines(source, "a: 1\n---\nb: 1\n---\nc: 1\n");
    assert_eq!([1, 3, 5].map(|line| lines.of(line)), [1, 4, 8]);
    let other =
        document_lines("{% for z in cluster.zones %}\n---\na: 1\n{% endfor %}", "---\na: 1\n---\na: 1\n");
    assert_eq!(other.of(4), 1);
}
