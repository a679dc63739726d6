use super::*;
use aetheel_model::id::ChannelId;

#[test]
fn the_backends_people_may_choose_are_a_list_and_none_is_an_empty_one() {
    let text = "## project site\n- backends: `Codex`, gemini\n\n## channel 1\n- project: site\n\n## channel 2\n- backends: none\n- project: site\n";
    let channels = Channels::parse(text);
    assert_eq!(channels.warnings, Vec::<String>::new());
    assert_eq!(
        channels.of(&Lane::Channel(ChannelId::discord(1))).backends,
        Some(vec!["codex".to_owned(), "gemini".to_owned()])
    );
    assert_eq!(channels.of(&Lane::Channel(ChannelId::discord(2))).backends, Some(vec![]));
    assert_eq!(channels.of(&Lane::Channel(ChannelId::discord(3))).backends, None);
}

#[test]
fn a_channel_inherits_missing_settings_from_its_project() {
    let text = "\
## channel #site (42)
- project: Site
- safety: edit
- mode: build

## project site
- directory: `~/src/site`
- backend: opencode
- model: `anthropic/claude-sonnet-4`
- thinking: high
- safety: danger
";
    let channels = Channels::parse(text);
    assert_eq!(channels.warnings, [] as [&str; 0]);
    let wanted = LaneSettings {
        directory: Some("~/src/site".into()),
        backend: Some("opencode".into()),
        model: Some("anthropic/claude-sonnet-4".into()),
        effort: Some("high".into()),
        safety: Some(Safety::Edit),
        mode: Some(Mode::Build),
        backends: None,
        require_mention: None,
        node: None,
        collisions: None,
        shared_directory: None,
        host_tools: None,
        project: Some("site".into()),
        memory: None,
        ping: None,
        fault: None,
    };
    assert_eq!(channels.of(&Lane::Channel(ChannelId::discord(42))), wanted);
    assert_eq!(channels.of(&Lane::Channel(ChannelId::discord(43))), LaneSettings::default());
    assert_eq!(channels.lanes().count(), 1);
}

#[test]
fn a_channel_with_another_backend_does_not_inherit_the_projects_model() {
    let channels = Channels::parse(
        "## project p\n- backend: codex\n- model: gpt\n- effort: low\n## 7\n- project: p\n- backend: claude\n",
    );
    let found = channels.of(&Lane::Channel(ChannelId::discord(7)));
    assert_eq!((found.backend.as_deref(), found.model, found.effort), (Some("claude"), None, None));
}

#[test]
fn lanes_are_named_in_several_forms() {
    for (title, lane) in [
        ("channel 7", Lane::Channel(ChannelId::discord(7))),
        ("Channel #general 7", Lane::Channel(ChannelId::discord(7))),
        ("7", Lane::Channel(ChannelId::discord(7))),
        ("channel discord:7", Lane::Channel(ChannelId::discord(7))),
        ("channel:discord:7", Lane::Channel(ChannelId::discord(7))),
        ("channel:7", Lane::Channel(ChannelId::discord(7))),
        ("console", Lane::Console),
        ("heartbeat:nightly", Lane::Heartbeat("nightly".into())),
    ] {
        let channels = Channels::parse(&format!("## `{title}`\n- backend: x\n"));
        assert_eq!(
            channels.of(&lane).backend.as_deref(),
            Some("x"),
            "{title}: {:?}",
            channels.warnings
        );
    }
}

#[test]
fn an_invalid_part_is_reported_and_never_loosens_a_limit() {
    let text = "\
## channel general
- backend: x
## channel 7
- safety: high
- mode: fast
- model: --oops
- require-mention: maybe
- colour: blue
- nothing
## channel 8
- project: gone
## channel 7
- safety: high
## project p
- project: q
";
    let channels = Channels::parse(text);
    for line in [1, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15] {
        let place = format!("channels.md line {line}: ");
        assert!(
            channels.warnings.iter().chain(&channels.faults).any(|line| line.starts_with(&place)),
            "{place} is not in {channels:#?}"
        );
    }
    assert_eq!(channels.of(&Lane::Channel(ChannelId::discord(7))).safety, Some(Safety::Default));
    assert!(
        channels.of(&Lane::Channel(ChannelId::discord(8))).fault.is_some(),
        "not in an unintended directory"
    );
}

#[test]
fn a_directory_outside_the_roots_is_refused_however_it_is_reached() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["roots/site", "outside"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    std::os::unix::fs::symlink(at("outside"), at("roots/link")).unwrap();
    std::os::unix::fs::symlink("site", at("roots/inner")).unwrap();
    std::fs::write(at("roots/file"), "").unwrap();
    let roots = [at("roots")];
    let home = folder.path().to_str();
    let site = at("roots/site").canonicalize().unwrap();
    for inside in ["site", "./site/../site", "~/roots/site", at("roots/site").to_str().unwrap()] {
        assert_eq!(directory(inside, &roots, home).expect(inside), site);
    }
    for (outside, why) in [
        ("../outside", "PROJECT_ROOTS"),
        ("link", "contains a symbolic link"),
        ("inner", "contains a symbolic link"),
        ("~/outside", "PROJECT_ROOTS"),
        ("/", "PROJECT_ROOTS"),
        ("file", "not a directory"),
        ("missing", "No such file"),
    ] {
        let refused = directory(outside, &roots, home).unwrap_err().to_string();
        assert!(refused.contains(why), "{outside}: {refused}");
    }
    assert!(directory("site", &[], home).is_err());
    std::os::unix::fs::symlink(at("roots"), at("linked")).unwrap();
    let found = directory("site", &[at("linked")], home).expect("a root may be a link");
    assert_eq!(found, site);
    // An agent that works in the outer root can replace the inner one.
    for roots in [[at("roots"), at("roots/link")], [at("roots/link"), at("roots")]] {
        std::fs::create_dir_all(at("outside/site")).unwrap();
        let path = at("roots/link/site");
        let refused = directory(path.to_str().unwrap(), &roots, home).unwrap_err().to_string();
        assert!(refused.contains("contains a symbolic link"), "{refused}");
    }
}

#[test]
fn a_channel_is_pinned_to_nodes_by_itself_or_by_its_project() {
    let channels = Channels::parse(
        "## project p\n- node: gpu\n## 7\n- project: p\n## 8\n- project: p\n- node: berlin\n## 9\n- node: two words\n",
    );
    let node = |id| channels.of(&Lane::Channel(ChannelId::discord(id))).node;
    assert_eq!(node(7).as_deref(), Some("gpu"));
    assert_eq!(node(8).as_deref(), Some("berlin"));
    let unplaced = channels.of(&Lane::Channel(ChannelId::discord(9)));
    assert!(unplaced.node.is_none() && unplaced.fault.is_some(), "{unplaced:?}");
    assert!(channels.warnings[0].contains("NODE_LABELS"), "{:?}", channels.warnings);
}

#[test]
fn collisions_and_shared_directories_are_set_by_channels_or_their_projects() {
    let channels = Channels::parse(
        "## project p\n- collisions: ask\n- shared-directory: yes\n## 7\n- project: p\n## 8\n- project: p\n- collisions: off\n- shared-directory: no\n## 9\n- collisions: perhaps\n- shared-directory: maybe\n",
    );
    let of = |number| {
        let settings = channels.of(&Lane::Channel(ChannelId::discord(number)));
        (settings.collisions, settings.shared_directory)
    };
    assert_eq!(of(7), (Some(CollisionMode::Ask), Some(true)));
    assert_eq!(of(8), (Some(CollisionMode::Off), Some(false)));
    assert_eq!(of(9), (Some(CollisionMode::Ask), None));
    let warnings = channels.warnings.join("\n");
    assert!(warnings.contains("is not `warn`, `ask` or `off`"), "{warnings}");
    assert!(warnings.contains("is neither `yes` nor `no`"), "{warnings}");
}
