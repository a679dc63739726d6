use super::*;

const GOOSE: &str = "\
# Agents
- for people
## Goose
Some words.
- command: `/opt/goose/bin/goose acp --quiet --acp=true \"two words\"`
- label: Goose
- version: --version
- credentials: `~/.config/goose/config.yaml`, `GOOSE_PROVIDER`
- environment: `GOOSE_MODEL`, OPENAI_API_KEY
- state: `~/.config/goose/ (read)`, `~/.local/share/goose/=$GOOSE_MODEL/goose/`, `~/.goose`
- own-sandbox: yes
- set: `GOOSE_DISABLE_KEYRING=1`
- modes: default=approve, edit=smart_approve, danger=auto
- models: a/b, c=Sea
- system-prompt: meta
- Write Tools: developer__text_editor
- expands: at-path
";

fn component() -> Descriptor {
    let json = r#"{"name":"acp","label":"ACP","version":"0.3.0","sharing":"link","programs":[{"name":"acp","flags":[{"name":"--x"}]}],
        "features":["resume","system-prompt","plan","permissions"],"environment":{"pass":["BASE"],"set":["BASE_SET"]},
        "expands":["at-path","slash-command"],"credentials":[{"variable":"NEVER"}]}"#;
    Descriptor::parse(json).unwrap()
}

#[test]
fn a_profile_makes_a_backend_of_its_own() {
    let profiles = Profiles::parse(GOOSE);
    assert_eq!(profiles.warnings, [] as [&str; 0]);
    let goose = &profiles.all["goose"];
    let descriptor = goose.apply(&component()).unwrap();
    assert_eq!(
        (descriptor.name.as_str(), descriptor.label(), descriptor.version.as_str()),
        ("goose", "Goose", "0.3.0")
    );
    let program = &descriptor.programs[0];
    assert_eq!(
        (program.name.as_str(), program.words.as_slice()),
        ("goose", ["acp".to_owned(), "two words".to_owned()].as_slice())
    );
    assert_eq!(program.version_arguments, ["--version"]);
    assert_eq!(program.flags.len(), 2);
    assert_eq!(
        (program.flags[1].name.as_str(), program.flags[1].values.as_slice()),
        ("--acp", ["true".to_owned()].as_slice())
    );
    assert_eq!(goose.program_path(None), Some(PathBuf::from("/opt/goose/bin/goose")));
    let credentials = [
        Credential::File("~/.config/goose/config.yaml".into()),
        Credential::Variable("GOOSE_PROVIDER".into()),
    ];
    assert_eq!(descriptor.credentials, credentials);
    let state = [
        StatePath {
            path: "~/.config/goose/".into(),
            access: StateAccess::Read,
            ..StatePath::default()
        },
        StatePath {
            path: "~/.local/share/goose/".into(),
            moved_by: Some("GOOSE_MODEL".into()),
            below: "goose".into(),
            ..StatePath::default()
        },
        StatePath { path: "~/.goose".into(), ..StatePath::default() },
    ];
    assert_eq!((descriptor.state.as_slice(), descriptor.own_sandbox), (&state[..], true));
    assert_eq!(descriptor.environment.pass, ["BASE", "GOOSE_MODEL", "OPENAI_API_KEY"]);
    assert_eq!(descriptor.environment.set, ["BASE_SET", "GOOSE_DISABLE_KEYRING"]);
    assert!(
        descriptor.has(Feature::SystemPrompt) && !descriptor.has(Feature::Plan),
        "there are modes, but no plan mode"
    );
    assert_eq!(descriptor.models[1], DescriptorChoice { id: "c".into(), label: "Sea".into() });
    assert_eq!(
        (descriptor.expands.as_slice(), descriptor.write_tools.as_slice()),
        (&[Expands::AtPath][..], &["developer__text_editor".to_owned()][..])
    );
}

#[test]
fn the_guest_receives_the_command() {
    let options: serde_json::Value =
        serde_json::from_str(&Profiles::parse(GOOSE).all["goose"].options()).unwrap();
    let wanted = json!({
        "program": "goose",
        "arguments": ["acp", "--quiet", "--acp=true", "two words"],
        "environment": { "GOOSE_DISABLE_KEYRING": "1" },
        "modes": { "default": "approve", "edit": "smart_approve", "danger": "auto" },
        "system-prompt": "meta"
    });
    assert_eq!(options, wanted);
}

#[test]
fn a_command_is_enough() {
    let profiles = Profiles::parse("## x\n- command: x\n");
    let descriptor = profiles.all["x"].apply(&component()).unwrap();
    assert_eq!((descriptor.label(), descriptor.expands.len()), ("x", 2));
    assert!(descriptor.has(Feature::Plan) && descriptor.credentials.is_empty());
    let options: serde_json::Value = serde_json::from_str(&profiles.all["x"].options()).unwrap();
    assert_eq!(options, json!({ "program": "x", "arguments": [] }));
}

#[test]
fn invalid_parts_are_reported_with_their_line_and_the_rest_is_used() {
    let text = "\
## no command
- label: x
## Bad Name!
- command: x
## preload
- command: x
- set: LD_PRELOAD=evil.so
## quote
- command: x 'y
## good
- command: x
- colour: blue
- modes: yolo=auto
- system-prompt: loudly
- expands: everything
- set: NAME
## good
- command: y
";
    let profiles = Profiles::parse(text);
    assert_eq!(profiles.all.keys().collect::<Vec<_>>(), ["good"]);
    assert_eq!(profiles.all["good"].options.program, "y");
    for part in [
        "line 1: profile \"no command\" is left out: it has no `command`",
        "line 3",
        "LD_PRELOAD",
        "line 8",
        "line 12: `colour`",
        "line 13",
        "line 14",
        "line 15",
        "line 16",
        "line 10: profile \"good\" is left out: it has a line that is not read",
    ] {
        assert!(
            profiles.warnings.iter().any(|warning| warning.contains(part)),
            "{part} is not in {:#?}",
            profiles.warnings
        );
    }
    assert_eq!(profiles.warnings.len(), 10, "{:#?}", profiles.warnings);
}

#[test]
fn the_home_folder_is_filled_in_if_there_is_one() {
    let profiles = Profiles::parse("## x\n- command: ~/bin/x\n");
    assert_eq!(
        profiles.all["x"].program_path(Some("/home/ada")),
        Some(PathBuf::from("/home/ada/bin/x"))
    );
}
