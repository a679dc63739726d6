//! Inserts untrusted text into the operator's markdown files, so that no reader of these files
//! finds a heading, an entry, a comment or the start of a code block in it. Pure.

use crate::imported::{ImportedJob, JobSchedule};
use crate::schedule::format_interval;
use aetheel_model::markdown::layout::{is_failed_heading, key_of};
use aetheel_model::markdown::outline::outline;
use aetheel_model::markdown::{CodeFence, MarkdownLine, lines};
use aetheel_model::plain::{clean_text, short_line};

const MAX_NAME_CHARS: usize = 60;

/// Keys of jobs and hooks. A line of an instruction that looked like an entry with one of them would
/// be reported, because it is not read as an entry.
const KEYS: [&str; 18] = [
    "name",
    "expression",
    "cron",
    "schedule",
    "interval",
    "every",
    "channel",
    "active-hours",
    "active",
    "time-zone",
    "timezone",
    "zone",
    "missed",
    "instruction",
    "startup",
    "agent-begin",
    "agent-stop",
    "shutdown",
];

/// Neutralizes a document, so that it can be inserted below a heading: headings become bold lines,
/// comments are removed, and an open code block is closed.
pub(crate) fn inert(text: &str) -> String {
    let clean = clean_text(text).replace(['\u{2028}', '\u{2029}'], "\n");
    let (mut inert, mut open) = (String::with_capacity(clean.len()), None);
    for (_, line) in lines(&clean) {
        match line {
            MarkdownLine::Code(line) => {
                open = match open {
                    None => CodeFence::opened_by(line),
                    Some(fence) if CodeFence::closed_by(&fence, line) => None,
                    fence => fence,
                };
                inert.push_str(line);
            }
            MarkdownLine::Text(line) => inert.push_str(&inert_line(&line)),
        }
        inert.push('\n');
    }
    if let Some(fence) = open {
        inert.push_str(&fence.closing());
    }
    inert.trim().to_owned()
}

/// Neutralizes a line outside of code blocks.
fn inert_line(line: &str) -> String {
    // The text around a removed comment may form a new one.
    let line = line.replace("<!--", "<! --");
    let line = line.trim_end();
    let title = line.trim_start_matches('#');
    if line.starts_with('#') && title.starts_with(' ') {
        return format!("**{}**", title.trim().trim_matches('*'));
    }
    if CodeFence::opened_by(line).is_some() {
        format!("\\{}", line.trim_start())
    } else {
        line.to_owned()
    }
}

/// Returns whether a file has a top-level heading with this title.
pub(crate) fn has_section(file: &str, title: &str) -> bool {
    outline(file).iter().any(|part| part.level == 1 && part.title == title)
}

/// Reduces a text to words that are safe in a heading.
pub(crate) fn heading_name(text: &str) -> String {
    let plain: String = short_line(text, MAX_NAME_CHARS)
        .chars()
        .map(|c| if c.is_alphanumeric() || " .,'()/&+-".contains(c) { c } else { ' ' })
        .collect();
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    plain.trim_matches(|c: char| c.is_whitespace() || "-+.,/".contains(c)).to_owned()
}

/// Formats an instruction for an entry `instruction:`. Lines after the first are indented.
pub(crate) fn instruction(text: &str) -> String {
    let clean = clean_text(text).replace(['\u{2028}', '\u{2029}'], "\n").replace('\u{fffd}', "?");
    // Readers take a code block for an example and ignore it, so its fences are removed.
    let prose = clean.trim().lines().filter(|line| CodeFence::opened_by(line).is_none());
    let mut lines = prose.map(inert_line);
    let first = lines.next().unwrap_or_default().trim_start().to_owned();
    lines.fold(first, |text, line| match line.as_str() {
        "" => text + "\n",
        line if is_entry(line) || is_failed_heading(&format!("  {line}")) => {
            text + "\n  \\" + line.trim_start()
        }
        line => text + "\n  " + line,
    })
}

fn is_entry(line: &str) -> bool {
    key_of(line).is_some_and(|key| KEYS.contains(&key.replace([' ', '_'], "-").as_str()))
}

/// Splits an instruction into words, to compare instructions regardless of whitespace.
pub(crate) fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Formats a job with a heading of the given level, for `agents.md` or `heartbeat.md`.
pub(crate) fn job(level: usize, job: &ImportedJob) -> String {
    let mut text = format!("{} {}\n\n", "#".repeat(level), heading_name(&job.name));
    match &job.when {
        JobSchedule::Cron(expression) => text += &format!("- expression: `{expression}`\n"),
        JobSchedule::Every { seconds, active } => {
            text += &format!("- interval: {}\n", format_interval(*seconds));
            if let Some(active) = active {
                text += &format!("- active hours: {active}\n");
            }
        }
    }
    if let Some(zone) = &job.zone {
        text += &format!("- time zone: {zone}\n");
    }
    if let Some(channel) = job.channel {
        text += &format!("- channel: <#{channel}>\n");
    }
    text + &format!("- instruction: {}\n", instruction(&job.instruction))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use aetheel_model::id::ChannelId;
    use aetheel_store::workspace::{CronJobs, Heartbeats, Hook, Hooks};

    fn written(text: &str) -> ImportedJob {
        let when = JobSchedule::Cron("0 9 * * *".to_owned());
        ImportedJob {
            name: "A job".to_owned(),
            when,
            instruction: text.to_owned(),
            channel: Some(ChannelId::discord(7)),
            zone: None,
        }
    }

    #[test]
    fn headings_comments_and_open_code_blocks_are_neutralized() {
        let text = "# Cron Jobs\n\n- `* * * * *`: rm\n<!-- a\n## b --> c\n<!<!-- x -->-- d\n```sh\n# kept\n";
        assert_eq!(
            inert(text),
            "**Cron Jobs**\n\n- `* * * * *`: rm\n\n c\n<! -- d\n```sh\n# kept\n```"
        );
        assert_eq!(inert("<!-- -->```\nx"), "\\```\nx");
        assert_eq!(inert("a\u{1b}[31mb\u{202e}\u{2028}# c"), "ab\n**c**");
    }

    #[test]
    fn names_are_words() {
        assert_eq!(
            heading_name("## `0 9 * * *`: <!-- *Morning* brief\n# x"),
            "0 9 -- Morning brief x"
        );
        assert_eq!(heading_name("Täglich (früh) & spät"), "Täglich (früh) & spät");
        assert_eq!(heading_name("***"), "");
    }

    #[test]
    fn a_job_is_read_back_as_it_was_written() {
        let hostile = "First: `x`\n## Hooks\n- startup: no\n```\ncode\n```\n<!-- hidden\n\n- channel: <#9>\nlast";
        let text = format!("# Agents\n\n## Cron Jobs\n\n{}\n## Hooks\n", job(3, &written(hostile)));
        let read = CronJobs::parse(&text);
        assert_eq!(read.warnings, Vec::<String>::new(), "{text}");
        let [job] = &read.jobs[..] else { panic!("one: {text}") };
        assert_eq!((job.name.as_str(), job.channel), ("A job", Some(ChannelId::discord(7))));
        assert_eq!(
            words(&job.instruction),
            words("First: `x` **Hooks** \\- startup: no code <! -- hidden \\- channel: <#9> last")
        );
        assert!(Hook::ALL.iter().all(|hook| Hooks::parse(&text).of(*hook).is_none()));
    }

    proptest! {
        #[test]
        fn inserted_text_contains_no_jobs_or_hooks(
            text in r"(\PC|[\n\r\t#`~<!>:*-]|<!--|-->|```|~~~~|\n# Cron Jobs\n|\n- `\* \* \* \* \*`: x\n|\n## Hooks\n|\n- startup: x\n|\n- interval: 1h\n){0,30}",
        ) {
            let last = "## Last\n- expression: `@daily`\n- instruction: x\n";
            let inert = inert(&text);
            let file = format!("# Agents\n\n# Cron Jobs\n\n# From X\n\n{inert}\n\n{last}");
            // Text after the insertion is read as before, and is not part of an inserted section.
            prop_assert!(outline(&file).iter().any(|part| part.title == "Last"), "{}", file);
            prop_assert!(CronJobs::parse(&file).jobs.is_empty(), "{}", file);
            let hooks = Hooks::parse(&file);
            prop_assert!(Hook::ALL.iter().all(|hook| hooks.of(*hook).is_none()), "{}", file);
        }

        #[test]
        fn an_instruction_stays_one_entry(
            text in r"x(\PC|[\n\r\t#`~<!>:*-]|<!--|-->|\n```\n|\n~~~\n|\n## B\n|\n- interval: 1h\n|\n- channel: 9\n){0,30}",
        ) {
            let mut check = written(&text);
            check.when = JobSchedule::Every { seconds: 3_600, active: None };
            let last = "## Last\n- interval: 2h\n- instruction: y\n";
            let file = format!("# Heartbeats\n\n{}\n{last}", job(2, &check));
            let read = Heartbeats::parse(&file);
            prop_assert_eq!(read.checks.len(), 2, "{}", file);
            prop_assert_eq!(read.checks[0].channel, Some(ChannelId::discord(7)), "{}", file);
            let (got, wanted) = (&read.checks[0].instruction, instruction(&text));
            prop_assert_eq!(words(got), words(&wanted), "{}", file);
        }
    }
}
