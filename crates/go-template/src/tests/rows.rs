//! Rows by family.

mod actions;
mod addresses;
mod comparisons;
mod encodings;
mod expressions;
mod lists;
mod maps;
mod missing_keys;
mod numbers;
mod texts;
mod times;
mod verbs;
mod versions;
mod words;

use super::{data, render, render_with};
use crate::{GoTemplate, TemplateBudget, TemplateOptions};

fn check_rows(rows: &[(&str, &str)], failures: &[&str]) {
    let mut wrong = Vec::new();
    for (text, expected) in rows {
        let rendered = render(text);
        if rendered.as_deref() != Ok(expected) {
            wrong.push(format!("{text}\n  expected {expected:?}\n  rendered {rendered:?}"));
        }
    }
    for text in failures {
        if let Ok(rendered) = render(text) {
            wrong.push(format!("{text}\n  should fail, but rendered {rendered:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn actions_are_as_in_go() {
    check_rows(actions::ROWS, actions::FAILURES);
}

#[test]
fn addresses_are_as_in_go() {
    check_rows(addresses::ROWS, addresses::FAILURES);
}

#[test]
fn comparisons_are_as_in_go() {
    check_rows(comparisons::ROWS, comparisons::FAILURES);
}

#[test]
fn encodings_are_as_in_go() {
    check_rows(encodings::ROWS, encodings::FAILURES);
}

#[test]
fn expressions_are_as_in_go() {
    check_rows(expressions::ROWS, expressions::FAILURES);
}

#[test]
fn lists_are_as_in_go() {
    check_rows(lists::ROWS, lists::FAILURES);
}

#[test]
fn maps_are_as_in_go() {
    check_rows(maps::ROWS, maps::FAILURES);
}

#[test]
fn numbers_are_as_in_go() {
    check_rows(numbers::ROWS, numbers::FAILURES);
}

#[test]
fn texts_are_as_in_go() {
    check_rows(texts::ROWS, texts::FAILURES);
}

#[test]
fn times_are_as_in_go() {
    check_rows(times::ROWS, times::FAILURES);
}

#[test]
fn verbs_are_as_in_go() {
    check_rows(verbs::ROWS, verbs::FAILURES);
}

#[test]
fn versions_are_as_in_go() {
    check_rows(versions::ROWS, versions::FAILURES);
}

#[test]
fn words_are_as_in_go() {
    check_rows(words::ROWS, words::FAILURES);
}

#[test]
fn missing_keys_are_as_in_go() {
    for (text, missing_key, expected) in missing_keys::ROWS {
        let options = TemplateOptions { missing_key: *missing_key, ..TemplateOptions::default() };
        let rendered = render_with(text, &options).ok();
        assert_eq!(rendered.as_deref(), *expected, "{text} with {missing_key:?}");
    }
}

#[test]
fn a_budget_is_spent_by_several_renderings() {
    let template = GoTemplate::parse("{{ .name }}", &TemplateOptions::default()).unwrap();
    let mut budget = TemplateBudget::new(100, 20);
    assert_eq!(template.render(&data(), &mut budget).unwrap(), "Alpha One");
    assert!(budget.bytes() < 20 && budget.steps() < 100);
    template.render(&data(), &mut budget).unwrap();
    template.render(&data(), &mut budget).unwrap_err();
}
