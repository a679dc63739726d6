//! Permissions for the session: how long the backend keeps them.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod support;

use aetheel_backend_sdk::dialogue::Play;
use aetheel_backend_sdk::fixture::asks;
use aetheel_backend_sdk::wit::{Action, AskKind, Decision, Mode, Safety, Settings, StartTurn};
use codex::Backend;
use serde_json::json;
use support::{answer, careful, play, until_ask, until_done};

/// Makes Codex ask for a command, as in the recording.
fn ask_again(play: &mut Play<Backend>, id: u32, command: &str) {
    let thread = "01a1ffe2-676a-7083-a96a-e99b38ec8ee4";
    let params = json!({"threadId": thread, "turnId": "t", "itemId": format!("call_{id}"), "command": command, "cwd": "/srv/proj"});
    play.say(
        &json!({"method": "item/commandExecution/requestApproval", "id": id, "params": params})
            .to_string(),
    );
}

#[test]
fn session_permissions_are_kept_and_do_not_apply_at_a_lower_level_or_while_planning() {
    let command = "/bin/bash -lc 'touch perm_acceptForSession.txt'";
    let levels: [fn(&mut Settings); 2] = [
        |settings| settings.safety = Safety::Default,
        |settings| (settings.safety, settings.mode) = (Safety::Edit, Mode::Plan),
    ];
    for lower in levels {
        let mut play = play("live-permission-command-acceptforsession");
        let at_edit = |turn, change: fn(&mut Settings)| {
            let mut start = StartTurn { turn, ..careful("touch") };
            start.settings.safety = Safety::Edit;
            change(&mut start.settings);
            start
        };
        play.start(at_edit(1, |_| {}));
        let ask = until_ask(&mut play).ask;
        play.command(answer(ask, Decision::AllowAlways));
        ask_again(&mut play, 100, command);
        assert_eq!(
            (asks(&play.actions).len(), play.written_with("\"decision\"").len()),
            (1, 2),
            "the same command is answered automatically"
        );
        assert!(
            play.written.iter().all(|line| !line.contains("acceptForSession")),
            "Codex could not revoke it"
        );
        ask_again(&mut play, 101, "/bin/bash -lc 'touch other.txt'");
        assert_eq!(asks(&play.actions).len(), 2, "another command needs a question");
        play.command(answer(2, Decision::AllowOnce));
        until_done(&mut play);

        play.cut().start(at_edit(2, |_| {}));
        let id = play.id_of("turn/start").unwrap();
        play.say(&format!(r#"{{"id":{id},"result":{{"turn":{{"id":"x"}}}}}}"#));
        ask_again(&mut play, 102, command);
        assert_eq!(asks(&play.actions).len(), 2, "also in the next turn");
        play.say(r#"{"method":"turn/completed","params":{"threadId":"01a1ffe2-676a-7083-a96a-e99b38ec8ee4","turn":{"id":"x","status":"completed"}}}"#);
        // Another version of the backend restores it too.
        play.reload();
        play.start(at_edit(3, |_| {}));
        ask_again(&mut play, 103, command);
        assert_eq!(asks(&play.actions).len(), 2);
        let id = play.id_of("turn/start").unwrap();
        play.say(&format!(r#"{{"id":{id},"result":{{"turn":{{"id":"y"}}}}}}"#));
        play.say(r#"{"method":"turn/completed","params":{"threadId":"01a1ffe2-676a-7083-a96a-e99b38ec8ee4","turn":{"id":"y","status":"completed"}}}"#);
        play.start(at_edit(4, lower));
        ask_again(&mut play, 104, command);
        assert_eq!(asks(&play.actions).len(), 3, "a lower level needs a question");
    }
}

#[test]
fn session_permissions_for_changes_cover_the_same_files() {
    let mut play = play("live-permission-patch-accept");
    play.start(careful("write"));
    let ask = until_ask(&mut play);
    let AskKind::Permission(tool) = &ask.kind else { panic!("{ask:?}") };
    let thread = "01a1ffe2-6e57-7320-8c4e-b0bc46365e6b";
    let again = |play: &mut Play<Backend>, id: u32, item: &str| {
        let params = json!({"threadId": thread, "turnId": "t", "itemId": item});
        play.say(
            &json!({"method": "item/fileChange/requestApproval", "id": id, "params": params})
                .to_string(),
        );
    };
    play.command(answer(ask.ask, Decision::AllowAlways));
    again(&mut play, 50, &tool.id);
    assert_eq!((asks(&play.actions).len(), play.written_with("\"decision\"").len()), (1, 2));
    let change = json!({"type": "fileChange", "id": "other", "status": "inProgress",
        "changes": [{"path": "/srv/proj/other.txt", "kind": {"type": "add"}, "diff": "x"}]});
    play.say(&json!({"method": "item/started", "params": {"threadId": thread, "turnId": "t", "item": change}}).to_string());
    again(&mut play, 51, "other");
    assert_eq!(asks(&play.actions).len(), 2, "another file");
    again(&mut play, 52, "never told");
    let Some(Action::Ask(unknown)) = play.actions.last() else { panic!("no ask") };
    assert_eq!(unknown.always_label, None, "the scope of the permission is unknown");
}
