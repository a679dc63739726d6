//! Errors that prevent a start. All are reported at once, with a hint and the exit code.

use super::installed;
use crate::support::discord::{LocalDiscord, TOKEN};
use crate::support::program::{Ended, Installation};

#[tokio::test]
async fn a_token_that_discord_refuses_is_77_with_a_hint() {
    let local = LocalDiscord::start().await;
    local.faults().refuse_token(true);
    let ended = installed(&local).run(&["run"], "").await;
    assert_eq!(ended.code, 77, "{}", ended.stderr);
    let faults = ended.faults();
    let line = faults.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(line.contains("`DISCORD_BOT_TOKEN`"), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("hint: ") && ended.stderr.contains("https://discord.com/developers"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains(TOKEN));
}

#[tokio::test]
async fn intents_that_discord_refuses_are_77() {
    let local = LocalDiscord::start().await;
    local.faults().close_logins_with(4014);
    let ended = installed(&local).run(&["run"], "").await;
    assert_eq!(ended.code, 77, "{}", ended.stderr);
    assert!(ended.stderr.contains("4014") && ended.stderr.contains("hint: "), "{}", ended.stderr);
}

#[tokio::test]
async fn a_missing_token_and_a_malformed_one_are_78() {
    let ended = Installation::new().run(&["run"], "").await;
    assert_eq!(ended.code, 78, "{}", ended.stderr);
    assert!(ended.faults().contains("error: DISCORD_BOT_TOKEN is not set"), "{}", ended.stderr);
    let ended =
        Installation::new().with("DISCORD_BOT_TOKEN", "Bot not-a-token").run(&["run"], "").await;
    assert_eq!(ended.code, 78, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("does not look like a bot token")
            && !ended.stderr.contains("not-a-token"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn an_unreadable_file_with_limits_or_instructions_is_78_and_never_treated_as_empty() {
    for name in [
        "channels.md",
        "backends.md",
        "acp.md",
        "webhooks.md",
        "budgets.md",
        "agents.md",
        "heartbeat.md",
        "soul.md",
        "user.md",
    ] {
        let installation = Installation::new().with("DISCORD_BOT_TOKEN", TOKEN);
        let file = installation.path("config").join(name);
        std::fs::create_dir_all(installation.path("config")).unwrap();
        // If root runs the tests, a file mode would not prevent reading.
        std::os::unix::fs::symlink("/nonexistent/limits.md", &file).unwrap();
        for command in ["run", "check", "console"] {
            let ended = installation.run(&[command], "").await;
            assert_eq!(ended.code, 78, "{name} {command}: {}", ended.stderr);
            assert!(
                ended.stderr.contains(name) && ended.stderr.contains("hint:"),
                "{}",
                ended.stderr
            );
        }
    }
}

#[tokio::test]
async fn all_faults_of_budgets_are_78_because_a_cap_could_be_missing() {
    let installation = Installation::new().with("DISCORD_BOT_TOKEN", TOKEN);
    let file = installation.path("config").join("budgets.md");
    std::fs::create_dir_all(installation.path("config")).unwrap();
    std::fs::write(&file, "## team\n- cap: five dollars\n- person: ann\n").unwrap();
    for command in ["run", "check", "console"] {
        let ended = installation.run(&[command], "").await;
        assert_eq!(ended.code, 78, "{command}: {}", ended.stderr);
        for line in ["budgets.md line 2: ", "budgets.md line 3: "] {
            assert!(ended.faults().contains(line), "{line}: {}", ended.stderr);
        }
    }
    // The costs of finished turns do not depend on the caps.
    let costs = [&["costs"][..], &["costs", "--json"], &["costs", "--what-if", "$1 a day"]];
    for command in costs {
        let ended = installation.run(command, "").await;
        assert_eq!(ended.code, 0, "{command:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("warning: budgets.md line 2: "), "{}", ended.stderr);
    }
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/nonexistent/budgets.md", &file).unwrap();
    for command in costs {
        let ended = installation.run(command, "").await;
        assert_eq!(ended.code, 0, "{command:?}: {}", ended.stderr);
        let warned = ended.stderr.contains("warning: ") && ended.stderr.contains("budgets.md");
        assert!(warned && !ended.stdout.is_empty(), "{command:?}: {}", ended.stderr);
    }
}

#[tokio::test]
async fn an_unknown_backend_is_78_and_the_known_ones_are_listed() {
    let installation =
        Installation::new().with("AGENT_BACKEND", "clod").with("DISCORD_BOT_TOKEN", TOKEN);
    for command in ["run", "check", "console"] {
        let ended = installation.run(&[command], "").await;
        assert_eq!(ended.code, 78, "{}", ended.stderr);
        assert!(
            ended.faults().contains("AGENT_BACKEND \"clod\" is not one of")
                && ended.faults().contains(": demo"),
            "{}",
            ended.stderr
        );
    }
}

#[tokio::test]
async fn all_invalid_settings_are_reported_together() {
    let installation = Installation::new()
        .with("PERMISSION_MODE", "yolo")
        .with("QUERY_TIMEOUT_MS", "soon")
        .with("ALLOWED_USERS", "bob")
        .with("AGENT_ENV", "DISCORD_BOT_TOKEN");
    // `run` also requires a token.
    for (command, count) in [("run", 5), ("check", 4)] {
        let ended = installation.run(&[command], "").await;
        assert_eq!(ended.code, 78, "{}", ended.stderr);
        for name in ["PERMISSION_MODE", "QUERY_TIMEOUT_MS", "ALLOWED_USERS", "AGENT_ENV"] {
            assert!(
                ended.faults().contains(&format!("error: {name}")),
                "{name} is missing in\n{}",
                ended.stderr
            );
        }
        assert!(
            ended.faults().ends_with(&format!("nothing was started: {count} faults\n")),
            "{}",
            ended.stderr
        );
    }
}

#[tokio::test]
async fn a_missing_agent_program_is_69() {
    let installation = Installation::new()
        .with("DISCORD_BOT_TOKEN", TOKEN)
        .with("BACKEND_CLI_PATH", "/nonexistent");
    let ended = installation.run(&["run"], "").await;
    assert_eq!(ended.code, 69, "{}", ended.stderr);
    assert!(
        ["demo", "/nonexistent", "BACKEND_CLI_PATH"].iter().all(|word| ended.stderr.contains(word)),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn an_unusable_backend_file_is_reported_with_its_reason() {
    let installation = Installation::new();
    std::fs::write(installation.backend("demo"), "not a component").unwrap();
    let ended = installation.run(&["check"], "").await;
    assert_eq!(ended.code, 78, "{}", ended.stderr);
    assert!(ended.stderr.contains("demo.wasm: "), "{}", ended.stderr);
}

#[tokio::test]
async fn check_prints_its_findings_and_starts_nothing() {
    let installation = Installation::new();
    let ended = installation.run(&["check"], "").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for line in ["backends: demo", "answers: demo", "agent version: 0.1.0", "no problems found"] {
        assert!(
            ended.stdout.lines().any(|printed| printed == line),
            "{line:?} is missing in\n{}",
            ended.stdout
        );
    }
    assert!(ended.stdout.contains("note: DISCORD_BOT_TOKEN is not set"), "{}", ended.stdout);
    assert_eq!(ended.stderr, "");
    assert_eq!(installation.recordings().len(), 0);
}

#[tokio::test]
async fn output_that_cannot_be_written_does_not_change_the_exit_code() {
    let installation = Installation::new();
    let ended = installation.start_in_shell("exec \"$0\" check > /dev/full").ended().await;
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let ended = installation
        .start_in_shell("echo hello | \"$0\" console > /dev/full 2> /dev/full")
        .ended()
        .await;
    assert_eq!(ended.code, 0);
    let ended = installation.start_in_shell("exec \"$0\" run 2> /dev/full").ended().await;
    assert_eq!(ended.code, 78, "there is no token");
}

#[tokio::test]
async fn an_env_file_is_read_and_the_environment_has_precedence() {
    let installation = Installation::new().with("QUERY_TIMEOUT_MS", "2000");
    let file = installation.path("env");
    std::fs::write(&file, "QUERY_TIMEOUT_MS=soon\nMAX_QUEUE_DEPTH=many\n").unwrap();
    let ended = installation.run(&["check", "--env-file", file.to_str().unwrap()], "").await;
    assert_eq!(ended.code, 78, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("MAX_QUEUE_DEPTH") && !ended.stderr.contains("QUERY_TIMEOUT_MS"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn a_wrong_command_line_is_64_and_help_is_0() {
    let installation = Installation::new();
    for wrong in [&[][..], &["fly"], &["run", "--fast"], &["console", "--backend"]] {
        let ended = installation.run(wrong, "").await;
        assert_eq!(ended.code, 64, "{wrong:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("--help") && ended.stdout.is_empty(), "{}", ended.stderr);
    }
    for right in ["--help", "--version"] {
        assert_eq!(installation.run(&[right], "").await.code, 0);
    }
    let ended = installation.with("LOG_FORMAT", "json").run(&["run", "--fast"], "").await;
    let line: serde_json::Value = serde_json::from_str(ended.stderr.trim_end())
        .unwrap_or_else(|error| panic!("{error}: {}", ended.stderr));
    assert_eq!((ended.code, &line["level"]), (64, &"ERROR".into()));
    assert!(line["message"].as_str().is_some_and(|message| message.contains("'--fast'")), "{line}");
}

#[tokio::test]
async fn an_invalid_pin_is_reported_with_its_line() {
    let installation = Installation::new();
    let good = "a".repeat(64);
    std::fs::write(
        installation.path("config/backends.md"),
        format!("# Mine\n\n## demo\n- sha256: {good}\n- sha256: `{}`, short\n", &good[1..]),
    )
    .unwrap();
    let ended = installation.run(&["check"], "").await;
    let fault = ended
        .stdout
        .lines()
        .find(|line| line.starts_with("fault: backends.md line 5: "))
        .unwrap_or_else(|| panic!("{}", ended.stdout));
    assert!(
        fault.contains(&format!(
            "\"{}\", \"short\" is not a SHA-256 (64 hexadecimal digits)",
            &good[1..]
        )),
        "{fault}"
    );
    assert_eq!(ended.code, 78);
}

#[tokio::test]
async fn an_unknown_tool_is_reported_with_a_suggestion() {
    let ended = Installation::new()
        .with("ALLOWED_TOOLS", "Red,content_search,mcp__docs__search")
        .run(&["check"], "")
        .await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stdout.contains("warning: ALLOWED_TOOLS names `Red`")
            && ended.stdout.contains("did you mean `read`?"),
        "{}",
        ended.stdout
    );
    assert_eq!(ended.stdout.matches("ALLOWED_TOOLS names").count(), 1, "{}", ended.stdout);
    let ended = Installation::new().with("ALLOWED_TOOLS", ",").run(&["check"], "").await;
    assert_eq!(ended.code, 78, "{}", ended.stdout);
}

#[tokio::test]
async fn errors_of_all_kinds_are_reported_together() {
    let installation = Installation::new()
        .with("QUERY_TIMEOUT_MS", "abc")
        .with("LOG_LEVEL", "warning")
        .with("AGENT_WRAPPER", "/nonexistent/wrapper --")
        .with("BACKEND_CLI_PATH", "/nonexistent/agent")
        .with("WEBHOOKS_ADDRESS", "192.0.2.1:1");
    std::fs::write(installation.backend("broken"), b"no component").unwrap();
    std::fs::write(installation.path("config/agents.md"), "# Hooks\n- agent_boot: hello\n")
        .unwrap();
    let all = [
        "QUERY_TIMEOUT_MS",
        "LOG_LEVEL",
        "/nonexistent/wrapper",
        "/nonexistent/agent",
        "WEBHOOKS_ADDRESS",
    ];
    let run = installation.run(&["run"], "").await;
    for fault in all.iter().chain(&["DISCORD_BOT_TOKEN is not set"]) {
        assert!(run.stderr.contains(fault), "{fault} is missing in\n{}", run.stderr);
    }
    assert!(run.code == 78 && run.faults().ends_with("nothing was started: 6 faults\n"), "{run:?}");
    let check = installation.run(&["check"], "").await;
    for fault in all.iter().chain(&["broken.wasm", "agents.md line 2"]) {
        assert!(check.stderr.contains(fault), "{fault} is missing in\n{}", check.stderr);
    }
    assert_eq!(check.code, 78);
    let doctor = installation.run(&["doctor", "--offline"], "").await;
    for fault in [
        "QUERY_TIMEOUT_MS",
        "LOG_LEVEL",
        "/nonexistent/wrapper",
        "/nonexistent/agent",
        "broken.wasm",
        "agents.md line 2",
    ] {
        assert!(doctor.stdout.contains(fault), "{fault} is missing in\n{}", doctor.stdout);
    }
    assert_eq!(doctor.code, 2);
}

#[tokio::test]
async fn check_fails_if_a_start_would_ignore_an_entry() {
    let installation = Installation::new();
    std::fs::write(installation.backend("broken"), b"no component").unwrap();
    std::fs::write(installation.path("config/agents.md"), "# Hooks\n- agent_boot: hello\n")
        .unwrap();
    let check = installation.run(&["check"], "").await;
    assert_eq!(check.code, 78, "{check:?}");
    assert!(
        check.stdout.contains("2 faults: it would start")
            && !check.stdout.contains("no problems found"),
        "{}",
        check.stdout
    );
    for fault in ["broken.wasm", "agents.md line 2"] {
        assert!(
            check.stdout.lines().any(|line| line.starts_with("fault: ") && line.contains(fault)),
            "{}",
            check.stdout
        );
    }
    // It starts all the same.
    assert_eq!(installation.run(&["console"], "hello\n").await.code, 0);
}

#[tokio::test]
async fn unknown_names_in_an_env_file_are_reported_with_their_lines() {
    let installation = Installation::new();
    let file = installation.path("env");
    std::fs::write(
        &file,
        "\u{feff}MAX_CONCURENT_QUERIES=1\nDEMO_AGENT_DELAY_MS=1\nCOMMAND_ALIAS=x$HOME\n",
    )
    .unwrap();
    let check = installation.run(&["check", "--env-file", file.to_str().unwrap()], "").await;
    assert!(
        check.stderr.contains("COMMAND_ALIAS \"x$HOME\""),
        "variables are not expanded: {check:?}"
    );
    std::fs::write(
        &file,
        "\u{feff}MAX_CONCURENT_QUERIES=1\nDEMO_AGENT_DELAY_MS=1\nBACKEND_MODEL=x$HOME\nPUSH_SERVICES=none\n",
    )
    .unwrap();
    let check = installation.run(&["check", "--env-file", file.to_str().unwrap()], "").await;
    assert_eq!(check.code, 0, "{check:?}");
    for part in [
        "line 1: MAX_CONCURENT_QUERIES is not a setting",
        "did you mean `MAX_CONCURRENT_QUERIES`?",
        "line 3: `$` in BACKEND_MODEL",
        "line 4: PUSH_SERVICES is ignored: the dashboard sends no push notifications any more",
    ] {
        assert!(check.stdout.contains(part), "{part} is missing in\n{}", check.stdout);
    }
    assert!(!check.stdout.contains("DEMO_AGENT_DELAY_MS is not a setting"), "{}", check.stdout);
}

#[tokio::test]
async fn pipes_folders_and_devices_are_refused_in_place_of_files() {
    let installation = Installation::new().with("DISCORD_BOT_TOKEN", TOKEN);
    let pipe = installation.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (path, what) in
        [(pipe.to_str().unwrap(), "a named pipe"), ("/", "a folder"), ("/dev/zero", "a device")]
    {
        let ended = installation.run(&["check", "--env-file", path], "").await;
        assert!(ended.code == 78 && ended.stderr.contains(what), "{ended:?}");
    }
    std::fs::create_dir_all(installation.path("config/state")).unwrap();
    let queue = installation.path("config/state/queue.md");
    std::fs::rename(&pipe, &queue).unwrap();
    let ended = installation.run(&["run"], "").await;
    assert!(
        ended.code == 78
            && ended.stderr.contains("queue.md")
            && ended.stderr.contains("a named pipe"),
        "{ended:?}"
    );
    std::fs::remove_file(&queue).unwrap();
    std::fs::create_dir(&queue).unwrap();
    let ended = installation.run(&["run"], "").await;
    assert!(
        ended.code == 78 && ended.stderr.contains("queue.md") && ended.stderr.contains("a folder"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn errors_are_json_if_the_log_is() {
    let wrong = || Installation::new().with("QUERY_TIMEOUT_MS", "abc");
    // By default the log is JSON if stderr is not a terminal.
    for installation in [wrong(), wrong().with("LOG_FORMAT", "json")] {
        let ended = installation.run(&["run"], "").await;
        let lines: Vec<serde_json::Value> =
            ended.stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        assert!(
            lines.iter().any(|line| line["level"] == "ERROR"
                && line["message"].as_str().unwrap().contains("QUERY_TIMEOUT_MS")),
            "{lines:?}"
        );
    }
    let held = Installation::new().run(&["hold", "--state", "/nonexistent"], "").await;
    assert!(held.stderr.lines().all(|line| line.starts_with('{')) && held.code == 78, "{held:?}");
    let typed = Installation::new().run(&["run", "--fast"], "").await;
    assert!(typed.stderr.starts_with('{') && typed.code == 64, "{typed:?}");
    // A command without a log prints for people, even without a terminal.
    let check = wrong().run(&["check"], "").await;
    assert!(check.stderr.starts_with("error: QUERY_TIMEOUT_MS"), "{check:?}");
    let human = wrong().with("LOG_FORMAT", "human").run(&["run"], "").await;
    assert!(human.stderr.contains("error: QUERY_TIMEOUT_MS"), "{human:?}");
}

#[tokio::test]
async fn check_creates_folders_for_this_user_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let installation = Installation::new();
    let at = |name: &str| installation.path(name).display().to_string();
    let (config, workspace, cache) = (at("new/config"), at("new/workspace"), at("cache"));
    let installation = installation
        .with("CONFIG_DIR", &config)
        .with("WORKSPACE_DIR", &workspace)
        .with("CACHE_DIR", &cache);
    let ended = installation.run(&["check"], "").await;
    assert_eq!(ended.code, 0, "{ended:?}");
    for folder in [config.clone(), format!("{config}/state"), workspace] {
        let mode = std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{folder}: {mode:o}");
    }
}

#[tokio::test]
async fn an_unknown_backend_in_the_command_is_not_blamed_on_a_variable() {
    let ended = Installation::new().run(&["backend", "ping", "nosuch"], "").await;
    assert!(
        ended.code != 0
            && ended.stderr.contains("\"nosuch\"")
            && !ended.stderr.contains("AGENT_BACKEND"),
        "{ended:?}"
    );
}

/// Checks that both `check` and `doctor` report these problems.
fn both_report(check: &Ended, doctor: &Ended, parts: &[&str]) {
    for part in parts {
        for (name, ended) in [("check", check), ("doctor", doctor)] {
            let said = format!("{}{}", ended.stdout, ended.stderr);
            assert!(said.contains(part), "{name} lacks {part}:\n{said}");
        }
    }
}

#[tokio::test]
async fn check_and_doctor_report_the_same_about_folders_users_and_addresses() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let installation = Installation::new()
        .with("DISCORD_BOT_TOKEN", TOKEN)
        .with("PERMISSION_MODE", "default")
        .with("RECORDINGS_DIR", "/proc/1/recordings")
        .with("STATUS_ADDRESS", "0.0.0.0:0");
    std::fs::write(
        installation.path("config/channels.md"),
        "## channel 100000000000000042\n- safety: edit\n- directroy: x\n- backend: dmeo\n",
    )
    .unwrap();
    let check = installation.run(&["check"], "").await;
    let doctor = installation.run(&["doctor", "--offline"], "").await;
    assert_eq!((check.code, doctor.code), (78, 2), "{check:?}\n{doctor:?}");
    both_report(
        &check,
        &doctor,
        &[
            "RECORDINGS_DIR: /proc/1 cannot be written to",
            "anyone who can write in any server this bot is in",
            "STATUS_ADDRESS 0.0.0.0:0 can be reached from other machines",
            "asks for safety `edit`, but PERMISSION_MODE allows only `ask`",
            "`directroy` is unknown here; did you mean `directory`?",
            "`dmeo`, which is not a backend here",
            "did you mean `demo`?",
        ],
    );
    assert!(check.stdout.ends_with("it would start without the parts named above\n"), "{check:?}");

    let installation = installation
        .with("STATUS_ADDRESS", "")
        .with("WEBHOOKS_ADDRESS", &address)
        .with("DASHBOARD_ADDRESS", "0.0.0.0:8788")
        .with("DISCORD_BOT_TOKEN", "abc")
        .with("AGENT_BACKEND", "dmeo");
    let check = installation.run(&["check"], "").await;
    let doctor = installation.run(&["doctor", "--offline"], "").await;
    assert_eq!((check.code, doctor.code), (78, 2), "{check:?}\n{doctor:?}");
    both_report(
        &check,
        &doctor,
        &[
            &format!("WEBHOOKS_ADDRESS: cannot listen at {address}"),
            "DASHBOARD_ADDRESS 0.0.0.0:8788 can be reached from other machines",
            "does not look like a bot token",
            "AGENT_BACKEND \"dmeo\" is not one of the backends",
        ],
    );
    assert!(doctor.stdout.contains("FAULT    default backend: AGENT_BACKEND"), "{doctor:?}");
}

#[tokio::test]
async fn an_env_file_that_is_not_text_is_the_only_error_that_is_reported() {
    let installation = Installation::new();
    let file = installation.path("env");
    std::fs::write(&file, b"AGENT_BACKEND=demo\nLOG_LEVEL=\xff\nSTATUS_ADDRESS=x\n").unwrap();
    let ended = installation.run(&["run", "--env-file", file.to_str().unwrap()], "").await;
    assert!(ended.stderr.contains("line 2 is not UTF-8"), "{ended:?}");
    assert!(ended.faults().ends_with("nothing was started: 1 fault\n"), "{ended:?}");
}

#[tokio::test]
async fn invented_users_and_a_dashboard_without_an_address_are_refused() {
    let installation = Installation::new()
        .with("DISCORD_BOT_TOKEN", TOKEN)
        .with("ALLOWED_USERS", "12345")
        .with("DASHBOARD_URL", "https://agents.example.com");
    let ended = installation.run(&["check"], "").await;
    assert_eq!(ended.code, 78, "{ended:?}");
    for part in ["ALLOWED_USERS: 12345 is not the id of a user", "DASHBOARD_ADDRESS is not"] {
        assert!(ended.stderr.contains(part), "{part} is missing in {ended:?}");
    }
}

#[tokio::test]
async fn a_file_with_secrets_that_everybody_can_read_causes_a_warning() {
    use std::os::unix::fs::PermissionsExt as _;
    let installation = Installation::new();
    let file = installation.path("env");
    std::fs::write(&file, format!("DISCORD_BOT_TOKEN={TOKEN}\n")).unwrap();
    let arguments = ["check", "--env-file", file.to_str().unwrap()];
    let set = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(0o644);
    let open = installation.run(&arguments, "").await;
    assert!(open.stdout.contains(&format!("chmod 600 {}", file.display())), "{open:?}");
    set(0o600);
    let closed = installation.run(&arguments, "").await;
    assert!(!closed.stdout.contains("chmod 600"), "{closed:?}");
}

#[tokio::test]
async fn a_limit_of_a_channel_that_is_not_read_refuses_a_first_start() {
    let installation = Installation::new().with("DISCORD_BOT_TOKEN", TOKEN);
    let file = installation.path("config/channels.md");
    for text in ["### channel 100000000000000042\n- safety: ask\n", "## console\n- saftey: ask\n"] {
        std::fs::write(&file, text).unwrap();
        for command in ["run", "check"] {
            let ended = installation.run(&[command], "").await;
            assert_eq!(ended.code, 78, "{ended:?}");
            assert!(ended.stderr.contains("channels.md line "), "{ended:?}");
        }
    }
}

#[tokio::test]
async fn a_budget_of_an_unknown_name_refuses_a_start() {
    let installation = Installation::new().with("DISCORD_BOT_TOKEN", TOKEN);
    let text = "## a\n- backend: dmeo\n- cap: $5 a day\n\n## b\n- project: site\n- cap: $5 a day\n\n## c\n- schedule: nightly\n- cap: $5 a day\n\n## d\n- backend: demo\n- cap: $5 a day\n";
    std::fs::write(installation.path("config/budgets.md"), text).unwrap();
    for command in ["run", "check"] {
        let ended = installation.run(&[command], "").await;
        assert_eq!(ended.code, 78, "{ended:?}");
        for part in [
            "backend \"dmeo\" of `a`",
            "did you mean `demo`?",
            "project \"site\" of `b`",
            "schedule \"nightly\" of `c`",
        ] {
            let faults = ended.faults();
            assert!(faults.contains(part), "{part} is missing in {faults}");
        }
        assert!(!ended.faults().contains("`d`"), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn modes_are_repaired_before_a_file_with_limits_is_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let installation = Installation::new();
    let set = |name: &str| {
        let mode = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(installation.path(name), mode).unwrap();
    };
    let mode = |name: &str| {
        std::fs::metadata(installation.path(name)).unwrap().permissions().mode() & 0o7777
    };
    std::fs::write(installation.path("config/budgets.md"), "## all\n- cap: $5\n").unwrap();
    std::fs::write(installation.path("config/webhooks.md"), "").unwrap();
    std::fs::create_dir_all(installation.path("workspace")).unwrap();
    ["config/budgets.md", "config/webhooks.md", "workspace"].iter().for_each(|name| set(name));
    // The fault of the file is found only once it can be read, and its mode stays repaired.
    let ended = installation.run(&["run"], "").await;
    assert!(ended.stderr.contains("budgets.md line 2"), "{ended:?}");
    assert_eq!((mode("config/budgets.md"), mode("config/webhooks.md")), (0o600, 0o600));
    assert_eq!(mode("workspace"), 0o700);
}

#[tokio::test]
async fn a_missing_env_file_is_the_only_error_that_is_reported() {
    for command in ["run", "check", "console"] {
        let ended = Installation::new()
            .with("AGENT_BACKEND", "claude")
            .run(&[command, "--env-file", "/nosuch.env"], "")
            .await;
        assert_eq!(ended.code, 78, "{ended:?}");
        assert!(ended.stderr.contains("/nosuch.env"), "{ended:?}");
        assert!(ended.faults().ends_with("nothing was started: 1 fault\n"), "{ended:?}");
    }
}

#[tokio::test]
async fn misspelt_names_are_reported_together_with_other_errors() {
    let installation = Installation::new().with("ALLOWED_TOOLS", "Red");
    let file = installation.path("env");
    std::fs::write(&file, "ALOWED_USERS=7\nMAX_QUEUE_DEPTH=many\n").unwrap();
    let ended = installation.run(&["check", "--env-file", file.to_str().unwrap()], "").await;
    assert_eq!(ended.code, 78, "{ended:?}");
    for part in ["did you mean `ALLOWED_USERS`?", "did you mean `read`?", "MAX_QUEUE_DEPTH"] {
        assert!(ended.stderr.contains(part), "{part} is missing in {}", ended.stderr);
    }
}

#[tokio::test]
async fn an_unknown_backend_on_the_command_line_is_64_for_every_command() {
    let installation = Installation::new();
    for command in [&["backend", "ping", "nosuch"][..], &["console", "--backend", "nosuch"]] {
        let ended = installation.run(command, "").await;
        assert_eq!(ended.code, 64, "{command:?}: {ended:?}");
    }
}

#[tokio::test]
async fn a_discord_that_does_not_answer_is_reported_at_once() {
    let installation = Installation::new()
        .with("DISCORD_BOT_TOKEN", TOKEN)
        .with("DISCORD_API_BASE", "http://127.0.0.1:1");
    let program = installation.start(&["run"]);
    program.logs("connecting to discord").await;
    let line = program.logs("discord does not answer; trying again").await;
    assert!(line["base"].as_str().is_some_and(|base| base.contains("127.0.0.1:1")), "{line}");
    program.logs("still connecting to discord").await;
}
