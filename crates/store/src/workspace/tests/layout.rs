//! A slip of layout in an operator's file never drops or loosens a setting without a fault.

use super::layout_files::{
    FILES, LimitReading, OperatorFile, budgets, channels, heartbeats, hooks, jobs, profiles,
    webhooks,
};

/// Edits of one line, by their name. `None` if the edit does not apply to the line.
type Edit = (&'static str, fn(&str) -> Option<String>);

fn heading(line: &str) -> Option<&str> {
    line.strip_prefix("## ").or_else(|| line.strip_prefix("### "))
}

fn entry(line: &str) -> Option<&str> {
    line.strip_prefix("- ").filter(|entry| entry.contains(": "))
}

const EDITS: [Edit; 60] = [
    ("level 1", |line| Some(format!("# {}", heading(line)?))),
    ("level 2", |line| Some(format!("## {}", heading(line)?))),
    ("level 3", |line| Some(format!("### {}", heading(line)?))),
    ("level 4", |line| Some(format!("#### {}", heading(line)?))),
    ("level 6", |line| Some(format!("###### {}", heading(line)?))),
    ("level 7", |line| Some(format!("####### {}", heading(line)?))),
    ("no space", |line| Some(format!("##{}", heading(line)?))),
    ("one sign without a space", |line| Some(format!("#{}", heading(line)?))),
    ("a tab after the signs", |line| Some(format!("##\t{}", heading(line)?))),
    ("a hard space after the signs", |line| Some(format!("##\u{a0}{}", heading(line)?))),
    ("an indented heading", |line| Some(format!(" ## {}", heading(line)?))),
    ("a heading after a tab", |line| Some(format!("\t## {}", heading(line)?))),
    ("a quoted heading", |line| Some(format!("> ## {}", heading(line)?))),
    ("a heading in a list", |line| Some(format!("- ## {}", heading(line)?))),
    ("bold instead of a heading", |line| Some(format!("**{}**", heading(line)?))),
    ("a plain line instead of a heading", |line| Some(heading(line)?.to_owned())),
    ("underlined with dashes", |line| Some(format!("{}\n---", heading(line)?))),
    ("underlined with equals signs", |line| Some(format!("{}\n===", heading(line)?))),
    ("a heading without a name", |line| heading(line).map(|_| "## ".to_owned())),
    ("indented by two", |line| Some(format!("  - {}", entry(line)?))),
    ("indented by four", |line| Some(format!("    - {}", entry(line)?))),
    ("indented by a tab", |line| Some(format!("\t- {}", entry(line)?))),
    ("no bullet", |line| Some(entry(line)?.to_owned())),
    ("no bullet, indented", |line| Some(format!("  {}", entry(line)?))),
    ("a round bullet", |line| Some(format!("• {}", entry(line)?))),
    ("a long dash", |line| Some(format!("– {}", entry(line)?))),
    ("no space after the bullet", |line| Some(format!("-{}", entry(line)?))),
    ("a hard space after the bullet", |line| Some(format!("-\u{a0}{}", entry(line)?))),
    ("a tab after the bullet", |line| Some(format!("-\t{}", entry(line)?))),
    ("a numbered item", |line| Some(format!("1. {}", entry(line)?))),
    ("a task", |line| Some(format!("- [x] {}", entry(line)?))),
    ("a quoted entry", |line| Some(format!("> - {}", entry(line)?))),
    ("an invisible character", |line| Some(format!("\u{200b}- {}", entry(line)?))),
    ("a sign for a comment", |line| Some(format!("# - {}", entry(line)?))),
    ("two signs for a comment", |line| Some(format!("## {}", entry(line)?))),
    ("a bold key", |line| Some(format!("- **{}", entry(line)?.replacen(": ", "**: ", 1)))),
    ("an equals sign", |line| Some(format!("- {}", entry(line)?.replacen(": ", " = ", 1)))),
    ("a wide colon", |line| Some(format!("- {}", entry(line)?.replacen(": ", "：", 1)))),
    ("no colon", |line| Some(format!("- {}", entry(line)?.replacen(": ", " ", 1)))),
    ("the value on the next line", |line| {
        Some(format!("- {}", entry(line)?.replacen(": ", ":\n", 1)))
    }),
    ("no value", |line| Some(format!("- {}:", entry(line)?.split_once(": ")?.0))),
    ("in a comment", |line| Some(format!("<!-- {line} -->"))),
    ("in a comment of several lines", |line| Some(format!("<!--\n{line}\n-->"))),
    ("after an open comment", |line| Some(format!("<!-- why\n{line}"))),
    ("after an open fence", |line| Some(format!("```\n{line}"))),
    ("after an open fence of tildes", |line| Some(format!("~~~\n{line}"))),
    ("a carriage return", |line| Some(format!("{line}\r- x"))),
    ("a star", |line| Some(format!("* {}", entry(line)?))),
    ("a plus", |line| Some(format!("+ {}", entry(line)?))),
    ("two spaces after the bullet", |line| Some(format!("-  {}", entry(line)?))),
    ("a space before the colon", |line| {
        Some(format!("- {}", entry(line)?.replacen(": ", " : ", 1)))
    }),
    ("no space after the colon", |line| Some(format!("- {}", entry(line)?.replacen(": ", ":", 1)))),
    ("a quoted key", |line| Some(format!("- \"{}", entry(line)?.replacen(": ", "\": ", 1)))),
    ("a key in capitals", |line| {
        let (key, value) = entry(line)?.split_once(": ")?;
        (!key.starts_with('`')).then(|| format!("- {}: {value}", key.to_uppercase()))
    }),
    ("a missing character", |line| {
        let entry = entry(line)?;
        (!entry.starts_with('`')).then(|| format!("- {}{}", &entry[..1], &entry[2..]))
    }),
    ("a double character", |line| {
        let entry = entry(line)?;
        (!entry.starts_with('`')).then(|| format!("- {}{entry}", &entry[..1]))
    }),
    ("signs after the heading", |line| heading(line).map(|_| format!("{line} ##"))),
    ("a colon after the heading", |line| heading(line).map(|_| format!("{line}:"))),
    ("a bold heading", |line| {
        let (signs, title) = line.split_once(' ').filter(|_| heading(line).is_some())?;
        Some(format!("{signs} **{title}**"))
    }),
    ("a repeated heading", |line| heading(line).map(|_| format!("{line}\n{line}"))),
];

fn is_setting(line: &str) -> bool {
    heading(line).is_some() || entry(line).is_some()
}

/// Returns whether a changed file is read as before, or has a fault and sets nothing else.
fn is_safe(file: &OperatorFile, wanted: &LimitReading, found: &LimitReading) -> bool {
    let is_allowed = |item: &String| file.may_change || wanted.items.contains(item);
    match found.faults.is_empty() {
        true => found.items == wanted.items,
        false => found.items.iter().all(is_allowed),
    }
}

#[test]
fn an_edit_of_one_lines_layout_changes_nothing_or_is_a_fault_and_loosens_nothing() {
    let (mut tried, mut failed) = (0, Vec::new());
    for file in &FILES {
        let wanted = (file.read)(file.text);
        assert_eq!(wanted.faults, [""; 0], "{}", file.name);
        for (number, line) in (1..).zip(file.text.lines()).filter(|(_, line)| is_setting(line)) {
            for (name, edit) in &EDITS {
                // `agents.md` may contain complete comments.
                if file.name == "agents.md" && name.starts_with("in a comment") {
                    continue;
                }
                let Some(edited) = edit(line) else { continue };
                let text: Vec<&str> = (1..)
                    .zip(file.text.lines())
                    .map(|(at, other)| if at == number { edited.as_str() } else { other })
                    .collect();
                let found = (file.read)(&(text.join("\n") + "\n"));
                tried += 1;
                if !is_safe(file, &wanted, &found) {
                    failed
                        .push(format!("{} line {number}, {name}: {line:?}\n{found:#?}", file.name));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{} of {tried}:\n{}", failed.len(), failed.join("\n"));
    assert!(tried > 1_800, "{tried}");
}

type WholeEdit = (&'static str, fn(&str) -> String);

const WHOLE: [WholeEdit; 7] = [
    ("a byte order mark", |text| format!("\u{feff}{text}")),
    ("line feeds of Windows", |text| text.replace('\n', "\r\n")),
    ("line feeds of an old Macintosh", |text| text.replace('\n', "\r")),
    ("UTF-16", |text| text.chars().flat_map(|c| [c, '\0']).collect()),
    ("line separators of Unicode", |text| text.replace('\n', "\u{2028}")),
    ("in a fence without an end", |text| format!("```\n{text}")),
    ("everything indented", |text| text.lines().map(|line| format!("    {line}\n")).collect()),
];

#[test]
fn an_edit_of_a_whole_file_changes_nothing_or_is_a_fault() {
    for file in &FILES {
        let wanted = (file.read)(file.text);
        for (name, edit) in &WHOLE {
            let found = (file.read)(&edit(file.text));
            assert!(is_safe(file, &wanted, &found), "{} {name}: {found:#?}", file.name);
            if name.starts_with("a byte") || name.contains("Windows") {
                assert_eq!(found.faults, [""; 0], "{} {name}", file.name);
            }
        }
    }
}

#[test]
fn unknown_sections_and_misspelled_keys_are_faults() {
    type Case = (fn(&str) -> LimitReading, &'static str);
    let silent = |(read, text): &Case| read(text).faults.is_empty();
    let cases: [Case; 18] = [
        (heartbeats, "## Inbox\n- intervall: 30m\n- instruction: Look.\n"),
        (heartbeats, "## Inbox\n- instruction: Look.\n"),
        (jobs, "## Cron\n- `0 9 * * *`: Look.\n"),
        (jobs, "## Cron Job's\n- `0 9 * * *`: Look.\n"),
        (jobs, "## Cron Jobs\n## Morning\n- cron: 0 9 * * *\n- instruction: Look.\n"),
        (hooks, "## Hook\n- startup: Say hello.\n"),
        (hooks, "## Hooks\n## startup\n- instruction: Say hello.\n"),
        (webhooks, "### ci\n- scheme: bearer\n- secret: A_SECRET\n\nDo.\n"),
        (channels, "## chanel\n- safety: ask\n"),
        (channels, "## channel 5\n- saftey: ask\n"),
        (channels, "## channel 5\n- safety: ask\n## channel 5\n- mode: plan\n"),
        (channels, "## project p\n- safety: ask\n## project P\n- mode: plan\n"),
        (channels, "## channel 5\n- safety: ask\n- permission-mode: danger\n"),
        (heartbeats, "## Inbox\n- interval: 30m\n- every: 2m\n- instruction: Look.\n"),
        (webhooks, "## ci\n- scheme: bearer\n- secret: A_SECRET\n- limits: 1/min\n\nDo.\n"),
        (budgets, "## **team**\n- cap: $5 a day\n"),
        (budgets, "## team\n- cap: $5 a day\n## Team\n- cap: $9 a week\n"),
        (profiles, "## goose\n- command: goose acp\n- mode: default=ask\n"),
    ];
    let silent: Vec<_> = cases.iter().filter(|case| silent(case)).map(|(_, text)| text).collect();
    assert!(silent.is_empty(), "{silent:#?}");
}

#[test]
fn prose_with_headings_of_its_own_and_lists_is_accepted() {
    let ci = "# Webhooks\n\n## ci\n- scheme: bearer\n- secret: A_SECRET\n\n### Steps\n\n1. Look.\n   - note: twice\n\n```\n- limit: 1/min\n```\n";
    assert_eq!(webhooks(ci).faults, [""; 0]);
    let prose = "# Agents\n\n## Hooks of git\n\nThey run before a commit.\n\n## Cron\n\nDo not edit crontabs.\n- startup: run `npm ci` first\n";
    assert_eq!(hooks(prose).faults, [""; 0]);
    for (read, text) in [
        (
            heartbeats as fn(&str) -> LimitReading,
            include_str!("../../../../../config/heartbeat.md"),
        ),
        (hooks, include_str!("../../../../../config/agents.md")),
        (profiles, include_str!("../../../../../config/acp.md")),
        (budgets, include_str!("../../../../../config/budgets.md")),
    ] {
        assert_eq!(read(text).faults, [""; 0]);
    }
}
