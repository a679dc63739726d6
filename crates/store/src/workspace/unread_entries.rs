//! Finds lines of a heartbeat or cron job that are written like entries but were not read. Pure.

use std::collections::HashSet;

use aetheel_model::markdown::KeyValue;
use aetheel_model::markdown::layout::{
    LayoutFault, MarkdownError, is_failed_heading, is_underline, key_of,
};
use aetheel_model::markdown::outline::{OutlineSection, TextLine, strip_bullet};

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
        } else {
            (is_failed_heading(text) || is_underline(text, before))
                .then_some(MarkdownError::NotAHeading)
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

/// Returns the faults of the entries of one heartbeat or job.
pub(super) fn entry_faults(entries: &[KeyValue]) -> Vec<LayoutFault> {
    let mut keys = HashSet::new();
    let fault = |entry: &KeyValue| {
        if entry.text().is_empty() {
            return Some((entry.line, MarkdownError::NoValue(entry.key.clone())));
        }
        let is_new = keys.insert(entry.key.clone());
        (!is_new).then(|| (entry.line, MarkdownError::Repeated(entry.key.clone())))
    };
    entries.iter().filter_map(fault).collect()
}
