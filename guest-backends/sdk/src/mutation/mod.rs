//! Changes to an agent's output as a new version of the agent may make them: renames, moves or
//! retypes a key, gives a kind another name, splits a line or adds one.
//!
//! After such a change, a backend must not lose anything silently: either users see the same, or
//! the backend reports the output that it could not read. [`mutants`] creates the changed
//! recordings, and [`silent_loss`] compares the actions. Both work on recordings and actions as
//! JSON (see `docs/recordings.md`), so that the SDK's tests and the gateway's test kit share them.
//! This module does no I/O.

mod visible;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

pub use visible::{Loss, reports, silent_loss, visible};

/// Keys whose value names the kind of an object.
const DISCRIMINATORS: [&str; 7] =
    ["type", "subtype", "sessionUpdate", "kind", "method", "event", "op"];
/// Longest value of a discriminator, in bytes; longer texts are content.
const MAX_DISCRIMINATOR: usize = 40;
/// Appended to a renamed key.
const RENAMED: &str = "_renamed";
/// The key that a nested value moves to.
const NESTED: &str = "nested";
/// Appended to the name of a kind.
pub const OTHER_KIND: &str = "_v2";
/// The text in every field of an added line. No agent prints it.
pub const ADDED_TEXT: &str = "An added line says this.";

/// A change that a new version of an agent may make to its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The key has another name.
    Renamed,
    /// The value is wrapped in an object.
    Nested,
    /// The value is wrapped in a list.
    Retyped,
    /// The document is printed on two lines.
    Split,
    /// The key has another name wherever it occurs in the recording.
    RenamedEverywhere,
    /// The value, which names the kind of an object, is another name.
    OtherKind,
    /// A line precedes the document that looks like it, with another kind and [`ADDED_TEXT`] in
    /// place of its texts. It is not added after the document, which may end a turn.
    Added,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Renamed => "renamed",
            Self::Nested => "moved into an object",
            Self::Retyped => "changed to a list",
            Self::Split => "split over two lines",
            Self::RenamedEverywhere => "renamed everywhere",
            Self::OtherKind => "with another value",
            Self::Added => "preceded by a line of an unknown kind",
        })
    }
}

/// The kind of value at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holds {
    /// A string.
    Text,
    /// A number.
    Number,
    /// `true` or `false`.
    Flag,
    /// A list or an object.
    Structure,
}

/// A location in the agent's output, the same in every document of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The path with the kind of every object on it,
    /// `{assistant}.message{message}.content[]{text}.text`.
    pub name: String,
    /// The path of keys alone, `message.content[].text`.
    pub path: String,
}

/// A recording with one change.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The position that was changed; for [`Change::Split`] the kind of document.
    pub position: Position,
    /// The kind of value at the position.
    pub holds: Holds,
    /// The change that was made.
    pub change: Change,
    /// Index of the first entry that changed.
    pub entry: usize,
    /// The entries of the changed recording.
    pub entries: Vec<Value>,
}

/// One step from a value to a value inside it.
#[derive(Clone, Debug)]
enum Step {
    Key(String),
    Index(usize),
}

/// A value in the recording: its entry and the steps to it.
#[derive(Clone, Debug)]
struct Place {
    entry: usize,
    way: Vec<Step>,
}

/// A position and all its occurrences.
#[derive(Clone, Debug)]
struct Field {
    position: Position,
    holds: Holds,
    places: Vec<Place>,
}

/// A recording whose agent output can be changed.
#[derive(Clone, Debug)]
pub struct Recording {
    entries: Vec<Value>,
    documents: BTreeMap<usize, Value>,
    fields: Vec<Field>,
}

impl Recording {
    /// Parses the entries of a recording. Entries that are not JSON output of the agent stay
    /// unchanged.
    #[must_use]
    pub fn new(entries: Vec<Value>) -> Self {
        let documents: BTreeMap<usize, Value> = entries
            .iter()
            .enumerate()
            .filter_map(|(at, entry)| Some((at, document(entry)?)))
            .collect();
        let mut fields: BTreeMap<Position, Field> = BTreeMap::new();
        for (&entry, document) in &documents {
            let root = Position { name: kind(document), path: String::new() };
            walk(document, &root, &mut Place { entry, way: Vec::new() }, &mut fields);
        }
        Self { entries, documents, fields: fields.into_values().collect() }
    }

    /// Returns the unchanged entries.
    #[must_use]
    pub fn entries(&self) -> &[Value] {
        &self.entries
    }

    /// Returns every string in the agent's output with its position and the index of its entry.
    pub fn texts(&self) -> impl Iterator<Item = (&Position, usize, &str)> {
        self.fields.iter().flat_map(|field| {
            field.places.iter().filter_map(|place| {
                let text = inside(self.documents.get(&place.entry)?, &place.way)?.as_str()?;
                Some((&field.position, place.entry, text))
            })
        })
    }

    /// Returns every possible change without making it. Pass each to [`Self::mutant`].
    pub fn changes(&self) -> impl Iterator<Item = (&Position, Holds, Change)> {
        self.fields
            .iter()
            .flat_map(|field| field.changes().map(|change| (&field.position, field.holds, change)))
    }

    /// Makes one of the [changes](Self::changes). Returns `None` if the position does not exist.
    #[must_use]
    pub fn mutant(&self, position: &Position, change: Change) -> Option<Mutant> {
        let field = self.fields.iter().find(|field| field.position == *position)?;
        let entries = match change {
            Change::Split => self.split(&field.position.name)?,
            Change::Added => self.with_line_before(field)?,
            Change::RenamedEverywhere => self.renamed_everywhere(last_key(&field.position.path)?),
            _ => self.changed(field, change),
        };
        let entry = match change {
            Change::Added => field.places.last()?.entry,
            _ => field.places.first()?.entry,
        };
        Some(Mutant { position: position.clone(), holds: field.holds, change, entry, entries })
    }

    fn changed(&self, field: &Field, change: Change) -> Vec<Value> {
        let mut documents: BTreeMap<usize, Value> = BTreeMap::new();
        for place in &field.places {
            let document = documents
                .entry(place.entry)
                .or_insert_with(|| self.documents[&place.entry].clone());
            apply(document, &place.way, change);
        }
        self.with(&documents)
    }

    /// Inserts a line of an unknown kind before the last document of a kind. Returns `None` if the
    /// document has no kind, or is not a line.
    fn with_line_before(&self, field: &Field) -> Option<Vec<Value>> {
        let entry = field.places.last()?.entry;
        let mut document = self.documents[&entry].clone();
        if !with_other_kind(&mut document)
            || self.entries[entry].pointer("/in/http-response").is_some()
        {
            return None;
        }
        let mut added = self.entries[entry].clone();
        *output_mut(&mut added)? = document.to_string();
        let mut entries = self.entries.clone();
        entries.insert(entry, added);
        Some(entries)
    }

    fn renamed_everywhere(&self, key: &str) -> Vec<Value> {
        let mut documents = self.documents.clone();
        documents.values_mut().for_each(|document| rename_all(document, key));
        self.with(&documents)
    }

    fn with(&self, documents: &BTreeMap<usize, Value>) -> Vec<Value> {
        let mut entries = self.entries.clone();
        for (&at, document) in documents {
            if let Some(text) = output_mut(&mut entries[at]) {
                *text = document.to_string();
            }
        }
        entries
    }

    /// Splits every single-line document of a kind. Bodies of HTTP responses cannot be split.
    fn split(&self, kind_of: &str) -> Option<Vec<Value>> {
        let mut split = false;
        let mut entries = Vec::with_capacity(self.entries.len() + 1);
        for (at, entry) in self.entries.iter().enumerate() {
            let fits = self.documents.get(&at).is_some_and(|document| kind(document) == kind_of)
                && entry.pointer("/in/http-response").is_none();
            let halves = fits.then(|| halves(entry)).flatten();
            split |= halves.is_some();
            match halves {
                Some(halves) => entries.extend(halves),
                None => entries.push(entry.clone()),
            }
        }
        split.then_some(entries)
    }
}

impl Field {
    fn changes(&self) -> impl Iterator<Item = Change> {
        let of_document = self.position.path.is_empty();
        let changes: &[Change] = match (of_document, self.names_kind()) {
            (true, _) => &[Change::Split, Change::Added],
            (false, true) => &[
                Change::Renamed,
                Change::Nested,
                Change::Retyped,
                Change::RenamedEverywhere,
                Change::OtherKind,
            ],
            (false, false) => {
                &[Change::Renamed, Change::Nested, Change::Retyped, Change::RenamedEverywhere]
            }
        };
        changes.iter().copied()
    }

    /// Returns whether the values name the kind of an object.
    fn names_kind(&self) -> bool {
        self.holds == Holds::Text
            && last_key(&self.position.path).is_some_and(|key| DISCRIMINATORS.contains(&key))
    }
}

/// Returns every changed copy of a recording. For long recordings prefer [`Recording::changes`].
pub fn mutants(recording: &Recording) -> impl Iterator<Item = Mutant> {
    recording.changes().filter_map(|(position, _, change)| recording.mutant(position, change))
}

/// Returns the agent's output in an entry: a line of stdout, an event of a stream, or the body of a
/// response.
#[must_use]
pub fn output(entry: &Value) -> Option<&str> {
    let input = entry.get("in")?;
    if let Some(line) = input.get("line") {
        return line.get("text").filter(|_| line["pipe"] == "stdout")?.as_str();
    }
    input
        .pointer("/stream-event/data")
        .or_else(|| input.pointer("/http-response/body"))
        .and_then(Value::as_str)
}

fn output_mut(entry: &mut Value) -> Option<&mut String> {
    let input = entry.get_mut("in")?;
    let place = ["/line/text", "/stream-event/data", "/http-response/body"]
        .into_iter()
        .find(|place| input.pointer(place).is_some())?;
    match input.pointer_mut(place)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn document(entry: &Value) -> Option<Value> {
    serde_json::from_str(output(entry)?).ok().filter(|document: &Value| {
        document.is_object() || document.as_array().is_some_and(|list| !list.is_empty())
    })
}

/// Returns the values of an object's discriminators in braces, for example `{system/init}`.
fn kind(value: &Value) -> String {
    let words: Vec<&str> = DISCRIMINATORS
        .into_iter()
        .filter_map(|key| value.get(key)?.as_str())
        .filter(|word| word.len() <= MAX_DISCRIMINATOR && !word.contains(char::is_whitespace))
        .collect();
    format!("{{{}}}", words.join("/"))
}

fn walk(
    value: &Value,
    position: &Position,
    place: &mut Place,
    fields: &mut BTreeMap<Position, Field>,
) {
    let holds = match value {
        Value::String(_) => Holds::Text,
        Value::Number(_) => Holds::Number,
        Value::Bool(_) => Holds::Flag,
        _ => Holds::Structure,
    };
    // An element of a list has no key to change.
    if !matches!(place.way.last(), Some(Step::Index(_))) && !value.is_null() {
        fields
            .entry(position.clone())
            .or_insert_with(|| Field { position: position.clone(), holds, places: Vec::new() })
            .places
            .push(place.clone());
    }
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let dot = if position.path.is_empty() { "" } else { "." };
                let of = if inner.is_object() { kind(inner) } else { String::new() };
                let inside = Position {
                    name: format!("{}.{key}{of}", position.name),
                    path: format!("{}{dot}{key}", position.path),
                };
                place.way.push(Step::Key(key.clone()));
                walk(inner, &inside, place, fields);
                place.way.pop();
            }
        }
        Value::Array(list) => {
            for (index, inner) in list.iter().enumerate() {
                let of = if inner.is_object() { kind(inner) } else { String::new() };
                let inside = Position {
                    name: format!("{}[]{of}", position.name),
                    path: format!("{}[]", position.path),
                };
                place.way.push(Step::Index(index));
                walk(inner, &inside, place, fields);
                place.way.pop();
            }
        }
        _ => {}
    }
}

fn inside<'v>(document: &'v Value, way: &[Step]) -> Option<&'v Value> {
    way.iter().try_fold(document, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    })
}

fn last_key(path: &str) -> Option<&str> {
    let key = path.rsplit('.').next()?.trim_end_matches("[]");
    (!key.is_empty()).then_some(key)
}

fn apply(document: &mut Value, way: &[Step], change: Change) {
    let Some((Step::Key(key), above)) = way.split_last() else { return };
    let mut parent = document;
    for step in above {
        let inner = match step {
            Step::Key(key) => parent.get_mut(key),
            Step::Index(index) => parent.get_mut(index),
        };
        let Some(inner) = inner else { return };
        parent = inner;
    }
    let Value::Object(map) = parent else { return };
    let Some(value) = map.remove(key) else { return };
    match change {
        Change::OtherKind => {
            let kind = value.as_str().unwrap_or_default();
            map.insert(key.clone(), format!("{kind}{OTHER_KIND}").into())
        }
        Change::Nested => map.insert(key.clone(), json!({ NESTED: value })),
        Change::Retyped => map.insert(key.clone(), json!([value])),
        _ => map.insert(format!("{key}{RENAMED}"), value),
    };
}

/// Gives a document another kind and another field, and replaces all texts of several words by
/// [`ADDED_TEXT`]. Returns whether it has a kind.
fn with_other_kind(document: &mut Value) -> bool {
    replace_prose(document);
    let Some(fields) = document.as_object_mut() else { return false };
    let mut found = false;
    for key in DISCRIMINATORS {
        if let Some(Value::String(kind)) = fields.get_mut(key) {
            kind.push_str(OTHER_KIND);
            found = true;
        }
    }
    fields.insert("added".to_owned(), ADDED_TEXT.into());
    found
}

fn replace_prose(value: &mut Value) {
    match value {
        Value::String(text) if text.trim().contains(char::is_whitespace) => {
            ADDED_TEXT.clone_into(text);
        }
        Value::Array(list) => list.iter_mut().for_each(replace_prose),
        Value::Object(map) => map.values_mut().for_each(replace_prose),
        _ => {}
    }
}

fn rename_all(value: &mut Value, key: &str) {
    match value {
        Value::Object(map) => {
            if let Some(value) = map.remove(key) {
                map.insert(format!("{key}{RENAMED}"), value);
            }
            map.values_mut().for_each(|value| rename_all(value, key));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| rename_all(value, key)),
        _ => {}
    }
}

/// Returns an entry twice, each with one half of the output.
fn halves(entry: &Value) -> Option<[Value; 2]> {
    let mut first = entry.clone();
    let mut second = entry.clone();
    let text = output_mut(&mut first)?;
    let rest = text.split_off(text.floor_char_boundary(text.len() / 2));
    *output_mut(&mut second)? = rest;
    Some([first, second])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Value {
        json!({"t": 0, "in": {"line": {"proc": 1, "pipe": "stdout", "text": text, "truncated": false}}})
    }

    fn recording(lines: &[&str]) -> Recording {
        Recording::new(lines.iter().map(|text| line(text)).collect())
    }

    #[test]
    fn every_key_of_the_output_is_changed_in_all_documents_of_its_kind() {
        let recording = recording(&[
            r#"{"type":"say","text":"a"}"#,
            r#"{"type":"end","text":"b"}"#,
            r#"{"type":"say","text":"c"}"#,
        ]);
        let mutant = mutants(&recording)
            .find(|mutant| mutant.position.name == "{say}.text" && mutant.change == Change::Renamed)
            .expect("the key has changed");
        let texts: Vec<&str> = mutant.entries.iter().filter_map(output).collect();
        assert_eq!(
            texts,
            [
                r#"{"text_renamed":"a","type":"say"}"#,
                r#"{"type":"end","text":"b"}"#,
                r#"{"text_renamed":"c","type":"say"}"#,
            ]
        );
        assert_eq!((mutant.entry, mutant.holds), (0, Holds::Text));
    }

    #[test]
    fn elements_of_lists_share_a_position_by_kind() {
        let recording = recording(&[r#"{"c":[{"type":"text","v":"a"},{"type":"tool","v":"b"}]}"#]);
        let names: Vec<&str> = recording
            .changes()
            .filter(|(position, _, change)| position.path == "c[].v" && *change == Change::Renamed)
            .map(|(position, ..)| position.name.as_str())
            .collect();
        assert_eq!(names, ["{}.c[]{text}.v", "{}.c[]{tool}.v"]);
    }

    #[test]
    fn keys_are_renamed_or_wrapped_and_lines_are_split() {
        let recording = recording(&[r#"{"text":"é","in":{"text":"b"}}"#, "not JSON"]);
        let position = |path: &str| {
            recording
                .changes()
                .map(|(position, ..)| position)
                .find(|position| position.path == path)
                .expect("it exists")
        };
        let changed = |path: &str, change| {
            let mutant = recording.mutant(position(path), change).expect("the change is possible");
            mutant.entries.iter().filter_map(|entry| output(entry).map(str::to_owned)).collect()
        };
        let texts: Vec<String> = changed("in.text", Change::RenamedEverywhere);
        assert_eq!(texts, [r#"{"in":{"text_renamed":"b"},"text_renamed":"é"}"#, "not JSON"]);
        let texts: Vec<String> = changed("text", Change::Nested);
        assert_eq!(texts[0], r#"{"in":{"text":"b"},"text":{"nested":"é"}}"#);
        let texts: Vec<String> = changed("text", Change::Retyped);
        assert_eq!(texts[0], r#"{"in":{"text":"b"},"text":["é"]}"#);
        let texts: Vec<String> = changed("", Change::Split);
        assert_eq!(texts.concat(), r#"{"text":"é","in":{"text":"b"}}not JSON"#);
        assert_eq!(texts.len(), 3);
    }

    #[test]
    fn kinds_get_another_name_and_lines_of_unknown_kinds_are_added() {
        let recording = recording(&[r#"{"type":"say","text":"a b"}"#, r#"{"text":"a b"}"#]);
        let texts = |path: &str, change| {
            let field = |(position, _, of): &(&Position, Holds, Change)| {
                position.path == path && *of == change && position.name.starts_with("{say}")
            };
            let (position, ..) = recording.changes().find(field).expect("it exists");
            let mutant = recording.mutant(position, change).expect("the change is possible");
            let texts = mutant.entries.iter().filter_map(|entry| output(entry).map(str::to_owned));
            texts.collect::<Vec<_>>()
        };
        assert_eq!(texts("type", Change::OtherKind)[0], r#"{"text":"a b","type":"say_v2"}"#);
        let added = format!(r#"{{"added":"{ADDED_TEXT}","text":"{ADDED_TEXT}","type":"say_v2"}}"#);
        assert_eq!(texts("", Change::Added)[0], added);
        let of_text = recording.changes().filter(|(position, _, change)| {
            position.path == "text" && *change == Change::OtherKind
        });
        assert_eq!(of_text.count(), 0, "it names no kind");
        let unknown = Position { name: "{}".to_owned(), path: String::new() };
        assert!(recording.mutant(&unknown, Change::Added).is_none(), "it has no kind");
    }
}
