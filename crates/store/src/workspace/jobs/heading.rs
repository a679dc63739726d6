//! A line that contains the cron expression of a job.

use super::super::fields::clean_name;
use aetheel_model::markdown::layout::key_of;
use aetheel_model::markdown::outline::{TextLine, strip_bullet};
use aetheel_model::schedule::Cron;

/// A line that contains a cron expression, split into its parts.
pub(super) struct JobHeading {
    pub(super) before: String,
    pub(super) expression: String,
    pub(super) after: String,
}

/// Finds an expression: in a code span, before a colon, or as the whole line.
pub(super) fn split_expression(line: &str) -> Option<JobHeading> {
    let tidy = |text: &str| {
        text.trim_start_matches(|c: char| c.is_whitespace() || ":–—-→=*".contains(c))
            .trim_end()
            .to_owned()
    };
    let pieces: Vec<&str> = line.split('`').collect();
    let spans = || (1..pieces.len().saturating_sub(1)).step_by(2);
    if let Some(at) =
        spans().find(|at| looks_like_expression(pieces[*at])).or_else(|| spans().next())
    {
        let (before, after) = (pieces[..at].join("`"), pieces[at + 1..].join("`"));
        return Some(JobHeading {
            before: clean_name(&before),
            expression: pieces[at].trim().to_owned(),
            after: tidy(&after),
        });
    }
    let (first, after) = line.split_once(':').unwrap_or((line, ""));
    looks_like_expression(first).then(|| JobHeading {
        before: String::new(),
        expression: first.trim().to_owned(),
        after: tidy(after),
    })
}

/// Returns whether a text looks like an expression: a word such as `@daily`, or at least five words
/// that could be fields.
fn looks_like_expression(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let field = |word: &str| word.contains(|c: char| c.is_ascii_digit() || "*?".contains(c));
    text.trim().starts_with('@')
        || (words.clone().count() >= 5 && words.by_ref().take(3).all(field))
}

pub(super) fn is_expression_entry(line: &TextLine) -> bool {
    let is_expression = |key: String| ["expression", "cron", "schedule"].contains(&key.as_str());
    let value = line.text.split_once(':').map_or("", |(_, value)| value.trim().trim_matches('`'));
    key_of(&line.text).is_some_and(is_expression) && value.parse::<Cron>().is_ok()
}

/// Returns whether a line is written like a job, whatever its bullet and its backticks.
pub(super) fn is_unread_job(line: &str) -> bool {
    let is_cron = |text: &str| text.trim().parse::<Cron>().is_ok();
    let text = line.trim_start();
    let text = strip_bullet(text).unwrap_or(text);
    if split_expression(text).is_some_and(|head| is_cron(&head.expression)) {
        return true;
    }
    let plain = line.replace('`', "");
    let Some((head, _)) = plain.split_once(':') else { return false };
    let is_mark = |c: char| c.is_whitespace() || "#>-+_~|".contains(c);
    let head = head.trim_start_matches(is_mark);
    is_cron(head) || is_cron(head.trim_start_matches(|c| is_mark(c) || c == '*'))
}
