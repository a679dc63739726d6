//! An agent of the same user without a sandbox cannot get the gateway's secrets, however the
//! gateway got them.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::installed;
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, TOKEN};
use crate::support::program::{Installation, Program, aetheel, copy_program};

const SECRET: &str = "whsec_canary0123456789abcdefghijklmnopqrstuv";
/// An ordinary user, in case root runs the tests.
const USER: u32 = 65534;

/// A wrapper of the agent (`AGENT_WRAPPER`) that reads everything that a process of the same user
/// can read.
const THIEF: &str = r#"#!/bin/sh
gateway=$PPID
{
  echo "user $(id -u), gateway $gateway of user $(stat -c %u /proc/$gateway/task/$gateway/stat)"
  for file in environ mem maps auxv io; do
    head -c 1 /proc/$gateway/$file > /dev/null && echo "OPENED $file"
  done
  ls /proc/$gateway/fd/ && echo "OPENED fd"
  ls /proc/$gateway/cwd/ > /dev/null && echo "OPENED cwd"
  cat /proc/$gateway/cmdline /proc/$gateway/environ
  for other in /proc/[0-9]*; do cat $other/environ $other/cmdline; done
  ls -l /proc/self/fd/
  env
  echo "LOOKED"
} > "$LOOT" 2>&1
exec "$@"
"#;

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns an installation that belongs to the ordinary user. Its agents first search for secrets.
fn with_thief(local: &LocalDiscord) -> Installation {
    let installation = installed(local).with("DISCORD_BOT_TOKEN", "").with("AGENT_ENV", "LOOT");
    let (thief, loot) = (installation.path("thief"), installation.path("loot"));
    fs::write(&thief, THIEF).unwrap();
    fs::set_permissions(&thief, fs::Permissions::from_mode(0o755)).unwrap();
    let installation = installation
        .with("AGENT_WRAPPER", &thief.display().to_string())
        .with("LOOT", &loot.display().to_string())
        // The gateway must hide its secrets even without a sandbox.
        .with("AGENT_SANDBOX", "off")
        .with("LOG_FORMAT", "json");
    // The gateway refuses compiled code that another user could have written.
    let cache = installation.path("cache").display().to_string();
    let installation = installation.with("CACHE_DIR", &cache);
    let sections = "## hook\n- scheme: bearer\n- secret: HOOK_PHRASE\n\nDo.\n";
    fs::write(installation.path("config/webhooks.md"), sections).unwrap();
    if is_root() {
        change_owner(installation.path("").as_path());
    }
    installation
}

pub(super) fn change_owner(path: &Path) {
    chown(path, Some(USER), Some(USER)).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| change_owner(&entry.unwrap().path()));
    }
}

/// Returns the path of the program for the ordinary user. This is a copy if the program was built
/// in a folder of root.
fn program_of(installation: &Installation) -> PathBuf {
    let user = [format!("--reuid={USER}"), format!("--regid={USER}"), "--clear-groups".to_owned()];
    let tried =
        Command::new("setpriv").args(user).arg("test").arg("-x").arg(aetheel()).status().unwrap();
    if tried.success() {
        return aetheel().to_owned();
    }
    let copy = installation.path("aetheel");
    copy_program(aetheel(), &copy);
    copy
}

/// Starts the gateway as the ordinary user and waits until it is ready. `handed` is a redirection
/// that the user of the tests opens.
pub(super) async fn started(installation: &Installation, arguments: &str, handed: &str) -> Program {
    let program = start(installation, arguments, handed);
    program.logs("aetheel is ready").await;
    program
}

/// Starts the gateway as the ordinary user. See [`started`].
pub(super) fn start(installation: &Installation, arguments: &str, handed: &str) -> Program {
    let line = if is_root() {
        format!(
            "exec setpriv --reuid={USER} --regid={USER} --clear-groups {} run {arguments} {handed}",
            program_of(installation).display()
        )
    } else {
        format!("exec \"$0\" run {arguments} {handed}")
    };
    installation.start_in_shell(&line)
}

async fn check_no_secret_leaks(
    local: &LocalDiscord,
    installation: &Installation,
    program: &Program,
) {
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    let loot = String::from_utf8_lossy(&fs::read(installation.path("loot")).unwrap()).into_owned();
    assert!(
        loot.contains("LOOKED") && loot.contains("DEMO_AGENT_DELAY_MS"),
        "the search ran: {loot}"
    );
    for secret in [TOKEN, SECRET] {
        assert!(!loot.contains(secret), "{loot}");
    }
    if is_root() {
        assert!(loot.contains(&format!("user {USER}, ")), "{loot}");
    }
    assert!(!loot.contains("OPENED"), "{loot}");
    // A process of root can read the memory in which the program got its environment. The secrets
    // are no longer there.
    if is_root() {
        let pid = program.pid.as_raw_nonzero();
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
        let environment = String::from_utf8_lossy(&environment);
        assert!(
            environment.contains("CONFIG_DIR=") && !environment.contains("canary"),
            "{environment}"
        );
        assert!(!environment.contains(TOKEN), "{environment}");
    }
}

#[tokio::test]
async fn an_agent_of_the_same_user_cannot_read_secrets_from_the_environment() {
    let local = LocalDiscord::start().await;
    let installation =
        with_thief(&local).with("DISCORD_BOT_TOKEN", TOKEN).with("HOOK_PHRASE", SECRET);
    let program = started(&installation, "", "").await;
    check_no_secret_leaks(&local, &installation, &program).await;
}

#[tokio::test]
async fn secrets_from_a_descriptor_are_read_and_no_agent_can_get_them() {
    for number in [0, 7] {
        let local = LocalDiscord::start().await;
        let installation = with_thief(&local);
        // The ordinary user cannot open this file.
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("DISCORD_BOT_TOKEN='{TOKEN}'\nHOOK_PHRASE={SECRET}\n"))
            .unwrap();
        let handed = format!("{number}< {}", file.path().display());
        let program = started(&installation, &format!("--secrets-fd {number}"), &handed).await;
        assert!(!program.stderr().contains("agents can read"), "{}", program.stderr());
        check_no_secret_leaks(&local, &installation, &program).await;
    }
}

#[tokio::test]
async fn a_file_with_secrets_that_agents_can_open_causes_a_warning() {
    let local = LocalDiscord::start().await;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("DISCORD_BOT_TOKEN"), format!("{TOKEN}\n")).unwrap();
    let installation = installed(&local)
        .with("DISCORD_BOT_TOKEN", "")
        // Confined agents could not open the file.
        .with("AGENT_SANDBOX", "off")
        .with("LOG_FORMAT", "json");
    let installation =
        installation.with("CREDENTIALS_DIRECTORY", &folder.path().display().to_string());
    let program = installation.start(&["run"]);
    program.logs("aetheel is ready").await;
    let warned = program.logs("agents can read the secrets in").await;
    let (warned, named) =
        (warned["message"].as_str().unwrap().to_owned(), folder.path().join("DISCORD_BOT_TOKEN"));
    assert!(
        warned.contains(&named.display().to_string()) && warned.contains("--secrets-fd"),
        "{warned}"
    );
    let looked = installation.run(&["check"], "").await;
    assert!(looked.stdout.contains(&named.display().to_string()), "{}", looked.stdout);
    let doctor = installation.run(&["doctor", "--offline"], "").await;
    assert!(doctor.stdout.contains("warning  secrets: agents can read"), "{}", doctor.stdout);
}

#[tokio::test]
async fn a_descriptor_that_cannot_be_read_is_reported_at_once() {
    let installation = Installation::new();
    for (handed, said) in
        [("", "it is not open"), ("9< /", "directory"), ("9< /dev/zero", "more than")]
    {
        let mut program =
            installation.start_in_shell(&format!("exec \"$0\" check --secrets-fd 9 {handed}"));
        let ended = program.ended().await;
        assert_eq!(ended.code, 78, "{handed}: {ended:?}");
        let line = ended
            .stderr
            .lines()
            .find(|line| line.starts_with("error: --secrets-fd 9: "))
            .unwrap_or_else(|| panic!("{ended:?}"));
        assert!(line.contains(said), "{line}");
    }
}

#[tokio::test]
async fn a_gateway_that_crashes_leaves_no_core_file() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let crash = "ulimit -c unlimited; kill -ABRT $$";
    let mut shell = Command::new("sh");
    let other = shell.args(["-c", crash]).current_dir(installation.path("")).status().unwrap();
    assert!(other.core_dumped(), "core files are disabled here\nhint: `ulimit -Hc unlimited`");
    let mut program = installation.start_in_shell("ulimit -c unlimited; exec \"$0\" run");
    program.logs("aetheel is ready").await;
    program.signal(rustix::process::Signal::ABORT);
    let ended = program.ended().await;
    assert_eq!((ended.code, ended.core), (128 + 6, false), "{}", ended.stderr);
}
