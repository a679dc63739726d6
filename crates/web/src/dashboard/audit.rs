//! The audit log, for owners: the newest entries first, and the check of its chain.

use std::io;
use std::time::Duration;

use axum::response::Response;
use jiff::civil::Date;
use maud::{Markup, html};

use super::access::{Owner, SignedIn};
use super::components::{Button, Choice, Form, Table, TextField, select, title_cell, warning};
use super::fields::{Fields, FormRefusal, SubmittedForm};
use super::layout::{self, MenuPage};
use super::times::day;
use super::url::address;
use aetheel_model::audit::AuditKind;
use aetheel_model::plain::short_line;
use aetheel_store::workspace::{
    AuditCheck, AuditPosition, AuditQuery, AuditRecord, AuditRow, AuditSlice,
};

/// The largest number of entries on a page.
const SHOWN: usize = 20;
/// The largest numbers of characters of a value in a column of its own, of another value, and of all
/// other values of an entry.
const NAME: usize = 40;
const VALUE: usize = 60;
const DETAILS: usize = 200;
/// The largest number of characters of a value in the form.
const FIELD: usize = 100;
/// The number of digits of a digest that are shown.
const DIGEST: usize = 12;
/// How long a form waits for the end of the check. A page shows a longer check as running.
const CHECK_WAIT: Duration = Duration::from_secs(2);

/// The reason why a page shows no entries. `Display` is worded for owners.
#[derive(Debug, thiserror::Error)]
enum AuditPageError {
    #[error("Write the day as in 2026-11-26.")]
    Day,
    #[error(
        "CONFIG_DIR/state/audit cannot be read: {0}. Next step: make its files readable for the gateway's user, and reload this page."
    )]
    Read(#[from] io::Error),
}

/// The filters of a page, as they are in its address.
struct AuditFields {
    kind: String,
    person: String,
    lane: String,
    day: String,
    before: Option<AuditPosition>,
}

impl AuditFields {
    fn read(query: &Fields) -> Self {
        let field = |name| short_line(query.one(name).trim(), FIELD);
        Self {
            kind: field("kind"),
            person: field("person"),
            lane: field("lane"),
            day: field("day"),
            before: query.parse("before"),
        }
    }

    /// Returns the entries to show.
    ///
    /// # Errors
    /// [`AuditPageError::Day`]
    fn query(&self) -> Result<AuditQuery, AuditPageError> {
        let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let day = given(&self.day).map(|day| day.parse::<Date>()).transpose();
        Ok(AuditQuery {
            kind: given(&self.kind),
            person: given(&self.person),
            lane: given(&self.lane),
            day: day.map_err(|_| AuditPageError::Day)?,
        })
    }

    /// Returns the address of the entries before a position.
    fn earlier(&self, before: AuditPosition) -> String {
        let Self { kind, person, lane, day, .. } = self;
        let before = before.to_string();
        let fields =
            [("kind", kind), ("person", person), ("lane", lane), ("day", day), ("before", &before)];
        address("/audit", &fields.map(|(name, value)| (name, value.as_str())))
    }
}

/// Shows the entries and the result of the last check.
pub(super) async fn page(Owner(user): Owner, query: Fields) -> Response {
    let fields = AuditFields::read(&query);
    let reader = user.shared.api.audit();
    let found = match fields.query() {
        Ok(query) => reader.part(query, fields.before, SHOWN).await.map_err(AuditPageError::from),
        Err(error) => Err(error),
    };
    let check = reader.check(Duration::ZERO).await;
    let main = html! {
        (check_section(&check, &user))
        h2 { "Entries" }
        (filters(&fields))
        @match &found {
            Err(why) => div role="alert" { (warning(&why.to_string())) },
            Ok(slice) => (entries(slice, &fields)),
        }
    };
    layout::page(&user, MenuPage::Audit, false, &main)
}

/// Starts a check of the chain, and shows its result if it ends soon.
pub(super) async fn check(form: SubmittedForm) -> Response {
    form.answer("/audit", start_check(&form).await).await
}

async fn start_check(form: &SubmittedForm) -> Result<&'static str, FormRefusal> {
    form.check_owner()?;
    let reader = form.user.shared.api.audit();
    reader.start_check();
    let user = form.user.id();
    tracing::info!(user = user.to_field(), "an owner had the audit log checked from the dashboard");
    Ok(match reader.check(CHECK_WAIT).await {
        AuditCheck::Running(_) => "The check is running. Reload this page to see its result.",
        // The page shows the result.
        _ => "",
    })
}

fn check_section(check: &AuditCheck, user: &SignedIn) -> Markup {
    html! {
        section aria-label="The chain" {
            h2 { "The chain" }
            @match check {
                AuditCheck::NotStarted => p { "The chain was not checked here since the gateway started." },
                AuditCheck::Running(since) => p { "The check is running since " (day(*since)) ". Reload this page to see its result." },
                AuditCheck::Failed(at, why) => p { "⚠️ The check at " (day(*at)) " failed: " (short_line(why, 300)) ". Next step: make the files of CONFIG_DIR/state/audit readable for the gateway's user, and check again." },
                AuditCheck::Ended(at, report) => {
                    @match (&report.fault, &report.head) {
                        (Some(fault), _) => {
                            p { "⚠️ Damaged, as of " (day(*at)) ": " (short_line(&format!("{} {}", fault.place, fault.problem), 400)) "." }
                            p { "Next step: compare the file with a backup, and the newest entry with one that you stored elsewhere: " code { "aetheel audit verify --head NUMBER:HASH" } "." }
                        }
                        (None, Some(head)) => p { "✅ Complete, as of " (day(*at)) ": " (report.entries) " entries. The last is " code { (head) } "." },
                        (None, None) => p { "✅ Complete, as of " (day(*at)) ": no entries." },
                    }
                    @for note in report.notes.iter().take(5) { p { "Note: " (short_line(note, 300)) "." } }
                }
            }
            (Form::post(user, "/audit/check").with(Button::new("Check the chain")))
        }
    }
}

fn filters(fields: &AuditFields) -> Form {
    let kinds = AuditKind::ALL.map(AuditKind::word);
    let kinds = [("", "All")].into_iter().chain(kinds.map(|word| (word, word)));
    let kinds = kinds.map(|(value, text)| Choice {
        value,
        text: text.to_owned(),
        selected: fields.kind == value,
    });
    let text = |id, label, value| TextField::new(id, label, value).most(FIELD);
    Form::search("/audit")
        .with(select("kind", "kind", "Kind", kinds))
        .with(text("person", "Person (a part of the name, or the id)", &fields.person))
        .with(text("lane", "Lane, such as channel:1099511627776123456", &fields.lane))
        .with(text("day", "Day in UTC, such as 2026-11-26", &fields.day))
        .with(Button::main("Show"))
}

fn entries(slice: &AuditSlice, fields: &AuditFields) -> Markup {
    let titles = ["Number", "Time", "Kind", "Person", "Lane", "Details"];
    html! {
        @if slice.rows.is_empty() && slice.earlier.is_none() { p { "There are no such entries." } }
        @if !slice.rows.is_empty() { (Table::wide("Entries", &titles).rows(&slice.rows, cells)) }
        @if let Some(earlier) = slice.earlier {
            @if slice.is_limited { p { "The search stopped here, to answer in time." } }
            p { a href=(fields.earlier(earlier)) { "Earlier entries" } }
        }
    }
}

fn cells(row: &AuditRow) -> Markup {
    match row {
        AuditRow::NotAnEntry(place) => html! {
            (title_cell("⚠️"))
            td colspan="5" { (short_line(place, 200)) ": this line is not an entry. Next step: check the chain above." }
        },
        AuditRow::Entry(record) => html! {
            (title_cell(record.number))
            td { (day(record.time)) }
            td { (short_line(&record.kind, NAME)) }
            td { bdi { (person(record)) } }
            td { (field(record, "lane", NAME)) }
            td dir="auto" { (details(record)) }
        },
    }
}

fn field(record: &AuditRecord, name: &str, most: usize) -> String {
    record.fields.get(name).map_or_else(String::new, |value| short_line(value, most))
}

/// Returns the name of the person, or the id if the entry has no name.
fn person(record: &AuditRecord) -> String {
    match field(record, "name", NAME) {
        name if name.is_empty() => field(record, "person", NAME),
        name => name,
    }
}

/// Returns the fields without a column of their own, on one line.
fn details(record: &AuditRecord) -> String {
    let others = record.fields.iter().filter(|(name, _)| !matches!(name.as_str(), "lane" | "name"));
    let value = |(name, value): (&String, &String)| {
        let most = if matches!(name.as_str(), "sha256" | "digest") { DIGEST } else { VALUE };
        format!("{}: {}", short_line(name, NAME), short_line(value, most))
    };
    short_line(&others.map(value).collect::<Vec<_>>().join(", "), DETAILS)
}
