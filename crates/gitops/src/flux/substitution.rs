//! Variables in the output of a build, which Flux substitutes after it (`postBuild`).
//!
//! Facts: the package envsubst of Flux. `${NAME}` and the operators of [`Operator`] are substituted, everywhere in a text; `$$` stands
//! for `$`. Values are not substituted again. If substitution is strict, a variable without a value and without a default is an
//! error. A length and a position count bytes.

use std::collections::{BTreeMap, BTreeSet};

use super::glob::{GlobBudget, trim_longest, trim_shortest};

/// The most bytes of an object after its variables are substituted.
const MAX_BYTES: usize = 4 << 20;

/// The deepest nesting of variables in operators.
const MAX_DEPTH: usize = 32;

/// The values of variables, by name.
pub type Variables = BTreeMap<String, String>;

/// What is substituted, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Substitution {
    /// The variables.
    pub variables: Variables,
    /// The variables whose values are not known: they stay as they are written.
    pub unknown: BTreeSet<String>,
    /// Whether all other variables are unknown, too, because a source of variables is missing.
    pub lacks_source: bool,
    /// Whether a variable without a value and a default is an error.
    pub is_strict: bool,
}

impl Substitution {
    /// Gives a variable a value, in place of one before. Line breaks are taken out of it.
    pub(super) fn set_known(&mut self, name: String, value: &str) {
        self.unknown.remove(&name);
        self.variables.insert(name, value.replace('\n', ""));
    }

    /// Takes what is known of variables away, whose last values are not known.
    pub(super) fn set_unknown(&mut self, names: &BTreeSet<String>) {
        self.variables.retain(|name, _| !names.contains(name));
        self.unknown.extend(names.iter().cloned());
    }

    fn is_unknown(&self, name: &str) -> bool {
        self.unknown.contains(name) || (self.lacks_source && !self.variables.contains_key(name))
    }
}

/// A text with its variables.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SubstitutedText {
    pub(crate) text: String,
    /// The variables that stay in it, because their values are not known.
    pub(crate) unfilled: BTreeSet<String>,
}

/// What is done with the value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    /// `${x}`.
    None,
    /// `${#x}`: the length.
    Length,
    /// `${x:=d}`, `${x:-d}`, `${x=d}`, and also `${x:?d}` and `${x:+d}`: the argument if there is no value.
    Default,
    /// `${x^^}`, `${x,,}`, `${x^}`, `${x,}`.
    Case(String),
    /// `${x:1}`, `${x:1:2}`.
    Range,
    /// `${x#a}`, `${x##a}`, `${x%a}`, `${x%%a}`: without the part that a glob matches.
    Trim(String),
    /// `${x/a/b}`, `${x//a/b}`, `${x/#a/b}`, `${x/%a/b}`.
    Replace(String),
}

/// Whether a text is the name of a variable that can be given a value.
pub(crate) fn is_variable_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
        && chars.all(|c| c == '_' || c.is_ascii_alphanumeric())
}

/// Replaces the variables in a text. The error says what cannot be read.
pub(crate) fn substitute_variables(
    text: &str,
    substitution: &Substitution,
) -> Result<SubstitutedText, String> {
    let mut scanner = Scanner {
        text: text.chars().collect(),
        at: 0,
        substitution,
        budget: GlobBudget::default(),
        unfilled: BTreeSet::new(),
    };
    let mut out = String::with_capacity(text.len());
    while scanner.at < scanner.text.len() {
        if scanner.skip_start() {
            out.push_str(&scanner.read_variable(0)?);
        } else {
            out.push_str(&scanner.read_text(&|_| true, true, Escapes::Dollars).unwrap_or_default());
        }
        check_size(out.len())?;
    }
    Ok(SubstitutedText { text: out, unfilled: scanner.unfilled })
}

fn check_size(bytes: usize) -> Result<(), String> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    Err(format!("the object is larger than {} MiB with its variables", MAX_BYTES >> 20))
}

/// What is quoted in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escapes {
    None,
    /// `$$`.
    Dollars,
    /// `$$`, `\/` and `\\`.
    All,
}

struct Scanner<'s> {
    text: Vec<char>,
    at: usize,
    substitution: &'s Substitution,
    budget: GlobBudget,
    unfilled: BTreeSet<String>,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    /// Skips `${`, if it is next.
    fn skip_start(&mut self) -> bool {
        let is_start = self.is_start();
        self.at += if is_start { 2 } else { 0 };
        is_start
    }

    fn is_start(&self) -> bool {
        self.peek() == Some('$') && self.text.get(self.at + 1) == Some(&'{')
    }

    fn skip_character(&mut self, character: char) -> bool {
        let is_next = self.peek() == Some(character);
        self.at += usize::from(is_next);
        is_next
    }

    /// Reads the characters that are accepted; `None` if there is none.
    fn read_text(
        &mut self,
        accepts: &dyn Fn(char) -> bool,
        stops_at_variables: bool,
        escapes: Escapes,
    ) -> Option<String> {
        let mut read = String::new();
        while let Some(c) = self.peek() {
            if stops_at_variables && self.is_start() {
                break;
            }
            let next = self.text.get(self.at + 1).copied();
            let is_escape = match (c, next) {
                ('$', Some('$')) => escapes != Escapes::None,
                ('\\', Some('/' | '\\')) => escapes == Escapes::All,
                _ => false,
            };
            if is_escape {
                read.extend(next);
                self.at += 2;
            } else if accepts(c) {
                read.push(c);
                self.at += 1;
            } else {
                break;
            }
        }
        Some(read).filter(|read| !read.is_empty())
    }

    /// Reads up to two characters, of which the first is one of these, and the second one of those.
    fn read_operator(&mut self, first: &[char], second: &[char]) -> String {
        let mut operator = String::new();
        for accepted in [first, second] {
            match self.peek() {
                Some(c) if accepted.contains(&c) => operator.push(c),
                _ => break,
            }
            self.at += 1;
        }
        operator
    }

    /// The value of what follows `${`.
    fn read_variable(&mut self, depth: usize) -> Result<String, String> {
        if depth > MAX_DEPTH {
            return Err(format!("variables are nested more than {MAX_DEPTH} levels deep"));
        }
        let start = self.at - 2;
        let is_length = self.skip_character('#');
        let is_name = |c: char| c == '_' || c.is_alphanumeric();
        let name = self.read_text(&is_name, false, Escapes::None);
        let Some(name) = name else {
            return Err("a `${` is not followed by the name of a variable".to_owned());
        };
        let mut arguments = Vec::new();
        let operator =
            if is_length { Operator::Length } else { self.read_arguments(&name, &mut arguments, depth)? };
        if !self.skip_character('}') {
            return Err(format!("`${{{name}` is not followed by an operator or by `}}`"));
        }
        if self.substitution.is_unknown(&name) {
            self.unfilled.insert(name);
            return Ok(self.text.get(start..self.at).unwrap_or_default().iter().collect());
        }
        let value = self.substitution.variables.get(&name);
        if value.is_none() && self.substitution.is_strict && operator != Operator::Default {
            return Err(format!("the variable `{name}` has no value and no default"));
        }
        let value = evaluate(&operator, value.map_or("", String::as_str), &arguments, &mut self.budget)?;
        check_size(value.len())?;
        Ok(value)
    }

    /// Reads the operator behind a name, with its arguments.
    fn read_arguments(
        &mut self,
        name: &str,
        arguments: &mut Vec<String>,
        depth: usize,
    ) -> Result<Operator, String> {
        let not_closing = |c: char| c != '}';
        let is_default = matches!(self.text.get(self.at + 1), Some('=' | '-' | '?' | '+'));
        match self.peek() {
            Some(':') if is_default => self.at += 2,
            Some('=') => self.at += 1,
            Some(':') => {
                self.at += 1;
                arguments.push(self.read_argument(
                    name,
                    &|c| !matches!(c, ':' | '}'),
                    Escapes::None,
                    depth,
                )?);
                if self.peek() != Some('}') {
                    if self.read_text(&|c| c == ':', false, Escapes::None).is_none() {
                        return Err(format!("the range of `{name}` does not end in `}}`"));
                    }
                    arguments.push(self.read_argument(name, &not_closing, Escapes::None, depth)?);
                }
                return Ok(Operator::Range);
            }
            Some(',' | '^') => return Ok(Operator::Case(self.read_operator(&[',', '^'], &[',', '^']))),
            Some('/') => {
                let operator = self.read_operator(&['/'], &['/', '#', '%']);
                arguments.push(self.read_argument(name, &|c| c != '/', Escapes::All, depth)?);
                if self.read_text(&|c| c == '/', false, Escapes::None).is_none() {
                    return Err(format!("the replacement of `{name}` has no second `/`"));
                }
                if self.peek() != Some('}') {
                    arguments.push(self.read_argument(name, &not_closing, Escapes::All, depth)?);
                }
                return Ok(Operator::Replace(operator));
            }
            Some(sign @ ('#' | '%')) => {
                let operator = self.read_operator(&[sign], &[sign]);
                arguments.push(self.read_argument(name, &not_closing, Escapes::None, depth)?);
                return Ok(Operator::Trim(operator));
            }
            _ => return Ok(Operator::None),
        }
        while self.peek() != Some('}') {
            arguments.push(self.read_argument(name, &not_closing, Escapes::None, depth)?);
            check_size(arguments.iter().map(String::len).sum())?;
        }
        Ok(Operator::Default)
    }

    /// Reads a variable or a text.
    fn read_argument(
        &mut self,
        name: &str,
        accepts: &dyn Fn(char) -> bool,
        escapes: Escapes,
        depth: usize,
    ) -> Result<String, String> {
        if self.skip_start() {
            return self.read_variable(depth + 1);
        }
        let text = self.read_text(accepts, true, escapes);
        text.ok_or_else(|| format!("an operator of `{name}` has no argument, or no `}}`"))
    }
}

fn evaluate(
    operator: &Operator,
    value: &str,
    arguments: &[String],
    budget: &mut GlobBudget,
) -> Result<String, String> {
    let first = arguments.first().map_or("", String::as_str);
    Ok(match operator {
        Operator::None => value.to_owned(),
        Operator::Length => value.len().to_string(),
        Operator::Default if value.is_empty() => arguments.concat(),
        Operator::Default => value.to_owned(),
        Operator::Case(operator) => match operator.as_str() {
            "^^" => value.to_uppercase(),
            ",," => value.to_lowercase(),
            "^" => change_first(value, |c| c.to_uppercase().collect()),
            "," => change_first(value, |c| c.to_lowercase().collect()),
            // Two different signs stand for no operator.
            _ => value.to_owned(),
        },
        Operator::Range => take_range(value, first, arguments.get(1).map(String::as_str))?,
        Operator::Trim(operator) => match operator.as_str() {
            "#" => trim_shortest(value, first, budget)?,
            "##" => trim_longest(value, first, budget)?,
            "%" => reverse(&trim_shortest(&reverse(value), &reverse(first), budget)?),
            _ => reverse(&trim_longest(&reverse(value), &reverse(first), budget)?),
        },
        Operator::Replace(operator) => replace(operator, value, first, arguments.get(1))?,
    })
}

fn replace(operator: &str, value: &str, from: &str, to: Option<&String>) -> Result<String, String> {
    let new = to.map_or("", String::as_str);
    Ok(match operator {
        "//" => {
            check_size(value.len() + value.matches(from).count().saturating_mul(new.len()))?;
            value.replace(from, new)
        }
        "/" => value.replacen(from, new, 1),
        // Without a replacement, nothing is replaced at an end.
        _ if to.is_none() => value.to_owned(),
        "/#" => value.strip_prefix(from).map_or_else(|| value.to_owned(), |rest| format!("{new}{rest}")),
        _ => value.strip_suffix(from).map_or_else(|| value.to_owned(), |rest| format!("{rest}{new}")),
    })
}

/// A text with another first character.
fn change_first(text: &str, change: impl Fn(char) -> String) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| change(first) + chars.as_str())
}

fn reverse(text: &str) -> String {
    text.chars().rev().collect()
}

/// The bytes from a position, or of a length from there. What is no number leaves the value as it is.
fn take_range(text: &str, from: &str, length: Option<&str>) -> Result<String, String> {
    let Ok(from) = from.parse::<i64>() else { return Ok(text.to_owned()) };
    let end = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let from = if from < 0 { end.saturating_add(from).max(0) } else { from };
    let until = match length.map(str::parse::<i64>) {
        None => end,
        Some(Err(_)) => return Ok(text.to_owned()),
        Some(Ok(length)) => from.saturating_add(length),
    };
    if until >= end {
        return take_bytes(text, from, end.max(from));
    }
    if until < from {
        return Err("the length of a part of a variable is negative, with which Flux panics".to_owned());
    }
    take_bytes(text, from, until)
}

fn take_bytes(text: &str, from: i64, until: i64) -> Result<String, String> {
    let (from, until) =
        (usize::try_from(from).unwrap_or_default(), usize::try_from(until).unwrap_or_default());
    if from >= text.len() {
        return Ok(String::new());
    }
    let part = text.get(from..until.min(text.len()));
    part.map(str::to_owned).ok_or_else(|| "a part of a variable begins or ends within a character".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_those_of_flux() {
        let variables = [("a", "Value"), ("empty", ""), ("n", "3"), ("p", "a/b/c.tar.gz")];
        let variables: Variables = variables.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let strict =
            Substitution { variables: variables.clone(), is_strict: true, ..Substitution::default() };
        for (text, expected) in [
            ("x: ${a}", Some("x: Value")),
            ("${none}", None),
            ("${#none}", None),
            ("${none^^}", None),
            ("$a and $(a) $", Some("$a and $(a) $")),
            ("$${a} $$ $$$${a} $$$", Some("${a} $ $${a} $$")),
            ("${none:-${a}}-${empty:=d}-${a:-d}-${none=x}-${none:-}", Some("Value-d-Value-x-")),
            ("${none:?x}${none:+y}", Some("xy")),
            ("${a^^}${a,,}${a,}${#a}${a,^}", Some("VALUEvaluevalue5Value")),
            ("${a:1:2}|${a:3}|${a:9}|${a:1:99}|${a:x}", Some("al|ue||alue|Value")),
            ("${a/l/L}${a//a/-}${a/#V/v}${a/%e/E}${a/%x/E}", Some("VaLueV-luevalueValuEValue")),
            ("${a//l/}${p//\\//-}", Some("Vauea-b-c.tar.gz")),
            ("${a/l}", None),
            (
                "${p##*/}|${p#*/}|${p%.*}|${p%%.*}|${p%%.g?}|${p##[a-c]/}",
                Some("c.tar.gz|b/c.tar.gz|a/b/c.tar|a/b/c|a/b/c.tar|b/c.tar.gz"),
            ),
            ("${a:1:-1}", None),
            ("${a", None),
            ("${1}", None),
            ("${}", None),
            ("${ a }", None),
            ("${!a}", None),
            ("${a-d}", None),
            ("${a.b}", None),
            ("${a[0]}", None),
            ("${a:}", None),
        ] {
            let found = substitute_variables(text, &strict);
            assert_eq!(found.as_ref().ok().map(|found| found.text.as_str()), expected, "{text}: {found:?}");
        }
        let lenient = Substitution { variables, ..Substitution::default() };
        assert_eq!(substitute_variables("[${none}${#none}]", &lenient).unwrap().text, "[0]");
    }

    #[test]
    fn variables_without_known_values_stay() {
        let variables: Variables = [("a".to_owned(), "A".to_owned())].into();
        let mut substitution = Substitution {
            variables,
            unknown: ["s".to_owned()].into(),
            is_strict: true,
            ..Substitution::default()
        };
        let text = "${a}-${s}-${s:=${a}}-${#s}-$${s}";
        let found = substitute_variables(text, &substitution).unwrap();
        assert_eq!(
            (found.text.as_str(), found.unfilled),
            ("A-${s}-${s:=${a}}-${#s}-${s}", ["s".to_owned()].into())
        );
        assert!(substitute_variables("${other}", &substitution).is_err());
        substitution.lacks_source = true;
        let found = substitute_variables("${a}-${other:=x}", &substitution).unwrap();
        assert_eq!((found.text.as_str(), found.unfilled), ("A-${other:=x}", ["other".to_owned()].into()));
    }

    #[test]
    fn the_work_has_limits() {
        let variables: Variables = [("v".to_owned(), "a".repeat(1 << 20))].into();
        let substitution = Substitution { variables, is_strict: true, ..Substitution::default() };
        for text in [
            "${v}".repeat(10),
            "${v//a/aaaaaaaa}".to_owned(),
            "${x:=".repeat(100_000),
            "${v##*b*b}".to_owned(),
        ] {
            assert!(substitute_variables(&text, &substitution).is_err(), "{}", &text[..10]);
        }
    }
}
