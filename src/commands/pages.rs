//! `aetheel pages` and `aetheel completions`: write man pages and shell completions.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use clap_complete::Shell;

use super::completing::{described, write_registration};
use crate::cli::exit;
use crate::terminal::fail;

/// The supported shells, each with the path of its completion file.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/aetheel"),
    (Shell::Zsh, "zsh/site-functions/_aetheel"),
    (Shell::Fish, "fish/vendor_completions.d/aetheel.fish"),
];

const SECTIONS: &str = r#".SH "EXIT STATUS"
.TP
0
The command succeeded.
.TP
1
The command failed; docs/configuration.md has the details of each command. \fBaetheel doctor\fR found warnings.
.TP
2
\fBaetheel doctor\fR found faults.
.TP
64
The command line is wrong, or names something that does not exist.
.TP
69
A backend or an agent is missing, or an address is taken.
.TP
70
A bug in aetheel.
.TP
73
Another gateway serves the same CONFIG_DIR.
.TP
75
Discord or the database could not be reached for too long. Starting again later may help.
.TP
77
Discord refused the token.
.TP
78
The configuration is wrong.
.SH ENVIRONMENT
Settings are environment variables, from CONFIG_DIR to LOG_LEVEL. docs/configuration.md describes all of them; \fB\-\-env\-file\fR reads them from a file.
.SH FILES
.TP
~/.config/aetheel/settings.env
The settings file that is read by default.
.TP
~/.config/aetheel/*.md
Personality, memory, schedules, channels and hooks.
.TP
~/.config/aetheel/state/
The state of the gateway, such as its queue and sessions.
"#;

/// Writes man pages and completions below a folder with the layout of `share`. Returns the exit
/// code.
pub(super) fn run(share: &Path) -> u8 {
    match write(share) {
        Ok(()) => exit::OK,
        Err(error) => {
            fail(&format!("cannot write below {}: {error}", share.display()));
            exit::FAILED
        }
    }
}

/// Prints the completions of a shell. Returns the exit code.
pub(super) fn completions(shell: Shell) -> u8 {
    let mut text = Vec::new();
    if let Err(error) = write_registration(shell, &mut text) {
        fail(&error.to_string());
        return exit::FAILED;
    }
    // Write errors are ignored: stdout may be closed.
    let _ = io::stdout().write_all(&text);
    exit::OK
}

fn write(share: &Path) -> io::Result<()> {
    let manual = share.join("man/man1");
    fs::create_dir_all(&manual)?;
    let command = described();
    clap_mangen::generate_to(command, &manual)?;
    for page in fs::read_dir(&manual)? {
        let path = page?.path();
        // The text after the help of a command contains its examples.
        let text = fs::read_to_string(&path)?.replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n");
        fs::write(&path, text + SECTIONS)?;
    }
    for (shell, name) in SHELLS {
        let path = share.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        write_registration(shell, &mut File::create(path)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _};

    use super::*;
    use crate::commands::Cli;

    #[test]
    fn visible_commands_have_pages_and_completions_and_hidden_ones_do_not() {
        let share = tempfile::tempdir().expect("a folder");
        write(share.path()).expect("written");
        let read = |name: &str| fs::read_to_string(share.path().join(name)).unwrap_or_default();
        for (_, name) in SHELLS {
            assert!(read(name).contains("AETHEEL_COMPLETE"), "{name}");
        }
        let words = ["aetheel", ""].map(Into::into).to_vec();
        let completed: Vec<String> =
            clap_complete::engine::complete(&mut described(), words, 1, None)
                .expect("the names of commands")
                .iter()
                .map(|candidate| candidate.get_value().display().to_string())
                .collect();
        let command = Cli::command();
        let of =
            |hidden: bool| command.get_subcommands().filter(move |one| one.is_hide_set() == hidden);
        for shown in of(false).map(Command::get_name) {
            assert!(
                read(&format!("man/man1/aetheel-{shown}.1")).contains(".SH SYNOPSIS"),
                "{shown}"
            );
            assert!(completed.iter().any(|name| name == shown), "{shown} is not completed");
        }
        assert!(read("man/man1/aetheel-backend-install.1").contains("\\-\\-pin"));
        let page = read("man/man1/aetheel-doctor.1");
        for section in ["EXAMPLES", "\"EXIT STATUS\"", "ENVIRONMENT", "FILES"] {
            assert!(page.contains(&format!(".SH {section}\n")), "{section} is missing in\n{page}");
        }
        assert!(of(true).count() >= 2);
        for hidden in of(true).map(Command::get_name) {
            assert_eq!(read(&format!("man/man1/aetheel-{hidden}.1")), "", "{hidden}");
            assert!(completed.iter().all(|name| name != hidden), "{hidden} is completed");
        }
    }
}
