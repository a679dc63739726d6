use std::fs;
use std::path::PathBuf;

use super::*;
use aetheel_model::id::ChannelId;

const LANE: Lane = Lane::Channel(ChannelId::discord(7));

struct Fixture {
    _folder: tempfile::TempDir,
    path: PathBuf,
    bindings: Bindings,
}

fn fixture(text: Option<&str>) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.md");
    if let Some(text) = text {
        fs::write(&path, text).unwrap();
    }
    let bindings = Bindings::open(folder.path()).unwrap();
    Fixture { _folder: folder, path, bindings }
}

impl Fixture {
    fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap()
    }

    /// Opens the file as a program that starts now would.
    fn restarted(&self) -> Bindings {
        Bindings::open(self.path.parent().unwrap()).unwrap()
    }

    async fn session(&self, lane: &Lane, backend: &str) -> Option<String> {
        self.bindings.get(lane, backend).await.session.map(|session| session.to_string())
    }
}

fn chosen(session: &str, fork: bool, directory: Option<&str>) -> ChosenSession {
    let (id, value) = (SessionId::new(session).unwrap(), directory.map(str::to_owned));
    ChosenSession { id, fork, setting: "directory", value }
}

fn id(text: &str) -> Option<SessionId> {
    Some(SessionId::new(text).unwrap())
}

#[tokio::test]
async fn sessions_settings_and_the_choice_of_backend_survive_a_restart() {
    let f = fixture(None);
    let odd = Lane::Cron("a `b` 100%, session\nx".to_owned());
    f.bindings.set_session(&LANE, "claude", id("abc-1")).await.unwrap();
    f.bindings.set_session(&LANE, "codex", id("def")).await.unwrap();
    f.bindings.set_setting(&LANE, "codex", "model", Some("gpt `5`, (x)".to_owned())).await.unwrap();
    f.bindings.set_backend(&LANE, "codex").await.unwrap();
    f.bindings.set_session(&odd, "claude", id("ghi")).await.unwrap();
    let restarted = f.restarted();
    for bindings in [&f.bindings, &restarted] {
        assert_eq!(bindings.get(&LANE, "claude").await.session, id("abc-1"));
        let codex = bindings.get(&LANE, "codex").await;
        assert_eq!((codex.session, codex.settings["model"].as_str()), (id("def"), "gpt `5`, (x)"));
        assert_eq!(bindings.active_backend(&LANE).await.as_deref(), Some("codex"));
        assert_eq!(bindings.active_backend(&odd).await, None);
        assert_eq!(bindings.get(&odd, "claude").await.session, id("ghi"));
        assert_eq!(bindings.get(&LANE, "gemini").await, Binding::default());
        assert!(bindings.warnings().await.is_empty());
    }
    assert!(
        f.text().contains(
            "- `channel:7` with `codex` (current): session `def`, model `gpt %605%60, (x)`.\n"
        ),
        "{}",
        f.text()
    );
}

#[tokio::test]
async fn an_edit_by_hand_takes_effect_at_once() {
    let f = fixture(None);
    f.bindings.set_session(&LANE, "claude", id("before")).await.unwrap();
    fs::write(&f.path, f.text().replace("before", "by-hand")).unwrap();
    assert_eq!(f.session(&LANE, "claude").await.as_deref(), Some("by-hand"));
    fs::write(&f.path, f.text() + "* `channel:8` `claude` session `eight` model `opus`\n").unwrap();
    f.bindings.set_session(&LANE, "claude", id("after")).await.unwrap();
    assert!(f.text().contains("`after`") && f.text().contains("`eight`"), "{}", f.text());
    fs::remove_file(&f.path).unwrap();
    assert_eq!(f.session(&LANE, "claude").await, None);
}

#[tokio::test]
async fn an_invalid_line_is_reported_and_kept_and_does_not_affect_others() {
    let text = "# Notes of mine\n\nKeep calm.\n\n- `channel:1` with `claude`: session `one`\n- `chanel:2` with `claude`: session `two`\n\
- `channel:3` with `claude`: session `--flag`\n- `channel:4 with claude\n- `channel:5` with `claude`: model\n\
- `channel:1` with `claude`: session `again`\n- `channel:6` with `claude`: session `%zz`\n- a plain item\n- `channel:9` with `claude`: session `nine`\n";
    let f = fixture(Some(text));
    let warnings = f.bindings.warnings().await;
    let named: Vec<bool> = [6, 7, 8, 9, 10, 11]
        .iter()
        .map(|n| warnings.iter().any(|w| w.contains(&format!("line {n} "))))
        .collect();
    assert!(named.iter().all(|named| *named) && warnings.len() == 6, "{warnings:#?}");
    assert_eq!(
        f.session(&Lane::Channel(ChannelId::discord(1)), "claude").await.as_deref(),
        Some("one")
    );
    f.bindings
        .set_session(&Lane::Channel(ChannelId::discord(9)), "claude", id("changed"))
        .await
        .unwrap();
    f.bindings
        .set_session(&Lane::Channel(ChannelId::discord(10)), "claude", id("ten"))
        .await
        .unwrap();
    f.bindings.reset(&Lane::Channel(ChannelId::discord(1))).await.unwrap();
    let expected = text
        .replace("- `channel:1` with `claude`: session `one`\n", "")
        .replace("`nine`\n", "`changed`.\n")
        + "- `channel:10` with `claude`: session `ten`.\n";
    assert_eq!(f.text(), expected);
}

#[tokio::test]
async fn a_reset_forgets_sessions_keeps_settings_and_is_not_undone_by_a_running_turn() {
    let f = fixture(None);
    f.bindings.set_session(&LANE, "claude", id("old")).await.unwrap();
    f.bindings.set_session(&LANE, "codex", id("old2")).await.unwrap();
    f.bindings.set_setting(&LANE, "claude", "model", Some("opus".to_owned())).await.unwrap();
    f.bindings
        .set_session(&Lane::Channel(ChannelId::discord(8)), "claude", id("other"))
        .await
        .unwrap();
    let epoch = f.bindings.get(&LANE, "claude").await.epoch;
    assert!(f.bindings.reset(&LANE).await.unwrap());
    assert!(!f.bindings.reset(&LANE).await.unwrap(), "there was no session any more");
    assert!(!f.bindings.set_session_if(&LANE, "claude", id("from-the-turn"), epoch).await.unwrap());
    let binding = f.bindings.get(&LANE, "claude").await;
    assert_eq!((binding.session, binding.settings["model"].as_str()), (None, "opus"));
    assert_eq!(f.session(&LANE, "codex").await, None);
    assert_eq!(
        f.session(&Lane::Channel(ChannelId::discord(8)), "claude").await.as_deref(),
        Some("other")
    );
    assert!(f.bindings.set_session_if(&LANE, "claude", id("new"), binding.epoch).await.unwrap());
    assert_eq!(f.restarted().get(&LANE, "claude").await.session, id("new"));
}

#[tokio::test]
async fn a_resumed_session_is_not_replaced_by_a_running_turn_and_the_default_backend_can_be_restored()
 {
    let f = fixture(None);
    f.bindings.set_backend(&LANE, "claude").await.unwrap();
    f.bindings.set_session(&LANE, "claude", id("now")).await.unwrap();
    f.bindings
        .set_session(&Lane::Channel(ChannelId::discord(8)), "claude", id("other"))
        .await
        .unwrap();
    let epoch = f.bindings.get(&LANE, "claude").await.epoch;
    f.bindings.resume(&LANE, "claude", chosen("old", true, Some("/srv"))).await.unwrap();
    assert!(!f.bindings.set_session_if(&LANE, "claude", id("from-the-turn"), epoch).await.unwrap());
    let binding = f.restarted().get(&LANE, "claude").await;
    assert_eq!((binding.session, binding.settings["directory"].as_str()), (id("old"), "/srv"));
    assert!(binding.fork);
    f.bindings.set_session(&LANE, "claude", id("copy")).await.unwrap();
    assert!(!f.restarted().get(&LANE, "claude").await.fork, "the copy exists");
    f.bindings.resume(&LANE, "claude", chosen("usual", false, None)).await.unwrap();
    assert!(f.bindings.get(&LANE, "claude").await.settings.is_empty());
    assert_eq!(
        f.bindings.sessions_of_other_lanes(&LANE, "claude").await,
        [SessionId::new("other").unwrap()]
    );
    f.bindings.unset_backend(&LANE).await.unwrap();
    assert_eq!(
        (f.restarted().active_backend(&LANE).await, f.session(&LANE, "claude").await.as_deref()),
        (None, Some("usual"))
    );
}

#[tokio::test]
async fn all_concurrent_changes_are_saved() {
    let f = fixture(None);
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let bindings = f.bindings.clone();
            tokio::spawn(async move {
                bindings
                    .set_session(
                        &Lane::Channel(ChannelId::discord(n)),
                        "claude",
                        id(&format!("s{n}")),
                    )
                    .await
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let restarted = f.restarted();
    for n in 0..20 {
        assert_eq!(
            restarted.get(&Lane::Channel(ChannelId::discord(n)), "claude").await.session,
            id(&format!("s{n}"))
        );
    }
}

#[tokio::test]
async fn a_change_that_cannot_be_written_stays_in_force_and_is_written_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state").join("sessions.md");
    let bindings = Bindings::open(path.parent().unwrap()).unwrap();
    let error = bindings.set_session(&LANE, "claude", id("abc")).await.unwrap_err();
    assert!(error.to_string().contains("sessions.md"), "{error}");
    assert_eq!(bindings.get(&LANE, "claude").await.session, id("abc"));
    fs::create_dir(path.parent().unwrap()).unwrap();
    bindings.set_session(&Lane::Channel(ChannelId::discord(8)), "claude", id("def")).await.unwrap();
    assert_eq!(
        Bindings::open(path.parent().unwrap()).unwrap().get(&LANE, "claude").await.session,
        id("abc")
    );
}

#[tokio::test]
async fn a_linked_file_stays_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real.md"), folder.path().join("sessions.md"));
    fs::write(&real, "").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    Bindings::open(folder.path()).unwrap().set_session(&LANE, "claude", id("abc")).await.unwrap();
    assert!(
        fs::symlink_metadata(&link).unwrap().is_symlink()
            && fs::read_to_string(&real).unwrap().contains("abc")
    );
}

#[test]
fn a_session_id_cannot_be_a_flag_or_a_path() {
    for good in ["a", "_x", "0199a213-81c0-7800-8aa1-bbab2a035a53", "ses_1:2.3", &"x".repeat(128)] {
        assert!(SessionId::new(good).is_ok(), "{good}");
    }
    for bad in
        ["", "-p", "--resume", ".hidden", ":x", "a b", "a/b", "a\n", "é", "a\0", &"x".repeat(129)]
    {
        assert!(SessionId::new(bad).is_err(), "{bad:?}");
    }
}

#[tokio::test]
async fn a_setting_cannot_pretend_to_be_a_session() {
    let f = fixture(None);
    for bad in ["session", "current", "with", "Model", "a b", "", "x`"] {
        let error =
            f.bindings.set_setting(&LANE, "claude", bad, Some("v".to_owned())).await.unwrap_err();
        assert!(matches!(error, BindingsError::InvalidSetting(_)), "{bad:?}: {error}");
    }
    assert!(!f.path.exists());
}
