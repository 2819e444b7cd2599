//! A part of a document that an assistant can take: items of its lists, as many as fit, and how to get the others.
//!
//! The lists are those of the document and of its parts. What is left out is counted in `leftOut`, with a cursor for the next part;
//! a document that fits has no such key and is that of `-o json`.

use std::fmt;

use federate_kubernetes::hex::to_hex;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// How many characters an answer has, if nothing else is asked for.
pub(super) const DEFAULT_LIMIT: usize = 20_000;
/// The limits that can be asked for.
pub(super) const LIMITS: std::ops::RangeInclusive<usize> = 1_000..=100_000;

/// Maps with a key for each cluster, which are as long as lists.
const MAPS: [&str; 1] = ["capacity"];

/// How much of an item that does not fit is kept: characters of a text, and items of a list. The second pair is for items that do
/// not fit even so.
const SHORTENED: [Shortened; 3] = [
    Shortened { characters: 2_000, items: 50 },
    Shortened { characters: 400, items: 10 },
    Shortened { characters: 80, items: 3 },
];

/// How much of an item is kept.
#[derive(Clone, Copy)]
struct Shortened {
    characters: usize,
    items: usize,
}

/// Which part of a document is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ExcerptRequest {
    /// How many characters the JSON may have.
    pub(super) limit: Option<usize>,
    /// Where an earlier part has ended.
    pub(super) cursor: Option<String>,
    /// Only items that contain this text, whatever its case.
    pub(super) matching: Option<String>,
}

/// An item of a list, or of a map, as the text of the document: a document may be large, and few of its items are shown.
struct Item<'d> {
    /// The keys that lead to the list.
    path: Vec<String>,
    /// The key in a map.
    key: Option<String>,
    text: &'d RawValue,
}

/// The entries of a map in their order, as the text of the document.
struct Entries<'d>(Vec<(String, &'d RawValue)>);

impl ExcerptRequest {
    /// The part of a document, which is `text`. An error is a message for the assistant.
    pub(super) fn take_from(&self, text: &str) -> Result<Value, String> {
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT);
        if !LIMITS.contains(&limit) {
            return Err(format!(
                "`limit` is {limit}: name {} to {} characters",
                LIMITS.start(),
                LIMITS.end()
            ));
        }
        let (mut frame, mut items) =
            divide_document(text).map_err(|error| format!("the document is not JSON: {error}"))?;
        let identity = compute_identity(text);
        let start = self.read_cursor(&identity)?;
        let mut is_shortened = shorten(&mut frame, SHORTENED[0]);
        if let Some(matching) = &self.matching {
            let matching = matching.to_lowercase();
            items.retain(|item| item.contains(&matching));
        }
        let total = items.len();
        let mut left = limit.saturating_sub(frame.to_string().len());
        let mut shown = 0;
        for item in items.into_iter().skip(start) {
            let mut value = item.read_value();
            let mut length = item.measure(&value);
            for step in SHORTENED {
                if length > left && shown == 0 {
                    is_shortened |= shorten(&mut value, step);
                    length = item.measure(&value);
                }
            }
            if length > left && shown > 0 {
                break;
            }
            left = left.saturating_sub(length);
            shown += 1;
            item.put_back(value, &mut frame);
        }
        let end = start + shown;
        if (start > 0 || end < total || is_shortened)
            && let Value::Object(parts) = &mut frame
        {
            let mut about =
                json!({"items": total, "before": start, "shown": shown, "after": total - end.min(total)});
            if end < total {
                about["cursor"] = format!("{end}-{identity}").into();
                about["help"] =
                    "ask again with this `cursor` for the next items, or with `matching` for those that contain a text".into();
            }
            if is_shortened {
                about["shortened"] = "texts and lists that end with `… more` are shortened".into();
            }
            parts.insert("leftOut".to_owned(), about);
        }
        Ok(frame)
    }

    /// The number of the first item.
    fn read_cursor(&self, identity: &str) -> Result<usize, String> {
        let Some(cursor) = &self.cursor else { return Ok(0) };
        let (start, of) = cursor.split_once('-').unwrap_or_default();
        let start = start.parse().map_err(|_| format!("`{cursor}` is not a cursor of an earlier answer"))?;
        if of == identity {
            return Ok(start);
        }
        Err("the cursor belongs to another answer: the repo or the question has changed since; ask without it".to_owned())
    }
}

/// What tells answers apart.
fn compute_identity(text: &str) -> String {
    to_hex(&Sha256::digest(text.as_bytes())[..6])
}

/// The document without the items of its lists and of those of its parts, and the items.
fn divide_document(text: &str) -> serde_json::Result<(Value, Vec<Item<'_>>)> {
    let whole: &RawValue = serde_json::from_str(text)?;
    let mut items = Vec::new();
    if !is_map(whole) {
        return Ok((read_value(whole), items));
    }
    let mut frame = Map::new();
    for (key, part) in serde_json::from_str::<Entries<'_>>(text)?.0 {
        let path = [key.clone()];
        let rest = if is_list(part) {
            take_list(part, &path, &mut items)?
        } else if is_map(part) && MAPS.contains(&key.as_str()) {
            let entries = serde_json::from_str::<Entries<'_>>(part.get())?.0.into_iter();
            items.extend(entries.map(|(name, text)| Item { path: path.to_vec(), key: Some(name), text }));
            json!({})
        } else if is_map(part) {
            let mut inner = Map::new();
            for (name, value) in serde_json::from_str::<Entries<'_>>(part.get())?.0 {
                let path = [key.clone(), name.clone()];
                let rest =
                    if is_list(value) { take_list(value, &path, &mut items)? } else { read_value(value) };
                inner.insert(name, rest);
            }
            Value::Object(inner)
        } else {
            read_value(part)
        };
        frame.insert(key, rest);
    }
    Ok((Value::Object(frame), items))
}

/// Takes the items of a list, and returns what is left of it.
fn take_list<'d>(
    list: &'d RawValue,
    path: &[String],
    items: &mut Vec<Item<'d>>,
) -> serde_json::Result<Value> {
    let texts: Vec<&'d RawValue> = serde_json::from_str(list.get())?;
    items.extend(texts.into_iter().map(|text| Item { path: path.to_vec(), key: None, text }));
    Ok(json!([]))
}

fn is_list(text: &RawValue) -> bool {
    text.get().starts_with('[')
}

fn is_map(text: &RawValue) -> bool {
    text.get().starts_with('{')
}

/// A value as it is shown.
fn read_value(text: &RawValue) -> Value {
    // The text of a part of a document that was read is valid.
    let mut value = serde_json::from_str(text.get()).unwrap_or_default();
    escape_strings(&mut value);
    value
}

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor)
    }
}

impl Item<'_> {
    fn read_value(&self) -> Value {
        read_value(self.text)
    }

    /// The length of its text in an answer.
    fn measure(&self, value: &Value) -> usize {
        value.to_string().len() + self.key.as_ref().map_or(1, |key| key.len() + 4)
    }

    fn contains(&self, matching: &str) -> bool {
        let in_key = self.key.as_ref().is_some_and(|key| key.to_lowercase().contains(matching));
        in_key || contains_text(&self.read_value(), matching)
    }

    /// Puts its value back where it was taken from.
    fn put_back(self, value: Value, document: &mut Value) {
        let mut place = Some(document);
        for name in &self.path {
            place = place.and_then(|place| place.get_mut(name));
        }
        match (place, self.key) {
            (Some(Value::Array(list)), _) => list.push(value),
            (Some(Value::Object(map)), Some(key)) => drop(map.insert(key, value)),
            _ => {}
        }
    }
}

/// Whether a text in a value contains another one.
fn contains_text(value: &Value, matching: &str) -> bool {
    match value {
        Value::String(text) => text.to_lowercase().contains(matching),
        Value::Array(list) => list.iter().any(|value| contains_text(value, matching)),
        Value::Object(map) => map
            .iter()
            .any(|(key, value)| key.to_lowercase().contains(matching) || contains_text(value, matching)),
        _ => false,
    }
}

/// Cuts long texts and lists, and returns whether there were any.
fn shorten(value: &mut Value, most: Shortened) -> bool {
    match value {
        Value::String(text) => {
            let Some((end, _)) = text.char_indices().nth(most.characters) else { return false };
            let rest = text.get(end..).map_or(0, |rest| rest.chars().count());
            text.truncate(end);
            text.push_str(&format!("… {rest} more"));
            true
        }
        Value::Array(list) => {
            let rest = list.len().saturating_sub(most.items);
            list.truncate(most.items);
            let mut is_shortened = rest > 0;
            for value in &mut *list {
                is_shortened |= shorten(value, most);
            }
            // A list of other things than texts has no place for words.
            if rest > 0 && list.iter().all(Value::is_string) {
                list.push(format!("… {rest} more").into());
            }
            is_shortened
        }
        Value::Object(map) => {
            let mut is_shortened = false;
            for value in map.values_mut() {
                is_shortened |= shorten(value, most);
            }
            is_shortened
        }
        _ => false,
    }
}

/// Writes characters that cannot be seen as `\u{…}`, as the tables do: what an assistant reads is what a person would.
fn escape_strings(value: &mut Value) {
    match value {
        Value::String(text) if text.contains(is_hidden) => {
            let mut escaped = String::with_capacity(text.len() + 16);
            for c in text.chars() {
                if is_hidden(c) { escaped.extend(c.escape_unicode()) } else { escaped.push(c) }
            }
            *text = escaped;
        }
        Value::Array(list) => list.iter_mut().for_each(escape_strings),
        Value::Object(map) => map.values_mut().for_each(escape_strings),
        _ => {}
    }
}

/// Whether a character controls a terminal, the direction of text, or has no width: tags and selectors can hide whole sentences.
fn is_hidden(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(
            c,
            '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(objects: usize) -> String {
        let objects: Vec<Value> =
            (0..objects).map(|at| json!({"name": format!("web-{at}"), "text": "x".repeat(100)})).collect();
        json!({
            "kind": "Test",
            "totals": {"from": {"objects": 1}},
            "objects": objects,
            "verdict": {"sentence": "s", "objects": ["a", "b"]},
            "capacity": {"eu-1": {"cpu": 1}, "eu-2": {"cpu": 2}},
        })
        .to_string()
    }

    #[test]
    fn a_document_that_fits_is_unchanged() {
        let text = document(20);
        let taken = ExcerptRequest::default().take_from(&text).unwrap();
        assert_eq!(taken, serde_json::from_str::<Value>(&text).unwrap());
    }

    #[test]
    fn the_parts_of_a_document_are_the_whole() {
        let text = document(100);
        let mut whole: Value = serde_json::from_str(&text).unwrap();
        let (mut cursor, mut objects, mut keys, mut rounds) = (None, Vec::new(), Vec::new(), 0);
        loop {
            let request = ExcerptRequest { limit: Some(1_500), cursor, ..ExcerptRequest::default() };
            let part = request.take_from(&text).unwrap();
            assert!(part.to_string().len() < 2_000, "{}", part.to_string().len());
            assert_eq!(part["totals"], whole["totals"]);
            objects.extend(part["objects"].as_array().unwrap().iter().cloned());
            keys.extend(part["capacity"].as_object().unwrap().keys().cloned());
            rounds += 1;
            cursor = part["leftOut"]["cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(Value::Array(objects), whole["objects"].take());
        assert!(keys == ["eu-1", "eu-2"] && rounds > 5);
    }

    #[test]
    fn items_are_chosen_by_a_text() {
        let request = ExcerptRequest { matching: Some("WEB-7".to_owned()), ..ExcerptRequest::default() };
        let taken = request.take_from(&document(100)).unwrap();
        assert_eq!(taken["objects"].as_array().unwrap().len(), 11);
        assert_eq!(taken["verdict"]["objects"], json!([]));
    }

    #[test]
    fn an_item_that_does_not_fit_is_shortened() {
        let text = json!({"objects": [{"diff": "x".repeat(50_000), "names": vec!["y"; 5_000]}]}).to_string();
        let request = ExcerptRequest { limit: Some(2_000), ..ExcerptRequest::default() };
        let taken = request.take_from(&text).unwrap();
        assert!(taken.to_string().len() < 2_500 && taken["leftOut"]["shortened"].is_string());
        assert!(taken["objects"][0]["diff"].as_str().unwrap().ends_with("more"));
    }

    #[test]
    fn a_cursor_is_of_one_answer() {
        let request =
            |cursor: &str| ExcerptRequest { cursor: Some(cursor.to_owned()), ..ExcerptRequest::default() };
        for cursor in ["", "x", "1", "1-abc", "-1-abc"] {
            assert!(request(cursor).take_from(&document(3)).is_err(), "{cursor}");
        }
        let of_other = format!("1-{}", compute_identity(&document(4)));
        assert!(request(&of_other).take_from(&document(3)).unwrap_err().contains("has changed"));
        let beyond = format!("999-{}", compute_identity(&document(3)));
        assert_eq!(request(&beyond).take_from(&document(3)).unwrap()["leftOut"]["shown"], 0);
        let low = ExcerptRequest { limit: Some(1), ..ExcerptRequest::default() };
        assert!(low.take_from("{}").is_err());
    }

    #[test]
    fn what_cannot_be_seen_is_shown() {
        let text = json!({"message": "a\u{202e}b\u{1b}[31m\u{e0041}\u{200b}\nc"}).to_string();
        let taken = ExcerptRequest::default().take_from(&text).unwrap();
        assert_eq!(taken["message"], "a\\u{202e}b\\u{1b}[31m\\u{e0041}\\u{200b}\nc");
    }
}
