//! Tests that each promise in the documents is listed in `docs/promises.md` with the tests that
//! attack it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::requirements::document::{Proof, places, proof};

const PAGE: &str = "docs/promises.md";
/// Documents with promises, and the section that contains them, or `None` for the whole document.
const DOCUMENTS: [(&str, Option<&str>); 2] =
    [("README.md", Some("What it promises")), ("SECURITY.md", None)];
/// Marks that a row may have instead of tests.
const MARKS: [&str; 4] = ["*advice*", "*explanation*", "*limit*", "*maintainers*"];

fn read(path: &str) -> Option<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).ok()
}

/// Removes links, emphasis and line breaks. A bold sentence at the beginning of a paragraph gets a
/// colon.
fn plain(text: &str) -> String {
    let mut text = text.to_owned();
    let lead = text.strip_prefix("**").and_then(|rest| rest.split_once(".**"));
    if let Some((lead, rest)) = lead.filter(|(lead, _)| !lead.contains('*')) {
        text = format!("{lead}:{rest}");
    }
    let mut text = text.replace("**", "");
    while let Some(middle) = text.find("](") {
        let Some(start) = text[..middle].rfind('[') else { break };
        let Some(end) = text[middle..].find(')') else { break };
        let named = text[start + 1..middle].to_owned();
        text.replace_range(start..=middle + end, &named);
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Splits a text after each full stop, question mark or exclamation mark that a new sentence
/// follows.
fn sentences(text: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), text);
    let mut from = 0;
    while let Some(at) = rest[from..].find(". ").map(|at| from + at + 2) {
        let begins = |next: char| next.is_ascii_uppercase() || next == '`';
        if rest[at..].starts_with(begins) {
            found.push(rest[..at].trim_end().to_owned());
            (rest, from) = (&rest[at..], 0);
        } else {
            from = at;
        }
    }
    found.push(rest.to_owned());
    found
}

/// Returns the sentences of a document. A row of a table is one sentence. `section` is a heading.
fn promised(text: &str, section: Option<&str>) -> Vec<String> {
    let (mut found, mut block, mut heading, mut rows) = (Vec::new(), String::new(), "", 0);
    let wanted = |heading: &str| section.is_none_or(|section| section == heading);
    for line in text.lines().chain([""]).map(str::trim) {
        let is_row = line.starts_with('|');
        let is_item = line.starts_with("- ") || line.starts_with("* ");
        if line.is_empty() || line.starts_with(['#', '!']) || is_row || is_item {
            if !block.is_empty() && wanted(heading) {
                found.extend(sentences(&plain(&block)));
            }
            block.clear();
        }
        rows = if is_row { rows + 1 } else { 0 };
        if let Some(title) = line.strip_prefix('#') {
            heading = title.trim_start_matches(['#', ' ']);
        } else if is_row && rows > 2 && wanted(heading) {
            let cells = line.trim_matches('|').split('|').map(str::trim);
            let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
            found.push(plain(&cells.join(" · ")));
        } else if is_item {
            line[2..].clone_into(&mut block);
        } else if !is_row && !line.starts_with('!') {
            block.push(' ');
            block.push_str(line);
            block = block.trim().to_owned();
        }
    }
    found
}

/// Returns the rows of the page: a sentence, and the text beside it.
fn rows(page: &str) -> Vec<(String, String)> {
    let page = page.split_once("\n## ").map_or(page, |(_, tables)| tables);
    page.lines()
        .filter(|line| line.starts_with("| ") && *line != "| sentence | attacked by |")
        .filter_map(|line| line.trim_matches('|').split_once(" | "))
        .map(|(sentence, tests)| (sentence.trim().to_owned(), tests.trim().to_owned()))
        .collect()
}

/// Returns the problems with the tests of a row.
fn faults(sentence: &str, shown: &str) -> Vec<String> {
    if MARKS.contains(&shown) {
        return Vec::new();
    }
    let names: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
    let (targets, tests): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| name.starts_with("make "));
    let (mut faults, mut always) = (Vec::new(), false);
    for test in &tests {
        let (places, function) = places(test);
        let file = |place: &std::path::PathBuf| read(place.to_str()?);
        match places.iter().filter_map(file).find_map(|text| proof(&text, function)) {
            Some(found) => always |= found == Proof::Always,
            None => faults.push(format!("there is no test `{test}`")),
        }
    }
    if tests.is_empty() {
        faults.push(format!("neither a test nor a mark: {sentence}"));
    } else if !always && targets.is_empty() && faults.is_empty() {
        faults.push(format!("`make test` runs none of its tests: {sentence}"));
    }
    faults
}

#[test]
fn each_sentence_that_promises_something_names_tests_that_exist() {
    let page = read(PAGE).expect(PAGE);
    let rows = rows(&page);
    let promised: Vec<String> = DOCUMENTS
        .iter()
        .flat_map(|(path, section)| promised(&read(path).expect(path), *section))
        .collect();
    assert!(promised.len() > 150, "the search finds them: {}", promised.len());
    let mut wrong: Vec<String> =
        rows.iter().flat_map(|(sentence, shown)| faults(sentence, shown)).collect();
    let listed: BTreeSet<&str> = rows.iter().map(|(sentence, _)| sentence.as_str()).collect();
    let said: BTreeSet<&str> = promised.iter().map(String::as_str).collect();
    wrong.extend(said.difference(&listed).map(|sentence| format!("not listed: {sentence}")));
    wrong.extend(listed.difference(&said).map(|sentence| format!("said nowhere: {sentence}")));
    assert!(wrong.is_empty(), "{PAGE}:\n{}", wrong.join("\n"));
}

#[test]
fn sentences_and_rows_are_found_without_links_and_emphasis() {
    let text = "# Title\nOne [two](three.md) `a.b` c. Two goes\non (e.g. so).\n\n## Next\n\
                | a | b |\n|---|---|\n| x | [y](z) |\n\n- **Lead.** Then `more`.\n* last: end\n";
    let all = ["One two `a.b` c.", "Two goes on (e.g. so).", "x · y", "Lead: Then `more`."];
    assert_eq!(promised(text, None), [&all[..], &["last: end"]].concat());
    assert_eq!(promised(text, Some("Title")), all[..2]);
}

#[test]
fn a_row_without_a_test_that_runs_is_a_fault() {
    assert!(faults("s", "*limit*").is_empty());
    assert!(faults("s", "`promises::a_row_without_a_test_that_runs_is_a_fault`").is_empty());
    assert_eq!(
        faults("s", "`promises::no_such_test`"),
        ["there is no test `promises::no_such_test`"]
    );
    assert_eq!(faults("s", "trust us").len(), 1);
    let measured = "`process::confined::confined_start`";
    assert_eq!(faults("s", measured).len(), 1, "it is ignored");
    assert!(faults("s", &format!("`make measure`: {measured}")).is_empty());
}
