//! The audit log of the real program: the entries of whole turns, the check of its chain, kills, a
//! full disk, and hostile names.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};
use serde_json::{Value, json};

use super::{installed, serving};
use crate::support::discord::{ANN, BOT, CHANNEL, GUILD, LocalDiscord, TOKEN};
use crate::support::program::{Ended, Installation};

/// Returns the file of the newest month.
fn file(installation: &Installation) -> Option<PathBuf> {
    let files = fs::read_dir(installation.path("config/state/audit")).ok()?;
    let files = files.map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")).max()
}

fn text(installation: &Installation) -> String {
    file(installation).map_or_else(String::new, |path| fs::read_to_string(path).unwrap())
}

/// Returns the entries of a kind.
pub(super) fn entries(installation: &Installation, kind: &str) -> Vec<Value> {
    let text = text(installation);
    let read = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    read.filter(|entry| entry["kind"] == kind).collect()
}

pub(super) async fn wait_for_entry(
    local: &LocalDiscord,
    installation: &Installation,
    kind: &str,
) -> Value {
    local.wait_for(kind, |_| entries(installation, kind).pop()).await
}

pub(super) async fn verify(installation: &Installation) -> Ended {
    installation.run(&["audit", "verify"], "").await
}

#[tokio::test]
async fn a_turn_with_a_question_has_all_its_entries_and_the_chain_is_complete() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, &format!("ask {TOKEN}"));
    let question = local
        .wait_for("a question", |local| {
            local.messages(CHANNEL).into_iter().find(|message| local.asks(message.id))
        })
        .await;
    local.press(question.id, ANN, "Allow once");
    let ended = wait_for_entry(&local, &installation, "turn-ended").await;
    let asked = wait_for_entry(&local, &installation, "prompt-accepted").await;
    let begun = wait_for_entry(&local, &installation, "turn-begun").await;
    let decided = wait_for_entry(&local, &installation, "request-decided").await;
    let lane = format!("channel:{CHANNEL}");
    for entry in [&ended, &asked, &begun, &decided] {
        assert_eq!(entry["fields"]["lane"], lane.as_str(), "{entry}");
        assert_eq!(entry["fields"]["person"], ANN.to_string(), "{entry}");
        assert_eq!(entry["fields"]["name"], "ann", "{entry}");
    }
    assert_eq!(asked["fields"]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(asked["fields"]["source"], "message");
    assert_eq!(begun["fields"]["turn"], ended["fields"]["turn"]);
    assert_eq!(begun["fields"]["digest"].as_str().unwrap().len(), 64);
    assert_eq!(begun["fields"]["digest"], ended["fields"]["digest"]);
    assert_eq!(ended["fields"]["outcome"], "done");
    assert_eq!(decided["fields"]["decider"], "person");
    assert_eq!(decided["fields"]["decision"], "allow once");
    assert_eq!(decided["fields"]["turn"], ended["fields"]["turn"]);
    assert!(decided["fields"]["tool"].is_string(), "{decided}");

    local.answer_to(local.slash(CHANNEL, ANN, "settings", Some("demo"))).await;
    let changed = wait_for_entry(&local, &installation, "setting-changed").await;
    assert_eq!(
        (&changed["fields"]["setting"], &changed["fields"]["value"]),
        (&"backend".into(), &"demo".into())
    );
    assert_eq!(changed["fields"]["person"], ANN.to_string());

    bot.signal(Signal::TERM);
    bot.ended().await;
    let text = text(&installation);
    assert!(!text.contains(TOKEN) && !text.contains("ask "), "{text}");
    let started = &entries(&installation, "gateway-started")[0];
    assert_eq!(started["fields"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(entries(&installation, "gateway-stopped").len(), 1, "{text}");
    assert!(
        entries(&installation, "component-loaded")
            .iter()
            .any(|entry| entry["fields"]["digest"] == begun["fields"]["digest"]),
        "{text}"
    );
    let checked = verify(&installation).await;
    assert!(checked.code == 0 && checked.stdout.starts_with("complete: "), "{checked:?}");

    let of_ann = ["audit", "show", "--person", "ANN", "--kind", "turn-ended", "--lane", &lane];
    let shown = installation.run(&of_ann, "").await;
    let (head, fields) = shown.stdout.split_once('\n').unwrap();
    assert!(
        head.ends_with(" turn-ended") && fields.contains("    outcome: \"done\"\n"),
        "{shown:?}"
    );
    assert!(fields.lines().all(|field| field.starts_with("    ")), "one entry: {shown:?}");
    let unknown = installation.run(&["audit", "show", "--kind", "turn-end"], "").await;
    assert!(unknown.code == 64 && unknown.stderr.contains("request-decided"), "{unknown:?}");
    let none = installation.run(&["audit", "show", "--until", "2001-01-01"], "").await;
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));
}

#[tokio::test]
async fn every_kind_of_damage_is_reported_with_its_first_line() {
    type Damage = fn(&mut Vec<String>);
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    wait_for_entry(&local, &installation, "turn-ended").await;
    bot.signal(Signal::TERM);
    bot.ended().await;
    let (path, text) = (file(&installation).unwrap(), text(&installation));
    let head = installation.run(&["audit", "head"], "").await.stdout;
    let cases: [(Damage, &str); 4] = [
        (|lines| lines[2] = lines[2].replace("\"fields\":{", "\"fields\":{\"a\":\"b\","), "line 3"),
        (|lines| drop(lines.remove(1)), "line 2"),
        (|lines| lines.swap(1, 2), "line 2"),
        (|lines| drop(lines.pop()), "audit-head.md"),
    ];
    for (damage, place) in cases {
        let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
        damage(&mut lines);
        fs::write(&path, lines.concat()).unwrap();
        let checked = verify(&installation).await;
        assert!(checked.code == 1 && checked.stdout.contains(place), "{place}: {checked:?}");
        assert_eq!(installation.run(&["audit", "head"], "").await.code, 1);
    }
    // An entry that was stored elsewhere shows that the whole chain was written again.
    fs::remove_dir_all(installation.path("config/state/audit")).unwrap();
    fs::remove_file(installation.path("config/state/audit-head.md")).unwrap();
    let mut again = serving(&installation).await;
    wait_for_entry(&local, &installation, "gateway-started").await;
    again.signal(Signal::TERM);
    again.ended().await;
    assert_eq!(verify(&installation).await.code, 0);
    let checked = installation.run(&["audit", "verify", "--head", head.trim()], "").await;
    assert_eq!(checked.code, 1, "{checked:?}");
    assert_eq!(installation.run(&["audit", "verify", "--head", "7"], "").await.code, 64);
}

#[tokio::test]
async fn a_line_torn_by_a_kill_is_closed_and_the_chain_continues() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut killed = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 2");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    wait_for_entry(&local, &installation, "turn-begun").await;
    killed.signal(Signal::KILL);
    killed.ended().await;
    let mut file = OpenOptions::new().append(true).open(file(&installation).unwrap()).unwrap();
    file.write_all(b"{\"number\":99,\"time\":\"20").unwrap();
    let between = verify(&installation).await;
    assert!(between.code == 0 && between.stdout.contains("was cut off"), "{between:?}");

    let _next = serving(&installation).await;
    let torn = wait_for_entry(&local, &installation, "line-torn").await;
    assert_eq!(torn["fields"]["bytes"], "23");
    wait_for_entry(&local, &installation, "turn-ended").await;
    let checked = verify(&installation).await;
    assert!(checked.code == 0 && !checked.stdout.contains("note: "), "{checked:?}");
    assert_eq!(entries(&installation, "gateway-started").len(), 2);
}

#[tokio::test]
async fn names_of_people_cannot_forge_entries() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut bot = serving(&installation).await;
    let name = "x\"}\n{\"number\":1,\"kind\":\"forged\"}\u{1b}[2K`code`\u{202e}";
    let first = local.mention(CHANNEL, ANN, "first");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: first")).await;
    let data = json!({
        "id": (first + 500).to_string(),
        "channel_id": CHANNEL.to_string(),
        "guild_id": GUILD.to_string(),
        "author": {"id": ANN.to_string(), "username": name, "global_name": name},
        "content": format!("<@{BOT}> second"),
        "mentions": [{"id": BOT.to_string(), "username": "aetheel", "discriminator": "0"}],
        "mention_roles": [], "attachments": [], "embeds": [],
        "mention_everyone": false, "pinned": false, "tts": false,
        "timestamp": "2026-08-06T12:00:00.000000+00:00", "edited_timestamp": null, "type": 0,
    });
    local.send_event("MESSAGE_CREATE", &data);
    let forged = local
        .wait_for("the hostile name", |_| {
            let mut found = entries(&installation, "prompt-accepted").into_iter();
            found.rfind(|entry| entry["fields"]["name"] != "ann")
        })
        .await;
    assert!(!forged["fields"]["name"].as_str().unwrap().contains(char::is_control), "{forged}");
    bot.signal(Signal::TERM);
    bot.ended().await;
    assert_eq!(verify(&installation).await.code, 0);
    assert!(entries(&installation, "forged").is_empty());
    let shown = installation.run(&["audit", "show"], "").await.stdout;
    assert!(
        !shown.contains('\u{1b}') && !shown.lines().any(|line| line.starts_with('{')),
        "{shown}"
    );
    let shown = shown.lines().filter(|line| !line.starts_with(' ')).count();
    assert_eq!(shown, text(&installation).lines().count());
}

#[tokio::test]
async fn a_log_that_cannot_be_written_delays_no_turn_and_records_the_gap() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let folder = installation.path("config/state/audit");
    fs::create_dir_all(folder.parent().unwrap()).unwrap();
    fs::write(&folder, "").unwrap();
    let bot = serving(&installation).await;
    bot.logs("the audit log cannot be written, so entries are missing").await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    assert!(text(&installation).is_empty());
    fs::remove_file(&folder).unwrap();
    let lost = wait_for_entry(&local, &installation, "entries-lost").await;
    let count: u64 = lost["fields"]["count"].as_str().unwrap().parse().unwrap();
    assert!(count >= 4, "{lost}");
    bot.logs("the audit log is written again").await;
    let warned = bot.log().into_iter().filter(|line| {
        line["message"].as_str().is_some_and(|text| text.starts_with("the audit log cannot be"))
    });
    assert_eq!(warned.count(), 1);
    assert_eq!(verify(&installation).await.code, 0);
}

#[tokio::test]
async fn a_full_disk_leaves_a_complete_chain_with_a_gap() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    wait_for_entry(&local, &installation, "gateway-started").await;
    let maximum = getrlimit(Resource::Fsize).maximum;
    let limit = |current| {
        prlimit(Some(bot.pid), Resource::Fsize, Rlimit { current, maximum }).expect("limited");
    };
    limit(Some(16));
    local.slash(CHANNEL, ANN, "settings", Some("demo"));
    local.mention(CHANNEL, ANN, "too much");
    local.wait_for_message(CHANNEL, |text| text.contains("(storage)")).await;
    bot.logs("the audit log cannot be written, so entries are missing").await;
    limit(None);
    wait_for_entry(&local, &installation, "entries-lost").await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
    wait_for_entry(&local, &installation, "turn-ended").await;
    let checked = verify(&installation).await;
    assert_eq!(checked.code, 0, "{checked:?}");
}
