use super::*;

/// Reads name, expression and instruction of all jobs.
fn told(text: &str) -> Vec<(String, String, String)> {
    let read = CronJobs::parse(text);
    assert_eq!(read.warnings, Vec::<String>::new());
    read.jobs
        .into_iter()
        .map(|job| (job.name, job.expression.to_string(), job.instruction))
        .collect()
}

fn job(name: &str, expression: &str, instruction: &str) -> (String, String, String) {
    (name.to_owned(), expression.to_owned(), instruction.to_owned())
}

#[test]
fn jobs_are_headings_of_any_level_or_list_items() {
    let text = "\
# Agents

- `0 1 * * *`: not in the section

## Cron Jobs

All times are German.

- `0 9 * * 1-5`: Summarise the open pull requests of this repository.
- **Backup** `@daily` – Back it up.
  Then say how large it is.
- 30 6 * * *: Wake up.
- `0 17 * * 1-5`: Summarise the open pull requests of this repository.

### Morning
- expression: `0 8 * * *`
- channel: <#42>
- time zone: Europe/Berlin
- missed: skip
- instruction: Say good morning.

  In two languages.

#### Evening: `0 20 * * *`

Say good night.

### Noon
0 12 * * *
Say that it is noon.

### Night
`0 0 1,15 * *`

Count the stars.

## Rules
- `0 2 * * *`: not in the section either
";
    let wanted = [
        job(
            "Summarise the open pull requests of this",
            "0 9 * * 1-5",
            "Summarise the open pull requests of this repository.",
        ),
        job("Backup", "@daily", "Back it up.\nThen say how large it is."),
        job("Wake up", "30 6 * * *", "Wake up."),
        job(
            "Summarise the open pull requests of this 2",
            "0 17 * * 1-5",
            "Summarise the open pull requests of this repository.",
        ),
        job("Morning", "0 8 * * *", "Say good morning.\n\nIn two languages."),
        job("Evening", "0 20 * * *", "Say good night."),
        job("Noon", "0 12 * * *", "Say that it is noon."),
        job("Night", "0 0 1,15 * *", "Count the stars."),
    ];
    assert_eq!(told(text), wanted);
    let morning = CronJobs::parse(text).jobs.remove(4);
    assert_eq!(
        (morning.channel, morning.missed, morning.line),
        (Some(ChannelId::discord(42)), MissedPolicy::Skip, 15)
    );
    assert_eq!(
        morning.zone.and_then(|zone| zone.iana_name().map(str::to_owned)).as_deref(),
        Some("Europe/Berlin")
    );
}

#[test]
fn consecutive_entries_are_one_job() {
    let text = "\
### cron jobs:
- name: one
- cron: * * * * *
- instruction: first
- name: two
- schedule: 0 0 12 * * MON
- channel: 7
- prompt: second
";
    assert_eq!(
        told(text),
        [job("one", "* * * * *", "first"), job("two", "0 0 12 * * MON", "second")]
    );
}

#[test]
fn an_item_may_have_entries_of_its_own() {
    let text = "\
# Cron Jobs
1. Report
   - expression: 0 9 * * *
   - instruction: Report.
2. `0 10 * * *`
   - channel: 7
   - instruction: Look.
";
    assert_eq!(
        told(text),
        [job("Report", "0 9 * * *", "Report."), job("Look", "0 10 * * *", "Look.")]
    );
    assert_eq!(CronJobs::parse(text).jobs[1].channel, Some(ChannelId::discord(7)));
}

#[test]
fn an_invalid_job_is_reported_and_the_others_are_read() {
    let text = "\
## Cron Jobs
- `61 * * * *`: Never.
- `0 9 * *`: Too few.
- **Good** `0 9 * * *`: Do it.
- **good** `0 9 * * *`: Again.
- **Silent** `0 9 * * *`
- **Lost** `0 9 * * *`: Where?
  - channel: nowhere
  - time zone: Mars
- No time at all.
### Odd
- expression: 0 9 * * *
- missed: perhaps
- colour: blue
- instruction: x
";
    let read = CronJobs::parse(text);
    assert_eq!(read.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["Good"]);
    let wanted = [
        "line 2: cron job \"Never\" is left out: the cron expression \"61 * * * *\" is invalid: minute `61` cannot be read",
        "line 3: cron job \"Too few\" is left out: the cron expression \"0 9 * *\" is invalid: it has 4 fields",
        "line 5: cron job \"good\" is left out: there is an earlier one",
        "line 6: cron job \"Silent\" is left out: it has no instruction",
        "line 7: cron job \"Lost\" is left out: \"nowhere\" is not a channel",
        "line 10: cron job \"No time at all.\" is left out: it has no cron expression",
        "line 14: `colour` is unknown here",
        "line 11: cron job \"Odd\" is left out: `missed` is neither",
    ];
    assert_eq!(read.warnings.len(), wanted.len(), "{:#?}", read.warnings);
    for (warning, wanted) in read.warnings.iter().zip(wanted) {
        assert!(warning.starts_with(&format!("agents.md {wanted}")), "{wanted}\n{warning}");
    }
}

#[test]
fn fenced_examples_are_not_jobs() {
    assert_eq!(told("## Cron Jobs\n```\n- `0 9 * * *`: x\n```\n"), []);
    assert_eq!(told("no section\n"), []);
}
