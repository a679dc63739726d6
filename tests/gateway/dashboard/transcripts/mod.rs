//! Past turns: found, shown from real and scripted recordings, and followed while they run.

mod hostile;
mod sharing;

use std::fs;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{serving, with_dashboard};
use crate::support::browser::{Browser, Page};
use crate::support::discord::{ANN, BOB, CHANNEL, DIRECT, LocalDiscord, OTHER, OWNER};
use crate::support::program::{Installation, Program};

const VIEW_CHANNEL: u64 = 1 << 10;

/// Returns the record of a turn that ended some minutes ago, as the gateway writes it.
fn turn_record(turn: &str, channel: u64, ago: i64, asked: &str) -> Value {
    let ended = Timestamp::now().checked_sub(SignedDuration::from_mins(ago)).unwrap();
    json!({
        "ended": ended.to_string(), "took-ms": 65_000, "turn": turn, "event": 7,
        "lane": format!("channel:{channel}"), "kind": "message", "user": ANN, "name": "ann",
        "message": 123, "backend": "demo", "component": "0.1.0", "how": "done", "tools": 1,
        "usage": {"input": 1200, "output": 34, "cached": 5, "reasoning": 6, "cost-usd": 0.25,
            "context-used": null, "context-size": null},
        "recording": format!("2026-11-23/{turn}.jsonl"), "link": turn,
        "asked": asked, "answered": format!("answer to {asked}"),
    })
}

/// Writes records of turns into the gateway's folder.
fn write_records(installation: &Installation, lines: &[Value]) {
    let folder = installation.path("config/state/turns");
    fs::create_dir_all(&folder).unwrap();
    for line in lines {
        let day = folder.join(format!("{}.jsonl", &line["ended"].as_str().unwrap()[..10]));
        let before = fs::read_to_string(&day).unwrap_or_default();
        // The gateway writes them in the order in which they ended.
        let mut all: Vec<Value> =
            before.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        all.push(line.clone());
        all.sort_by_key(|line| line["ended"].as_str().unwrap().to_owned());
        fs::write(day, all.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    }
}

/// Writes the recording of a turn with these entries, 10 ms apart.
fn write_recording(installation: &Installation, turn: &str, prompt: &str, entries: &[Value]) {
    let folder = installation.path("recordings/2026-11-23");
    fs::create_dir_all(&folder).unwrap();
    let mut lines = vec![
        json!({"aetheel-recording": 1, "link": turn, "backend": "demo", "backend-version": "0.1.0",
            "generation": 1, "digest": "d", "agent-version": "9.8", "started": "2026-11-23T10:00:00Z"}),
        json!({"t": 0, "turn": {"turn": turn, "event": 7, "lane": "channel:1", "session": 1, "key": 1}}),
        json!({"t": 0, "in": {"command": {"start-turn": {"session": 1, "turn": 1, "cwd": "/",
            "native-id": null, "fork": false, "fresh-id": "x", "one-shot": true,
            "settings": {"model": "small", "safety": "edit", "mode": "build", "effort": null,
                "system-prompt": "the system prompt", "allowed-tools": [], "max-turns": null, "options": "{}"},
            "parts": [{"text": prompt}]}}}}),
    ];
    let timed = entries.iter().enumerate().map(|(at, entry)| {
        let mut entry = entry.clone();
        entry["t"] = json!(10 * (at + 1));
        entry
    });
    lines.extend(timed);
    lines.push(json!({"t": 65_000, "ending": {"turn": turn, "how": "completed"}}));
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(folder.join(format!("{turn}.jsonl")), text).unwrap();
}

fn event(kind: Value) -> Value {
    json!({"out": {"event": {"session": 1, "turn": 1, "kind": kind}}})
}

fn text(text: &str) -> Value {
    event(json!({"text": {"part": 0, "text": text}}))
}

/// Returns the entries of a turn with everything that only some users may see.
fn entries_with_secrets() -> Vec<Value> {
    vec![
        event(json!({"thinking": {"part": 0, "text": "secretly thinking"}})),
        text("I begin. "),
        event(
            json!({"tool-start": {"id": "a", "parent": null, "kind": "file_edit", "native-name": "Edit",
            "title": "Edit a file", "target": "src/lib.rs", "input": "{\"path\":\"the input\"}"}}),
        ),
        event(json!({"tool-output": {"id": "a", "text": "the output"}})),
        event(
            json!({"tool-end": {"id": "a", "status": "ok", "output": null, "exit-code": 0, "diffs": [
            {"path": "src/lib.rs", "old-text": "one\nold\n", "new-text": "one\nnew\n", "unified": null}]}}),
        ),
        event(
            json!({"plan": [{"text": "look", "status": "done"}, {"text": "leap", "status": "active"}]}),
        ),
        json!({"out": {"ask": {"ask": 3, "session": 1, "turn": 1, "title": "Run it?", "always-label": null,
            "kind": {"permission": {"id": "p", "parent": null, "kind": "bash", "native-name": "Bash",
                "title": "Run it", "target": "make all", "input": "{}"}}}}}),
        json!({"in": {"command": {"answer": {"ask": 3, "decision": {"deny": "not today"}}}}}),
        text("I end."),
    ]
}

/// Returns the ids of the turns on a page of the list, in its order.
fn listed_turns(page: &Page) -> Vec<String> {
    let links = page.body.split("<td><a href=\"/turns/").skip(1);
    links.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

/// Returns the status text on a page after a form was sent.
fn status_text(page: &Page) -> String {
    let said = page.body.split_once("role=\"status\">");
    let said = said.unwrap_or_else(|| panic!("no status text: {}", page.body)).1;
    said.split('<').next().unwrap().to_owned()
}

/// Waits until `count` turns have ended, and returns the id of the last one.
async fn last_ended_turn(bot: &Program, count: usize) -> String {
    let ends = |bot: &Program| -> Vec<Value> {
        let log = bot.log().into_iter();
        log.filter(|line| line["message"] == "turn ended").collect()
    };
    bot.logs_where("the end of a turn", |_| ends(bot).len() >= count).await;
    ends(bot)[count - 1]["turn"].as_str().expect("the line has the turn's id").to_owned()
}

/// Loads a page until it meets a condition. The recording of a turn is completed after its answer.
async fn load_until(browser: &Browser, path: &str, wanted: impl Fn(&str) -> bool) -> Page {
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(100));
    let mut last = String::new();
    for _ in 0..300 {
        looks.tick().await;
        let page = browser.get(path).await;
        if wanted(&page.body) {
            return page;
        }
        last = page.body;
    }
    panic!("{path} never was as wanted: {last}");
}

#[tokio::test]
async fn turns_are_found_by_words_and_channels_that_the_user_may_see() {
    let local = LocalDiscord::start().await;
    let installation =
        with_dashboard(&local).with("ALLOWED_USERS", &format!("{ANN},{BOB},{OWNER}"));
    let mut lines = vec![
        turn_record("aaaa0001", CHANNEL, 50, "find the Needle"),
        turn_record("aaaa0002", DIRECT, 40, "a needle in private"),
        turn_record("aaaa0003", OTHER, 30, "hay"),
    ];
    lines[0]["how"] = json!({"failed": "timed-out"});
    lines.push(json!({"lane": "cron:nightly", "kind": "cron"}));
    let base = turn_record("aaaa0004", OTHER, 20, "needle at night");
    for (name, value) in base.as_object().unwrap() {
        if lines[3].get(name).is_none() {
            lines[3][name] = value.clone();
        }
    }
    write_records(&installation, &lines);
    let _bot = serving(&installation).await;
    local.faults().deny(CHANNEL, BOB, VIEW_CHANNEL);
    let ann = Browser::signed_in(&local, OTHER, ANN).await;
    let bob = Browser::signed_in(&local, OTHER, BOB).await;
    let owner = Browser::signed_in(&local, OTHER, OWNER).await;

    let all = ann.get("/turns").await;
    assert_eq!(listed_turns(&all), ["aaaa0003", "aaaa0002", "aaaa0001"]);
    for shown in ["find the Needle", "failed: timed-out", "1 min 5 s", "$0.2500", "#general"] {
        assert!(all.body.contains(shown), "{shown}: {}", all.body);
    }
    assert_eq!(listed_turns(&ann.get("/turns?q=NEEDLE%20find").await), ["aaaa0001"]);
    assert_eq!(listed_turns(&ann.get("/turns?q=needle").await), ["aaaa0002", "aaaa0001"]);
    let one = ann.get(&format!("/turns?in=channel%3A{OTHER}")).await;
    assert_eq!(listed_turns(&one), ["aaaa0003"]);
    assert!(one.body.contains("Only one channel is searched"), "{}", one.body);
    assert_eq!(listed_turns(&bob.get("/turns").await), ["aaaa0003"]);
    assert_eq!(listed_turns(&owner.get("/turns?q=needle").await), ["aaaa0004", "aaaa0001"]);
    let none = bob.get("/turns?q=needle").await;
    assert!(none.body.contains("There is no such turn, or you cannot see it."), "{}", none.body);
    for strange in ["/turns?before=never&in=nowhere", "/turns?q=%00%ff", "/turns?before="] {
        assert_eq!(ann.get(strange).await.status, 200, "{strange}");
    }
}

#[tokio::test]
async fn a_long_list_is_paginated_and_a_search_through_hidden_turns_ends() {
    let local = LocalDiscord::start().await;
    let installation =
        with_dashboard(&local).with("ALLOWED_USERS", &format!("{ANN},{BOB},{OWNER}"));
    let mut lines: Vec<Value> = (0..45)
        .map(|n| turn_record(&format!("bbbb{n:04}"), CHANNEL, n, &"a<b ".repeat(400)))
        .collect();
    // This turn is older than all those hidden from Bob.
    lines.push(turn_record("cccc0001", OTHER, 59, "far back"));
    write_records(&installation, &lines);
    let _bot = serving(&installation).await;
    local.faults().deny(CHANNEL, BOB, VIEW_CHANNEL);
    let ann = Browser::signed_in(&local, OTHER, ANN).await;
    let bob = Browser::signed_in(&local, OTHER, BOB).await;
    let (mut path, mut found) = ("/turns".to_owned(), Vec::new());
    loop {
        let page = ann.get(&path).await;
        found.extend(listed_turns(&page));
        let Some((before, _)) = page.body.split_once("\">Earlier turns") else { break };
        let next = before.rsplit_once("href=\"").unwrap().1.replace("&amp;", "&");
        assert_ne!(next, path);
        path = next;
    }
    let mut wanted: Vec<String> = (0..45).map(|n| format!("bbbb{n:04}")).collect();
    wanted.push("cccc0001".to_owned());
    assert_eq!(found, wanted);
    assert_eq!(listed_turns(&bob.get("/turns").await), ["cccc0001"]);
}

#[tokio::test]
async fn each_reader_sees_as_much_of_a_turn_as_they_may() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    write_records(
        &installation,
        &[
            turn_record("dddd0001", CHANNEL, 5, "do it"),
            turn_record("dddd0002", CHANNEL, 4, "next"),
        ],
    );
    write_recording(&installation, "dddd0001", "[ann]: do it", &entries_with_secrets());
    let _bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let bob = Browser::signed_in(&local, CHANNEL, BOB).await;
    let owner = Browser::signed_in(&local, CHANNEL, OWNER).await;

    let everybody = [
        "[ann]: do it",
        "I begin.",
        "I end.",
        "Edit src/lib.rs",
        "done, 20 ms",
        "leap",
        "in progress",
        "Run it?",
        "make all",
        "Denied: not today",
        "1 min 5 s",
        "1200 in, 34 out (6 of them reasoning), 5 cached",
        "$0.2500",
        "href=\"/turns/dddd0002\"",
        "small",
    ];
    let some = [
        "secretly thinking",
        "the input",
        "the output",
        "<ins>+new</ins>",
        "<del>-old</del>",
        "Exit code 0",
    ];
    for (reader, all) in [(&ann, true), (&bob, false), (&owner, true)] {
        let page = reader.get("/turns/dddd0001").await;
        assert_eq!(page.status, 200);
        for shown in everybody {
            assert!(page.body.contains(shown), "{shown}: {}", page.body);
        }
        for shown in some {
            assert_eq!(page.body.contains(shown), all, "{shown}: {}", page.body);
        }
        assert!(!page.body.contains("the system prompt"));
        let discord = format!("/{CHANNEL}/123\"");
        assert!(page.body.contains(&discord), "{}", page.body);
        for block in 0..9 {
            let part = reader.get(&format!("/turns/dddd0001/part/{block}")).await;
            for shown in some {
                assert!(all || !part.body.contains(shown), "{shown}: {}", part.body);
            }
        }
    }
    let machine = |page: &Page| page.body.contains("/turns/dddd0001/machine");
    assert!(machine(&owner.get("/turns/dddd0001").await));
    assert!(!machine(&ann.get("/turns/dddd0001").await));
    let thinking = "/turns/dddd0001/part/0";
    assert_eq!((ann.get(thinking).await.status, bob.get(thinking).await.status), (200, 404));
}

#[tokio::test]
async fn the_turns_of_the_demo_agent_are_shown_and_an_approver_sees_everything() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local).with("APPROVERS", &BOB.to_string());
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "think cats");
    local.wait_for_message(CHANNEL, |text| text.contains("Having thought")).await;
    let thought = format!("/turns/{}", last_ended_turn(&bot, 1).await);
    local.mention(CHANNEL, ANN, "tool make <all>");
    local.wait_for_message(CHANNEL, |text| text.ends_with("one did not.")).await;
    let used = format!("/turns/{}", last_ended_turn(&bot, 2).await);
    let bob = Browser::signed_in(&local, CHANNEL, BOB).await;
    let list = bob.get("/turns?q=cats").await;
    assert!(list.body.contains(&thought) && !list.body.contains(&used), "{}", list.body);
    let page = load_until(&bob, &thought, |page| page.contains("Having thought")).await;
    assert!(page.body.contains("I turn it around"), "{}", page.body);
    assert!(page.body.contains(&format!("href=\"{used}\"")), "{}", page.body);
    let page = load_until(&bob, &used, |page| page.contains("One tool worked")).await;
    for shown in ["shell make &lt;all&gt;", "(not really run)", "failed", "no such file"] {
        assert!(page.body.contains(shown), "{shown}: {}", page.body);
    }
    assert!(page.body.contains(&format!("href=\"{thought}\"")), "{}", page.body);
}

#[tokio::test]
async fn a_running_turn_grows_on_its_page_and_stays_there_when_it_has_ended() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let _bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.mention(OTHER, BOB, "slow 601");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.wait_for_message(OTHER, |text| text.contains("Second 1.")).await;
    let now = ann.get("/").await.body;
    let card = &now[now.find("slow 600").expect("it runs")..];
    let path = card.split("href=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(path.starts_with("/turns/"), "{path}");
    let page = ann.get(&path).await;
    assert!(page.body.contains("Second 1.") && page.body.contains("slow 600"), "{}", page.body);
    assert!(page.body.contains("?again"), "it works without the script");
    let again = ann.get(&format!("{path}?again")).await.body;
    assert!(again.contains("http-equiv=\"refresh\""), "{again}");
    let follow = page.body.split("data-live=\"").nth(1).unwrap().split('"').next().unwrap();
    let mut events = ann.follow_at(follow).await;
    events.wait("turn", |html| html.contains("Second 2.")).await;
    events.wait("turn", |html| html.contains("Second 3.")).await;

    local.answer_to(local.slash(CHANNEL, ANN, "stop", None)).await;
    loop {
        match events.next().await.expect("an event for the end of the turn") {
            (name, _) if name == "ended" => break,
            (name, data) => {
                assert!(name == "turn" && !data.to_string().contains("601"), "{name} {data}")
            }
        }
    }
    assert!(events.next().await.is_none(), "the stream has ended");
    let page = ann.get(&path).await;
    assert!(page.body.contains("stopped") && !page.body.contains("data-live"), "{}", page.body);
}

#[tokio::test]
async fn a_long_answer_is_split_into_small_pages_and_can_be_read_completely() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let long: String =
        (0..8_000).map(|n| format!("{n:05} <quick> & \"brown\" fox jumps\n")).collect();
    let mut entries = vec![text(&long)];
    for n in 0..40 {
        let id = format!("t{n}");
        entries.push(event(json!({"tool-start": {"id": id, "parent": null, "kind": "bash", "native-name": "Bash",
            "title": "", "target": "\"<&".repeat(100), "input": format!("{{\"command\":{:?}}}", "<".repeat(3_000))}})));
        entries.push(event(json!({"tool-end": {"id": id, "status": "failed", "output": "&".repeat(9_000), "exit-code": 1, "diffs": [
            {"path": "<".repeat(500), "old-text": "<\n".repeat(900), "new-text": ">\n".repeat(900), "unified": null}]}})));
    }
    entries.push(text("The very end."));
    write_records(&installation, &[turn_record("eeee0001", CHANNEL, 5, &"<&\"".repeat(600))]);
    write_recording(&installation, "eeee0001", &"<prompt>".repeat(9_000), &entries);
    let _bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;

    // `Browser` checks the size of each page.
    let (mut path, mut pages) = ("/turns/eeee0001".to_owned(), Vec::new());
    loop {
        let page = ann.get(&path).await;
        assert_eq!(page.status, 200, "{path}");
        let next = page.body.split_once("\">Later events");
        let next = next.map(|(before, _)| before.rsplit_once("href=\"").unwrap().1.to_owned());
        pages.push(page.body);
        match next {
            Some(next) => path = next,
            None => break,
        }
    }
    assert!(pages.len() > 3 && pages.last().unwrap().contains("The very end."), "{}", pages.len());
    let uses: usize = pages.iter().map(|page| page.matches("<summary>").count()).sum();
    assert_eq!(uses, 40, "every tool is shown once");

    let read = async |part: &str| {
        let mut whole = String::new();
        for number in 1.. {
            let page = ann.get(&format!("/turns/eeee0001/part/{part}?page={number}")).await;
            if page.status == 404 {
                break;
            }
            let text = page.body.split_once("<div class=\"words\" dir=\"auto\">").unwrap().1;
            whole.push_str(text.split_once("</div>").unwrap().0);
        }
        whole
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&amp;", "&")
    };
    assert_eq!(read("0").await, long);
    assert_eq!(read("prompt").await, "<prompt>".repeat(9_000));
}

#[tokio::test]
async fn gaps_in_a_recording_are_reported_and_without_one_the_record_is_shown() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let mut bare = turn_record("ffff0004", CHANNEL, 6, "x");
    for name in ["asked", "answered", "recording", "usage"] {
        bare.as_object_mut().unwrap().remove(name);
    }
    write_records(
        &installation,
        &[
            turn_record("ffff0001", CHANNEL, 9, "with gaps"),
            turn_record("ffff0002", CHANNEL, 8, "pruned prompt"),
            turn_record("ffff0003", CHANNEL, 7, "damaged"),
            bare,
        ],
    );
    let gaps = [
        json!({"host": "events are not written down any more: 8 MiB of them were; the inputs give them again"}),
        json!({"lost": 12}),
        text("what is there"),
        json!({"cut": "no room"}),
    ];
    write_recording(&installation, "ffff0001", "x", &gaps);
    let damaged = installation.path("recordings/2026-11-23/ffff0003.jsonl");
    fs::write(damaged, "\u{0}\u{1}\n{").unwrap();
    let _bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let page = ann.get("/turns/ffff0001").await.body;
    for shown in [
        "not all of it was recorded",
        "The disk was too slow for 12 lines of the recording.",
        "was cut: no room",
        "what is there",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let page = ann.get("/turns/ffff0002").await.body;
    for shown in ["its recording is gone", "pruned prompt", "answer to pruned prompt", "$0.2500"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(!page.contains("Make a read-only link"), "there is nothing to share");
    assert!(ann.get("/turns/ffff0003").await.body.contains("its recording is damaged"));
    let page = ann.get("/turns/ffff0004").await.body;
    assert!(
        page.contains("its recording is gone") && page.contains("not reported by the agent"),
        "{page}"
    );
}
