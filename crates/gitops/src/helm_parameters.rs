//! Values by path, as `helm template --set` and `--set-string` read them.
//!
//! Facts: Helm's package `strvals`. A text has entries `PATH=VALUE`, separated by commas. A path names keys, separated by dots, and
//! indices in brackets; `{a,b}` is a list, and a backslash quotes the next character. `true`, `false`, `null` and integers without
//! a leading zero have their types, unless texts are asked for. A text that ends within an index sets nothing.

use serde_json::{Map, Value};

/// The largest index of a list, as with Helm.
const MAX_INDEX: usize = 65_536;

/// The most keys in a path, as with Helm.
const MAX_KEYS: usize = 30;

/// The most indices in a path.
const MAX_INDICES: usize = 30;

/// The most items that are added to lists for one release, so that few large indices do not take all memory.
const MAX_ADDED_ITEMS: usize = 1 << 20;

/// How values are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueType {
    /// By what they look like, as with `--set`.
    Typed,
    /// As texts, as with `--set-string`.
    Text,
}

/// Sets values by their paths, and counts the items that lists get.
#[derive(Default)]
pub(crate) struct ParameterSetter {
    added_items: usize,
}

/// Why the reading of a text ends.
enum Stop {
    /// The text has ended, where Helm accepts that.
    End,
    Error(String),
}

type Parsed<T> = Result<T, Stop>;

impl ParameterSetter {
    /// Sets the entries of a text in `values`.
    pub(crate) fn set_entries(
        &mut self,
        values: &mut Map<String, Value>,
        text: &str,
        value_type: ValueType,
    ) -> Result<(), String> {
        let characters: Vec<char> = text.chars().collect();
        let mut parser = EntryParser { text: &characters, at: 0, value_type, added: &mut self.added_items };
        loop {
            match parser.read_key(values, 0) {
                Ok(()) => {}
                Err(Stop::End) => return Ok(()),
                Err(Stop::Error(why)) => return Err(why),
            }
        }
    }
}

struct EntryParser<'t> {
    text: &'t [char],
    at: usize,
    value_type: ValueType,
    added: &'t mut usize,
}

/// A text up to a character, and this character; `None` at the end.
struct Token {
    text: String,
    last: Option<char>,
}

fn fail<T>(why: impl Into<String>) -> Parsed<T> {
    Err(Stop::Error(why.into()))
}

/// Sets a key. Helm leaves an empty one out.
fn set_key(map: &mut Map<String, Value>, key: String, value: Value) {
    if !key.is_empty() {
        map.insert(key, value);
    }
}

impl EntryParser<'_> {
    fn read_character(&mut self) -> Option<char> {
        let character = self.text.get(self.at).copied();
        self.at += usize::from(character.is_some());
        character
    }

    fn read_until(&mut self, stops: &[char]) -> Token {
        let mut text = String::new();
        while let Some(c) = self.read_character() {
            if stops.contains(&c) {
                return Token { text, last: Some(c) };
            }
            if c == '\\' {
                match self.read_character() {
                    Some(quoted) => text.push(quoted),
                    None => break,
                }
            } else {
                text.push(c);
            }
        }
        Token { text, last: None }
    }

    /// Reads one entry of a map, from its key on.
    fn read_key(&mut self, map: &mut Map<String, Value>, level: usize) -> Parsed<()> {
        let Token { text: key, last } = self.read_until(&['=', '[', ',', '.']);
        match last {
            None if key.is_empty() => Err(Stop::End),
            None => fail(format!("the key `{key}` has no value")),
            Some('[') => {
                let index = self.read_index()?;
                let mut items = match map.get_mut(&key) {
                    None => Vec::new(),
                    Some(Value::Array(items)) => std::mem::take(items),
                    Some(_) => return fail(format!("`{key}` is not a list")),
                };
                let result = self.read_item(&mut items, index, level, 0);
                set_key(map, key, Value::Array(items));
                result
            }
            Some('=') => {
                let value = match self.read_list()? {
                    Some(value) => value,
                    None if self.at == self.text.len() => {
                        set_key(map, key, "".into());
                        return Err(Stop::End);
                    }
                    None => self.read_scalar(),
                };
                set_key(map, key, value);
                Ok(())
            }
            Some('.') => self.read_inner_key(map, key, level + 1),
            Some(_) => fail(format!("the key `{key}` has no value")),
        }
    }

    fn read_inner_key(&mut self, map: &mut Map<String, Value>, key: String, level: usize) -> Parsed<()> {
        if level > MAX_KEYS {
            return fail(format!("the path of a value has more than {MAX_KEYS} keys"));
        }
        let mut inner = match map.get_mut(&key) {
            None => Map::new(),
            Some(Value::Object(inner)) => std::mem::take(inner),
            Some(_) => return fail(format!("`{key}` is not a map")),
        };
        let result = self.read_key(&mut inner, level);
        if result.is_ok() && inner.is_empty() {
            return fail(format!("the map `{key}` has no value"));
        }
        if !inner.is_empty() || map.contains_key(&key) {
            set_key(map, key, Value::Object(inner));
        }
        result
    }

    fn read_index(&mut self) -> Parsed<usize> {
        let Token { text, last } = self.read_until(&[']']);
        if last.is_none() {
            return Err(Stop::End);
        }
        let index = text.strip_prefix('+').unwrap_or(&text).parse().ok();
        match index.filter(|index| *index <= MAX_INDEX) {
            Some(index) => Ok(index),
            None => fail(format!("`{text}` is not an index from 0 to {MAX_INDEX}")),
        }
    }

    /// Reads what follows the index of a list.
    fn read_item(&mut self, items: &mut Vec<Value>, index: usize, level: usize, depth: usize) -> Parsed<()> {
        if depth > MAX_INDICES {
            return fail(format!("the path of a value has more than {MAX_INDICES} indices"));
        }
        let Token { text, last } = self.read_until(&['[', '.', '=']);
        if !text.is_empty() {
            return fail(format!("`{text}` follows an index"));
        }
        match last {
            None => Err(Stop::End),
            Some('=') => {
                let value = match self.read_list()? {
                    Some(value) => value,
                    None if self.at == self.text.len() => "".into(),
                    None => self.read_scalar(),
                };
                self.set_item(items, index, value)
            }
            Some('[') => {
                let next = self.read_index()?;
                let mut inner = match items.get(index) {
                    None | Some(Value::Null) => Vec::new(),
                    Some(Value::Array(inner)) => inner.clone(),
                    Some(_) => return fail(format!("the item {index} is not a list")),
                };
                self.read_item(&mut inner, next, level, depth + 1)?;
                self.set_item(items, index, Value::Array(inner))
            }
            Some(_) if level >= MAX_KEYS => {
                fail(format!("the path of a value has more than {MAX_KEYS} keys"))
            }
            Some(_) => {
                let mut inner = match items.get_mut(index) {
                    Some(Value::Object(inner)) => std::mem::take(inner),
                    _ => Map::new(),
                };
                let result = self.read_key(&mut inner, level + 1);
                if result.is_ok() || index < items.len() {
                    self.set_item(items, index, Value::Object(inner))?;
                }
                result
            }
        }
    }

    fn set_item(&mut self, items: &mut Vec<Value>, index: usize, value: Value) -> Parsed<()> {
        if items.len() <= index {
            *self.added += index + 1 - items.len();
            if *self.added > MAX_ADDED_ITEMS {
                return fail(format!("the lists have more than {MAX_ADDED_ITEMS} items"));
            }
            items.resize(index + 1, Value::Null);
        }
        if let Some(item) = items.get_mut(index) {
            *item = value;
        }
        Ok(())
    }

    /// Reads a list in braces; `None` if the value is none.
    fn read_list(&mut self) -> Parsed<Option<Value>> {
        if self.text.get(self.at) != Some(&'{') {
            return Ok(None);
        }
        self.at += 1;
        let mut items = Vec::new();
        loop {
            let Token { text, last } = self.read_until(&[',', '}']);
            if last.is_none() {
                return fail("a list does not end in `}`");
            }
            items.push(read_type(text, self.value_type));
            if last == Some('}') {
                self.at += usize::from(self.text.get(self.at) == Some(&','));
                return Ok(Some(Value::Array(items)));
            }
        }
    }

    fn read_scalar(&mut self) -> Value {
        read_type(self.read_until(&[',']).text, self.value_type)
    }
}

fn read_type(text: String, value_type: ValueType) -> Value {
    if value_type == ValueType::Text {
        return text.into();
    }
    match text.to_ascii_lowercase().as_str() {
        "true" => return true.into(),
        "false" => return false.into(),
        "null" => return Value::Null,
        "0" => return 0.into(),
        _ => {}
    }
    match text.parse::<i64>().ok().filter(|_| !text.starts_with('0')) {
        Some(number) => number.into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "rows of tests are literals")]
    fn set(start: Value, texts: &[(&str, ValueType)]) -> Result<Value, String> {
        let mut setter = ParameterSetter::default();
        let mut values = start.as_object().cloned().unwrap_or_default();
        for (text, value_type) in texts {
            setter.set_entries(&mut values, text, *value_type)?;
        }
        Ok(Value::Object(values))
    }

    #[test]
    fn values_are_those_of_helm() {
        let start = json!({"l": [1, 2], "m": {"x": 1}});
        for (text, value_type, expected) in [
            ("m.y=1,a=b", ValueType::Typed, json!({"l": [1, 2], "m": {"x": 1, "y": 1}, "a": "b"})),
            ("m.y=1", ValueType::Text, json!({"l": [1, 2], "m": {"x": 1, "y": "1"}})),
            ("l[1]=01", ValueType::Typed, json!({"l": [1, "01"], "m": {"x": 1}})),
            ("l[3].k=TRUE", ValueType::Typed, json!({"l": [1, 2, null, {"k": true}], "m": {"x": 1}})),
            ("l[0][1]=null", ValueType::Typed, Value::Null),
            ("n[0][1]=null", ValueType::Typed, json!({"l": [1, 2], "m": {"x": 1}, "n": [[null, null]]})),
            (
                "a\\.b={1,x\\,y},c=",
                ValueType::Typed,
                json!({"l": [1, 2], "m": {"x": 1}, "a.b": [1, "x,y"], "c": ""}),
            ),
            ("a={}", ValueType::Typed, json!({"l": [1, 2], "m": {"x": 1}, "a": [""]})),
            ("a.b[", ValueType::Typed, json!({"l": [1, 2], "m": {"x": 1}})),
            ("m[0]=1", ValueType::Typed, Value::Null),
            ("l.x=1", ValueType::Typed, Value::Null),
            ("a=x,y", ValueType::Typed, Value::Null),
            ("a", ValueType::Typed, Value::Null),
            ("a={x", ValueType::Typed, Value::Null),
            ("a[x]=y", ValueType::Typed, Value::Null),
            ("a[-1]=y", ValueType::Typed, Value::Null),
            ("a[99999]=y", ValueType::Typed, Value::Null),
        ] {
            let found = set(start.clone(), &[(text, value_type)]);
            assert_eq!(found.unwrap_or_default(), expected, "{text}");
        }
    }

    #[test]
    fn paths_and_lists_have_limits() {
        assert!(set(json!({}), &[(&format!("{}=x", "a.".repeat(1_000_000)), ValueType::Typed)]).is_err());
        assert!(set(json!({}), &[(&format!("a{}=x", "[0]".repeat(1_000_000)), ValueType::Typed)]).is_err());
        let many: Vec<String> = (0..100).map(|index| format!("a{index}[65536]=x")).collect();
        let many: Vec<(&str, ValueType)> =
            many.iter().map(|text| (text.as_str(), ValueType::Typed)).collect();
        assert!(set(json!({}), &many).is_err());
    }
}
