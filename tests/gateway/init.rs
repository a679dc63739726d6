//! `aetheel init`: with flags, at a terminal, a second time, and aborted.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use aetheel_model::permission::PERMISSION_CHOICES;
use serde_json::Value;

use super::{installed, serving};
use crate::support::discord::{APPLICATION, CHANNEL, LocalDiscord, OWNER, TOKEN};
use crate::support::program::{Ended, Installation, Program, aetheel, built, copy_program};

/// The permissions that the bot uses, as bits of Discord's documentation, and as in the guide.
const PERMISSIONS: u64 = 1 << 6 | 1 << 10 | 1 << 11 | 1 << 15 | 1 << 16 | 1 << 35 | 1 << 38;

/// Returns an installation that is not set up yet.
fn not_set_up(local: &LocalDiscord) -> Installation {
    let unset = [
        "CONFIG_DIR",
        "BACKENDS_DIR",
        "WORKSPACE_DIR",
        "RECORDINGS_DIR",
        "AGENT_BACKEND",
        "PERMISSION_MODE",
        "ALLOWED_TOOLS",
        "FOOTER",
        "USER_PROMPTS_PER_MINUTE",
    ];
    let installation = unset.iter().fold(installed(local), |made, name| made.with(name, ""));
    let installation = installation.with("DISCORD_BOT_TOKEN", "");
    fs::write(installation.path("token"), format!("{TOKEN}\n")).unwrap();
    installation
}

fn folder(installation: &Installation) -> PathBuf {
    installation.path("home/.config/aetheel")
}

fn settings(installation: &Installation) -> String {
    fs::read_to_string(folder(installation).join("settings.env")).unwrap()
}

fn mode(path: PathBuf) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

async fn init(installation: &Installation, flags: &[&str]) -> Ended {
    let ended = installation.run(&[&["init", "--yes"], flags].concat(), "").await;
    for said in [&ended.stdout, &ended.stderr] {
        assert!(!said.contains(TOKEN), "{said}");
    }
    ended
}

/// Runs `init` with the token and the backend `demo`.
async fn init_with(installation: &Installation, flags: &[&str]) -> Ended {
    let token = installation.path("token").display().to_string();
    init(installation, &[&["--token-file", &token, "--backend", "demo"], flags].concat()).await
}

#[tokio::test]
async fn flags_set_everything_up_and_the_gateway_finds_the_result() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    let ended =
        init_with(&installation, &["--users", "100000000000000042, 100000000000000007"]).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let invite = format!(
        "https://discord.com/oauth2/authorize?client_id={APPLICATION}&scope=bot+applications.commands&permissions={PERMISSIONS}\n"
    );
    assert!(ended.stdout.contains(&invite), "{}", ended.stdout);
    assert!(ended.stdout.contains("Message Content Intent"), "{}", ended.stdout);
    assert_eq!(mode(folder(&installation)), 0o700);
    assert_eq!(mode(folder(&installation).join("settings.env")), 0o600);
    let text = settings(&installation);
    for line in [
        format!("DISCORD_BOT_TOKEN={TOKEN}"),
        "AGENT_BACKEND=demo".to_owned(),
        "ALLOWED_USERS=100000000000000042,100000000000000007".to_owned(),
        "PERMISSION_MODE=default".to_owned(),
        "ALLOWED_TOOLS=*".to_owned(),
        format!("BACKENDS_DIR={}", installation.path("backends").display()),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }
    assert!(!text.contains("ALLOWED_ROLES") && !text.contains("CONFIG_DIR"), "{text}");
    for name in ["soul.md", "identity.md", "agents.md", "acp.md", "boot.md", "budgets.md"] {
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/config/");
        let made = fs::read(folder(&installation).join(name)).unwrap();
        assert_eq!(made, fs::read(format!("{example}{name}")).unwrap(), "{name}");
    }

    // No folder is named, so the program must find it.
    let report = installation.run(&["doctor", "--json"], "").await;
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let says = |about: &str| {
        let lines = report["lines"].as_array().unwrap();
        lines.iter().find(|line| line["about"] == about).unwrap().to_string()
    };
    assert_eq!(report["faults"], 0, "{report:#}");
    assert!(says("configuration").contains("it is this user's"), "{report:#}");
    assert!(says("env file").contains("is private"), "{report:#}");
    let bot = serving(&installation).await;
    let log = bot.logs("configuration folder").await;
    assert_eq!(log["folder"], folder(&installation).display().to_string(), "{log}");
    assert_eq!(
        log["settings"],
        folder(&installation).join("settings.env").display().to_string(),
        "{log}"
    );
    assert!(folder(&installation).join("state/gateway.lock").exists());
}

#[tokio::test]
async fn missing_and_wrong_flags_are_reported_together_and_nothing_is_written() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    let ended = init(&installation, &[]).await;
    assert_eq!(ended.code, 78, "{ended:?}");
    for flag in ["--token-file", "--users"] {
        assert!(ended.stderr.contains(flag), "{flag} is missing in {}", ended.stderr);
    }
    let wrong = ["--users", "bob", "--roles", "@crew", "--safety", "yolo", "--workspace", "/"];
    let ended = init(&installation, &wrong).await;
    for flag in ["--users", "--roles", "--safety", "--workspace", "--token-file"] {
        assert!(ended.stderr.contains(flag), "{flag} is missing in {}", ended.stderr);
    }
    let token = installation.path("token").display().to_string();
    let ended = init(
        &installation,
        &["--token-file", &token, "--users", "100000000000000007", "--backend", "nobody"],
    )
    .await;
    assert!(
        ended.stderr.contains("there is no backend \"nobody\"; there are: demo"),
        "{}",
        ended.stderr
    );
    fs::write(installation.path("token"), "MTIz.abc.def").unwrap();
    let ended = init_with(&installation, &["--users", "100000000000000007"]).await;
    assert!(ended.stderr.contains("discord refused `DISCORD_BOT_TOKEN`"), "{}", ended.stderr);
    assert!(ended.stderr.ends_with("nothing was written\n"), "{}", ended.stderr);
    assert!(!installation.path("home/.config").exists());
}

#[tokio::test]
async fn everybody_is_admitted_only_with_an_explicit_flag() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    for nobody in [&[][..], &["--users", ""], &["--users", "none", "--servers", ","]] {
        let ended = init_with(&installation, nobody).await;
        assert!(
            ended.code == 78 && ended.stderr.contains("--allow-everybody"),
            "{nobody:?}: {ended:?}"
        );
        assert!(!installation.path("home/.config").exists());
    }
    let ended = init_with(&installation, &["--allow-everybody"]).await;
    assert!(ended.code == 0 && ended.stdout.contains("warning: "), "{ended:?}");
    // An existing setting for everybody must be confirmed again.
    let ended = init(&installation, &["--safety", "plan"]).await;
    assert!(ended.code == 78 && ended.stderr.contains("--allow-everybody"), "{ended:?}");
    let ended = init(&installation, &["--servers", "100000000000000077"]).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(settings(&installation).contains("\nALLOWED_GUILDS=100000000000000077\n"));
    let ended = init(&installation, &["--allow-everybody"]).await;
    let text = settings(&installation);
    assert!(ended.code == 0 && text.contains("\nALLOWED_GUILDS=\n"), "{ended:?}\n{text}");
}

#[tokio::test]
async fn a_second_run_changes_only_the_given_settings() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    assert_eq!(init_with(&installation, &["--users", "100000000000000007"]).await.code, 0);
    let file = folder(&installation).join("settings.env");
    let own =
        "# my own remark\nMY_AGENTS_VARIABLE='kept as it is'   # and why\nexport LOG_LEVEL=debug";
    fs::write(&file, settings(&installation) + own).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(folder(&installation).join("soul.md"), "# Mine\n").unwrap();
    fs::remove_file(folder(&installation).join("tools.md")).unwrap();
    let before = settings(&installation);
    let ended = init(
        &installation,
        &["--users", "100000000000000008,100000000000000009", "--safety", "edit"],
    )
    .await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let wanted = before
        .replace(
            "ALLOWED_USERS=100000000000000007\n",
            "ALLOWED_USERS=100000000000000008,100000000000000009\n",
        )
        .replace("PERMISSION_MODE=default\n", "PERMISSION_MODE=acceptEdits\n");
    assert_eq!(settings(&installation), wanted);
    assert_eq!(mode(file), 0o600);
    assert_eq!(fs::read_to_string(folder(&installation).join("soul.md")).unwrap(), "# Mine\n");
    assert!(folder(&installation).join("tools.md").exists());
    let ended = init(&installation, &[]).await;
    assert!(ended.code == 0 && ended.stdout.contains("Nothing to change."), "{ended:?}");
    assert_eq!(settings(&installation), wanted);
    // A file with an unreadable line is not changed.
    fs::write(folder(&installation).join("settings.env"), wanted.clone() + "\nnonsense\n").unwrap();
    let ended = init(&installation, &["--users", "100000000000000007"]).await;
    assert!(ended.code == 78 && ended.stderr.contains("is not `NAME=value`"), "{ended:?}");
}

#[tokio::test]
async fn without_discord_it_fails_unless_offline_is_given() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local).with("DISCORD_API_BASE", "http://127.0.0.1:9");
    let ended = init_with(&installation, &["--users", "100000000000000007"]).await;
    assert!(ended.code == 78 && ended.stderr.contains("give --offline"), "{ended:?}");
    assert!(!installation.path("home/.config").exists());
    let ended = init_with(&installation, &["--users", "100000000000000007", "--offline"]).await;
    assert!(ended.code == 0 && ended.stdout.contains("--offline"), "{ended:?}");
}

#[tokio::test]
async fn a_token_in_the_environment_is_used_and_the_gateway_can_be_started_at_once() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local).with("DISCORD_BOT_TOKEN", TOKEN);
    let flags =
        ["init", "--yes", "--backend", "demo", "--users", "100000000000000007", "--then", "start"];
    let program = installation.start(&flags);
    program.logs("aetheel is ready").await;
    assert!(program.stdout().contains("token from $DISCORD_BOT_TOKEN"));
    assert!(!program.stdout().contains(TOKEN) && !program.stderr().contains(TOKEN));
    assert!(settings(&installation).contains(TOKEN));
    let said = fs::read(format!("/proc/{}/cmdline", program.pid.as_raw_nonzero())).unwrap();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(
        said.contains("settings.env") && !said.contains(TOKEN),
        "the process is the gateway now"
    );
}

#[tokio::test]
async fn units_for_systemd_are_printed_and_installed() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    let ended =
        init_with(&installation, &["--users", "100000000000000007", "--then", "install-unit"])
            .await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains("systemctl --user enable --now"), "{}", ended.stdout);
    let unit = installation.path("home/.config/systemd/user/aetheel.service");
    let text = fs::read_to_string(unit).unwrap();
    let file = folder(&installation).join("settings.env");
    assert!(text.contains(&format!("run --env-file \"{}\"\n", file.display())), "{text}");
    assert!(text.contains("Environment=\"PATH=/usr/local/bin:/usr/bin:/bin\"\n"), "{text}");
    let printed = init(&installation, &["--then", "print-unit"]).await;
    assert!(printed.stdout.contains(&text), "{}", printed.stdout);
}

#[tokio::test]
async fn a_configuration_in_the_working_directory_that_a_gateway_used_is_kept() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    fs::create_dir_all(folder(&installation)).unwrap();
    fs::create_dir(installation.path("config/state")).unwrap();
    fs::write(installation.path("config/state/gateway.lock"), "1\n").unwrap();
    // This file must not be read.
    fs::write(installation.path("config/settings.env"), "AGENT_BACKEND=not-asked-for\n").unwrap();
    let report = installation.run(&["doctor", "--json", "--offline"], "").await;
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let lines = report["lines"].as_array().unwrap();
    let line = lines.iter().find(|line| line["about"] == "configuration").unwrap();
    assert_eq!(line["level"], "warning", "{line}");
    assert!(line["says"].as_str().unwrap().starts_with("./config: a gateway has used it"));
    assert!(!report.to_string().contains("not-asked-for"), "{report:#}");

    fs::write(installation.path(".env"), "# by hand\nOWNERS=7\n").unwrap();
    let ended =
        init_with(&installation, &["--env-file", ".env", "--users", "100000000000000007"]).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let text = fs::read_to_string(installation.path(".env")).unwrap();
    let config = installation.path("config").display().to_string();
    assert!(text.starts_with("# by hand\nOWNERS=7\n"), "{text}");
    assert!(text.contains(&format!("\nCONFIG_DIR={config}\n")), "{text}");
    let env_file = installation.path(".env").display().to_string();
    assert!(ended.stdout.contains(&format!("aetheel run --env-file {env_file}\n")), "{ended:?}");
    assert_eq!(fs::read_dir(folder(&installation)).unwrap().count(), 0);
}

const OUTPUT_CHANNEL: &str = "answers of schedules, by its id (empty: none): ";
const DASHBOARD: &str = "127.0.0.1:8788 (empty: no dashboard): ";

/// A user at a terminal that would echo typed text.
struct Person {
    program: Program,
    read: usize,
}

impl Person {
    fn at(installation: &Installation) -> Self {
        let line = "stty echo rows 50 cols 300; \"$AETHEEL\" init; echo \"code $?\"";
        Self { program: installation.start_at("xterm", line), read: 0 }
    }

    /// Waits for this text after the last one.
    async fn sees(&mut self, text: &str) {
        let from = self.read;
        let found = |printed: &str| printed[from..].find(text).map(|at| from + at + text.len());
        self.read = self.program.prints(text, found).await;
    }

    async fn skips_optional_settings(&mut self) {
        for question in [OUTPUT_CHANNEL, DASHBOARD] {
            self.answers(question, "\r").await;
        }
    }

    async fn answers(&mut self, question: &str, answer: &str) {
        self.sees(question).await;
        self.program.type_in(answer).await;
    }
}

#[tokio::test]
async fn at_a_terminal_invalid_answers_are_asked_again_and_the_token_is_never_shown() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    let mut person = Person::at(&installation);
    person.answers("Token (not shown): ", "canary-no-token\r").await;
    person.sees("does not look like a bot token").await;
    person.answers("Token (not shown): ", &format!("{TOKEN}\r")).await;
    person.sees("&scope=bot+applications.commands&permissions=").await;
    person.answers("Which one answers [demo]: ", "nobody\r").await;
    person.sees("there is no backend \"nobody\"").await;
    person.answers("Which one answers [demo]: ", "demo\r").await;
    person.sees(&format!("belongs to olga ({OWNER})")).await;
    person.answers(&format!("People [{OWNER}]: "), "bob\r").await;
    person.sees("\"bob\" is not a Discord id").await;
    person.answers("People [", "none\r").await;
    for question in ["Roles: ", "Servers it answers in (empty: all): "] {
        person.answers(question, "\r").await;
    }
    person.answers("Channels it answers in (empty: all): ", "\r").await;
    person.sees("With all lists empty everybody could use it").await;
    person.answers("People: ", "everybody\r").await;
    person.answers("and the agent behind it? [no]: ", "\r").await;
    person.answers("People: ", "100000000000000007\r").await;
    for question in ["Roles: ", "Servers it answers in (empty: all): "] {
        person.answers(question, "\r").await;
    }
    person.answers("Channels it answers in (empty: all): ", "\r").await;
    person.answers("Agents may [ask]: ", "yolo\r").await;
    person.sees("\"yolo\" is not one of").await;
    person.answers("Agents may [ask]: ", "plan\r").await;
    person.answers("Working directory of the agent [", "\x15/\r").await;
    person.sees("must be separate").await;
    person.answers("Working directory of the agent [", "\r").await;
    person.skips_optional_settings().await;
    person.sees("DISCORD_BOT_TOKEN=(not shown)").await;
    assert!(
        !installation.path("home/.config").exists(),
        "nothing is written before the last answer"
    );
    person.answers("Write this? [yes]: ", "\r").await;
    person.answers("Next [nothing]: ", "\r").await;
    person.sees("code 0").await;
    let shown = person.program.stdout();
    assert!(!shown.contains(TOKEN) && !shown.contains("canary"), "{shown}");
    let text = settings(&installation);
    assert!(
        text.contains("\nALLOWED_USERS=100000000000000007\n")
            && text.contains("\nPERMISSION_MODE=plan\n")
    );
    assert!(text.contains(TOKEN));
}

#[tokio::test]
async fn with_the_default_answers_agents_edit_and_run_commands_after_a_button() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    let mut person = Person::at(&installation);
    person.answers("Token (not shown): ", &format!("{TOKEN}\r")).await;
    for question in [
        "Which one answers [demo]: ",
        "People [",
        "Roles: ",
        "Servers it answers in (empty: all): ",
        "Channels it answers in (empty: all): ",
        "Agents may [ask]: ",
        "Working directory of the agent [",
        OUTPUT_CHANNEL,
        DASHBOARD,
        "Write this? [yes]: ",
        "Next [nothing]: ",
    ] {
        person.answers(question, "\r").await;
    }
    person.sees("code 0").await;
    let bot = serving(&installation).await;
    for (prompt, answer) in [("edit", "I would have changed it"), ("ask make", "Done, this once")] {
        let before = local.messages(CHANNEL).len();
        local.mention(CHANNEL, OWNER, prompt);
        let open = |local: &LocalDiscord| {
            let mut new = local.messages(CHANNEL).into_iter().skip(before);
            new.find(|message| local.asks(message.id))
        };
        let question = local.wait_for("a question", open).await;
        local.press(question.id, OWNER, "Allow once");
        local.wait_for_message(CHANNEL, |text| text.contains(answer)).await;
    }
    assert!(!bot.stderr().contains("agents may only read"), "{}", bot.stderr());
}

#[tokio::test]
async fn each_answer_about_agents_writes_a_mode_with_the_tools_it_needs() {
    let local = LocalDiscord::start().await;
    let users = ["--users", "100000000000000007"];
    for choice in PERMISSION_CHOICES {
        let installation = not_set_up(&local);
        let ended =
            init_with(&installation, &[&users[..], &["--safety", choice.word]].concat()).await;
        assert_eq!(ended.code, 0, "{ended:?}");
        let text = settings(&installation);
        let (mode, tools) = (choice.mode, choice.tools);
        assert!(text.contains(&format!("\nPERMISSION_MODE={mode}\n")), "{text}");
        assert!(text.contains(&format!("\nALLOWED_TOOLS={tools}\n")), "{text}");
        let warns = ended.stdout.contains("SECURITY.md describes what limits them");
        assert_eq!(warns, choice.word == "everything", "{}", ended.stdout);
    }
    // A list of tools that the operator wrote is not widened.
    let installation = not_set_up(&local);
    assert_eq!(init_with(&installation, &users).await.code, 0);
    let file = folder(&installation).join("settings.env");
    let own = settings(&installation).replace("ALLOWED_TOOLS=*", "ALLOWED_TOOLS=file_read,bash");
    fs::write(&file, &own).unwrap();
    let ended = init(&installation, &["--safety", "edit"]).await;
    assert!(ended.stdout.contains("ALLOWED_TOOLS: file_read,bash"), "{ended:?}");
    assert!(settings(&installation).contains("\nALLOWED_TOOLS=file_read,bash\n"));
    assert!(settings(&installation).contains("\nPERMISSION_MODE=acceptEdits\n"));
}

#[tokio::test]
async fn the_output_channel_and_the_dashboard_are_offered_and_checked() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    let users = ["--users", "100000000000000007"];
    let wrong = ["--output-channel", "x", "--dashboard", "here", "--dashboard-url", "agents"];
    let ended = init_with(&installation, &[&users[..], &wrong].concat()).await;
    assert_eq!(ended.code, 78, "{ended:?}");
    for flag in ["--output-channel: ", "--dashboard: "] {
        assert!(ended.stderr.contains(flag), "{flag} is missing in {}", ended.stderr);
    }
    let open = ["--dashboard", "0.0.0.0:8788"];
    let ended = init_with(&installation, &[&users[..], &open].concat()).await;
    assert!(ended.stdout.contains("can be reached from other machines"), "{ended:?}");
    let right = [
        "--output-channel",
        "100000000000000099",
        "--dashboard",
        "127.0.0.1:8788",
        "--dashboard-url",
        "https://agents.example.com",
    ];
    let ended = init_with(&installation, &[&users[..], &right].concat()).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let text = settings(&installation);
    for line in [
        "OUTPUT_CHANNEL_ID=100000000000000099",
        "DASHBOARD_ADDRESS=127.0.0.1:8788",
        "DASHBOARD_URL=https://agents.example.com",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }
}

#[tokio::test]
async fn without_settings_agents_may_only_read_and_everybody_is_informed() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("ALLOWED_TOOLS", "").with("PERMISSION_MODE", "");
    let report = installation.run(&["doctor", "--json", "--offline"], "").await;
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let lines = report["lines"].as_array().unwrap();
    let line = lines.iter().find(|line| line["about"] == "tools").unwrap();
    assert!(line.to_string().contains("agents may only read (ALLOWED_TOOLS)"), "{line}");
    assert!(line["hint"].as_str().unwrap().contains("`ALLOWED_TOOLS=*`"), "{line}");
    let bot = serving(&installation).await;
    bot.logs("agents may only read (ALLOWED_TOOLS)").await;
    for command in ["status", "help"] {
        let asked = local.slash(CHANNEL, OWNER, command, None);
        let answer = local.answer_to(asked).await.content;
        assert!(answer.contains("Agents may only read"), "{answer}");
    }
}

#[tokio::test]
async fn aborting_at_any_question_leaves_nothing_behind() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    let token = format!("{TOKEN}\r");
    let questions = [
        ("Token (not shown): ", token.as_str()),
        ("Which one answers [demo]: ", "demo\r"),
        ("People [", "100000000000000007\r"),
        ("Roles: ", "\r"),
        ("Servers it answers in (empty: all): ", "\r"),
        ("Channels it answers in (empty: all): ", "\r"),
        ("Agents may [ask]: ", "\r"),
        ("Working directory of the agent [", "\r"),
        (OUTPUT_CHANNEL, "\r"),
        (DASHBOARD, "\r"),
        ("Write this? [yes]: ", "\r"),
    ];
    for (at, (last, _)) in questions.iter().enumerate() {
        // The keys alternate. Both are tried at the question for the token.
        for key in ["\x03", "\x04"].iter().skip(at % 2).take(if at == 0 { 2 } else { 1 }) {
            let mut person = Person::at(&installation);
            for (question, answer) in &questions[..at] {
                person.answers(question, answer).await;
            }
            person.answers(last, key).await;
            person.sees("nothing was written").await;
            person.sees("code 1").await;
            assert!(!installation.path("home/.config").exists(), "{last}");
        }
    }
    let mut person = Person::at(&installation);
    for (question, answer) in &questions[..questions.len() - 1] {
        person.answers(question, answer).await;
    }
    person.answers("Write this? [yes]: ", "no\r").await;
    person.sees("nothing was written").await;
    assert!(!installation.path("home/.config").exists());
}

/// Runs a copy of the program that has no components in its folder.
async fn init_elsewhere(installation: &Installation, flags: &str) -> Ended {
    let program = installation.path("elsewhere/aetheel");
    if !program.exists() {
        fs::create_dir(installation.path("elsewhere")).unwrap();
        copy_program(aetheel(), &program);
    }
    let token = installation.path("token").display().to_string();
    let line = format!("exec {} init --yes --token-file {token} {flags}", program.display());
    installation.start_in_shell(&line).ended().await
}

#[tokio::test]
async fn a_folder_without_backends_is_not_written_and_a_later_run_corrects_it() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    let away = installation.path("away");
    fs::rename(installation.path("backends"), &away).unwrap();
    let flags = "--backend demo --users 100000000000000007";
    let ended = init_elsewhere(&installation, flags).await;
    assert_eq!(ended.code, 78, "{ended:?}");
    for part in ["there are no backends in", "make guests", "--backends FOLDER"] {
        assert!(ended.stderr.contains(part), "{part} is missing in {}", ended.stderr);
    }
    assert!(!installation.path("home/.config").exists());
    let wrong = format!("{flags} --backends {}", installation.path("home").display());
    let ended = init_elsewhere(&installation, &wrong).await;
    assert!(ended.code == 78 && ended.stderr.contains("--backends: there are no"), "{ended:?}");
    let given = format!("{flags} --backends {}", away.display());
    let ended = init_elsewhere(&installation, &given).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(settings(&installation).contains(&format!("BACKENDS_DIR={}\n", away.display())));
    // The folder no longer exists, and another one does.
    fs::rename(&away, installation.path("backends")).unwrap();
    let ended = init_elsewhere(&installation, "").await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let found = installation.path("backends").display().to_string();
    assert!(settings(&installation).contains(&format!("BACKENDS_DIR={found}\n")), "{ended:?}");
}

#[tokio::test]
async fn a_program_in_a_clone_finds_the_backends_of_the_clone() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    fs::remove_dir_all(installation.path("backends")).unwrap();
    let ended = init_with(&installation, &["--users", "100000000000000007"]).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let clone = concat!("BACKENDS_DIR=", env!("CARGO_MANIFEST_DIR"), "/backends\n");
    assert!(settings(&installation).contains(clone), "{}", settings(&installation));
}

#[tokio::test]
async fn a_settings_file_written_by_hand_gets_only_the_given_settings() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    let text = format!(
        "CONFIG_DIR=config\nDISCORD_BOT_TOKEN={TOKEN}\nAGENT_BACKEND=demo\nALLOWED_USERS=7\n"
    );
    fs::write(installation.path(".env"), &text).unwrap();
    let ended = init(&installation, &["--env-file", ".env", "--safety", "default"]).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let written = fs::read_to_string(installation.path(".env")).unwrap();
    let added: Vec<&str> =
        written.strip_prefix(&text).unwrap().lines().filter(|line| line.contains('=')).collect();
    assert_eq!(added, ["PERMISSION_MODE=default", "ALLOWED_TOOLS=*"], "{written}");
    let ended = init(&installation, &["--env-file", ".env"]).await;
    assert!(ended.stdout.contains("Nothing to change."), "{ended:?}");
}

#[tokio::test]
async fn wrong_flags_a_wrong_token_and_an_unknown_backend_are_reported_in_one_run() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    fs::write(installation.path("token"), "abc").unwrap();
    let token = installation.path("token").display().to_string();
    let flags =
        ["--token-file", &token, "--backend", "dmo", "--users", "1", "--workspace", "/dev/null"];
    let ended = init(&installation, &flags).await;
    assert_eq!(ended.code, 78, "{ended:?}");
    for part in [
        "--users: \"1\" is not a Discord id",
        "--workspace: /dev/null is not a folder",
        "does not look like a bot token",
        "--backend: there is no backend \"dmo\"; did you mean `demo`?",
    ] {
        assert!(ended.stderr.contains(part), "{part} is missing in {}", ended.stderr);
    }
}

#[tokio::test]
async fn a_tilde_means_the_home_folder_and_without_a_home_the_file_is_named() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    let users = ["--users", "100000000000000007"];
    let ended = init_with(&installation, &[&users[..], &["--workspace", "~"]].concat()).await;
    assert!(ended.code == 78 && ended.stderr.contains("must be separate"), "{ended:?}");
    let ended = init_with(&installation, &[&users[..], &["--workspace", "~/work"]].concat()).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let work = installation.path("home/work").display().to_string();
    assert!(settings(&installation).contains(&format!("WORKSPACE_DIR={work}\n")));

    let homeless = not_set_up(&local).with("HOME", "");
    let ended = init_with(&homeless, &users).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let file = homeless.path("config/settings.env").display().to_string();
    assert!(ended.stdout.contains(&format!("aetheel run --env-file {file}\n")), "{ended:?}");
    let check = homeless.run(&["check", "--env-file", &file], "").await;
    assert_eq!(check.code, 0, "{check:?}");
}

#[tokio::test]
async fn printed_units_are_alone_on_stdout_and_a_running_gateway_must_be_restarted() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    let users = ["--users", "100000000000000007"];
    let ended = init_with(&installation, &[&users[..], &["--then", "print-unit"]].concat()).await;
    assert!(ended.stdout.starts_with("# aetheel-hold.service\n# Written by"), "{ended:?}");
    assert!(ended.stderr.contains("https://discord.com/oauth2/authorize"), "{ended:?}");
    let _bot = serving(&installation).await;
    let ended = init(&installation, &["--safety", "plan"]).await;
    assert!(ended.stdout.contains("still uses the previous settings: restart it"), "{ended:?}");
    assert!(!ended.stdout.contains("Start:"), "{ended:?}");
}

#[tokio::test]
async fn a_backend_that_cannot_work_needs_confirmation_and_the_owner_is_the_default_user() {
    let local = LocalDiscord::start().await;
    let installation = not_set_up(&local);
    fs::write(installation.backend("claude"), built("claude")).unwrap();
    let mut person = Person::at(&installation);
    person.answers("Token (not shown): ", "\r").await;
    person.sees("Nothing was entered").await;
    person.answers("Token (not shown): ", &format!("{TOKEN}\r")).await;
    person.answers("Which one answers", "claude\r").await;
    person.sees("claude cannot work yet").await;
    person.answers("Choose it anyway? [no]: ", "\r").await;
    person.answers("Which one answers", "demo\r").await;
    person.answers(&format!("People [{OWNER}]: "), "\r").await;
    for question in ["Roles: ", "Servers it answers in (empty: all): "] {
        person.answers(question, "\r").await;
    }
    person.answers("Channels it answers in (empty: all): ", "\r").await;
    person.answers("Agents may [ask]: ", "\r").await;
    person.answers("Working directory of the agent [", "\r").await;
    person.skips_optional_settings().await;
    person.answers("Write this? [yes]: ", "\r").await;
    person.answers("Next [nothing]: ", "\r").await;
    person.sees("code 0").await;
    assert!(settings(&installation).contains(&format!("\nALLOWED_USERS={OWNER}\n")));
}
