//! Accounts of agents in `backends.md`, with the real program and the shipped components.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::program::{Installation, built};

/// Installs an agent that records its credentials and arguments.
fn with_agent(name: &str, variables: &[&str]) -> Installation {
    let installation = Installation::new();
    let bin = installation.path("bin");
    fs::create_dir_all(&bin).unwrap();
    let values: Vec<String> = variables.iter().map(|name| format!("{name}=${name}")).collect();
    let script = format!(
        "#!/bin/sh\ncase $1 in --version) echo 2.1.0;; *) echo \"{} $@\" >> {};; esac\n",
        values.join(" "),
        installation.path("workspace/started").display()
    );
    fs::write(bin.join(name), script).unwrap();
    fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(installation.backend(name), built(name)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    installation
        .with("PATH", &path)
        .with("BACKEND_RUN", "one-shot")
        .with("AGENT_BACKEND", name)
        .with("PERMISSION_MODE", "default")
}

fn started(installation: &Installation) -> String {
    fs::read_to_string(installation.path("workspace/started")).unwrap_or_default()
}

const ACCOUNTS: &str = "## claude\n\n- option: setting-sources = user\n\
    - account: work, `ANTHROPIC_API_KEY`=`WORK_ANTHROPIC_KEY`\n\
    - account: spare, CLAUDE_CODE_OAUTH_TOKEN=SPARE_CLAUDE_TOKEN\n- rotate: yes\n";

#[tokio::test]
async fn the_agent_of_an_account_gets_its_credentials_and_no_others() {
    let installation = with_agent("claude", &["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"])
        .with("ANTHROPIC_API_KEY", "own-key-1")
        .with("WORK_ANTHROPIC_KEY", "work-key-2")
        .with("SPARE_CLAUDE_TOKEN", "spare-token-3");
    fs::write(installation.path("config/backends.md"), ACCOUNTS).unwrap();
    let cases = [
        ("claude", "ANTHROPIC_API_KEY=own-key-1 CLAUDE_CODE_OAUTH_TOKEN= "),
        ("claude-work", "ANTHROPIC_API_KEY=work-key-2 CLAUDE_CODE_OAUTH_TOKEN= "),
        ("claude-spare", "ANTHROPIC_API_KEY= CLAUDE_CODE_OAUTH_TOKEN=spare-token-3 "),
    ];
    for (name, wanted) in cases {
        let ended = installation.run(&["console", "--backend", name], "hello\n").await;
        let started = started(&installation);
        let line = started.lines().last().unwrap_or_default();
        assert!(line.starts_with(wanted), "{name}: {line:?} {} {}", ended.stdout, ended.stderr);
        assert!(line.contains("--setting-sources=user"), "the options of the backend: {line}");
    }
    let recordings = installation.recordings();
    assert_eq!(recordings.len(), 3);
    for secret in ["own-key-1", "work-key-2", "spare-token-3"] {
        assert!(recordings.values().all(|text| !text.contains(secret)), "{secret}");
    }
    let listed = installation.run(&["backend", "list"], "").await.stdout;
    assert!(listed.contains("claude-work") && listed.contains("claude-spare"), "{listed}");
}

#[tokio::test]
async fn an_account_that_cannot_be_used_is_reported_and_never_falls_back() {
    let installation = with_agent("claude", &["ANTHROPIC_API_KEY"])
        .with("ANTHROPIC_API_KEY", "own-key-1")
        .with("PLAIN", "work-key-2")
        .with("OTHER_TOKEN", "work-key-3");
    let notes = "## claude\n- account: missing, ANTHROPIC_API_KEY=MISSING_KEY\n- account: plain, ANTHROPIC_API_KEY=PLAIN\n\
        - account: other, DISCORD_BOT_TOKEN=OTHER_TOKEN\n- account: path, PATH=PLAIN\n\n## nobody\n- account: work, A_KEY=OTHER_TOKEN\n";
    fs::write(installation.path("config/backends.md"), notes).unwrap();
    let checked = installation.run(&["check"], "").await;
    for warning in [
        "backends.md line 2: the account `missing` of `claude` needs the variable `MISSING_KEY`, which is not set; set it and restart the gateway; it is left out",
        "backends.md line 3: the value of `PLAIN` would not be removed from answers and logs",
        "backends.md line 4: the account `other` of `claude` sets `DISCORD_BOT_TOKEN`, which the backend does not pass to its agent",
        "backends.md line 5: the account `path` of `claude` sets `PATH`, which",
        "backends.md line 8: the account `work` of `nobody` belongs to a backend that does not serve here; it is left out",
    ] {
        assert!(checked.stdout.contains(warning), "{warning} is missing in\n{}", checked.stdout);
    }
    for name in ["claude-missing", "claude-plain", "claude-other", "claude-path"] {
        let ended = installation.run(&["console", "--backend", name], "hello\n").await;
        assert_ne!(ended.code, 0, "{name}: {}", ended.stdout);
    }
    assert_eq!(started(&installation), "", "no agent was started with other credentials");
}

#[tokio::test]
async fn a_key_that_signs_in_only_one_shot_runs_is_not_used_live() {
    let installation = with_agent("codex", &["CODEX_API_KEY"])
        .with("BACKEND_RUN", "live")
        .with("WORK_CODEX_KEY", "work-key-2");
    let home = installation.path("home");
    fs::create_dir_all(home.join(".codex")).unwrap();
    fs::write(home.join(".codex/auth.json"), "{}").unwrap();
    let installation = installation.with("HOME", home.to_str().unwrap());
    let notes = "## codex\n- account: work, CODEX_API_KEY=WORK_CODEX_KEY\n";
    fs::write(installation.path("config/backends.md"), notes).unwrap();
    let ended = installation.run(&["console", "--backend", "codex-work"], "hello\n").await;
    let started = started(&installation);
    let is_one_shot = started.starts_with("CODEX_API_KEY=work-key-2 exec ");
    assert!(is_one_shot, "{started:?} {} {}", ended.stdout, ended.stderr);
}
