//! `aetheel pages`: the man pages and the completions of shells, for packages.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use clap::builder::Resettable;
use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

use crate::cli::{Cli, exit};
use crate::terminal::fail;

/// The shells, each with the name its completions are looked for under.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/aetheel"),
    (Shell::Zsh, "zsh/site-functions/_aetheel"),
    (Shell::Fish, "fish/vendor_completions.d/aetheel.fish"),
];

/// Writes them below a folder, laid out as `share` is. Returns the exit code.
pub(super) fn run(share: &Path) -> u8 {
    match write(share) {
        Ok(()) => exit::OK,
        Err(error) => {
            fail(&format!("cannot write below {}: {error}", share.display()));
            exit::FAILED
        }
    }
}

fn write(share: &Path) -> io::Result<()> {
    let manual = share.join("man/man1");
    fs::create_dir_all(&manual)?;
    let command = shown(&Cli::command()).version(env!("CARGO_PKG_VERSION"));
    clap_mangen::generate_to(command.clone(), &manual)?;
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

/// A command as people are shown it: shells would be offered the hidden ones too.
fn shown(command: &Command) -> Command {
    // It wants names that are there for ever; this program ends when they are written.
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
    fn every_shown_command_has_a_page_and_completes_in_every_shell_and_no_hidden_one_does() {
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
