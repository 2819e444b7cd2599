//! A part of a document that an assistant can take: items of its lists, as many as fit, and how to get the others.
//!
//! The lists are those of the document and of its parts. What is left out is counted in `leftOut`, with a cursor for the next part;
//! a document that fits has no such key and is that of `-o json`.

use std::fmt;

use federate_kubernetes::display_text::escape_text;
use federate_kubernetes::hex::to_hex;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// How many characters an answer has, if nothing else is asked for.
pub(super) const DEFAULT_LIMIT: usize = 20_000;
/// The limits that can be asked for.
pub(super) const LIMITS: std::ops::RangeInclusive<usize> = 1_000..=100_000;

/// How many characters an answer may have: what a call asks for, or [`DEFAULT_LIMIT`].
pub(super) fn find_limit(arguments: &Map<String, Value>) -> usize {
    let asked = arguments.get("limit").and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok());
    asked.filter(|limit| LIMITS.contains(limit)).unwrap_or(DEFAULT_LIMIT)
}

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

/// How many characters the words about what is left out take.
const LEFT_OUT_LENGTH: usize = 400;

/// How many characters the words about the rest of a text, a list or a map take.
const NOTE_LENGTH: usize = 24;

/// How many characters each entry of a list or a map has that is cut to a limit.
const MIN_SHARE: usize = 80;

/// How many times its limit the text of a document may have that is read as a whole, to see whether it fits.
const MAX_WHITE_SPACE: usize = 16;

/// How many characters of a key of a map are kept that is cut to a limit.
const KEY_LENGTH: usize = 24;

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
        let identity = compute_identity(text);
        let start = self.read_cursor(&identity)?;
        if start == 0 && self.matching.is_none() && text.len() <= limit * MAX_WHITE_SPACE {
            let mut whole: Value = serde_json::from_str(text).map_err(|error| describe_syntax(&error))?;
            escape_strings(&mut whole);
            if count_characters(&whole) <= limit {
                return Ok(whole);
            }
        }
        let (mut frame, mut items) = divide_document(text).map_err(|error| describe_syntax(&error))?;
        if let Some(matching) = &self.matching {
            let matching = matching.to_lowercase();
            items.retain(|item| item.contains(&matching));
        }
        let total = items.len();
        let room = limit.saturating_sub(LEFT_OUT_LENGTH);
        let mut is_shortened = shorten_frame(&mut frame, if items.is_empty() { room } else { room / 2 });
        let mut left = room.saturating_sub(count_characters(&frame));
        let mut shown = 0;
        for mut item in items.into_iter().skip(start) {
            let mut value = item.read_value();
            let mut length = item.measure(&value);
            for step in SHORTENED {
                if length > left && shown == 0 {
                    is_shortened |= shorten(&mut value, step);
                    length = item.measure(&value);
                }
            }
            if length > left && shown == 0 {
                item.key = item.key.map(|key| cut_text(&key, KEY_LENGTH));
                let more = item.key.as_ref().map_or(1, |key| key.len() + 4);
                is_shortened |= cut_value(&mut value, left.saturating_sub(more));
                length = item.measure(&value);
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
                about["shortened"] = "texts, lists and maps that end with `… more` are shortened".into();
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

/// Shortens what of a document is in no list. Its own keys stay.
fn shorten_frame(frame: &mut Value, room: usize) -> bool {
    let mut is_shortened = shorten(frame, SHORTENED[0]);
    for step in SHORTENED.into_iter().skip(1) {
        if count_characters(frame) > room {
            is_shortened |= shorten(frame, step);
        }
    }
    if let Value::Object(parts) = frame {
        is_shortened |= share_among_keys(parts, room);
    }
    is_shortened
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
        let key = escape_text(&key);
        let path = [key.clone()];
        let rest = if is_list(part) {
            take_list(part, &path, &mut items)?
        } else if is_map(part) && MAPS.contains(&key.as_str()) {
            let entries = serde_json::from_str::<Entries<'_>>(part.get())?.0.into_iter();
            items.extend(entries.map(|(name, text)| Item {
                path: path.to_vec(),
                key: Some(escape_text(&name)),
                text,
            }));
            json!({})
        } else if is_map(part) {
            let mut inner = Map::new();
            for (name, value) in serde_json::from_str::<Entries<'_>>(part.get())?.0 {
                let name = escape_text(&name);
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
        count_characters(value) + self.key.as_ref().map_or(1, |key| key.len() + 4)
    }

    fn contains(&self, matching: &str) -> bool {
        let in_key = self.key.as_ref().is_some_and(|key| key.to_lowercase().contains(matching));
        in_key || contains_text(&self.read_value(), matching)
    }

    /// Puts its value back where it was taken from.
    fn put_back(self, value: Value, document: &mut Value) {
        let mut place = document;
        for name in self.path {
            let Value::Object(map) = place else { return };
            // A part that was cut may have lost it.
            place = map.entry(name).or_insert(Value::Null);
        }
        if place.is_null() {
            *place = if self.key.is_some() { json!({}) } else { json!([]) };
        }
        match (place, self.key) {
            (Value::Array(list), _) => list.push(value),
            (Value::Object(map), Some(key)) => drop(map.insert(key, value)),
            _ => {}
        }
    }
}

fn describe_syntax(error: &serde_json::Error) -> String {
    format!("the document is not JSON: {error}")
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

/// Cuts a value to this many characters of JSON, whatever it is, and returns whether anything is left out. Of lists and maps, as many
/// entries stay as have room for a few words each.
fn cut_value(value: &mut Value, room: usize) -> bool {
    if count_characters(value) <= room {
        return false;
    }
    match value {
        Value::String(text) => *text = cut_text(text, room.saturating_sub(NOTE_LENGTH)),
        Value::Array(list) => {
            let keep = room.saturating_sub(NOTE_LENGTH) / MIN_SHARE;
            let rest = list.len().saturating_sub(keep);
            list.truncate(keep);
            let is_text = list.iter().all(Value::is_string);
            share_room(list.iter_mut().map(|value| (0, value)).collect(), room.saturating_sub(NOTE_LENGTH));
            if rest > 0 && is_text {
                list.push(format!("… {rest} more").into());
            }
        }
        Value::Object(map) => {
            let keep = room.saturating_sub(NOTE_LENGTH) / MIN_SHARE;
            let rest = map.len().saturating_sub(keep);
            let kept = std::mem::take(map).into_iter().take(keep);
            map.extend(kept.map(|(key, value)| (cut_text(&key, KEY_LENGTH), value)));
            share_among_keys(map, room.saturating_sub(NOTE_LENGTH));
            if rest > 0 {
                map.insert("…".to_owned(), format!("{rest} more").into());
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    true
}

/// Cuts the values of a map, whose keys stay.
fn share_among_keys(map: &mut Map<String, Value>, room: usize) -> bool {
    share_room(map.iter_mut().map(|(key, value)| (key.len() + 4, value)).collect(), room.saturating_sub(2))
}

/// Cuts the longest values so that all have this many characters together, each with some more.
fn share_room(values: Vec<(usize, &mut Value)>, room: usize) -> bool {
    let mut lengths: Vec<usize> =
        values.iter().map(|(more, value)| count_characters(value) + more + 1).collect();
    lengths.sort_unstable();
    let (mut left, mut to_come, mut share) = (room, lengths.len(), usize::MAX);
    for length in lengths {
        if length > left / to_come.max(1) {
            share = left / to_come.max(1);
            break;
        }
        left -= length;
        to_come -= 1;
    }
    let mut is_cut = false;
    for (more, value) in values {
        is_cut |= cut_value(value, share.saturating_sub(more + 1));
    }
    is_cut
}

/// The beginning of a text that has at most this many characters in JSON, and how many are left out.
pub(super) fn cut_text(text: &str, most: usize) -> String {
    let mut length = 0;
    for (at, c) in text.char_indices() {
        length += match c {
            '"' | '\\' | '\n' | '\t' => 2,
            c => c.len_utf8(),
        };
        if length > most {
            let (shown, rest) = text.split_at(at);
            return format!("{shown}… {} more", rest.chars().count());
        }
    }
    text.to_owned()
}

fn count_characters(value: &Value) -> usize {
    value.to_string().len()
}

/// Writes characters that cannot be seen as `\u{…}`, as the tables do: what an assistant reads is what a person would.
fn escape_strings(value: &mut Value) {
    match value {
        Value::String(text) => *text = escape_text(text),
        Value::Array(list) => list.iter_mut().for_each(escape_strings),
        Value::Object(map) => {
            map.values_mut().for_each(escape_strings);
            if map.keys().any(|key| escape_text(key) != *key) {
                *map =
                    std::mem::take(map).into_iter().map(|(key, value)| (escape_text(&key), value)).collect();
            }
        }
        _ => {}
    }
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
            assert!(part.to_string().len() <= 1_500, "{}", part.to_string().len());
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
        assert!(taken.to_string().len() <= 2_000 && taken["leftOut"]["shortened"].is_string());
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
        let text = json!({"message": "a\u{202e}b\u{1b}[31m\u{e0041}\u{200b}\nc", "labels": {"d\u{61c}": "e\u{fe0f}"}});
        let taken = ExcerptRequest::default().take_from(&text.to_string()).unwrap();
        assert_eq!(taken["message"], "a\\u{202e}b\\u{1b}[31m\\u{e0041}\\u{200b}\nc");
        assert_eq!(taken["labels"]["d\\u{61c}"], "e\\u{fe0f}");
    }

    #[test]
    fn no_answer_exceeds_its_limit() {
        let map = |entries: usize, width: usize| -> Value {
            (0..entries)
                .map(|at| (format!("{at}{}", "k".repeat(width)), Value::from("v".repeat(width))))
                .collect()
        };
        let quoted = "\"\n\\".repeat(3_000);
        let documents = [
            json!({"cluster": "m1", "labels": map(6_000, 40), "placements": []}),
            json!({"clusters": [{"name": "m1", "labels": map(6_000, 40), "taints": [map(50, 9), map(3, 5_000)]}]}),
            json!({"capacity": {("k".repeat(9_000)): map(100, 100)}}),
            json!({"verdict": {"sentence": quoted, "objects": ["x".repeat(9_000), quoted], "counts": map(500, 3)}}),
            json!({"text": quoted, "deep": {"deep": {"deep": [[map(2_000, 2), quoted], map(10, 900)]}}, "rows": [quoted]}),
            json!({"numbers": vec![vec![1; 40]; 900], "more": {"lists": vec![vec!["é"; 60]; 60]}}),
            Value::Object((0..20).map(|at| (format!("list{at}"), json!([map(60, 60)]))).collect()),
        ];
        for document in &documents {
            for limit in [1_000, 1_500, 20_000, 100_000] {
                let mut request = ExcerptRequest { limit: Some(limit), ..ExcerptRequest::default() };
                for _ in 0..3 {
                    let part = request.take_from(&document.to_string()).unwrap();
                    let length = part.to_string().len();
                    assert!(length <= limit, "{length} of {limit}");
                    let Some(cursor) = part["leftOut"]["cursor"].as_str() else { break };
                    request.cursor = Some(cursor.to_owned());
                }
            }
        }
    }
}
