//! Tests of versions that serve some lanes before they are promoted.

use std::collections::BTreeSet;
use std::num::{NonZeroU8, NonZeroU32};

use aetheel_model::event::{Lane, NewEvent};
use aetheel_model::id::ChannelId;
use aetheel_model::rollout::Rollout;
use aetheel_store::workspace::{RolloutNote, RolloutState};
use tempfile::TempDir;

use super::scene::{Scene, person, trapping, version};
use crate::support::scripted::message;

fn canary(percent: u8, turns: u32) -> Rollout {
    Rollout::Canary {
        percent: NonZeroU8::new(percent).unwrap(),
        turns: NonZeroU32::new(turns).unwrap(),
    }
}

/// Returns the channels in which the new version answers. Only it reads `secret`.
async fn served(scene: &mut Scene, channels: std::ops::Range<u64>) -> BTreeSet<u64> {
    let mut served = BTreeSet::new();
    for channel in channels {
        if scene.answer_in(channel, "text secret;done").await == "secret" {
            served.insert(channel);
        }
    }
    served
}

#[tokio::test]
async fn a_lane_stays_with_its_version_also_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let mut all = Vec::new();
    for _ in 0..2 {
        let (serving, successor) = (version(true, 1, "a"), version(false, 2, "b"));
        let mut scene =
            Scene::with(folder.path(), canary(50, 1_000), serving, Some(successor), None).await;
        all.push(served(&mut scene, 1..21).await);
        all.push(served(&mut scene, 1..21).await);
        scene.end().await;
    }
    assert!((1..20).contains(&all[0].len()), "a part of the lanes: {all:?}");
    assert!(all.iter().all(|served| *served == all[0]), "{all:?}");
}

#[tokio::test]
async fn turns_count_across_a_restart_until_the_version_is_promoted() {
    let folder = TempDir::new().unwrap();
    let scene = async || Scene::new(folder.path(), canary(100, 3), version(false, 2, "b")).await;
    let mut first = scene().await;
    for turn in 1..=2 {
        assert_eq!(first.answer("text Hello;done").await, "Hello");
        Scene::counts(folder.path(), turn).await;
    }
    assert_eq!(first.promoted(), Vec::<String>::new());
    first.end().await;
    let mut second = scene().await;
    second.dispatcher.rollouts.follow().await;
    second.answer("text Hello;done").await;
    let told = second.notice(1).await.text;
    assert!(told.contains("of **scripted** serves now: it served 3 turns"), "{told}");
    assert_eq!(second.promoted(), ["b".repeat(64)]);
}

#[tokio::test]
async fn a_version_that_begins_to_fail_is_withdrawn_and_the_lost_reply_is_delivered() {
    let folder = TempDir::new().unwrap();
    let mut scene = Scene::new(folder.path(), canary(100, 1_000), trapping("b")).await;
    scene.dispatcher.rollouts.follow().await;
    for turn in 1..=10 {
        assert_eq!(scene.answer("text Hello;done").await, "Hello");
        Scene::counts(folder.path(), turn).await;
    }
    assert_eq!(scene.answer("text trap;done").await, "", "the new version fails");
    assert_eq!(scene.next_answer(7).await, "trap", "the serving version reads the recording");
    let told = scene.notice(2).await.text;
    assert!(told.contains("was withdrawn, because it read a turn worse"), "{told}");
    assert_eq!(scene.withdrawn(), ["b".repeat(64)]);
    Scene::noted(folder.path(), |note| note.is_none()).await;
    assert_eq!(scene.answer("text trap;done").await, "trap", "the serving version serves again");
    let lost = std::fs::read_to_string(folder.path().join("config/state/lost.md")).unwrap();
    assert!(lost.contains("delivered") && !lost.contains(" lost "), "{lost}");
}

#[tokio::test]
async fn a_version_that_reads_an_answer_wrongly_is_withdrawn() {
    let folder = TempDir::new().unwrap();
    let section = |name: &str, digest: &str| {
        let (digest, from) = (digest.repeat(64), format!("oci://registry.example/{name}:1"));
        format!("## {name}.wasm\n\n- from: {from}@sha256:{digest}\n- sha256: {digest}\n")
    };
    let lock = folder.path().join("config/backends.lock.md");
    std::fs::create_dir_all(folder.path().join("config")).unwrap();
    std::fs::write(&lock, section("other", "c") + "\n" + &section("scripted", "b")).unwrap();
    let mut scene = Scene::new(folder.path(), canary(100, 1_000), version(true, 2, "b")).await;
    scene.answer("text secret;done").await;
    let told = scene.notice(1).await.text;
    assert!(told.contains("answer is missing: secret"), "{told}");
    assert_eq!(scene.withdrawn(), ["b".repeat(64)]);
    Scene::noted(folder.path(), |note| note.is_none()).await;
    let locked = std::fs::read_to_string(lock).unwrap();
    assert!(locked.contains("## other.wasm") && !locked.contains("scripted"), "{locked}");
}

#[tokio::test]
async fn turns_of_the_other_lanes_are_compared_too() {
    let folder = TempDir::new().unwrap();
    let mut scene = Scene::new(folder.path(), canary(1, 1_000), version(true, 2, "b")).await;
    let mut asked = 0;
    // At least one of these lanes is not served by the new version.
    for channel in 1..=3 {
        let answer = scene.answer_in(channel, "text secret;done").await;
        asked += 1;
        if answer == "secret" {
            break;
        }
    }
    assert!(asked < 3, "the serving version serves almost all lanes");
    assert!(scene.notice(1).await.text.contains("was withdrawn"));
}

/// Writes the note of a rollout of the component `b`, as a previous process left it.
async fn left(folder: &TempDir, state: RolloutState) {
    let workspace =
        aetheel_store::workspace::Workspace::open(&folder.path().join("config")).await.unwrap();
    let note = RolloutNote { state, ..RolloutNote::new("scripted", &"b".repeat(64)) };
    workspace.state.rollouts.save(note).await.unwrap();
}

#[tokio::test]
async fn a_process_killed_between_the_verdict_and_the_withdrawal_is_completed() {
    let folder = TempDir::new().unwrap();
    // The bad version served, lost a reply, and the process died after it had saved the verdict, or
    // before that.
    for state in [RolloutState::Stopped, RolloutState::Running] {
        let folder = TempDir::new_in(folder.path()).unwrap();
        let mut scene = Scene::with(folder.path(), Rollout::Now, trapping("b"), None, None).await;
        assert_eq!(scene.answer("text trap;done").await, "");
        scene.end().await;
        left(&folder, state).await;

        let mut scene = Scene::new(folder.path(), canary(100, 1_000), trapping("b")).await;
        scene.dispatcher.rollouts.follow().await;
        assert_eq!(scene.next_answer(7).await, "trap", "{state:?}");
        assert!(scene.notice(1).await.text.contains("was withdrawn"), "{state:?}");
        assert_eq!(scene.withdrawn(), ["b".repeat(64)], "{state:?}");
        Scene::noted(folder.path(), |note| note.is_none()).await;
    }
}

#[tokio::test]
async fn a_stopped_version_serves_nobody_even_if_it_cannot_be_withdrawn_yet() {
    let folder = TempDir::new().unwrap();
    left(&folder, RolloutState::Stopped).await;
    let (serving, successor) = (version(true, 1, "a"), version(false, 2, "b"));
    let mut scene =
        Scene::with(folder.path(), canary(100, 1_000), serving, Some(successor), None).await;
    assert_eq!(served(&mut scene, 1..6).await, BTreeSet::new());
}

#[tokio::test]
async fn chosen_channels_and_their_threads_use_the_new_version_until_an_owner_decides() {
    let folder = TempDir::new().unwrap();
    let (serving, successor) = (version(true, 1, "a"), version(false, 2, "b"));
    let rollout = Rollout::Channels(vec![ChannelId::discord(3)]);
    let mut scene = Scene::with(folder.path(), rollout, serving, Some(successor), None).await;
    scene.dispatcher.rollouts.follow().await;
    let notice = scene.notice(1).await;
    assert!(
        notice.text.contains("it serves in <#3> until my owner promotes it"),
        "{}",
        notice.text
    );
    assert_eq!(served(&mut scene, 1..6).await, BTreeSet::from([3]));
    let thread = Lane::Channel(ChannelId::discord(30));
    let event = NewEvent { parent: Some(ChannelId::discord(3)), ..message(30, "text secret;done") };
    assert_eq!(event.lane, thread);
    scene.dispatcher.intake.submit(event).unwrap();
    assert_eq!(scene.next_answer(30).await, "secret", "a thread of the channel");
    for _ in 0..5 {
        scene.answer_in(3, "text secret;done").await;
    }
    let note = Scene::noted(folder.path(), |note| note.is_some_and(|note| note.served == 7)).await;
    assert_eq!(note.map(|note| note.compared), Some(7), "turns elsewhere are not compared");
    assert_eq!(scene.promoted(), Vec::<String>::new(), "it never promotes itself");
    let pressed = scene.dispatcher.rollouts.press(&notice.offers[1].id, &person(true)).await;
    assert!(matches!(pressed, Some(Ok(_))), "{pressed:?}");
    assert_eq!(served(&mut scene, 1..6).await, BTreeSet::new());
}

#[tokio::test]
async fn turns_that_run_while_their_version_is_promoted_end_on_it() {
    let folder = TempDir::new().unwrap();
    let scene = Scene::new(folder.path(), canary(100, 1), version(false, 2, "b")).await;
    for channel in 1..=4 {
        scene.dispatcher.intake.submit(message(channel, "text Hello;done")).unwrap();
    }
    let answers = scene.collected.answers(4).await;
    assert!(answers.iter().all(|(_, answer)| answer.text == "Hello"), "{answers:?}");
    assert!(scene.notice(1).await.text.contains("serves now"));
    assert_eq!(scene.promoted(), ["b".repeat(64)], "it is promoted once");
    assert_eq!(scene.withdrawn(), Vec::<String>::new());
}
