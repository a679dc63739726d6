//! A slip of layout in an operator's file never drops a setting without a fault.

use super::{Channels, CronJobs, Heartbeats, Hook, Hooks, Profiles, Webhooks};
use aetheel_model::budget::BudgetRules;

/// The settings of a file without the numbers of lines, and its faults.
type LimitReading = (String, Vec<String>);

struct OperatorFile {
    name: &'static str,
    text: &'static str,
    read: fn(&str) -> LimitReading,
}

const FILES: [OperatorFile; 7] = [
    OperatorFile {
        name: "budgets.md",
        text: "# Budgets\n\nFor people.\n\n## team\n- cap: $5 a day\n- cap: 9 turns a week\n\n## people\n\nEach person.\n\n- person: each\n- cap: 2M tokens a day\n",
        read: budgets,
    },
    OperatorFile {
        name: "channels.md",
        text: "# Channels\n\n## project site\n- safety: ask\n- backends: codex, gemini\n\n## channel #site 42\n- project: site\n- mode: plan\n- host-tools: none\n\n## channel 43\n- require-mention: yes\n- safety: edit\n",
        read: channels,
    },
    OperatorFile {
        name: "heartbeat.md",
        text: "# Heartbeats\n\n## Inbox\n- interval: 30m\n- active hours: 08:00-22:00\n- channel: 42\n- instruction: Look for mail.\n\n## Disk\n- interval: 2h\n\nIs the disk full?\n",
        read: heartbeats,
    },
    OperatorFile {
        name: "agents.md",
        text: "# Agents\n\n- Be brief.\n\n## Cron Jobs\n\n- `0 9 * * 1-5`: Summarise.\n\n### Morning\n- expression: 0 8 * * *\n- channel: 42\n- instruction: Say good morning.\n",
        read: jobs,
    },
    OperatorFile {
        name: "agents.md",
        text: "# Agents\n\n- Be brief.\n\n## Hooks\n\n- startup: Say hello.\n- shutdown: Say goodbye.\n\n### agent_stop\n- channel: 42\n- instruction: Tidy up.\n",
        read: hooks,
    },
    OperatorFile {
        name: "webhooks.md",
        text: "# Webhooks\n\n## ci\n- scheme: github\n- secret: CI_SECRET\n- events: push\n- limit: 5/min burst 1\n\nReport the push.\n\n## deploy\n- scheme: bearer\n- secret: DEPLOY_SECRET\n- limit: 1/min\n- instruction: Say it.\n",
        read: webhooks,
    },
    OperatorFile {
        name: "acp.md",
        text: "# ACP agents\n\n## goose\n\nTested.\n\n- command: `goose acp`\n- credentials: GOOSE_KEY\n- modes: default=ask\n\n## other\n- command: other\n- own-sandbox: no\n- modes: default=ask\n",
        read: profiles,
    },
];

fn budgets(text: &str) -> LimitReading {
    let mut read = BudgetRules::parse(text);
    read.caps.iter_mut().for_each(|cap| cap.line = 0);
    (format!("{:?}", read.caps), read.faults)
}

fn channels(text: &str) -> LimitReading {
    let read = Channels::parse(text);
    let lanes: Vec<_> = read.lanes().collect();
    (format!("{lanes:?}"), [read.warnings.clone(), read.faults.clone()].concat())
}

fn heartbeats(text: &str) -> LimitReading {
    let read = Heartbeats::parse(text);
    let checks = read.checks.iter().map(|check| {
        // Without its heading, a check is named after the heading before it.
        format!("{} {:?} {:?}", check.heartbeat, check.channel, check.zone)
    });
    (checks.collect::<Vec<_>>().join("\n"), read.warnings)
}

fn jobs(text: &str) -> LimitReading {
    let read = CronJobs::parse(text);
    let jobs = read.jobs.iter().map(|job| {
        // Without its heading, a job is named after its instruction.
        format!("{} {:?} {:?}", job.expression, job.channel, job.missed)
    });
    (jobs.collect::<Vec<_>>().join("\n"), read.warnings)
}

fn hooks(text: &str) -> LimitReading {
    let read = Hooks::parse(text);
    let all = Hook::ALL.map(|hook| read.of(hook).map(|hook| (hook.channel, hook.text.clone())));
    (format!("{all:?}"), [read.warnings, CronJobs::parse(text).warnings].concat())
}

fn webhooks(text: &str) -> LimitReading {
    let read = Webhooks::parse(text);
    let all = read.all.values().map(|webhook| {
        let (secrets, events) = (&webhook.secrets, &webhook.events);
        format!("{} {:?} {secrets:?} {events:?} {:?}", webhook.name, webhook.scheme, webhook.rate)
    });
    (all.collect::<Vec<_>>().join("\n"), read.warnings)
}

fn profiles(text: &str) -> LimitReading {
    let read = Profiles::parse(text);
    (format!("{:?}", read.all), read.warnings)
}

/// Edits of one line, by their name. `None` if the edit does not apply to the line.
type Edit = (&'static str, fn(&str) -> Option<String>);

fn heading(line: &str) -> Option<&str> {
    line.strip_prefix("## ").or_else(|| line.strip_prefix("### "))
}

fn entry(line: &str) -> Option<&str> {
    line.strip_prefix("- ").filter(|entry| entry.contains(": "))
}

const EDITS: [Edit; 47] = [
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
];

/// Returns whether a line sets something.
fn is_setting(line: &str) -> bool {
    heading(line).is_some() || entry(line).is_some()
}

#[test]
fn an_edit_of_one_lines_layout_changes_nothing_or_is_a_fault() {
    let (mut tried, mut silent) = (0, Vec::new());
    for file in &FILES {
        let (wanted, faults) = (file.read)(file.text);
        assert_eq!(faults, [""; 0], "{}", file.name);
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
                let (found, faults) = (file.read)(&(text.join("\n") + "\n"));
                tried += 1;
                if found != wanted && faults.is_empty() {
                    silent.push(format!("{} line {number}, {name}: {line:?}\n{found}", file.name));
                }
            }
        }
    }
    assert!(silent.is_empty(), "{} of {tried} are silent:\n{}", silent.len(), silent.join("\n"));
    assert!(tried > 1_000, "{tried}");
}

/// Edits of a whole file.
const WHOLE: [(&str, fn(&str) -> String); 7] = [
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
        let (wanted, _) = (file.read)(file.text);
        for (name, edit) in &WHOLE {
            let (found, faults) = (file.read)(&edit(file.text));
            assert!(found == wanted || !faults.is_empty(), "{} {name}: {found}", file.name);
            if name.starts_with("a byte") || name.contains("Windows") {
                assert_eq!((found, faults), (wanted.clone(), vec![]), "{} {name}", file.name);
            }
        }
    }
}

#[test]
fn unknown_sections_and_misspelled_keys_are_faults() {
    let silent = |(read, text): &(fn(&str) -> LimitReading, &str)| read(text).1.is_empty();
    let cases: [(fn(&str) -> LimitReading, &str); 10] = [
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
    ];
    let silent: Vec<_> = cases.iter().filter(|case| silent(case)).map(|(_, text)| text).collect();
    assert!(silent.is_empty(), "{silent:#?}");
}

#[test]
fn prose_with_headings_of_its_own_and_lists_is_accepted() {
    let ci = "# Webhooks\n\n## ci\n- scheme: bearer\n- secret: A_SECRET\n\n### Steps\n\n1. Look.\n   - note: twice\n\n```\n- limit: 1/min\n```\n";
    assert_eq!(webhooks(ci).1, [""; 0]);
    let prose = "# Agents\n\n## Hooks of git\n\nThey run before a commit.\n\n## Cron\n\nDo not edit crontabs.\n- startup: run `npm ci` first\n";
    assert_eq!(hooks(prose).1, [""; 0]);
    for (read, text) in [
        (heartbeats as fn(&str) -> LimitReading, include_str!("../../../../config/heartbeat.md")),
        (hooks, include_str!("../../../../config/agents.md")),
        (profiles, include_str!("../../../../config/acp.md")),
        (budgets, include_str!("../../../../config/budgets.md")),
    ] {
        assert_eq!(read(text).1, [""; 0]);
    }
}
