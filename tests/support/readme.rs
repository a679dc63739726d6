//! A newcomer who follows the steps of README.md, word for word, in an empty home folder: with a
//! clone, or with an installed package.

use std::fs;
use std::path::Path;

use super::discord::{CHANNEL, LocalDiscord, OWNER, TOKEN};
use super::program::{Installation, Program};

/// The program in README.md's commands.
const PROGRAM: &str = "target/debug/aetheel";
/// The environment variable with the path of an installed program that runs in place of
/// [`PROGRAM`]. `scripts/test-dist` sets it for each package.
const INSTALLED_PROGRAM: &str = "README_PROGRAM";

/// Returns the commands in the `sh` blocks of a section of README.md, without their comments.
pub fn commands(section: &str) -> Vec<String> {
    let page = fs::read_to_string(root().join("README.md")).unwrap();
    let heading = format!("\n## {section}\n");
    let (_, rest) = page.split_once(&heading).unwrap_or_else(|| panic!("no section {section}"));
    let text = rest.split("\n## ").next().unwrap_or_default();
    let (mut found, mut inside) = (Vec::new(), false);
    for line in text.lines().map(str::trim) {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            _ if inside => {
                found.push(line.split("  #").next().unwrap_or_default().trim().to_owned());
            }
            _ => {}
        }
    }
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A newcomer at a terminal.
pub struct Newcomer {
    pub installation: Installation,
    pub local: LocalDiscord,
}

impl Newcomer {
    /// Creates an empty home folder. `variables` are for the agent.
    pub async fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let local = LocalDiscord::start().await;
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        let home = folder.path().join("home").display().to_string();
        let own = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME", home),
            // Compiled once for all tests.
            ("CACHE_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/compiled-backends").to_owned()),
            ("DISCORD_API_BASE", local.url().to_owned()),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value));
        let installation = Installation::of(folder, own.into_iter().chain(variables));
        Self { installation, local }
    }

    /// Starts a command of README.md.
    pub fn starts(&self, command: &str) -> Program {
        assert!(command.starts_with(PROGRAM), "{command}");
        self.installation.start_in_shell(&in_clone(command))
    }

    /// Runs another command of README.md to its end.
    pub async fn runs(&self, command: &str) {
        let ended = self.installation.start_in_shell(command).ended().await;
        assert_eq!(ended.code, 0, "{command}: {ended:?}");
    }

    /// Types the token and the backend, and presses Enter at all other questions.
    pub async fn sets_up(&self, command: &str, backend: &str) {
        let line = format!("stty echo rows 50 cols 300; ({}); echo \"code $?\"", in_clone(command));
        let mut terminal = self.installation.start_at("xterm", &line);
        let mut read = 0;
        // The machine may have other agents, so the proposed name is cleared.
        let backend = format!("\x15{backend}");
        for (question, answer) in [
            ("Token (not shown): ", TOKEN),
            ("Which one answers [", backend.as_str()),
            ("People [", ""),
            ("Roles: ", ""),
            ("Servers it answers in (empty: all): ", ""),
            ("Channels it answers in (empty: all): ", ""),
            ("Agents may [ask]: ", ""),
            ("Working directory of the agent [", ""),
            ("by its id (empty: none): ", ""),
            ("(empty: no dashboard): ", ""),
            ("Write this? [yes]: ", ""),
            ("Next [nothing]: ", ""),
        ] {
            let found =
                |printed: &str| printed[read..].find(question).map(|at| read + at + question.len());
            read = terminal.prints(question, found).await;
            terminal.type_in(&format!("{answer}\r")).await;
        }
        terminal.prints("code 0", |printed| printed[read..].find("code 0")).await;
    }

    /// Sends a prompt, and allows what the agent asks with a button.
    pub async fn allows(&self, prompt: &str) {
        let before = self.local.messages(CHANNEL).len();
        self.local.mention(CHANNEL, OWNER, prompt);
        let open = |local: &LocalDiscord| {
            local.messages(CHANNEL).into_iter().skip(before).find(|message| local.asks(message.id))
        };
        let question = self.local.wait_for("a question", open).await;
        let labels = self.local.buttons(question.id);
        let label = labels.iter().find(|label| label.starts_with("Allow once")).unwrap();
        self.local.press(question.id, OWNER, label);
    }
}

/// Returns a command in the clone; that of an installed program is in the home folder.
fn in_clone(command: &str) -> String {
    match std::env::var(INSTALLED_PROGRAM) {
        Ok(program) => format!("cd && exec {}", command.replacen(PROGRAM, &program, 1)),
        Err(_) => format!("cd {} && exec {command}", root().display()),
    }
}
