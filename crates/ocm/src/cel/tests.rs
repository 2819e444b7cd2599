//! Tests of expressions: values, errors, and what is refused.

use serde_json::json;

use super::*;

struct NoScores;

impl ScoreSource for NoScores {
    fn scores(&self, _: &str) -> Option<CelValue> {
        None
    }
}

fn matches(source: &str) -> bool {
    let cluster = CelValue::from_json(&json!({
        "metadata": {"name": "eu-1", "labels": {"env": "prod", "n": "7"}},
        "spec": {"leaseDurationSeconds": 60},
        "status": {"version": {"kubernetes": "v1.31.2"}, "allocatable": {"cpu": "7600m"}},
    }));
    let expression = Expression::compile(source).unwrap_or_else(|error| panic!("{source}: {error:?}"));
    expression.matches(&cluster, &NoScores).unwrap()
}

#[test]
fn expressions_are_evaluated() {
    for source in [
        "managedCluster.metadata.labels.env == 'prod'",
        "managedCluster.metadata.labels.nothing == 'x' || true",
        "managedCluster.metadata.labels.exists(k, k == 'env')",
        "managedCluster.metadata.?labels['x'].orValue('none') == 'none'",
        "managedCluster.spec.leaseDurationSeconds > 59.5",
        "quantity(managedCluster.status.allocatable.cpu).isLessThan(quantity('8'))",
        "semver('1.2.3-rc.1').isLessThan(semver('1.2.3'))",
        "[1, 2, 3].map(x, x * 2).sum() == 12",
        "'a,b,c'.split(',', 2) == ['a', 'b,c']",
        "'héllo'.substring(1, 3) == 'él' && 'héllo'.indexOf('l') == 2",
        "'abcabc'.lastIndexOf('b') == 4 && 'abc'.charAt(3) == ''",
        "[3, 1, 2].max() == 3 && ![3, 1].isSorted() && [1].first().value() == 1",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP('11.0.0.1')",
        "url('https://a.example.com:8443/x').getHostname() == 'a.example.com'",
        "duration('90s') + timestamp('2026-01-01T00:00:00Z') == timestamp('2026-01-01T00:01:30Z')",
        "'{\"a\": [1]}'.parseJSON().a[0] == 1",
        "{'a': 1}.a == 1 && 'a' in {'a': 1} && size({'a': 1}) == 1",
        "has(managedCluster.spec.leaseDurationSeconds) && !has(managedCluster.spec.taints)",
        "(managedCluster.metadata.labels.n == '7' ? int('7') : 0) % 4 == 3",
        "type(1) == int && string(7) == '7' && double('1.5') < 2.0",
        "[1, 2].exists_one(x, x > 1) && [1, 2].filter(x, x > 1) == [2]",
    ] {
        assert!(matches(source), "{source}");
    }
}

#[test]
fn errors_and_other_values_do_not_match() {
    for source in [
        "1 + 1",
        "managedCluster.metadata.labels.nothing == 'x'",
        "managedCluster.metadata.labels.nothing != 'x' && true",
        "managedCluster.spec.leaseDurationSeconds + 'a' == ''",
        "semver('v1.2.3').major() == 1",
        "[1][1] == 1",
        "1 / 0 == 1",
        "managedCluster.scores('s').size() >= 0",
        "[].max() == 1",
        "ip('::ffff:1.2.3.4').family() == 6",
    ] {
        assert!(!matches(source), "{source}");
    }
}

#[test]
fn what_the_hub_cannot_compile_is_invalid() {
    for source in [
        "managedCluster.foo(",
        "nosuch(managedCluster)",
        "'a' + 1 == 'b'",
        "1 == '1'",
        "1.0 == 1",
        "[2, 1].sort() == [1, 2]",
        "math.greatest(1, 2) == 2",
        "now() > timestamp('2020-01-01T00:00:00Z')",
        "semver('1.2.3', true).major() == 1",
        "cel.bind(x, 1, x == 1)",
        "!1",
        "'a'.env",
    ] {
        let error = Expression::compile(source).unwrap_err();
        assert!(matches!(error, CompileError::Invalid(_)), "{source}: {error:?}");
    }
}

#[test]
fn what_is_not_reproduced_is_unsupported() {
    for source in [
        "'%d'.format([1]) == '1'",
        "optional.none().hasValue()",
        "strings.quote('a') == ''",
        "[1, 'a'].size() == 2",
    ] {
        let error = Expression::compile(source).unwrap_err();
        assert!(matches!(error, CompileError::Unsupported(_)), "{source}: {error:?}");
    }
}

#[test]
fn a_deep_expression_does_not_fill_the_stack() {
    for source in ["1".to_owned() + &"+1".repeat(490) + " == 1", "1".repeat(2000)] {
        let error = Expression::compile(&source).unwrap_err();
        assert!(matches!(error, CompileError::Unsupported(_)), "{error:?}");
    }
}

#[test]
fn an_expression_that_does_not_end_soon_is_given_up() {
    let source = "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, \
                  [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, a + b + c + d + e > 0)))))";
    let expression = Expression::compile(source).unwrap();
    assert_eq!(expression.matches(&CelValue::Null, &NoScores), None);
}
