//! Tests of claims, of the question before a write, and of muted warnings.

use std::os::unix::fs::symlink;
use std::sync::Arc;

use aetheel_dispatch::{
    ClaimAuthor, ClaimOrder, Dispatcher, Notice, OfferEffect, OfferRefusal, Person,
};
use aetheel_model::agent::{
    Action, AskDecision, Chunk, Exit, HostCommand, Input, ToolRequest, Write,
};
use aetheel_model::event::{EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::id::{ChannelId, UserId};
use aetheel_model::policy::{PolicyEffect, PolicyRequest};
use aetheel_turn::ProcessCommand;
use tokio::sync::watch;

use super::collisions::{CHANNELS, Office, channel_of, working};
use super::outlive::{Gateway, Setup, recording};
use super::planning;
use crate::support::policies::ScriptedPolicy;
use crate::support::scripted::{
    Agent, DeskOptions, OneBackend, ScriptedBackend, ScriptedLauncher, Understanding, message,
};
use crate::support::shelf::Shelf;

/// Understands tools, `ask KIND PATH`, and `claim INPUT`, and writes results to the agent as lines.
fn understanding() -> Understanding {
    let (working, asking) = (working(), planning::asking());
    let to_agent = |text: &str| {
        let body = vec![Chunk::Text(format!("{text}\n"))];
        Ok(vec![Action::Write(Write { proc: 1, body })])
    };
    Arc::new(move |state, input| match input {
        Input::Line(line) if line.text.starts_with("claim ") => {
            Ok(vec![Action::ToolRequest(ToolRequest {
                call: 5,
                session: 1,
                turn: 1,
                name: "aetheel_claim".to_owned(),
                input: line.text["claim ".len()..].to_owned(),
            })])
        }
        Input::ToolResult(result) if result.failed => to_agent(&format!("failed: {}", result.text)),
        Input::ToolResult(result) => to_agent(&result.text.replace('\n', " / ")),
        Input::Line(line) if line.text.starts_with("ask ") => asking(state, input),
        Input::Command(HostCommand::Answer(_)) => asking(state, input),
        _ => working(state, input),
    })
}

/// An agent that prints the lines of its prompt. It waits for the results of `ask` and `claim`, and
/// repeats them. After a denied `ask` it skips the next line.
pub(super) fn agent() -> Arc<ScriptedLauncher> {
    ScriptedLauncher::new(|mut agent: Agent| async move {
        let prompt = agent.prompt.trim_start_matches("[Ann]: ").to_owned();
        let mut lines = prompt.lines();
        while let Some(line) = lines.next() {
            agent.say(&[line]).await;
            if !line.starts_with("ask ") && !line.starts_with("claim ") {
                continue;
            }
            let Some(ProcessCommand::Write(bytes)) = agent.commands.recv().await else { return };
            let told = String::from_utf8(bytes).unwrap();
            agent.say(&[&format!("text {}; ", told.trim())]).await;
            if told.contains("deny") {
                lines.next();
            }
        }
        agent.say(&["text ok", "done"]).await;
        agent.exit(Exit::Code(0), "").await;
    })
}

pub(super) fn options() -> DeskOptions {
    DeskOptions {
        understanding: understanding(),
        feature: Some("host-tools"),
        ..DeskOptions::default()
    }
}

async fn office() -> Office {
    Office::with(agent(), options()).await
}

/// An office in which people of channel 2 are asked.
async fn asking_office(options: DeskOptions) -> Office {
    let office = Office::with(agent(), options).await;
    let path = office.desk.folder.path().join("config/channels.md");
    let asks = CHANNELS.replace("## channel 2\n", "## channel 2\n- collisions: ask\n");
    std::fs::write(path, asks).unwrap();
    office
}

/// A person who uses the bot in a channel.
fn somebody(channel: u64) -> ClaimAuthor {
    ClaimAuthor { lane: lane(channel), person: None, name: None }
}

fn lane(channel: u64) -> Lane {
    Lane::Channel(ChannelId::discord(channel))
}

fn person(id: u64, owner: bool) -> Person {
    let id = UserId::discord(id);
    Person::User { id, roles: vec![], owner, name: "Bob".to_owned() }
}

/// Reserves paths for a person in a channel.
async fn claim(
    dispatcher: &Dispatcher,
    channel: u64,
    id: u64,
    paths: &str,
) -> Result<String, String> {
    let (person, name) = (Some(UserId::discord(id)), Some("Cleo".to_owned()));
    let author = ClaimAuthor { lane: lane(channel), person, name };
    let reason = Some("a release".to_owned());
    let order = ClaimOrder { paths: paths.to_owned(), time: Some("30m".to_owned()), reason };
    dispatcher.claims.take(author, order).await.map_err(|error| error.to_string())
}

/// Returns the id of the only claim.
fn id_of(office: &Office) -> String {
    let [claim] = &office.desk.dispatcher.claims.all()[..] else { panic!("one claim") };
    claim.id.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_at_the_console_cannot_release_a_claim_of_the_person_there() {
    let office = office().await;
    let dispatcher = &office.desk.dispatcher;
    let author = ClaimAuthor { lane: Lane::Console, person: None, name: None };
    let order = ClaimOrder { paths: "mine.rs".to_owned(), time: None, reason: None };
    dispatcher.claims.take(author.clone(), order).await.unwrap();
    let list = dispatcher.claims.list(&Lane::Console).await.unwrap();
    assert!(list.contains("by the person at the console"), "{list}");
    let release = r#"claim {"action":"release","paths":["mine.rs"]}"#;
    let event = NewEvent::new(EventKind::Message, Lane::Console, EventOrigin::Console, release);
    dispatcher.intake.submit(event).unwrap();
    let (_, answer) = office.desk.collected.answers(1).await.remove(0);
    assert!(answer.text.contains("You hold no such claim"), "{}", answer.text);
    assert_eq!(dispatcher.claims.all().len(), 1);
    let released = dispatcher.claims.release(&author, &id_of(&office), true).await;
    assert!(released.is_ok(), "{released:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_write_into_a_claim_of_another_conversation_is_found() {
    let claims = [r#"["a.rs"]"#, r#"["x","*.rs"]"#, r#"["./link.rs"]"#, r#"["ROOTone/a.rs"]"#];
    let writes = [
        "tool file_write ROOTone/a.rs",
        "tool file_edit ./a.rs",
        "tool file_write link.rs",
        "change a.rs",
        "rename a.rs d.txt",
    ];
    for claimed in claims {
        for write in writes {
            let mut office = office().await;
            let told = office.turn(1, &format!(r#"claim {{"paths":{claimed}}}"#)).await;
            assert!(told.starts_with("Reserved for "), "{told}");
            office.turn(2, write).await;
            let warnings = office.warnings().await;
            let here = "reserved here by an agent for Ann for 60 minutes, changed in <#2> for Ann";
            let there =
                "changed here just now, reserved by an agent for Ann in <#1> for 60 minutes";
            let [(1, one), (2, two)] = &warnings[..] else {
                panic!("{claimed} {write} {warnings:?}")
            };
            let minute_later = |text: &str| text.replace("59 minutes", "60 minutes");
            assert!(minute_later(one).contains(here), "{claimed} {write}: {one}");
            assert!(minute_later(two).contains(there), "{claimed} {write}: {two}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_warned_about_claims_without_a_write_into_them() {
    let claimed = r#"claim {"paths":["a.rs"]}"#;
    let write = "tool file_write a.rs";
    let released = "claim {\"paths\":[\"a.rs\"]}\nclaim {\"action\":\"release\"}";
    let quiet = [
        // Other checkouts, also one inside the other.
        ((1, claimed), (11, write)),
        ((11, claimed), (1, write)),
        ((1, claimed), (21, write)),
        ((21, claimed), (1, write)),
        ((11, claimed), (21, "tool file_edit a.rs")),
        ((1, r#"claim {"paths":["*.rs"]}"#), (11, "change b.rs")),
        // A link into another checkout.
        ((1, claimed), (21, "tool file_write shared.rs")),
        // Other files.
        ((1, claimed), (2, "tool file_write b.rs")),
        ((1, r#"claim {"paths":["*.md","src"]}"#), (2, write)),
        ((1, r#"claim {"paths":["a.r"]}"#), (2, write)),
        // Reads, tools that failed, and tools without a file.
        ((1, claimed), (2, "tool file_read a.rs")),
        ((1, claimed), (2, "failed file_write a.rs")),
        ((1, claimed), (2, "tool bash a.rs")),
        ((1, claimed), (2, "tool file_search a.rs")),
        // The holder.
        ((1, claimed), (1, write)),
        // Claims that were released or refused.
        ((1, released), (2, write)),
        ((1, r#"claim {"paths":["**"]}"#), (2, write)),
        ((1, r#"claim {"paths":["../one/a.rs"]}"#), (2, write)),
        ((1, r#"claim {"paths":["a.rs"],"minutes":0}"#), (2, write)),
        ((1, r#"claim {"action":"list"}"#), (2, write)),
    ];
    for (one, other) in quiet {
        let mut office = office().await;
        office.turn(one.0, one.1).await;
        office.turn(other.0, other.1).await;
        assert_eq!(office.warnings().await, [], "{one:?}, {other:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_cannot_reserve_everything_or_files_elsewhere() {
    let mut office = office().await;
    let root = office.path("one");
    symlink("..", format!("{root}/up")).unwrap();
    symlink(".", format!("{root}/self")).unwrap();
    let many = serde_json::json!({"paths": vec!["x"; 10_000]}).to_string();
    let mut inputs = vec![many];
    for path in ["**", "*", "/", "..", ".", "", "up/two", "self", "/etc", "**/a.rs", "a/../../two"]
    {
        inputs.push(serde_json::json!({"paths": [path]}).to_string());
    }
    inputs.push(serde_json::json!({"paths": ["x".repeat(100_000)]}).to_string());
    inputs.push(r#"{"paths":["a.rs"],"minutes":4294967295}"#.to_owned());
    for input in inputs {
        let told = office.turn(1, &format!("claim {input}")).await;
        assert!(told.starts_with("failed: "), "{input:.80}: {told}");
    }
    assert!(office.desk.dispatcher.claims.all().is_empty());
    // The number of claims is limited, and none is lost.
    for number in 0..12 {
        office.turn(1, &format!(r#"claim {{"paths":["f{number}"]}}"#)).await;
    }
    assert_eq!(office.desk.dispatcher.claims.all().len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_learns_who_holds_a_file_and_renews_and_releases_its_own() {
    let mut office = office().await;
    office.turn(1, r#"claim {"paths":["a.rs"],"reason":"a release"}"#).await;
    let told = office.turn(2, r#"claim {"paths":["*.rs"]}"#).await;
    let held = "failed: Nothing was changed: `a.rs` is reserved by an agent for Ann, for ";
    assert!(told.starts_with(held), "{told}");
    let told = office.turn(2, r#"claim {"action":"release"}"#).await;
    assert!(told.starts_with("You hold no such claim"), "{told}");
    let told = office.turn(2, r#"claim {"action":"renew"}"#).await;
    assert!(told.starts_with("failed: Nothing was changed: there is no such claim"), "{told}");
    let listed = office.turn(2, r#"claim {"action":"list"}"#).await;
    assert!(listed.contains("a.rs (by an agent for Ann, in another conversation"), "{listed}");
    let told = office.turn(1, r#"claim {"action":"renew","minutes":300}"#).await;
    assert!(told.starts_with("Reserved for "), "{told}");
    let left = office.desk.dispatcher.claims.all()[0].left(jiff::Timestamp::now());
    assert!(["5 hours", "4 hours"].contains(&left.as_str()), "{left}");
    let told = office.turn(1, r#"claim {"action":"release","paths":["a.rs"]}"#).await;
    assert!(told.starts_with("Released 1 claim: a.rs."), "{told}");
    let told = office.turn(2, r#"claim {"paths":["*.rs"]}"#).await;
    assert!(told.starts_with("Reserved for "), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_a_person_admits_only_turns_of_that_person() {
    let mut office = office().await;
    claim(&office.desk.dispatcher, 1, 4, "a.rs").await.unwrap();
    office.turn_of(2, Some(4), "tool file_write a.rs").await;
    assert_eq!(office.warnings().await, []);
    office.turn_of(1, Some(5), "tool file_write a.rs").await;
    let warnings = office.warnings().await;
    // The use in channel 2 collides, too.
    let claimed: Vec<_> =
        warnings.iter().filter(|(_, line)| line.contains("reserved by Cleo")).collect();
    let [(1, line)] = &claimed[..] else { panic!("{warnings:?}") };
    assert!(line.ends_with(" (a release)"), "{line}");
    let status = office.desk.dispatcher.observer.lane_status(&lane(2)).await.claims;
    let [line] = &status[..] else { panic!("{status:?}") };
    assert!(line.starts_with("a.rs (by Cleo, in another conversation, "), "{line}");
    assert!(office.desk.dispatcher.observer.lane_status(&lane(11)).await.claims.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_people_of_the_channel_and_owners_release_a_claim() {
    let office = office().await;
    let desk = &office.desk.dispatcher.claims;
    claim(&office.desk.dispatcher, 1, 4, "a.rs").await.unwrap();
    let id = id_of(&office);
    let refused = desk.release(&somebody(2), &id, false).await.unwrap_err().to_string();
    assert!(refused.contains("another conversation"), "{refused}");
    let refused = desk.release(&somebody(2), "all", false).await.unwrap_err().to_string();
    assert!(refused.contains("no such claim"), "{refused}");
    assert_eq!(desk.all().len(), 1);
    assert_eq!(desk.release(&somebody(1), &id, false).await.unwrap(), "Released 1 claim: a.rs.");
    claim(&office.desk.dispatcher, 1, 4, "a.rs").await.unwrap();
    desk.release(&somebody(2), &id_of(&office), true).await.unwrap();
    assert!(desk.all().is_empty());
}

/// Answers the next question, and returns its note and the labels of its choices.
async fn answer(office: &Office, number: usize, decision: AskDecision) -> (String, Vec<String>) {
    let question = office.desk.collected.questions(number).await.remove(number - 1);
    let note = question.collision_note().unwrap_or_default();
    let labels = question.choices().into_iter().map(|(_, label, _)| label).collect();
    office.desk.dispatcher.questions.answer(&question.id, &planning::ann(), decision).unwrap();
    (note, labels)
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_asked_before_an_agent_writes_a_file_of_another_conversation() {
    let firsts = [
        ("tool file_read a.rs", "`a.rs` was read in <#1> for Ann just now."),
        ("tool file_write a.rs", "`a.rs` was changed in <#1> for Ann just now."),
        ("change a.rs", "`a.rs` was changed in <#1> for Ann just now."),
        (r#"claim {"paths":["*.rs"]}"#, "`a.rs` was reserved by an agent for Ann in <#1> for "),
    ];
    let asks = ["ask file_write a.rs", "ask file_edit ./link.rs", "ask file_write ROOTone/a.rs"];
    for (first, said) in firsts {
        for ask in asks {
            // A policy that allows everything does not prevent the question.
            let policies =
                Arc::new(ScriptedPolicy(|_: &PolicyRequest| (PolicyEffect::Allow, "why not")));
            let mut office = asking_office(DeskOptions { policies, ..options() }).await;
            office.turn(1, first).await;
            office.begin(2, Some(4), &format!("{ask}\ntool file_write a.rs"));
            let (note, labels) = answer(&office, 1, AskDecision::Deny(None)).await;
            assert!(note.contains(said), "{first}, {ask}: {note}");
            let wanted = ["Write anyway", "Deny; `deny WHY` says why", "Deny and stop"];
            assert_eq!(labels, wanted);
            office.end_turn().await;
            assert_eq!(office.warnings().await, [], "{first}, {ask}: nothing was written");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn people_who_let_the_agent_write_anyway_are_asked_once_and_warned() {
    let mut office = asking_office(options()).await;
    office.turn(1, "tool file_write a.rs").await;
    let both = "ask file_write a.rs\ntool file_write a.rs";
    office.begin(2, Some(4), both);
    let (note, _) = answer(&office, 1, AskDecision::AllowOnce).await;
    assert!(!note.is_empty());
    office.end_turn().await;
    let channels: Vec<u64> = office.warnings().await.into_iter().map(|(of, _)| of).collect();
    assert_eq!(channels, [1, 2]);
    // The agent asks for permission as it did before, but there is no new collision.
    office.begin(2, Some(4), both);
    assert_eq!(answer(&office, 2, AskDecision::AllowOnce).await.0, "");
    office.end_turn().await;
    office.turn(1, "tool file_write a.rs").await;
    office.begin(2, Some(4), both);
    assert_ne!(answer(&office, 3, AskDecision::AllowOnce).await.0, "");
    office.end_turn().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_not_asked_about_collisions_without_one() {
    let write = "tool file_write a.rs";
    for (first, ask) in [
        // Other checkouts and other files.
        ((11, write), (2, "ask file_write a.rs")),
        ((21, write), (2, "ask file_write a.rs")),
        ((1, write), (2, "ask file_write b.rs")),
        ((11, r#"claim {"paths":["a.rs"]}"#), (2, "ask file_write a.rs")),
        // Reads and commands.
        ((1, write), (2, "ask file_read a.rs")),
        ((1, write), (2, "ask bash a.rs")),
        // The own files and claims.
        ((2, write), (2, "ask file_write a.rs")),
        ((2, r#"claim {"paths":["a.rs"]}"#), (2, "ask file_write a.rs")),
        // Channels with warnings only.
        ((1, write), (3, "ask file_write a.rs")),
        ((2, write), (1, "ask file_write a.rs")),
    ] {
        let policies =
            Arc::new(ScriptedPolicy(|_: &PolicyRequest| (PolicyEffect::Allow, "why not")));
        let mut office = asking_office(DeskOptions { policies, ..options() }).await;
        office.turn(first.0, first.1).await;
        let told = office.turn(ask.0, ask.1).await;
        assert!(told.contains("allow-once"), "{first:?}, {ask:?}: {told}");
    }
}

/// Returns the warnings of a channel, at least `count`.
async fn warnings_in(office: &Office, channel: u64, count: usize) -> Vec<Notice> {
    let mut known = 0;
    loop {
        let mut notices = office.desk.collected.notices(known + 1).await;
        known = notices.len();
        notices.retain(|notice| channel_of(notice) == channel);
        if notices.len() >= count {
            return notices;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_button_mutes_one_file_and_pair_in_one_channel() {
    let mut office = office().await;
    office.turn(1, "tool file_write a.rs").await;
    office.turn(2, "tool file_write a.rs").await;
    let offers = warnings_in(&office, 2, 1).await.remove(0).offers;
    let labels: Vec<&str> = offers.iter().map(|offer| offer.label.as_str()).collect();
    assert_eq!(labels, ["Mute a.rs", "Mute all here"]);
    let mutes = office.desk.dispatcher.mutes.clone();
    let here = |channel| Some(ChannelId::discord(channel));
    // A person of another channel, and one who may not use the bot there.
    for channel in [None, here(1), here(3)] {
        for offer in &offers {
            let pressed = mutes.press(&offer.id, &person(5, false), channel).await;
            assert_eq!(pressed, Some(Err(OfferRefusal::NotHere)));
        }
    }
    let state = office.desk.folder.path().join("config/state/collisions.md");
    assert!(!state.exists(), "nothing was muted");
    let pressed = mutes.press(&offers[0].id, &person(5, false), here(2)).await;
    let muted = "🔇 Warnings about this file were muted here by";
    assert_eq!(pressed, Some(Ok(OfferEffect::Decided(muted))));
    assert!(std::fs::read_to_string(&state).unwrap().contains("- `channel:2` muted `"));
    // The same file with another conversation, and another file with the same one.
    office.turn(3, "tool file_write a.rs").await;
    office.turn(1, "tool file_write b.rs").await;
    office.turn(2, "tool file_write b.rs").await;
    let mut lines: Vec<String> = office
        .warnings()
        .await
        .into_iter()
        .filter(|(of, _)| *of == 2)
        .map(|(_, line)| line)
        .collect();
    lines.sort();
    assert_eq!(lines.len(), 3, "{lines:?}");
    let all = offers[1].id.clone();
    let pressed = mutes.press(&all, &person(5, false), here(2)).await;
    let muted = "🔇 All warnings about files were muted here by";
    assert_eq!(pressed, Some(Ok(OfferEffect::Decided(muted))));
    office.turn(1, "tool file_write c.rs").await;
    office.turn(2, "tool file_write c.rs").await;
    let warnings = office.warnings().await;
    let of_c: Vec<u64> =
        warnings.iter().filter(|(_, line)| line.contains("`c.rs`")).map(|(of, _)| *of).collect();
    assert_eq!(of_c, [1]);
}

#[test]
fn a_claim_is_taken_once_and_stays_in_force_wherever_the_gateway_dies() {
    let folder = tempfile::tempdir().unwrap();
    let (leave, given) = watch::channel(false);
    let launcher = ScriptedLauncher::new(move |mut agent: Agent| {
        let mut given = given.clone();
        async move {
            agent.say(&["session s1"]).await;
            if agent.prompt == "first" {
                agent.say(&[r#"claim {"paths":["a.rs"]}"#]).await;
                let Some(ProcessCommand::Write(_)) = agent.commands.recv().await else { return };
                agent.say(&["text claimed"]).await;
                let _ = given.wait_for(|given| *given).await;
            } else {
                agent.say(&["tool file_write a.rs", "tool file_write b.rs"]).await;
            }
            agent.say(&["done"]).await;
            agent.exit(Exit::Code(0), "").await;
        }
    });
    let shelf = Shelf::new(launcher);
    let setup = || {
        let backend = ScriptedBackend::with_feature(understanding(), Some("host-tools"));
        Setup::with(Arc::new(OneBackend(Arc::new(backend))))
    };
    let first = Gateway::begin(folder.path(), &shelf, setup());
    for name in ["a.rs", "b.rs"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    first.ask("first");
    first.wait_for_text("claimed");
    first.die();
    let (path, queue) = (recording(folder.path()), folder.path().join("config/state/queue.md"));
    let (whole, state) = (std::fs::read(&path).unwrap(), std::fs::read(&queue).unwrap());
    let text = String::from_utf8(whole.clone()).unwrap();
    // The gateway dies before the result is recorded, and after it.
    let result = text[..text.find("tool-result").unwrap()].rfind('\n').unwrap() + 1;
    for cut in [result, result + text[result..].find('\n').unwrap() + 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        std::fs::write(&queue, &state).unwrap();
        shelf.forget_recorded();
        shelf.make_folders();
        let second = Gateway::begin(folder.path(), &shelf.copy(), setup());
        second.wait_until("one claim", || second.dispatcher.claims.all().len() == 1);
        second
            .runtime
            .block_on(async { second.dispatcher.intake.submit(message(8, "second")) })
            .unwrap();
        let notices = second.runtime.block_on(second.collected.notices(2));
        let mut channels: Vec<u64> = notices.iter().map(channel_of).collect();
        channels.sort_unstable();
        assert_eq!(channels, [7, 8]);
        assert!(notices.iter().all(|notice| notice.text.contains("`a.rs`")), "{notices:?}");
        assert!(notices.iter().all(|notice| !notice.text.contains("`b.rs`")), "{notices:?}");
        second.runtime.block_on(async {
            second.dispatcher.claims.release(&somebody(7), "none", false).await.unwrap_err();
        });
        second.die();
    }
    leave.send_replace(true);
}
