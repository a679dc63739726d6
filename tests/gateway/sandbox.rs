//! The sandbox with the real program: the reports to an operator, and the files that a confined
//! agent of an ordinary user cannot open.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::secret_access::{change_owner, is_root, start, started};
use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER, OWNER, TOKEN};
use crate::support::needs;
use crate::support::program::{Installation, built};

/// Returns the output of `check` and `doctor`, the log, and `/status` for an owner, with this
/// setting.
async fn sandbox_reports(wish: &str) -> [String; 4] {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("AGENT_SANDBOX", wish);
    let check = installation.run(&["check"], "").await.stdout;
    let doctor = installation.run(&["doctor", "--offline"], "").await.stdout;
    let bot = serving(&installation).await;
    let status = local.answer_to(local.slash(CHANNEL, OWNER, "status", None)).await.content;
    let others = local.answer_to(local.slash(CHANNEL, ANN, "status", None)).await.content;
    assert!(!others.contains("Sandbox"), "only owners see it: {others}");
    [check, doctor, bot.stderr(), status]
}

#[tokio::test]
async fn an_operator_sees_which_sandbox_confines_agents() {
    if !needs::landlock() {
        return;
    }
    let [check, doctor, log, status] = sandbox_reports("auto").await;
    assert!(check.lines().any(|line| line.starts_with("sandbox: Landlock (version ")), "{check}");
    assert!(doctor.contains("Landlock (version "), "{doctor}");
    assert!(log.contains("agents are confined") && log.contains("Landlock (version "), "{log}");
    assert!(status.contains("**Sandbox:** Landlock"), "{status}");
}

#[tokio::test]
async fn an_operator_is_warned_that_agents_are_not_confined() {
    let [check, doctor, log, status] = sandbox_reports("off").await;
    let loud = "agents are NOT confined (AGENT_SANDBOX=off)";
    assert!(
        check.contains("sandbox: off: agents reach everything")
            && check.contains(&format!("warning: {loud}")),
        "{check}"
    );
    assert!(doctor.contains(loud), "{doctor}");
    assert!(log.contains(loud), "{log}");
    assert!(status.contains("off: agents reach everything"), "{status}");
}

#[tokio::test]
async fn a_file_refused_by_the_sandbox_is_logged_with_a_hint() {
    if !needs::landlock() {
        return;
    }
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("LOG_FORMAT", "json");
    let at = |name: &str| installation.path(name).display().to_string();
    fs::create_dir_all(installation.path("wrapper")).unwrap();
    fs::write(installation.path("data"), "data").unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *version*) ;; *) cat {} > /dev/null || exit 1 ;; esac\nexec \"$@\"\n",
        at("data")
    );
    fs::write(installation.path("wrapper/sh"), script).unwrap();
    fs::set_permissions(installation.path("wrapper/sh"), fs::Permissions::from_mode(0o755))
        .unwrap();
    let (wrapper, folder) = (at("wrapper/sh"), at("wrapper"));
    let installation = installation.with("AGENT_WRAPPER", &wrapper).with("AGENT_READ", &folder);
    let program = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    let line = program.logs("turn failed").await;
    assert!(line["detail"].as_str().is_some_and(|detail| detail.contains("denied")), "{line}");
    assert!(line["hint"].as_str().is_some_and(|hint| hint.contains("`AGENT_READ`")), "{line}");
}

/// A wrapper of the agent that runs inside its sandbox and tries to open all files in `targets`.
const THIEF: &str = r#"#!/bin/sh
{
  echo "user $(id -u)"
  while read -r target; do
    if [ -d "$target" ]; then
      ls "$target"/ > /dev/null 2>&1 && echo "OPENED $target"
    else
      head -c 1 "$target" > /dev/null 2>&1 && echo "OPENED $target"
    fi
    echo stolen 2> /dev/null > "$target" && echo "WROTE $target"
  done < "${0%/*}/targets"
  echo LOOKED
} > loot 2>&1
exec "$@"
"#;

#[tokio::test]
async fn a_confined_agent_of_an_ordinary_user_cannot_open_the_gateways_files_or_other_projects() {
    if !needs::landlock() {
        return;
    }
    let local = LocalDiscord::start().await;
    let installation = installed(&local)
        .with("DISCORD_BOT_TOKEN", "")
        .with("AGENT_SANDBOX", "landlock")
        .with("LOG_FORMAT", "json");
    let at = |name: &str| installation.path(name).display().to_string();
    for folder in
        ["thief", "projects/mine", "projects/theirs", "config/state", "recordings", "credentials"]
    {
        fs::create_dir_all(installation.path(folder)).unwrap();
    }
    fs::write(installation.path("thief/sh"), THIEF).unwrap();
    fs::set_permissions(installation.path("thief/sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(installation.path("settings.env"), format!("DISCORD_BOT_TOKEN={TOKEN}\n")).unwrap();
    fs::write(installation.path("credentials/HOOK_PHRASE"), "canary-of-a-credential").unwrap();
    fs::write(installation.path("projects/theirs/notes.txt"), "theirs").unwrap();
    fs::write(installation.path("projects/mine/notes.txt"), "mine").unwrap();
    let projects = format!(
        "## channel {CHANNEL}\n- directory: `{}`\n## channel {OTHER}\n- directory: `{}`\n",
        at("projects/mine"),
        at("projects/theirs")
    );
    fs::write(installation.path("config/channels.md"), projects).unwrap();
    let targets = [
        "settings.env",
        "credentials/HOOK_PHRASE",
        "credentials",
        "config",
        "config/channels.md",
        "config/state",
        "config/state/queue.md",
        "config/state/sessions.md",
        "config/state/audit",
        "config/state/audit/lock",
        "config/state/audit-head.md",
        "config/state/in-force",
        "config/state/in-force/channels.md",
        "recordings",
        "cache",
        "projects/theirs",
        "projects/theirs/notes.txt",
    ];
    let own = "projects/mine/notes.txt";
    let list: String = targets.iter().chain([&own]).map(|target| at(target) + "\n").collect();
    fs::write(installation.path("thief/targets"), list).unwrap();
    let (thief, folder, projects, credentials, cache) =
        (at("thief/sh"), at("thief"), at("projects"), at("credentials"), at("cache"));
    let installation: Installation = installation
        .with("AGENT_WRAPPER", &thief)
        .with("AGENT_READ", &folder)
        .with("PROJECT_ROOTS", &projects)
        .with("CREDENTIALS_DIRECTORY", &credentials)
        .with("CACHE_DIR", &cache);
    if is_root() {
        change_owner(installation.path("").as_path());
    }
    let env_file = installation.path("settings.env").display().to_string();
    let program = started(&installation, &format!("--env-file {env_file}"), "").await;
    // A turn in the other project creates its files.
    local.mention(OTHER, ANN, "hello");
    local.wait_for_message(OTHER, |text| text.starts_with("You said: hello")).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    let loot = fs::read_to_string(installation.path("projects/mine/loot")).unwrap();
    assert!(loot.contains("LOOKED"), "{loot}");
    if is_root() {
        assert!(loot.contains("user 65534\n"), "{loot}");
    }
    for target in targets {
        let target = installation.path(target);
        assert!(target.exists(), "{} does not exist", target.display());
        for word in ["OPENED", "WROTE"] {
            assert!(
                !loot.lines().any(|line| line == format!("{word} {}", target.display())),
                "{loot}"
            );
        }
    }
    let own = installation.path(own);
    assert!(
        loot.contains(&format!("OPENED {}\nWROTE {}", own.display(), own.display())),
        "it can open its own file: {loot}"
    );
    assert!(!program.stderr().contains(TOKEN));
}

/// Speaks Claude Code's protocol and prints the arguments that it was started with. The prompt
/// `attack PID` makes it remove the permissions of the operator's limits and try to limit the
/// gateway.
const ATTACKER: &str = r#"#!/usr/bin/env python3
import json, os, re, resource, sys
if '--version' in sys.argv:
    print('2.1.197 (Claude Code)')
    sys.exit()
def say(line):
    print(json.dumps(line), flush=True)
def tried(what):
    try:
        what()
        return 'worked'
    except OSError as error:
        return 'failed with %d' % error.errno
session = '4cb8af81-1b8e-47ea-844d-28217f5a4dc4'
for line in sys.stdin:
    message = json.loads(line)
    if message['type'] == 'control_request':
        say({'type': 'control_response', 'response': {'subtype': 'success', 'request_id': message['request_id'], 'response': {'models': []}}})
    elif message['type'] == 'user':
        content = message['message']['content']
        text = 'begun with ' + ' '.join(sys.argv[1:]) + ' in ' + os.getcwd()
        attack = re.search(r'attack (\d+)', json.dumps(content))
        if attack:
            limits = os.environ['LIMITS']
            nothing = (0, 0)
            text = 'chmod ' + tried(lambda: os.chmod(limits, 0))
            text += ', prlimit ' + tried(lambda: resource.prlimit(int(attack[1]), resource.RLIMIT_FSIZE, nothing))
        say({'type': 'system', 'subtype': 'init', 'session_id': session, 'model': 'opus-9', 'cwd': os.getcwd(), 'tools': []})
        say({'type': 'assistant', 'session_id': session, 'message': {'id': 'm', 'role': 'assistant', 'model': 'opus-9', 'content': [{'type': 'text', 'text': text}]}})
        say({'type': 'result', 'subtype': 'success', 'is_error': False, 'result': text, 'session_id': session, 'num_turns': 1, 'duration_ms': 5})
"#;

#[tokio::test]
async fn an_agent_cannot_lift_the_limits_of_its_channel() {
    if !needs::landlock() {
        return;
    }
    let local = LocalDiscord::start().await;
    let installation = installed(&local)
        .with("AGENT_BACKEND", "claude")
        .with("ANTHROPIC_API_KEY", "sk-not-a-key-at-all")
        .with("AGENT_ENV", "LIMITS");
    let limits = installation.path("config/channels.md");
    let at = |name: &str| installation.path(name).display().to_string();
    let (program, cache, shown) = (at("home/claude"), at("cache"), limits.display().to_string());
    let installation = installation
        .with("BACKEND_CLI_PATH", &program)
        .with("CACHE_DIR", &cache)
        .with("LIMITS", &shown)
        // Only `channels.md` limits the agent.
        .with("PERMISSION_MODE", "bypassPermissions");
    fs::write(&program, ATTACKER).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(installation.backend("claude"), built("claude")).unwrap();
    fs::create_dir(installation.path("workspace/project")).unwrap();
    fs::write(&limits, format!("## channel {CHANNEL}\n- directory: `project`\n- safety: ask\n"))
        .unwrap();
    if is_root() {
        change_owner(installation.path("").as_path());
    }
    let mut gateway = started(&installation, "", "").await;
    let arguments = async |channel: u64, prompt: &str| {
        local.mention(channel, ANN, prompt);
        let begun = |text: &str| text.starts_with("begun with ") && !text.ends_with("Working…");
        let count = local.messages(channel).len();
        local
            .wait_for(prompt, |local| {
                let new = local.messages(channel).into_iter().skip(count);
                new.map(|message| message.content).find(|text| begun(text))
            })
            .await
    };
    let limited = |begun: &str| {
        assert!(!begun.contains("dangerously"), "{begun}");
        assert!(begun.contains("--permission-mode default"), "{begun}");
        assert!(
            begun.contains(" in ") && begun.trim_end().ends_with("/workspace/project"),
            "{begun}"
        );
    };
    let free = arguments(OTHER, "what may you do here?").await;
    assert!(free.contains("--dangerously-skip-permissions"), "it may do everything: {free}");
    limited(&arguments(CHANNEL, "what may you do?").await);

    local.mention(CHANNEL, ANN, &format!("attack {}", gateway.pid.as_raw_nonzero()));
    let done = local.wait_for_message(CHANNEL, |text| text.starts_with("chmod ")).await.content;
    assert_eq!(done, "chmod worked, prlimit failed with 1");
    assert_eq!(fs::metadata(&limits).unwrap().permissions().mode() & 0o777, 0);
    limited(&arguments(CHANNEL, "and now?").await);
    gateway.signal(rustix::process::Signal::KILL);
    gateway.ended().await;

    let mut gateway = started(&installation, "", "").await;
    let repaired = gateway.logs("the start repaired the modes of").await;
    assert!(
        repaired["message"].as_str().unwrap().contains("channels.md` 000 to 600"),
        "{repaired}"
    );
    limited(&arguments(CHANNEL, "and after a restart?").await);
    gateway.signal(rustix::process::Signal::KILL);
    gateway.ended().await;

    if is_root() {
        // A file of another user, which the gateway cannot repair.
        std::os::unix::fs::chown(&limits, Some(0), Some(0)).unwrap();
        let ended = start(&installation, "", "").ended().await;
        assert_eq!(ended.code, 78, "{}", ended.stderr);
        assert!(ended.stderr.contains("channels.md"), "{}", ended.stderr);
    }
}
