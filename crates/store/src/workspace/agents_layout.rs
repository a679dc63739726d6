//! Finds parts of `agents.md` that are written like a section of cron jobs or hooks, but are not
//! read as such. The rest of the file is prose for the agent and may contain anything. Pure.

use aetheel_model::markdown::layout::{is_failed_heading, is_underline};
use aetheel_model::markdown::outline::{OutlineSection, TextLine, outline};
use aetheel_model::suggest::nearest;

/// A section of `agents.md` that the gateway reads.
pub(super) struct AgentsSection<'a> {
    /// Its titles in lower case, the usual one first.
    pub titles: &'a [&'a str],
    /// Returns whether a title outside the section is that of a part of it.
    pub is_part: &'a dyn Fn(&OutlineSection) -> bool,
    /// Returns whether a line outside the section is written like a part of it.
    pub is_item: &'a dyn Fn(&TextLine) -> bool,
    /// A word in titles of sections that are probably meant.
    pub word: &'a str,
}

impl AgentsSection<'_> {
    pub(super) fn faults(&self, text: &str) -> Vec<String> {
        let usual = self.titles[0];
        let mut faults: Vec<(usize, String)> = Vec::new();
        let mut inside: Option<usize> = None;
        let mut is_meant = false;
        for part in outline(text) {
            let title = part.plain_title().to_lowercase();
            if part.level > 0 && self.titles.contains(&title.as_str()) {
                inside = Some(part.level);
            } else if inside.is_none_or(|level| part.level <= level) {
                inside = None;
                let is_new = |text: &str| !self.titles.contains(&text);
                is_meant = is_new(&title)
                    && (title.contains(self.word)
                        || nearest(&title, self.titles.iter().copied()).is_some())
                    || (is_meant && part.level > 1 && (self.is_part)(&part));
                if (self.is_part)(&part) {
                    let what =
                        format!("this belongs to no section `## {usual}`, so it is not read");
                    faults.push((part.line, what));
                }
                let items = part.body.iter().filter(|line| is_meant && (self.is_item)(line));
                faults.extend(items.take(1).map(|line| {
                    let what = format!("this is not read: it belongs below a heading `## {usual}`");
                    (line.number, what)
                }));
            }
            faults.extend(self.failed_headings(&part));
        }
        faults.into_iter().map(|(line, fault)| format!("agents.md line {line}: {fault}")).collect()
    }

    /// Returns lines that name the section but are not headings.
    fn failed_headings(&self, part: &OutlineSection) -> Vec<(usize, String)> {
        let is_title = |line: &str| {
            let plain = line.trim_matches(|c: char| c.is_whitespace() || "#>*_`:-".contains(c));
            self.titles.contains(&plain.to_lowercase().as_str())
        };
        let lines = part.body.iter().zip(part.body.iter().skip(1).map(Some).chain([None]));
        let failed = lines.filter(|(line, next)| {
            let is_heading = is_failed_heading(&line.text)
                || line.text.starts_with('#')
                || next.is_some_and(|next| {
                    is_underline(&next.text, &line.text) || (self.is_item)(next)
                });
            is_heading && is_title(&line.text)
        });
        let what = format!("this is not a heading; write `## {}` at the margin", self.titles[0]);
        failed.map(|(line, _)| (line.number, what.clone())).collect()
    }
}
