//! Finds lines of a heartbeat or cron job that are written like entries but were not read. Pure.

use std::collections::HashSet;

use aetheel_model::markdown::KeyValue;
use aetheel_model::markdown::layout::{
    LayoutFault, MarkdownError, is_failed_heading, is_underline, key_of, misspelled,
};
use aetheel_model::markdown::outline::{
    OutlineSection, SettingsBlock, TextLine, parse_entry, strip_bullet,
};

/// Returns the faults of a part's lines, of which `read` were read as entries with one of `keys`.
pub(super) fn unread_entries(
    part: &OutlineSection,
    read: &HashSet<usize>,
    keys: &[&str],
) -> Vec<LayoutFault> {
    let is_known = |key: &String| keys.contains(&key.as_str());
    let title = key_of(&part.title).filter(is_known);
    let mut faults: Vec<LayoutFault> =
        title.map(|key| (part.line, MarkdownError::NotAnEntry(key))).into_iter().collect();
    let mut before = "";
    for TextLine { number, text } in &part.body {
        let known = || key_of(text).filter(is_known).or_else(|| without_colon(text, keys));
        let error = if read.contains(number) {
            None
        } else if let Some(key) = known() {
            Some(MarkdownError::NotAnEntry(key))
        } else if is_failed_heading(text) || is_underline(text, before) {
            Some(MarkdownError::NotAHeading)
        } else {
            misspelled_item(text, keys)
        };
        faults.extend(error.map(|error| (*number, error)));
        before = text;
    }
    faults
}

/// Returns the key of a short list item that has no colon after its key.
fn without_colon(line: &str, keys: &[&str]) -> Option<String> {
    let item = strip_bullet(line)?.to_lowercase().replace('_', "-");
    let begins = |key: &&&str| {
        let rest = item.strip_prefix(**key).or_else(|| item.strip_prefix(&key.replace('-', " ")));
        rest.is_some_and(|rest| rest.starts_with(' ') && rest.split_whitespace().count() <= 3)
    };
    keys.iter().find(begins).map(|key| (*key).to_owned())
}

/// Returns the fault of a list item with a misspelled key of several words. [`entry_faults`] finds
/// those of one word that come before the prompt.
fn misspelled_item(line: &str, keys: &[&str]) -> Option<MarkdownError> {
    let (key, _, is_item) = parse_entry(line)?;
    (is_item && key.contains('-')).then(|| misspelled(&key, keys)).flatten()
}

/// Returns the faults of the entries of one heartbeat or job. `aliases` lists keys with the same
/// meaning as another key, each with that key.
pub(super) fn entry_faults(
    block: &SettingsBlock,
    keys: &[&str],
    aliases: &[(&str, &str)],
) -> Vec<LayoutFault> {
    let mut seen = HashSet::new();
    let fault = |entry: &KeyValue| {
        if entry.text().is_empty() {
            return Some((entry.line, MarkdownError::NoValue(entry.key.clone())));
        }
        let meaning = aliases.iter().find(|(alias, _)| *alias == entry.key);
        let is_new = seen.insert(meaning.map_or(entry.key.as_str(), |(_, same)| *same).to_owned());
        (!is_new).then(|| (entry.line, MarkdownError::Repeated(entry.key.clone())))
    };
    let mut faults: Vec<LayoutFault> = block.entries.iter().filter_map(fault).collect();
    let unknown = block.unknown.iter();
    faults.extend(unknown.filter_map(|(line, key)| Some((*line, misspelled(key, keys)?))));
    faults
}

/// Returns a line for each entry whose key is unknown and similar to none of `keys`.
pub(super) fn ignored_entries(file: &str, block: &SettingsBlock, keys: &[&str]) -> Vec<String> {
    let ignored = block.unknown.iter().filter(|(_, key)| misspelled(key, keys).is_none());
    let line = |(line, key): &(usize, String)| {
        format!("{file} line {line}: `{key}` is unknown here; it is ignored")
    };
    ignored.map(line).collect()
}
