//! Tests of the notices about a rollout, and of the owners' decisions.

use std::num::NonZeroU32;

use aetheel_dispatch::{OfferEffect, OfferRefusal};
use aetheel_model::rollout::Rollout;
use aetheel_store::workspace::{RolloutNote, StateFile};
use tempfile::TempDir;

use super::scene::{Scene, person, version};

const SHADOW: Rollout = Rollout::Shadow(NonZeroU32::new(3).unwrap());

#[tokio::test]
async fn an_owner_promotes_a_version_with_a_button_once() {
    let folder = TempDir::new().unwrap();
    let scene = Scene::new(folder.path(), SHADOW, version(false, 1, "b")).await;
    let rollouts = &scene.dispatcher.rollouts;
    rollouts.follow().await;
    let notice = scene.notice(1).await;
    assert!(
        notice
            .text
            .contains("(`bbbbbbbbbbbb`) of **scripted** is on rollout: it reads the next 3 turns"),
        "{}",
        notice.text
    );
    let [promote, withdraw] = &notice.offers[..] else { panic!("{notice:?}") };
    assert_eq!((&*promote.label, &*withdraw.label), ("Promote", "Withdraw"));
    for offer in [promote, withdraw] {
        let pressed = rollouts.press(&offer.id, &person(false)).await;
        assert_eq!(pressed, Some(Err(OfferRefusal::NotOwner)), "a member decides nothing");
    }
    assert_eq!((scene.promoted(), scene.withdrawn()), (vec![], vec![]));
    let owner = person(true);
    let (first, second) =
        tokio::join!(rollouts.press(&promote.id, &owner), rollouts.press(&promote.id, &owner));
    let effects: Vec<_> = [&first, &second].into_iter().flatten().filter(|it| it.is_ok()).collect();
    assert_eq!(effects, [&Ok(OfferEffect::Decided("✅ Promoted by"))], "{first:?} {second:?}");
    assert_eq!(scene.promoted(), ["b".repeat(64)]);
    assert_eq!(rollouts.press(&withdraw.id, &person(true)).await, None, "it is not on rollout");
    assert_eq!(scene.withdrawn(), Vec::<String>::new());
    assert_eq!(Scene::noted(folder.path(), |note| note.is_none()).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_that_was_decided_at_once_is_not_saved_again() {
    let folder = TempDir::new().unwrap();
    let scene = Scene::new(folder.path(), SHADOW, version(false, 1, "b")).await;
    let rollouts = &scene.dispatcher.rollouts;
    for round in 1..=40 {
        *scene.backends.successor.lock().unwrap() = Some(version(false, 1, "b"));
        rollouts.follow().await;
        let offers = scene.notice(round).await.offers;
        assert!(matches!(rollouts.press(&offers[1].id, &person(true)).await, Some(Ok(_))));
        let saved = StateFile::<RolloutNote>::read_folder(&folder.path().join("config")).unwrap();
        assert_eq!(saved, [], "round {round}");
    }
}

#[tokio::test]
async fn a_button_works_after_a_restart_and_only_for_its_version() {
    let folder = TempDir::new().unwrap();
    let scene = Scene::new(folder.path(), SHADOW, version(false, 1, "b")).await;
    scene.dispatcher.rollouts.follow().await;
    scene.dispatcher.rollouts.follow().await;
    let withdraw = scene.notice(1).await.offers[1].clone();
    Scene::noted(folder.path(), |note| note.is_some()).await;
    scene.end().await;

    let scene = Scene::new(folder.path(), SHADOW, version(false, 1, "c")).await;
    let rollouts = &scene.dispatcher.rollouts;
    assert_eq!(rollouts.press(&withdraw.id, &person(true)).await, None, "another version");
    *scene.backends.successor.lock().unwrap() = Some(version(false, 1, "b"));
    rollouts.follow().await;
    assert!(
        matches!(rollouts.press(&withdraw.id, &person(true)).await, Some(Ok(_))),
        "the same version"
    );
    assert_eq!(scene.withdrawn(), ["b".repeat(64)]);
    // A version that comes back is announced again, with another first id.
    for _ in 0..2 {
        rollouts.follow().await;
        *scene.backends.successor.lock().unwrap() = Some(version(false, 1, "b"));
        rollouts.follow().await;
        *scene.backends.successor.lock().unwrap() = None;
    }
    let notices = scene.collected.notices(2).await;
    assert!(notices.iter().all(|notice| notice.text.contains("`bbbbbbbbbbbb`")), "{notices:?}");
    assert_ne!(notices[0].offers[0].id[..18], notices[1].offers[0].id[..18]);
    *scene.backends.successor.lock().unwrap() = Some(version(false, 1, "d"));
    rollouts.follow().await;
    assert!(scene.notice(3).await.text.contains("`dddddddddddd`"));
}

#[tokio::test]
async fn a_stopped_version_waits_for_a_decision() {
    let folder = TempDir::new().unwrap();
    let mut scene = Scene::new(folder.path(), SHADOW, version(true, 1, "b")).await;
    scene.answer("text secret;done").await;
    let notice = scene.notice(1).await;
    assert!(notice.text.contains("(rollout stopped)"), "{}", notice.text);
    let list = scene.dispatcher.backends.list().await;
    let rollout = list[0].rollout.as_ref().expect("it is shown");
    assert!(rollout.differences[0].harmful && !rollout.differences[0].turn.is_empty());
    let pressed = scene.dispatcher.rollouts.press(&notice.offers[0].id, &person(true)).await;
    assert!(matches!(pressed, Some(Ok(_))), "{pressed:?}");
    assert_eq!(scene.promoted(), ["b".repeat(64)]);
}

#[tokio::test]
async fn a_promotion_before_a_crash_or_by_another_program_is_reported_once() {
    let folder = TempDir::new().unwrap();
    let scene = Scene::new(folder.path(), SHADOW, version(false, 1, "b")).await;
    scene.dispatcher.rollouts.follow().await;
    Scene::noted(folder.path(), |note| note.is_some()).await;
    scene.end().await;

    // The component serves, but the rollout is still noted.
    let scene = Scene::with(folder.path(), SHADOW, version(false, 2, "b"), None, None).await;
    scene.dispatcher.rollouts.follow().await;
    scene.dispatcher.rollouts.follow().await;
    let told = scene.notice(1).await.text;
    assert!(told.contains("of **scripted** serves now"), "{told}");
    Scene::noted(folder.path(), |note| note.is_none()).await;
    *scene.backends.successor.lock().unwrap() = Some(version(false, 1, "c"));
    scene.dispatcher.rollouts.follow().await;
    assert!(scene.notice(2).await.text.contains("`cccccccccccc`"), "no second report");
}

#[tokio::test]
async fn each_machine_of_a_cluster_has_its_own_rollout() {
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let mut scenes = Vec::new();
    for (folder, machine) in folders.iter().zip(["north", "south"]) {
        let serving = version(false, 1, "a");
        let successor = Some(version(false, 1, "b") as std::sync::Arc<_>);
        let scene = Scene::with(folder.path(), SHADOW, serving, successor, Some(machine)).await;
        scene.dispatcher.rollouts.follow().await;
        scenes.push(scene);
    }
    let notice = scenes[0].notice(1).await;
    assert!(notice.text.contains("on machine `north`"), "{}", notice.text);
    let owner = person(true);
    let press = |at: usize| scenes[at].dispatcher.rollouts.press(&notice.offers[0].id, &owner);
    assert_eq!(press(1).await, None, "the button of another machine");
    assert!(matches!(press(0).await, Some(Ok(_))));
    assert_eq!((scenes[0].promoted().len(), scenes[1].promoted().len()), (1, 0));
}
