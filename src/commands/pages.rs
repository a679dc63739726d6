//! `aetheel pages` and `aetheel completions`: write man pages and shell completions.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use clap::builder::Resettable;
use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

use crate::cli::{Cli, exit};
use crate::terminal::fail;

/// The supported shells, each with the path of its completion file.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/aetheel"),
    (Shell::Zsh, "zsh/site-functions/_aetheel"),
    (Shell::Fish, "fish/vendor_completions.d/aetheel.fish"),
];

/// The sections at the end of every man page.
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
    clap_complete::generate(shell, &mut described(), "aetheel", &mut text);
    // Write errors are ignored: stdout may be closed.
    let _ = io::stdout().write_all(&text);
    exit::OK
}

/// Returns the command line without hidden commands.
fn described() -> Command {
    shown(&Cli::command()).version(env!("CARGO_PKG_VERSION"))
}

fn write(share: &Path) -> io::Result<()> {
    let manual = share.join("man/man1");
    fs::create_dir_all(&manual)?;
    let command = described();
    clap_mangen::generate_to(command.clone(), &manual)?;
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
        let mut file = File::create(path)?;
        clap_complete::generate(shell, &mut command.clone(), "aetheel", &mut file);
    }
    Ok(())
}

/// Returns a command without hidden subcommands and arguments, which shells would otherwise
/// complete.
fn shown(command: &Command) -> Command {
    // `CliCommand::new` needs a static name. The leak is harmless, because the program ends soon.
    let name: &'static str = command.get_name().to_owned().leak();
    Command::new(name)
        .about(Resettable::from(command.get_about().cloned()))
        .long_about(Resettable::from(command.get_long_about().cloned()))
        .after_help(Resettable::from(command.get_after_help().cloned()))
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().filter(|one| !one.is_hide_set()).map(shown))
        .subcommand_required(command.is_subcommand_required_set())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_commands_have_pages_and_completions_and_hidden_ones_do_not() {
        let share = tempfile::tempdir().expect("a folder");
        write(share.path()).expect("written");
        let read = |name: &str| fs::read_to_string(share.path().join(name)).unwrap_or_default();
        let command = Cli::command();
        let of =
            |hidden: bool| command.get_subcommands().filter(move |one| one.is_hide_set() == hidden);
        for shown in of(false).map(Command::get_name) {
            assert!(
                read(&format!("man/man1/aetheel-{shown}.1")).contains(".SH SYNOPSIS"),
                "{shown}"
            );
            for (_, name) in SHELLS {
                assert!(read(name).contains(shown), "{shown} in {name}");
            }
        }
        assert!(read("man/man1/aetheel-backend-install.1").contains("\\-\\-pin"));
        let page = read("man/man1/aetheel-doctor.1");
        for section in ["EXAMPLES", "\"EXIT STATUS\"", "ENVIRONMENT", "FILES"] {
            assert!(page.contains(&format!(".SH {section}\n")), "{section} is missing in\n{page}");
        }
        assert!(of(true).count() >= 2);
        for hidden in of(true).map(Command::get_name) {
            assert_eq!(read(&format!("man/man1/aetheel-{hidden}.1")), "", "{hidden}");
            for (_, name) in SHELLS {
                let text = read(name);
                let mut words =
                    text.split(|letter: char| !letter.is_alphanumeric() && letter != '-');
                assert!(words.all(|word| word != hidden), "{hidden} in {name}");
            }
        }
    }
}
