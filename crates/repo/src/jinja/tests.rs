//! `*.j2` files: one rendering per cluster, the same decisions for all.

use serde_json::json;

use super::*;

fn cluster(name: &str, region: &str) -> Cluster {
    Cluster {
        labels: [("env".to_owned(), "prod".to_owned())].into(),
        provider: "cloud".into(),
        region: region.into(),
        zones: vec!["z1".into(), "z2".into()],
        properties: [("k8s.io/nodes".to_owned(), "3".to_owned())].into(),
        ..Cluster::from_object(&Object::from_path("x/v1", "Cluster", name, serde_json::Value::Null))
    }
}

fn config() -> Config {
    serde_json::from_value(json!({
        "values": {"image": {"tag": "1", "big": 18_446_744_073_709_551_615_u64, "part": 0.5}, "list": [1, null, true]},
        "clusterValues": {"m2": {"image": {"tag": "2"}}},
    }))
    .unwrap()
}

/// The output of a template for m1 and m2.
fn render(source: &str) -> Result<Vec<String>, Finding> {
    let scopes = crate::Scopes::default();
    let clusters = [cluster("m2", "eu"), cluster("m1", "us")];
    let none = |_: &str, _: &str| None;
    let claims = classification::ClaimTable::new(&none, [].iter());
    let renderer = Renderer::new(&clusters, &config(), 1, &scopes, &claims);
    let file = RepoFile { path: "web.yaml.j2".into(), bytes: source.as_bytes().into() };
    let compiled = renderer.compile_template(&file, source).map_err(|finding| *finding)?;
    let texts = renderer.render_texts(&compiled, &file, source).map_err(|findings| findings[0].clone())?;
    let mut texts: Vec<_> = texts
        .into_iter()
        .flat_map(|(text, clusters)| clusters.into_iter().map(move |c| (c, text.clone())))
        .collect();
    texts.sort();
    Ok(texts.into_iter().map(|(_, text)| text).collect())
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
        ("a: 1\n\n{% if %}\n", "web.yaml.j2:3:7", ["syntax error", "cannot be rendered"]),
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
        ("{% for a in range(9) %}{{ 'x' * 1000000 }}{% endfor %}", "larger than 8 MiB"),
    ] {
        let (_, message) = error(source);
        assert!(message.contains(part), "{message}");
    }
}

/// Attacks whose result is much larger than the template, and the limit that stops each.
#[test]
fn attacks_end_in_an_error_that_names_the_limit() {
    let many = |text: &str| text.repeat(100_000);
    let operators = "more than 100 operators";
    let doubled = |start: &str, step: &str| format!("{{% set x = {start} %}}{}", step.repeat(60));
    for (source, part) in [
        (format!("{{{{ {} 1 }}}}", many("not ")), operators),
        (format!("{{{{ {}1 }}}}", many("-")), operators),
        (format!("{{{{ 'a'{} }}}}", many("|upper")), operators),
        (format!("{{{{ 1{} }}}}", many(" + 1")), operators),
        (format!("{{{{ cluster{} }}}}", many(".a")), operators),
        (format!("{{{{ cluster{} }}}}", many("[0]")), operators),
        (format!("{{{{ {}1 }}}}", many("[1, -")), operators),
        (format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(50_000)), "`elif`"),
        (many("{% if 1 %}"), "recursion"),
        (doubled("'x'", "{% set x = x ~ x %}"), "larger than 4 MiB"),
        (doubled("'x'", "{% set x = x + x %}"), "larger than 4 MiB"),
        (doubled("[1]", "{% set x = x + x %}"), "larger than 4 MiB"),
        (doubled("[1]", "{% set x = [x, x] %}"), "larger than 4 MiB"),
        (doubled("[1]", "{% set x = {'a': x, 'b': x} %}"), "larger than 4 MiB"),
        (doubled("[1]", "{% set x = x|chain(x) %}"), "larger than 4 MiB"),
        (doubled("'x'", "{% set x %}{{ x }}{{ x }}{% endset %}"), "MiB"),
        ("{% macro f(x) %}{{ f(x + x) }}{% endmacro %}{{ f([1]) }}".into(), "recursion"),
        ("{% macro f(x) %}{{ x }}{{ x }}{% endmacro %}{% set x = 'x' %}{% for i in range(60) %}{% set x = f(x) %}{{ x }}{% endfor %}{{ 1 // 0 }}".into(), "invalid operation"),
        ("{{ ('x' * 100000000) }}".into(), "larger than 4 MiB"),
        ("{{ 100000000 * 'x' }}".into(), "larger than 4 MiB"),
        ("{{ [1] * 100000000 }}".into(), "larger than 4 MiB"),
        ("{{ 'x' | indent(1000000) }}".into(), "larger than 10000"),
        ("{{ 'x' | indent(width=1000000) }}".into(), "larger than 10000"),
        ("{{ ('\n' * 1000000) | indent(1000, true, true) }}".into(), "larger than 4 MiB"),
        ("{{ ['x'] | map('indent', 1000000) }}".into(), "larger than 10000"),
        ("{{ '%1000000000d' | format(1) }}".into(), "larger than 4 MiB"),
        ("{{ '%.1000000000f' | format(1.0) }}".into(), "larger than 4 MiB"),
        ("{{ '%*d' | format(1000000000, 1) }}".into(), "larger than 10000"),
        ("{{ ('%(a)s' * 100000) | format(a='x' * 1000) }}".into(), "larger than 4 MiB"),
        ("{{ ('x' * 10000) | replace('', 'y' * 10000) }}".into(), "larger than 4 MiB"),
        ("{{ range(10000) | join('y' * 10000) }}".into(), "larger than 4 MiB"),
        ("{{ [1] | batch(1000000000, 0) }}".into(), "larger than 10000"),
        ("{{ [1] | slice(1000000000) }}".into(), "larger than 10000"),
        ("{{ [[1]] | tojson(indent=1000000000) }}".into(), "larger than 10000"),
        ("{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}".into(), "deeper than 100"),
        ("{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = {'a': ns.x} %}{% endfor %}{{ ns.x == 1 }}".into(), "deeper than 100"),
        ("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}".into(), "deeper than 100"),
        ("{% set a = 'x' * 1000000 %}{% set b = a ~ '' %}{% for i in range(99999) %}{% if a == b %}{% endif %}{% endfor %}".into(), "64 MiB of data"),
        ("{% set a = 'x' * 1000000 %}{% for i in range(99999) %}{% if 'y' in a %}{% endif %}{% endfor %}".into(), "64 MiB of data"),
        ("{% set a = range(9999) %}{% for i in range(99999) %}{% if -1 in a %}{% endif %}{% endfor %}".into(), "64 MiB of data"),
        ("{{ range(99999) | select('in', range(99999)|list) | list }}".into(), "64 MiB of data"),
        ("{% for i in range(99999) %}{% set a = 'x' * 1000000 %}{% endfor %}".into(), "64 MiB of data"),
        (format!("{{% for i in range(99999) %}}{}{{% endfor %}}", "x".repeat(10_000)), "MiB"),
        ("x".repeat(2 << 20), "larger than 1 MiB"),
    ] {
        let began = std::time::Instant::now();
        let shown: String = source.chars().take(80).collect();
        let message = render(&source).expect_err(&shown).message;
        assert!(message.contains(part), "{shown}: {message}");
        assert!(began.elapsed().as_secs() < 5, "{shown} took {:?}", began.elapsed());
    }
}

/// The deepest templates within the limits, on a thread with the smallest stack.
#[test]
fn the_deepest_that_is_allowed_fits_on_the_stack() {
    let nested =
        |open: &str, inner: &str, close: &str| format!("{}{inner}{}", open.repeat(40), close.repeat(40));
    let chain = |text: &str| text.repeat(depth::MAX_OPERATORS - 1);
    for source in [
        "{% set ns = namespace(x=range(9)) %}{% for i in range(9999) %}{% set ns.x = ns.x[0:] %}{% endfor %}{{ ns.x }}".to_owned(),
        format!("{{{{ {} 1 }}}}", chain("not ")),
        format!("{{{{ {}1 }}}}", chain("- ")),
        format!("{{{{ 'a'{} }}}}", chain("|upper")),
        format!("{{{{ 1{} }}}}", chain(" + 1")),
        format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(depth::MAX_ELIF)),
        format!("{}{}", "{% if 1 %}".repeat(140), "{% endif %}".repeat(140)),
        nested("{% for i in [1] %}", "x", "{% endfor %}"),
        format!("{{{{ {}1{} }}}}", "(".repeat(70), ")".repeat(70)),
        format!("{{{{ {}1{} }}}}", "[".repeat(70), "]".repeat(70)),
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(15) }}".to_owned(),
    ] {
        let shown: String = source.chars().take(40).collect();
        let thread = std::thread::Builder::new().stack_size(1 << 20);
        let result = thread.spawn(move || render(&source)).unwrap().join().unwrap();
        result.expect(&shown);
    }
}

#[test]
fn the_first_cluster_in_order_is_blamed() {
    let (_, message) = error("{{ nothing }}");
    assert!(message.contains("cluster m1"), "{message}");
}

#[test]
fn errors_show_no_values() {
    for source in [
        "{{ values.image.tag | int + values.image }}",
        "{{ 'hunter2' | int }}",
        "{{ 'hunter2' | float }}",
        "{{ {'a': 'hunter2'} | sum }}",
        "{{ ['hunter2'] | sum }}",
        "{{ 'hunter2'.foo() }}",
        "{{ 'hunter2' | round }}",
        "{{ range('hunter2') }}",
        "{{ ['hunter2'] | groupby('hunter') }}",
        "{{ [] | map('upper', 'hunter2') | list ~ ('hunter2' | abs) }}",
        "{{ 'hunter2' - 1 }}",
        "{{ 'hunter2' // 2 }}",
        "{{ -'hunter2' }}",
        "{{ dict('hunter2') }}",
        "{{ '%d' | format('hunter2') }}",
    ] {
        if let Err(finding) = render(source) {
            assert!(!finding.message.contains("hunter2"), "{source}: {}", finding.message);
        }
    }
}
