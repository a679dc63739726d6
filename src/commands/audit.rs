//! `aetheel audit`: checks and shows the audit log.

use std::io::Write as _;
use std::path::Path;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::json;

use super::context::with_sound_settings;
use crate::cli::{Common, exit};
use crate::startup::settings::OperatorSettings;
use crate::terminal::{fail, line};
use aetheel_model::audit::AuditKind;
use aetheel_store::workspace::{AuditHead, AuditRecord, read_audit, verify_audit};

/// The commands of `aetheel audit`.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Check that no entry was changed, removed, moved or cut off. Exit code 1 and the first bad
    /// line if one was
    #[command(after_help = "Examples:
  aetheel audit verify
  aetheel audit verify --head \"$(cat head-of-yesterday)\"")]
    Verify {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Entry that `aetheel audit head` printed earlier, which must still be part of the chain
        #[arg(long, value_name = "NUMBER:HASH")]
        head: Option<String>,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Print the newest entry as NUMBER:HASH, to store it on another machine
    Head {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
    },
    /// Show entries, the oldest first
    #[command(after_help = "Examples:
  aetheel audit show --kind request-decided --since 2026-11-20
  aetheel audit show --person 123456789012345678 --json | jq .fields.backend")]
    Show(AuditFilter),
}

/// The entries to show.
#[derive(Args, Debug)]
pub struct AuditFilter {
    /// Settings shared by all commands.
    #[command(flatten)]
    common: Common,
    /// Only entries of this person: an id, or a part of the name
    #[arg(long, value_name = "ID|NAME")]
    person: Option<String>,
    /// Only entries of this lane, such as `channel:123456789012345678`
    #[arg(long, value_name = "LANE")]
    lane: Option<String>,
    /// Only entries of this kind, such as `turn-ended`
    #[arg(long, value_name = "KIND", value_parser = kinds(), hide_possible_values = true)]
    kind: Option<String>,
    /// Only entries of this day (UTC) and later ones
    #[arg(long, value_name = "DATE")]
    since: Option<Date>,
    /// Only entries of this day (UTC) and earlier ones
    #[arg(long, value_name = "DATE")]
    until: Option<Date>,
    /// Print a line of JSON for each entry, for programs
    #[arg(long)]
    json: bool,
}

/// Accepts the words of the log's kinds.
fn kinds() -> PossibleValuesParser {
    AuditKind::ALL.map(AuditKind::word).into()
}

impl AuditCommand {
    pub(super) fn run(self) -> u8 {
        match self {
            Self::Verify { common, head, json } => with_sound_settings(&common, |settings| {
                verify(&settings.config.config_dir, head.as_deref(), json)
            }),
            Self::Head { common } => {
                with_sound_settings(&common, |settings| head(&settings.config.config_dir))
            }
            Self::Show(filter) => {
                with_sound_settings(&filter.common, |settings| show(&settings, &filter))
            }
        }
    }
}

fn verify(folder: &Path, anchor: Option<&str>, as_json: bool) -> u8 {
    let anchor = match anchor.map(|text| AuditHead::parse(text).ok_or(text)).transpose() {
        Ok(anchor) => anchor,
        Err(text) => {
            fail(&format!(
                "--head: `{text}` is not NUMBER:HASH; hint: `aetheel audit head` prints it"
            ));
            return exit::USAGE;
        }
    };
    let report = match verify_audit(folder, anchor.as_ref()) {
        Ok(report) => report,
        Err(error) => return unreadable(&error),
    };
    let text = if as_json {
        let fault = report.fault.as_ref();
        let fault = fault.map(|fault| json!({"place": fault.place, "problem": fault.problem}));
        json!({
            "entries": report.entries,
            "head": report.head.as_ref().map(ToString::to_string),
            "notes": report.notes,
            "fault": fault,
        })
        .to_string()
    } else {
        let mut lines: Vec<String> =
            report.notes.iter().map(|note| format!("note: {note}")).collect();
        lines.push(match (&report.fault, &report.head) {
            (Some(fault), _) => format!("damaged: {} {}", fault.place, fault.problem),
            (None, Some(head)) => {
                format!("complete: {} entries, the last is {head}", report.entries)
            }
            (None, None) => "complete: no entries".to_owned(),
        });
        lines.join("\n")
    };
    line(&text);
    if report.fault.is_some() { exit::FAILED } else { exit::OK }
}

fn head(folder: &Path) -> u8 {
    let report = match verify_audit(folder, None) {
        Ok(report) => report,
        Err(error) => return unreadable(&error),
    };
    if let Some(fault) = report.fault {
        fail(&format!("the audit log is damaged: {} {}", fault.place, fault.problem));
        return exit::FAILED;
    }
    match report.head {
        Some(head) => {
            line(&head.to_string());
            exit::OK
        }
        None => {
            fail("the audit log has no entries; hint: `aetheel run` writes them");
            exit::FAILED
        }
    }
}

fn show(settings: &OperatorSettings, filter: &AuditFilter) -> u8 {
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    let shown = read_audit(&settings.config.config_dir, |record| {
        if filter.matches(&record) {
            let entry = if filter.json {
                serde_json::to_string(&record).unwrap_or_default()
            } else {
                text(&record)
            };
            // Write errors are ignored: stdout may be closed.
            let _ = writeln!(output, "{entry}");
        }
    });
    let _ = output.flush();
    shown.map_or_else(|error| unreadable(&error), |()| exit::OK)
}

fn unreadable(error: &std::io::Error) -> u8 {
    fail(&format!("cannot read CONFIG_DIR/state/audit: {error}"));
    exit::UNAVAILABLE
}

/// Returns an entry, with a line for each field. Values are quoted and escaped, because the file may
/// have been changed.
fn text(record: &AuditRecord) -> String {
    let fields = record
        .fields
        .iter()
        .map(|(name, value)| format!("\n    {}: {value:?}", name.escape_debug()));
    let fields: String = fields.collect();
    format!("{} {} {}{fields}", record.number, record.time, record.kind.escape_debug())
}

impl AuditFilter {
    fn matches(&self, record: &AuditRecord) -> bool {
        let field = |name: &str| record.fields.get(name).map(String::as_str);
        let day = TimeZone::UTC.to_datetime(record.time).date();
        self.person.as_deref().is_none_or(|wanted| record.names_person(wanted))
            && self.lane.as_deref().is_none_or(|lane| field("lane") == Some(lane))
            && self.kind.as_deref().is_none_or(|kind| record.kind == kind)
            && self.since.is_none_or(|since| since <= day)
            && self.until.is_none_or(|until| day <= until)
    }
}
