//! `aetheel logs`: the log of the gateway, wherever it is kept.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use jiff::{SignedDuration, Timestamp};

use super::manager;
use crate::cli::{Common, exit};
use crate::commands::context::{block_on, with_settings};
use crate::terminal::print_stderr;
use aetheel_model::plain::with_causes;
use aetheel_process::OperatorCommand;
use aetheel_settings::Config;
use aetheel_store::workspace::{GatewayReport, ServiceUnit};

/// Number of lines of the journal without `--since`.
const JOURNAL_LINES: &str = "200";
/// Time after which new lines of the journal are no longer printed.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(365 * 86_400);
/// Interval between two reads of a file that grows.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Arguments of `aetheel logs`.
#[derive(Args, Debug)]
pub struct LogsArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    common: Common,
    /// Print new lines until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Only lines after this time: `30m`, `2h`, or `2026-11-28T03:00:00Z`
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
}

#[derive(Debug, thiserror::Error)]
#[error("use a duration such as `30m` or `2h`, or a time such as `2026-11-28T03:00:00Z`")]
struct SinceError;

fn since(text: &str) -> Result<Timestamp, SinceError> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let ago = text.parse::<SignedDuration>().ok().filter(|ago| ago.is_positive());
    ago.and_then(|ago| Timestamp::now().checked_sub(ago).ok()).ok_or(SinceError)
}

impl LogsArgs {
    pub(super) fn run(self) -> u8 {
        with_settings(&self.common, None, |settings| block_on(show(&settings.config, &self)))
    }
}

/// Prints the log, and returns the exit code.
async fn show(config: &Config, args: &LogsArgs) -> u8 {
    let (follow, since) = (args.follow, args.since);
    let folder = &config.config_dir;
    let report = GatewayReport::read(folder).unwrap_or_default();
    if let Some(unit) = &report.unit {
        return show_journal(unit, follow, since).await;
    }
    let background = GatewayReport::background_log(folder);
    let Some(file) = report.log_file().or_else(|| background.is_file().then_some(background))
    else {
        print_stderr(&format!("error: {}", not_kept(folder, report.log.as_deref())));
        return exit::FAILED;
    };
    match print(&file, follow, since) {
        Ok(()) => exit::OK,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => exit::OK,
        Err(error) => {
            print_stderr(&format!("error: cannot read the log `{}`: {error}", file.display()));
            exit::FAILED
        }
    }
}

async fn show_journal(unit: &ServiceUnit, follow: bool, since: Option<Timestamp>) -> u8 {
    let mut arguments: Vec<OsString> = manager(unit).iter().map(Into::into).collect();
    let range = since.map_or_else(
        || format!("--lines={JOURNAL_LINES}"),
        |since| format!("--since=@{}", since.as_second()),
    );
    arguments.extend(["--output=cat".into(), range.into()]);
    arguments.extend(["--unit".into(), unit.name.clone().into()]);
    arguments.extend(follow.then(|| "--follow".into()));
    let command = OperatorCommand {
        program: "journalctl".into(),
        arguments,
        inherits_stdin: true,
        limit: FOLLOW_TIMEOUT,
    };
    match command.run().await {
        Ok(0) => exit::OK,
        Ok(_) => exit::FAILED,
        Err(error) => {
            print_stderr(&format!(
                "error: the log is in the journal of {}, but journalctl cannot be run: {}",
                unit.name,
                with_causes(&error)
            ));
            exit::FAILED
        }
    }
}

/// Describes where the lines went if they are in no file.
fn not_kept(folder: &Path, target: Option<&Path>) -> String {
    let hint = "to keep the log, start it with `aetheel run 2>> FILE`, or as a service (`aetheel init --yes --then install-unit`)";
    match target.and_then(Path::to_str) {
        None => format!("no gateway has run with `{}` yet; {hint}", folder.display()),
        Some(target) if target.starts_with("/dev/") => {
            format!("the gateway writes its log to `{target}`, and it is not kept; {hint}")
        }
        Some(target) => format!(
            "the gateway writes its log to another program ({target}), such as a container's: see there (`podman logs`, `docker logs`); {hint}"
        ),
    }
}

fn print(file: &Path, follow: bool, since: Option<Timestamp>) -> std::io::Result<()> {
    let mut reader = BufReader::new(File::open(file)?);
    let mut stdout = std::io::stdout().lock();
    let (mut line, mut is_shown) = (Vec::new(), since.is_none());
    loop {
        if reader.read_until(b'\n', &mut line)? > 0 {
            if !line.ends_with(b"\n") && follow {
                // The rest of the line follows.
                continue;
            }
            // A line without a time belongs to the previous one.
            if let (Some(since), Some(time)) = (since, time_of(&line)) {
                is_shown = time >= since;
            }
            if is_shown {
                stdout.write_all(&line)?;
            }
            line.clear();
            continue;
        }
        stdout.flush()?;
        if !follow {
            return Ok(());
        }
        #[expect(clippy::disallowed_methods, reason = "no other task runs in this command")]
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Returns the time of a log line, in JSON or for people.
fn time_of(line: &[u8]) -> Option<Timestamp> {
    let text = String::from_utf8_lossy(line);
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(fields) => fields["timestamp"].as_str()?.parse().ok(),
        Err(_) => text.split_whitespace().next()?.parse().ok(),
    }
}
