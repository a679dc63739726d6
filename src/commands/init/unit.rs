//! Units for a user's systemd: the gateway, and the holder of its agents.
//!
//! What only a service of root's may set is not in them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::disk::{EVERYBODY, read_ordinary, replace_for};
use crate::startup::survey::make_private;

/// The first line: what begins with it is replaced, and nothing else.
const OURS: &str = "# Written by `aetheel init --then install-unit`, which writes it anew.\n";
/// Largest unit that is looked at, bytes.
const MOST: u64 = 1 << 20;

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
RestartPreventExitStatus=64 69 77 78
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
ExecStart={program} hold --state {state}
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

/// What the units name.
pub(super) struct Service<'a> {
    /// This program.
    pub program: &'a Path,
    /// The file of settings.
    pub file: &'a Path,
    /// The folder of the markdown files.
    pub folder: &'a Path,
    /// Where agents are looked for: a service has no shell's PATH.
    pub path: &'a str,
}

impl Service<'_> {
    /// The units, by the names of their files.
    pub(super) fn units(&self) -> [(&'static str, String); 2] {
        let words = [
            ("{program}", quoted(&self.program.display().to_string(), true)),
            ("{file}", quoted(&self.file.display().to_string(), true)),
            ("{state}", quoted(&self.folder.join("state").display().to_string(), true)),
            ("{path}", quoted(&format!("PATH={}", self.path), false)),
        ];
        let filled = |unit: &str| {
            // Line by line, so that nothing is looked for in what was filled in.
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
            lines.fold(OURS.to_owned(), |unit, line| unit + &line)
        };
        [("aetheel-hold.service", filled(HOLDER)), ("aetheel.service", filled(GATEWAY))]
    }

    /// Writes the units into a folder; returns their files.
    ///
    /// # Errors
    /// A unit of somebody else's stands there, or it cannot be written.
    pub(super) fn install(&self, folder: &Path) -> Result<Vec<PathBuf>, String> {
        let units = self.units().map(|(name, text)| (folder.join(name), text));
        for (path, _) in &units {
            let theirs = match read_ordinary(path, MOST) {
                Ok(bytes) => !bytes.starts_with(OURS.as_bytes()),
                Err(error) => error.kind() != ErrorKind::NotFound,
            };
            if theirs {
                return Err(format!(
                    "{} is not from here and stays; move it away, or take over what `--then print-unit` prints",
                    path.display()
                ));
            }
        }
        make_private(folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        for (path, text) in &units {
            replace_for(path, text.as_bytes(), EVERYBODY)
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        Ok(units.map(|(path, _)| path).into())
    }
}

/// A word as systemd reads it (systemd.syntax(7), systemd.service(5)): in quotes, and `%` and, on a
/// command line, `$` stand for themselves.
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
    use crate::config::Config;

    fn service(path: &str) -> Service<'_> {
        Service {
            program: Path::new("/opt/my $programs/aetheel"),
            file: Path::new("/home/x/50%/settings.env"),
            folder: Path::new("/home/x/{path}"),
            path,
        }
    }

    fn value<'a>(unit: &'a str, name: &str) -> &'a str {
        unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap()
    }

    #[test]
    fn every_word_stands_in_quotes_and_for_itself() {
        let [(_, holder), (_, gateway)] = service("/a b:/c\"d").units();
        assert_eq!(
            value(&gateway, "ExecStart"),
            r#""/opt/my $$programs/aetheel" run --env-file "/home/x/50%%/settings.env""#
        );
        assert_eq!(value(&gateway, "Environment"), r#""PATH=/a b:/c\"d""#);
        assert_eq!(
            value(&holder, "ExecStart"),
            r#""/opt/my $$programs/aetheel" hold --state "/home/x/{path}/state""#
        );
    }

    #[test]
    fn its_times_and_codes_are_those_of_the_program() {
        let [_, (_, gateway)] = service("/bin").units();
        let never: Vec<u8> = value(&gateway, "RestartPreventExitStatus")
            .split(' ')
            .map(|code| code.parse().unwrap())
            .collect();
        assert_eq!(never, [exit::USAGE, exit::UNAVAILABLE, exit::NO_PERMISSION, exit::CONFIG]);
        let defaults = Config::read(|_| None).unwrap();
        let needed = (defaults.shutdown_grace + defaults.stop_grace * 2).as_secs() + 20;
        assert!(value(&gateway, "TimeoutStopSec").parse::<u64>().unwrap() >= needed);
        assert!(value(&gateway, "RestartSec").parse::<u64>().unwrap() >= 30, "logins are few");
    }

    #[test]
    fn a_unit_of_ours_is_written_anew_and_one_of_others_stays() {
        let folder = tempfile::tempdir().unwrap();
        let units = folder.path().join("user");
        let written = service("/bin").install(&units).unwrap();
        assert_eq!(written.len(), 2);
        service("/other").install(&units).unwrap();
        let gateway = units.join("aetheel.service");
        assert!(fs::read_to_string(&gateway).unwrap().contains("PATH=/other"));
        fs::write(&gateway, "[Service]\n").unwrap();
        fs::remove_file(units.join("aetheel-hold.service")).unwrap();
        assert!(service("/bin").install(&units).unwrap_err().contains("aetheel.service"));
        assert_eq!(fs::read_to_string(&gateway).unwrap(), "[Service]\n");
        assert!(!units.join("aetheel-hold.service").exists(), "all or nothing");
    }
}
