//! What all tests share, and the limits.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail loudly")]

mod rows;

use serde_json::{Value, json};

use crate::{
    GoTemplate, MissingKey, TemplateBudget, TemplateDelimiters, TemplateError, TemplateErrorKind,
    TemplateFunctions, TemplateOptions, TemplateValue,
};

/// The parameters of all tests.
fn parameters() -> Value {
    json!({
        "name": "Alpha One", "n": 3, "f": 1, "big": 12_345_678, "neg": -2.5, "us": "Ünïcode näme 42!",
        "ver": "v1.2.3", "yes": true, "no": false, "empty": "", "null": null, "list": ["b", "a", "c"],
        "nums": [1, 2.5, 3], "mix": [1, "a", null, true, [1, 2], {"k": "v"}],
        "m": {"x": "1", "y": {"z": "deep"}, "nul": null}, "text": "a: 1\nb: [x]\n", "arr": "- 1\n- two\n",
        "json": "{\"k\":[1,2]}", "emptylist": [], "emptymap": {},
        "url": "https://user:p%40ss@host.example.test:8443/p/a?q=1&r=2#frag",
        "tiny": 0.000_001, "huge": 1e21, "h2": 1e20, "nl": "l1\nl2\n\nl4",
    })
}

/// The parameters as values, with a map of texts and a list of texts.
fn data() -> TemplateValue {
    let parameters = parameters();
    let entries = parameters.as_object().unwrap().iter();
    let entries = entries.map(|(key, value)| (key.as_str(), TemplateValue::from_json(value)));
    let labels = TemplateValue::from_text_map([("env", "prod"), ("a.b/c", "d")]);
    let segments = TemplateValue::from_texts(["apps", "one"]);
    TemplateValue::from_map(entries.chain([("labels", labels), ("segs", segments)]))
}

fn render_with(text: &str, options: &TemplateOptions) -> Result<String, TemplateError> {
    let mut budget = TemplateBudget::new(1_000_000, 10_000_000);
    GoTemplate::parse(text, options)?.render(&data(), &mut budget)
}

fn render(text: &str) -> Result<String, TemplateError> {
    render_with(text, &TemplateOptions::default())
}

fn kind_of(text: &str) -> TemplateErrorKind {
    render(text).unwrap_err().kind
}

#[test]
fn errors_name_their_place() {
    let error = render("one\ntwo {{ .name }} {{ lower .n }}").unwrap_err();
    assert_eq!((error.line, error.column), (2, 26), "{error}");
    assert!(error.message.contains("expected string; got float64"), "{error}");
    let error = render("{{ nope }}").unwrap_err();
    assert_eq!((error.kind, error.line, error.column), (TemplateErrorKind::UnknownFunction, 1, 4));
    assert_eq!(error.message, "function \"nope\" not defined");
}

#[test]
fn refused_functions_say_why() {
    for text in
        ["{{ now }}", "{{ uuidv4 }}", "{{ randAlpha 5 }}", "{{ genCA \"a\" 1 }}", "{{ date \"2006\" .name }}"]
    {
        let error = render(text).unwrap_err();
        assert_eq!(error.kind, TemplateErrorKind::RefusedFunction, "{text}");
        assert!(error.message.contains("is not the same from run to run, so federate does not carry it out"));
    }
    for text in
        ["{{ env \"HOME\" }}", "{{ expandenv \"$HOME\" }}", "{{ getHostByName \"a\" }}", "{{ tpl \"a\" . }}"]
    {
        assert_eq!(kind_of(text), TemplateErrorKind::UnknownFunction, "{text}");
    }
}

#[test]
fn options_are_those_of_go() {
    assert_eq!("missingkey=default".parse(), Ok(MissingKey::Invalid));
    assert_eq!("missingkey=invalid".parse(), Ok(MissingKey::Invalid));
    assert_eq!("missingkey=zero".parse(), Ok(MissingKey::Zero));
    assert_eq!("missingkey=error".parse(), Ok(MissingKey::Error));
    for text in ["", "bad", "missingkey", "missingkey=", "missingkey=Error"] {
        assert!(text.parse::<MissingKey>().is_err(), "{text}");
    }
}

#[test]
fn delimiters_and_functions_are_options() {
    let options = TemplateOptions {
        delimiters: TemplateDelimiters { left: "${", right: "}" },
        functions: TemplateFunctions::sprig().without(&["upper"]),
        ..TemplateOptions::default()
    };
    assert_eq!(
        render_with("${ .name | lower } {{ .name }} $x ${- /* c */ -} y", &options).unwrap(),
        "alpha one {{ .name }} $xy"
    );
    for text in ["${ upper .name }", "${ toYaml . }"] {
        assert_eq!(render_with(text, &options).unwrap_err().kind, TemplateErrorKind::UnknownFunction);
    }
    let options = TemplateOptions { functions: TemplateFunctions::builtin(), ..TemplateOptions::default() };
    assert_eq!(render_with("{{ slice .name 0 2 }}", &options).unwrap(), "Al");
    assert_eq!(render_with("{{ slice .list 1 2 }}", &options).unwrap(), "[a]");
    assert!(render_with("{{ slice .list 2 1 }}", &options).is_err());
}

#[test]
fn changes_of_maps_are_seen_by_all() {
    let data = data();
    let mut budget = TemplateBudget::new(1_000, 1_000);
    let options = TemplateOptions::default();
    let set = GoTemplate::parse("{{ $_ := set .m \"new\" 1 }}", &options).unwrap();
    let get = GoTemplate::parse("{{ .m.new }}", &options).unwrap();
    assert_eq!(get.render(&data, &mut budget).unwrap(), "<no value>");
    set.render(&data, &mut budget).unwrap();
    assert_eq!(get.render(&data, &mut budget).unwrap(), "1");
}

#[test]
fn hostile_templates_end() {
    let nested = |before: &str, inside: &str, after: &str, count: usize| {
        format!("{}{inside}{}", before.repeat(count), after.repeat(count))
    };
    let texts = [
        format!("{{{{ {} }}}}", nested("(", "1", ")", 100_000)),
        nested("{{ if 1 }}", "x", "{{ end }}", 100_000),
        nested("{{ if 0 }}{{ else }}", "x", "{{ end }}", 100_000),
        format!("{{{{ if 0 }}}}{}{{{{ end }}}}", "{{ else if 0 }}".repeat(100_000)),
        "{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}".to_owned(),
        "{{ define \"a\" }}{{ template \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}".to_owned(),
        "{{ define \"a\" }}{{ range $i, $x := list 1 }}{{ template \"a\" (print (list $x)) }}{{ end }}{{ end }}{{ template \"a\" }}".to_owned(),
        "{{ range 100000 }}{{ $_ := regexMatch \"(.{100}){100}\" \"a\" }}{{ end }}".to_owned(),
        "{{ $x := repeat 1000000 \"a\" }}{{ contains (print (repeat 500000 \"a\") \"b\") $x }}".to_owned(),
        "{{ range 1000000000 }}{{ end }}".to_owned(),
        "{{ range until 1000000000 }}{{ end }}".to_owned(),
        "{{ repeat 1000000000 \"a\" }}".to_owned(),
        "{{ indent 1000000000 \"a\" }}".to_owned(),
        "{{ printf \"%0*d\" 1000000 1 | repeat 1000 }}".to_owned(),
        "{{ printf \"%.1000000f%.1000000f%.1000000f%.1000000f%.1000000f%.1000000f%.1000000f\" 1.0 1.0 1.0 1.0 1.0 1.0 1.0 | repeat 9 }}".to_owned(),
        "{{ seq 1000000000 }}".to_owned(),
        "{{ $x := \"aaaaaaaa\" }}{{ range 100 }}{{ $x = print $x $x }}{{ end }}".to_owned(),
        "{{ $x := \"a\" }}{{ range 100 }}{{ $x = replace \"\" $x $x }}{{ end }}".to_owned(),
        "{{ $x := list 1 }}{{ range 100 }}{{ $x = concat $x $x }}{{ end }}".to_owned(),
        "{{ $x := list 1 }}{{ range 100 }}{{ $x = list $x $x }}{{ end }}{{ $x }}".to_owned(),
        "{{ $x := list 1 }}{{ range 100 }}{{ $x = list $x $x }}{{ end }}{{ $x | toJson }}".to_owned(),
        "{{ $x := list 1 }}{{ range 100 }}{{ $x = list $x $x }}{{ end }}{{ $x | deepCopy | len }}".to_owned(),
        "{{ $d := dict }}{{ $_ := set $d \"d\" $d }}{{ $d }}".to_owned(),
        "{{ $d := dict }}{{ $_ := set $d \"d\" $d }}{{ toYaml $d }}".to_owned(),
        "{{ $x := list 1 }}{{ range 100000 }}{{ $x = list $x }}{{ end }}{{ $x }}".to_owned(),
        "{{ regexFind \"((a{100}){100}){100}\" .name }}".to_owned(),
        "{{ mulf 1e300 1e300 1e300 1e300 1e300 1e300 1e300 1e300 1e-300 | addf 1e-300 | mulf 1.1 }}{{ fail \"\" }}".to_owned(),
    ];
    for text in texts {
        let shown: String = text.chars().take(80).collect();
        assert!(render(&text).is_err(), "{shown}");
    }
    // A deep value that nobody looks at is dropped without a stack as deep.
    assert_eq!(
        render("{{ $x := list 1 }}{{ range 100000 }}{{ $x = list $x }}{{ end }}{{ len $x }}").unwrap(),
        "1"
    );
    assert_eq!(
        render("{{ $x := dict }}{{ range 100000 }}{{ $x = dict \"a\" $x }}{{ end }}{{ len $x }}").unwrap(),
        "1"
    );
    // What is allowed fits on the stack of a thread.
    let text = nested("{{ if 1 }}{{ with (((((1))))) }}", "x", "{{ end }}{{ end }}", 40);
    assert_eq!(render(&text).unwrap(), "x");
    let text = format!("{{{{ {} }}}}", nested("(printf \"%v\" ", "1", ")", 90));
    assert_eq!(render(&text).unwrap(), "1");
}
