//! The output of commands for programs (`--json`), and its amount (`-q`, `-v`).

use serde_json::Value;

use crate::support::program::{Ended, Installation, built};

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[tokio::test]
async fn check_prints_its_findings_as_json_whether_or_not_the_gateway_would_start() {
    let installation = Installation::new();
    let ended = installation.run(&["check", "--json"], "").await;
    let report = json(&ended);
    assert_eq!((ended.code, &report["starts"], &report["faults"]), (0, &true.into(), &0.into()));
    let lines = report["lines"].as_array().unwrap();
    let backends = lines.iter().find(|line| line["about"] == "backends").unwrap();
    assert!(backends["level"] == "ok" && backends["says"].as_str().unwrap().contains("demo"));
    let warnings = lines.iter().filter(|line| line["level"] == "warning").count();
    assert_eq!(report["warnings"], warnings);

    let wrong = installation.with("QUERY_TIMEOUT_MS", "soon").with("ALLOWED_USERS", "bob");
    let ended = wrong.run(&["check", "--json"], "").await;
    let report = json(&ended);
    assert_eq!((ended.code, &report["starts"], &report["faults"]), (78, &false.into(), &2.into()));
    assert!(ended.stderr.is_empty(), "{ended:?}");
    for line in report["lines"].as_array().unwrap() {
        assert!(line["level"] != "fault" || line["hint"].is_string(), "{line}");
    }
}

#[tokio::test]
async fn health_and_costs_can_print_json() {
    let installation = Installation::new();
    let ended = installation.run(&["health", "--json"], "").await;
    let health = json(&ended);
    assert_eq!((ended.code, &health["alive"]), (1, &false.into()));
    assert!(health["says"].as_str().unwrap().contains("no gateway serves"), "{health}");

    installation.run(&["console", "--backend", "demo"], "hello\n").await;
    let ended = installation.run(&["costs", "--json"], "").await;
    let costs = json(&ended);
    assert_eq!((ended.code, &costs["all"]["turns"]), (0, &1.into()), "{costs}");
    assert_eq!(costs["backends"][0]["backend"], "demo");
    assert_eq!(costs["days"][0]["turns"], 1);
    assert_eq!(installation.run(&["costs", "--json", "--csv"], "").await.code, 64);
    let ended = installation.run(&["costs"], "").await;
    assert!(ended.stdout.contains("cost: list prices"), "{}", ended.stdout);
    let ended = installation.run(&["costs", "--what-if", "1 turns a day"], "").await;
    let expected =
        "1 turn a day: 0 of 1 turns would have waited, and 1 turn of 1 turn would have been used";
    assert!(ended.code == 0 && ended.stdout.contains(expected), "{}", ended.stdout);
    let cap = "1 turns a day for backend demoo";
    let ended = installation.run(&["costs", "--what-if", cap], "").await;
    let warning = "warning: no turn of these days has the backend `demoo`; did you mean `demo`?\n";
    assert_eq!((ended.code, ended.stderr.as_str()), (0, warning), "{}", ended.stdout);
    assert_eq!(installation.run(&["costs", "--what-if", "much"], "").await.code, 64);
}

#[tokio::test]
async fn a_removed_command_names_what_replaces_it() {
    let installation = Installation::new();
    for (arguments, hint) in [
        (&["migrate", "openclaw"][..], "aetheel-migrate"),
        (&["rehearse"], "PATH/TO/NEW/aetheel upgrade"),
        (&["backend", "publish", "x.wasm"], "oras push"),
        (&["backend", "mirror", "x"], "oras cp"),
    ] {
        let ended = installation.run(arguments, "").await;
        assert!(ended.code == 64 && ended.stderr.contains(hint), "{arguments:?}: {ended:?}");
    }
}

#[tokio::test]
async fn quiet_prints_only_problems_and_verbose_logs_more() {
    // The tests that kill programs leave incomplete files in the cache that they share, and wasmtime
    // warns of each.
    let installation = Installation::new();
    let cache = installation.path("cache").display().to_string();
    let installation = installation.with("CACHE_DIR", &cache);
    let ended = installation.run(&["check", "-q"], "").await;
    let usual = installation.run(&["check"], "").await;
    assert!(usual.stdout.contains("backends: "), "{usual:?}");
    let only_warnings = usual.stdout.lines().filter(|line| line.starts_with("warning: "));
    let only_warnings: Vec<&str> = only_warnings.collect();
    let quiet: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(quiet.split_last().map_or(&[][..], |(_, above)| above), only_warnings);

    let doctor = installation.run(&["doctor", "--offline", "-q"], "").await;
    assert!(!doctor.stdout.contains("ok  ") && !doctor.stdout.contains("note "), "{doctor:?}");
    assert_eq!(doctor.stdout.is_empty(), doctor.code == 0, "{doctor:?}");

    let console = ["console", "--backend", "demo"];
    let more = installation.run(&[&console[..], &["-v"]].concat(), "hello\n").await;
    assert!(more.stderr.contains(" DEBUG "), "{more:?}");
    let less = installation.run(&[&console[..], &["--quiet"]].concat(), "hello\n").await;
    assert!(less.stderr.is_empty() && less.stdout.contains("You said: hello"), "{less:?}");
    assert_eq!(installation.run(&["check", "-q", "-v"], "").await.code, 64);
}

#[tokio::test]
async fn a_shell_completes_the_names_of_backends_and_channels() {
    let mut installation = Installation::new().with("AETHEEL_COMPLETE", "bash");
    let channels = "## channel 1099511627776123456\n- backend: demo\n";
    std::fs::write(installation.path("config/channels.md"), channels).unwrap();
    for (words, wanted) in [
        (&["backend", "rollback", ""][..], "demo"),
        (&["console", "--backend", "d"], "demo"),
        (&["config", ""], "channel:1099511627776123456"),
        (&["backend", "dev", "--live", ""], "1099511627776123456"),
        (&["audit", "show", "--lane", "con"], "console"),
        (&["doc"], "doctor"),
    ] {
        installation = installation.with("_CLAP_COMPLETE_INDEX", &words.len().to_string());
        let asked = [&["--", "aetheel"], words].concat();
        let ended = installation.run(&asked, "").await;
        assert_eq!(ended.code, 0, "{words:?}: {ended:?}");
        assert!(ended.stdout.lines().any(|name| name == wanted), "{words:?}: {ended:?}");
    }
}

#[tokio::test]
async fn agents_that_nobody_installed_take_one_line_of_a_check() {
    let installation = Installation::new();
    for name in ["codex", "opencode"] {
        std::fs::write(installation.backend(name), built(name)).unwrap();
    }
    let more = "## absent-a\n- command: absent-a\n## absent-b\n- command: absent-b\n";
    std::fs::write(installation.backend("acp"), built("acp")).unwrap();
    std::fs::write(installation.path("config/acp.md"), more).unwrap();
    let others = "other backends: codex, opencode, 2 profiles cannot work here; `aetheel backend list --all` shows why\n";
    let check = installation.run(&["check"], "").await;
    assert!(check.code == 0 && check.stdout.contains(others), "{check:?}");
    let doctor = installation.run(&["doctor", "--offline"], "").await;
    assert!(doctor.stdout.contains(others), "{doctor:?}");
    for text in [&check.stdout, &doctor.stdout] {
        assert!(!text.contains("OPENCODE_API_KEY"), "{text}");
    }
}
