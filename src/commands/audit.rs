//! `aetheel audit`: checks and shows the audit log.

use std::io::Write as _;
use std::path::Path;

use jiff::tz::TimeZone;
use serde_json::json;

use crate::cli::{AuditCommand, AuditFilter, Common, exit};
use crate::startup::settings::OperatorSettings;
use crate::terminal::fail;
use aetheel_store::workspace::{AuditHead, AuditRecord, read_audit, verify_audit};

/// Runs a command with the settings that its flags name. `with` reads the settings.
pub(super) fn run(
    command: AuditCommand,
    with: impl FnOnce(&Common, &dyn Fn(OperatorSettings) -> u8) -> u8,
) -> u8 {
    match command {
        AuditCommand::Verify { common, head, json } => {
            with(&common, &|settings| verify(&settings.config.config_dir, head.as_deref(), json))
        }
        AuditCommand::Head { common } => {
            with(&common, &|settings| head(&settings.config.config_dir))
        }
        AuditCommand::Show(filter) => with(&filter.common, &|settings| show(&settings, &filter)),
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
    // Write errors are ignored: stdout may be closed.
    let _ = writeln!(std::io::stdout(), "{text}");
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
            let _ = writeln!(std::io::stdout(), "{head}");
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
