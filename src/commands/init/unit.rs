//! Writes systemd user units for the gateway and the holder of its agents.
//!
//! Options that only a system service may use are left out.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::files::SetupFileError;
use crate::startup::survey::make_private;
use aetheel_runtime::ordinary::read_ordinary;
use aetheel_store::disk::{WORLD_READABLE_MODE, replace_for};

/// First line of each unit. Only units that begin with it are replaced, so the text must not
/// change.
const MARKER: &str = "# Written by `aetheel init --then install-unit`, which writes it anew.\n";
const MAX_UNIT_BYTES: u64 = 1 << 20;

const GATEWAY: &str = "[Unit]
Description=Aetheel
Wants=aetheel-hold.service
After=aetheel-hold.service
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=notify
ExecStart={program} run --env-file {file}
Environment={path}
WatchdogSec=30
TimeoutStartSec=300
TimeoutStopSec=160
KillMode=mixed
Restart=on-failure
RestartSec=30
RestartPreventExitStatus=64 77 78
Delegate=cpu memory pids
LimitNOFILE=8192
UMask=0077

[Install]
WantedBy=default.target
";

const HOLDER: &str = "[Unit]
Description=Aetheel's agents

[Service]
Type=notify
ExecStart={holder} --state {state}
TimeoutStopSec=20
KillMode=mixed
Restart=on-failure
RestartSec=1
RestartPreventExitStatus=64 73 78
Delegate=cpu memory pids
LimitNOFILE=8192
UMask=0077

[Install]
WantedBy=default.target
";

/// The values in the units.
pub(super) struct ServiceUnits<'a> {
    pub program: &'a Path,
    /// The path of the holder's program, or `None` if it is not installed.
    pub holder: Option<&'a Path>,
    pub file: &'a Path,
    pub folder: &'a Path,
    /// The folders in which agents are searched for. A service does not have the PATH of a shell.
    pub path: &'a str,
}

impl ServiceUnits<'_> {
    pub(super) fn units(&self) -> [(&'static str, String); 2] {
        let program = quoted(&self.program.display().to_string(), true);
        let holder = match self.holder {
            Some(holder) => quoted(&holder.display().to_string(), true),
            None => format!("{program} hold"),
        };
        let words = [
            ("{program}", program),
            ("{holder}", holder),
            ("{file}", quoted(&self.file.display().to_string(), true)),
            ("{state}", quoted(&self.folder.join("state").display().to_string(), true)),
            ("{path}", quoted(&format!("PATH={}", self.path), false)),
        ];
        let filled = |unit: &str| {
            // Placeholders are replaced in one pass per line, so that inserted text is not searched
            // again.
            let lines = unit.lines().map(|line| {
                let at =
                    words.iter().filter_map(|(word, text)| Some((line.find(word)?, word, text)));
                let mut at: Vec<_> = at.collect();
                at.sort();
                let (mut filled, mut from) = (String::new(), 0);
                for (begins, word, text) in at {
                    filled.push_str(&line[from..begins]);
                    filled.push_str(text);
                    from = begins + word.len();
                }
                filled + &line[from..] + "\n"
            });
            lines.fold(MARKER.to_owned(), |unit, line| unit + &line)
        };
        [("aetheel-hold.service", filled(HOLDER)), ("aetheel.service", filled(GATEWAY))]
    }

    /// Writes the units into a folder and returns their paths.
    ///
    /// # Errors
    /// A unit that was not written by this program exists, or a unit cannot be written.
    pub(super) fn install(&self, folder: &Path) -> Result<Vec<PathBuf>, SetupFileError> {
        let units = self.units().map(|(name, text)| (folder.join(name), text));
        for (path, _) in &units {
            let theirs = match read_ordinary(path, MAX_UNIT_BYTES) {
                Ok(bytes) => !bytes.starts_with(MARKER.as_bytes()),
                Err(error) => error.kind() != ErrorKind::NotFound,
            };
            if theirs {
                return Err(SetupFileError::ForeignUnit(path.clone()));
            }
        }
        make_private(folder)
            .map_err(|error| SetupFileError::CreateFolder { path: folder.to_owned(), error })?;
        for (path, text) in &units {
            replace_for(path, text.as_bytes(), WORLD_READABLE_MODE)
                .map_err(|error| SetupFileError::write(path, error))?;
        }
        Ok(units.map(|(path, _)| path).into())
    }
}

/// Quotes a word for systemd (systemd.syntax(7), systemd.service(5)). `%` is escaped, and so is `$`
/// on a command line.
fn quoted(text: &str, command: bool) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '%' => quoted.push_str("%%"),
            '$' if command => quoted.push_str("$$"),
            '\n' => quoted.push_str("\\n"),
            _ => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cli::exit;
    use aetheel_settings::Config;

    fn service(path: &str) -> ServiceUnits<'_> {
        ServiceUnits {
            program: Path::new("/opt/my $programs/aetheel"),
            holder: Some(Path::new("/opt/my $programs/aetheel-hold")),
            file: Path::new("/home/x/50%/settings.env"),
            folder: Path::new("/home/x/{path}"),
            path,
        }
    }

    fn value<'a>(unit: &'a str, name: &str) -> &'a str {
        unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap()
    }

    #[test]
    fn words_are_quoted_and_escaped() {
        let [(_, holder), (_, gateway)] = service("/a b:/c\"d").units();
        assert_eq!(
            value(&gateway, "ExecStart"),
            r#""/opt/my $$programs/aetheel" run --env-file "/home/x/50%%/settings.env""#
        );
        assert_eq!(value(&gateway, "Environment"), r#""PATH=/a b:/c\"d""#);
        assert_eq!(
            value(&holder, "ExecStart"),
            r#""/opt/my $$programs/aetheel-hold" --state "/home/x/{path}/state""#
        );
        let [(_, holder), _] = ServiceUnits { holder: None, ..service("/bin") }.units();
        assert_eq!(
            value(&holder, "ExecStart"),
            r#""/opt/my $$programs/aetheel" hold --state "/home/x/{path}/state""#
        );
    }

    #[test]
    fn times_and_exit_codes_match_the_program() {
        let [_, (_, gateway)] = service("/bin").units();
        let never: Vec<u8> = value(&gateway, "RestartPreventExitStatus")
            .split(' ')
            .map(|code| code.parse().unwrap())
            .collect();
        assert_eq!(never, [exit::USAGE, exit::NO_PERMISSION, exit::CONFIG]);
        let defaults = Config::read(|_| None).unwrap();
        let needed = (defaults.shutdown_grace + defaults.agents.stop_grace * 2).as_secs() + 20;
        assert!(value(&gateway, "TimeoutStopSec").parse::<u64>().unwrap() >= needed);
        assert!(
            value(&gateway, "RestartSec").parse::<u64>().unwrap() >= 30,
            "the number of logins is limited"
        );
    }

    #[test]
    fn own_units_are_replaced_and_others_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let units = folder.path().join("user");
        let written = service("/bin").install(&units).unwrap();
        assert_eq!(written.len(), 2);
        service("/other").install(&units).unwrap();
        let gateway = units.join("aetheel.service");
        assert!(fs::read_to_string(&gateway).unwrap().contains("PATH=/other"));
        fs::write(&gateway, "[Service]\n").unwrap();
        fs::remove_file(units.join("aetheel-hold.service")).unwrap();
        assert!(
            service("/bin").install(&units).unwrap_err().to_string().contains("aetheel.service")
        );
        assert_eq!(fs::read_to_string(&gateway).unwrap(), "[Service]\n");
        assert!(!units.join("aetheel-hold.service").exists(), "all or nothing");
    }
}
