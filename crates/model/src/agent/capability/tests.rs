use proptest::prelude::*;

use super::*;

fn of(json: &str) -> Capabilities {
    Capability::of(&Descriptor::parse(json).expect("valid"))
}

const BEFORE: &str = r#"{"name":"x","version":"1","sharing":"session","expands":["at-path","bang"],"features":["plan","allowed-tools"],
    "programs":[{"name":"x","version-arguments":["--version"],"words":["exec"],"flags":[{"name":"--yolo","safety":"danger"},
    {"name":"--mode","value":"one","values":["plan","ask*"]},{"name":"--mode","value":"one","values":["edit"],"safety":"edit"}]}],
    "environment":{"pass":["X_URL"],"set":["X_MODE"]},"credentials":[{"variable":"X_KEY"},{"file":"~/.x"}],
    "state":[{"path":"~/.x/","access":"read","moved-by":"X_URL"}],"root":{"refused-from":"edit","unless-variable":"X_SANDBOX"},"tools":{"file_read":["Read"]}}"#;

/// Returns the sentences about the capabilities that a change of the descriptor adds.
fn more(changes: &[(&str, &str)]) -> Vec<String> {
    let after = changes.iter().fold(BEFORE.to_owned(), |json, (from, to)| {
        assert!(json.contains(from), "{from}");
        json.replace(from, to)
    });
    describe(&not_covered(&of(BEFORE), &of(&after)))
}

#[test]
fn every_extension_is_described_in_plain_words() {
    for (from, to, said) in [
        (
            r#""programs":[{"name":"x""#,
            r#""programs":[{"name":"sh"},{"name":"x""#,
            "start the program `sh` (CAREFUL: it runs whatever it is given)",
        ),
        (r#"["--version"]"#, r#"["version"]"#, "ask `x` for its version with `version`"),
        (r#"["exec"]"#, r#"["exec","a b"]"#, "give `x` the argument `\"a b\"`"),
        (
            r#""--yolo","safety":"danger""#,
            r#""--yolo","safety":"edit""#,
            "give `x` the flag `--yolo`, from safety level `edit` on",
        ),
        (r#""--yolo""#, r#""--yell""#, "give `x` the flag `--yell`, at safety level `danger`"),
        (
            r#"["plan","ask*"]"#,
            r#"["as*"]"#,
            "give `x` the flag `--mode` with `as*`, at every safety level",
        ),
        (
            r#","values":["plan","ask*"]"#,
            "",
            "give `x` the flag `--mode` with any value, at every safety level",
        ),
        (
            r#"["edit"],"safety":"edit""#,
            r#"["edit"]"#,
            "give `x` the flag `--mode` with `edit`, at every safety level",
        ),
        (
            r#""value":"one","values":["edit"]"#,
            r#""value":"many","values":["edit"]"#,
            "give `x` the flag `--mode` with `edit`, from safety level `edit` on",
        ),
        (
            r#"["X_URL"]"#,
            r#"["X_URL","X_TOKEN"]"#,
            "pass the gateway's variable `X_TOKEN` to its agent",
        ),
        (r#"["X_MODE"]"#, r#"["X_MODE","X_URL"]"#, "set the variable `X_URL` for its agent"),
        (
            r#"["X_URL"]"#,
            r#"["X_URL","X_KEY"]"#,
            "pass the gateway's variable `X_KEY` to its agent",
        ),
        (
            r#"{"variable":"X_KEY"}"#,
            r#"{"variable":"Y_KEY"}"#,
            "pass the secret `Y_KEY` to its agent",
        ),
        (r#""~/.x""#, r#""~/.y""#, "use `~/.y` as proof that its agent is signed in"),
        (
            r#""access":"read""#,
            r#""access":"write""#,
            "let its agent change `~/.x/`, or the folder that `X_URL` names",
        ),
        (
            r#""~/.x/""#,
            r#""~/.ssh/""#,
            "let its agent read `~/.ssh/`, or the folder that `X_URL` names",
        ),
        (
            r#""version":"1""#,
            r#""version":"1","own-sandbox":true"#,
            "have its agent confined by bubblewrap rather than Landlock, so that it can mount",
        ),
        (
            r#""refused-from":"edit""#,
            r#""refused-from":"danger""#,
            "run as the root user at safety level `edit`",
        ),
        (
            "X_SANDBOX",
            "X_TRUST",
            "run as the root user at safety level `edit` where `X_TRUST` is set",
        ),
        (
            r#"["at-path","bang"]"#,
            r#"["bang"]"#,
            "leave `@path`, which may become a file's content, in people's text as it is",
        ),
        (
            r#"["Read"]"#,
            r#"["Read","Bash"]"#,
            "treat its tool `Bash` as one of kind `file_read` in ALLOWED_TOOLS",
        ),
        (r#"["plan","allowed-tools"]"#, r#"["plan"]"#, "not enforce ALLOWED_TOOLS"),
        (
            r#"["plan","allowed-tools"]"#,
            r#"["plan","allowed-tools"],"live-only":["plan"]"#,
            "be trusted to enforce the mode `plan` in live runs, and not in one-shot runs",
        ),
        (
            r#""pass":["X_URL"]"#,
            r#""pass":["X_URL"],"paths":["X_URL"]"#,
            "let its agent read the file or folder that the variable `X_URL` names",
        ),
        (
            r#""tools":{"file_read":["Read"]}"#,
            r#""tools":{"file_read":["Read"]},"tool-aliases":{"bash":["Run"]}"#,
            "treat its tool `Run` as one of kind `bash` in ALLOWED_TOOLS",
        ),
        (
            r#""version":"1""#,
            r#""version":"1","profiles":true"#,
            "run the agents of the profiles in acp.md",
        ),
        (r#""sharing":"session""#, r#""sharing":"link""#, "have one agent serve all conversations"),
    ] {
        let said_now = more(&[(from, to)]);
        assert!(said_now.iter().any(|sentence| sentence == said), "{to}: {said_now:?}");
    }
}

#[test]
fn equal_and_smaller_capabilities_are_covered() {
    for changes in [
        &[][..],
        &[(
            r#""--yolo","safety":"danger""#,
            r#""--mode","value":"one","values":["asks","ask*"],"safety":"danger""#,
        )],
        &[(r#"["plan","ask*"]"#, r#"["asking"]"#)],
        &[(r#"["X_URL"],"set":["X_MODE"]"#, r#"["X_URL","X_MODE"]"#)],
        &[(r#"["--version"]"#, "[]"), (r#"["exec"]"#, "[]")],
        &[(r#"["at-path","bang"]"#, r#"["at-path","bang","leading-dash"]"#)],
        &[(r#""sharing":"session""#, r#""sharing":"turn""#)],
        &[(r#""refused-from":"edit""#, r#""refused-from":"default""#)],
        &[(r#"["Read"]"#, "[]")],
        &[(r#"{"path":"~/.x/","access":"read","moved-by":"X_URL"}"#, "")],
        &[(
            r#""version":"1""#,
            r#""version":"9","label":"Another","models":[{"id":"m","label":"M"}],"understands":["^9"],"rank":1,"own-command":true,
            "stderr-noise":{"contains":["is warm"]}"#,
        )],
    ] {
        assert_eq!(more(changes), Vec::<String>::new(), "{changes:?}");
    }
}

#[test]
fn lines_are_short_and_parse_to_the_same_capabilities() {
    let wanted = [
        "program: x",
        "version: x --version",
        "words: x exec",
        "flag-at-danger: x --yolo",
        "flag: x --mode = ask* plan",
        "flag-at-edit: x --mode = edit",
        "sets: X_MODE",
        "passes: X_URL",
        "secrets: X_KEY",
        "sign-in-files: ~/.x",
        "state: read ~/.x/ X_URL",
        "as-root: default edit=X_SANDBOX danger=X_SANDBOX",
        "leaves: slash-command leading-dash",
        "tools: file_read Read",
        "keeps: allowed-tools plan",
        "shares: session",
    ];
    let mut found = lines(&of(BEFORE));
    found.sort();
    let mut sorted = wanted.to_vec();
    sorted.sort_unstable();
    assert_eq!(found, sorted);
    assert_eq!(read_back(&of(BEFORE)), of(BEFORE));
    let more = Capabilities::from([
        Capability::Profiles,
        Capability::ReadsPathOf("X_CERT".to_owned()),
        Capability::OwnSandbox,
    ]);
    assert_eq!(lines(&more), ["reads-path-of: X_CERT", "own-sandbox: yes", "profiles: yes"]);
    assert_eq!(read_back(&more), more);
    assert!(parse("sha256", "abc").is_none());
    for (key, text) in [
        ("program", "a b"),
        ("flag", "x"),
        ("flag", "x --y z"),
        ("words", "x \"a"),
        ("shares", "nobody"),
        ("leaves", "it"),
        ("keeps", ""),
    ] {
        assert!(parse(key, text).is_some_and(|read| read.is_err()), "{key}: {text}");
    }
}

fn read_back(all: &Capabilities) -> Capabilities {
    let read = |line: &String| {
        let (key, text) = line.split_once(": ").expect("a key");
        parse(key, text).expect("known").unwrap_or_else(|fault| panic!("{line}: {fault}"))
    };
    lines(all).iter().flat_map(read).collect()
}

#[test]
fn no_component_gets_a_version_by_other_means_or_sets_variables_that_select_code() {
    let faults = |programs: &str, environment: &str| {
        let json = format!(
            r#"{{"name":"x","version":"1","programs":[{programs}],"environment":{environment}}}"#
        );
        overreach(&Descriptor::parse(&json).expect("valid"), &["QUERY_TIMEOUT_MS"])
    };
    for bad in [
        r#"["-c","id"]"#,
        r#"["-c"]"#,
        r#"["exec","--version"]"#,
        r#"["--version","x"]"#,
        r#"["--help"]"#,
        r#"["x.js","version"]"#,
    ] {
        let program = format!(r#"{{"name":"sh","version-arguments":{bad}}}"#);
        assert!(
            faults(&program, "{}")
                .first()
                .is_some_and(|fault| fault.contains("`version-arguments`")),
            "{bad}"
        );
    }
    for good in ["[]", r#"["--version"]"#, r#"["-V"]"#, r#"["demo-agent","--version"]"#] {
        assert!(
            faults(
                &format!(r#"{{"name":"x","version-arguments":{good},"words":["demo-agent"]}}"#),
                "{}"
            )
            .is_empty(),
            "{good}"
        );
    }
    for bad in [
        "LD_DEBUG",
        "DYLD_INSERT_LIBRARIES",
        "X_PRELOAD",
        "GIT_CONFIG_GLOBAL",
        "PYTHONHOME",
        "BASH_FUNC_x",
        "NPM_CONFIG_PREFIX",
        "EDITOR",
        "QUERY_TIMEOUT_MS",
    ] {
        assert_eq!(
            faults(r#"{"name":"x"}"#, &format!(r#"{{"pass":["{bad}"]}}"#)).len(),
            1,
            "{bad}"
        );
    }
}

proptest! {
    /// Whatever names a component uses, the operator accepts what was shown, on one line without
    /// anything hidden.
    #[test]
    fn any_words_of_a_descriptor_are_parsed_back_unchanged(words in proptest::collection::vec(any::<String>(), 1..4), value in ".*") {
        let mut all = Capabilities::new();
        all.extend(words.iter().map(|word| Capability::Word { program: value.clone(), word: word.clone() }));
        all.extend(words.iter().map(|word| Capability::Tool { kind: word.clone(), name: value.clone() }));
        all.extend(words.iter().map(|word| Capability::Flag {
            program: word.clone(), flag: value.clone(), takes: FlagValue::Many, value: word.clone(), from: Safety::Edit }));
        all.insert(Capability::Version { program: value.clone(), arguments: words.clone() });
        prop_assert_eq!(read_back(&all), all.clone());
        prop_assert!(lines(&all).iter().chain(&describe(&all)).all(|line| line.bytes().all(|byte| (b' '..=b'~').contains(&byte))));
    }
}
