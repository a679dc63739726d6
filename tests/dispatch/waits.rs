//! Tests of the list of lanes that wait, and of decisions that are made in that list.

use std::time::Duration;

use aetheel_dispatch::{LaneWait, OfferEffect, OfferRefusal, Person, WaitDecider};
use aetheel_model::event::NewEvent;
use aetheel_model::id::UserId;

use crate::support::scripted::message;

use super::limit_buttons::{Team, id};
use super::limits::{THREE_HOURS, lane};

fn person(owner: bool) -> Person {
    Person::User { id: UserId::discord(4), roles: Vec::new(), owner, name: "Ann".to_owned() }
}

/// Waits until a lane waits, and returns its wait. The notice of a reached cap comes before the
/// prompt after it waits.
async fn only_wait(team: &Team) -> LaneWait {
    let mut looks = tokio::time::interval(Duration::from_millis(5));
    let found = async {
        loop {
            looks.tick().await;
            let mut waits = team.dispatcher.waits.all().await;
            if let Some(wait) = waits.pop() {
                assert!(waits.is_empty(), "{waits:?}");
                return wait;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), found).await.expect("no lane waits")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_at_a_limit_is_listed_with_its_reason_and_the_buttons_of_its_notice() {
    let team = Team::new(&[&[THREE_HOURS], &[THREE_HOURS]]).await;
    team.ask(7, "build it");
    let notice = team.collected.notices(1).await.remove(0);
    let wait = only_wait(&team).await;
    assert_eq!(wait.lane, lane(7));
    assert!(wait.reason.starts_with("Agent alpha has reached a usage limit"), "{}", wait.reason);
    assert_eq!(
        (wait.offers.clone(), wait.decider),
        (notice.offers.clone(), WaitDecider::Everybody)
    );
    let now = jiff::Timestamp::now();
    assert!(wait.since <= now && wait.until > now, "{wait:?}");

    // Another lane waits too. An offer is accepted only in its own lane.
    team.ask(8, "and this");
    team.collected.notices(2).await;
    let (ann, waits) = (person(false), &team.dispatcher.waits);
    let try_now = id(&notice, "Try now");
    let elsewhere = waits.decide(&lane(8), try_now, &ann, true).await;
    assert_eq!(elsewhere, Err(OfferRefusal::Gone));
    let forged = waits.decide(&lane(7), "lm-0-0-now", &ann, true).await;
    assert_eq!(forged, Err(OfferRefusal::Gone));
    let refused = waits.decide(&lane(7), try_now, &ann, false).await;
    assert_eq!(refused, Err(OfferRefusal::NotAdmitted));
    assert_eq!(waits.all().await.len(), 2);
    let decided = waits.decide(&lane(7), try_now, &ann, true).await;
    assert_eq!(decided, Ok(OfferEffect::Decided("▶️ Tried again at once for")));
    team.dispatcher.turns.lane_idle(&lane(7)).await;
    assert_eq!(only_wait(&team).await.lane, lane(8));
    let again = waits.decide(&lane(7), try_now, &ann, true).await;
    assert_eq!(again, Err(OfferRefusal::Gone), "a second press");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_owners_decide_about_a_lane_at_the_cap_of_a_budget() {
    let team = Team::new(&[&["text done"], &["text more"]]).await;
    let budgets = "## team\n- cap: 1 turns a day\n- person: each\n";
    std::fs::write(team.folder.path().join("config/budgets.md"), budgets).unwrap();
    let ask = |prompt: &str| {
        let asker = Some(UserId::discord(4));
        team.dispatcher.intake.submit(NewEvent { asker, ..message(7, prompt) }).unwrap();
    };
    ask("one");
    team.collected.answers(1).await;
    ask("two");
    // That of the operator, and that of the lane.
    team.collected.notices(2).await;
    let wait = only_wait(&team).await;
    assert!(wait.reason.starts_with("The budget `team` "), "{}", wait.reason);
    assert_eq!(wait.decider, WaitDecider::Owners);
    // The cap applies to a person, so `/status` of the lane names it only because a prompt waits.
    let status = team.dispatcher.observer.lane_status(&lane(7)).await;
    assert!(status.warnings.0.iter().any(|text| text.contains("The budget `team` ")), "{status:?}");
    let raise = &wait.offers[0];
    assert!(raise.label.starts_with("Raise to "), "{raise:?}");
    let waits = &team.dispatcher.waits;
    let refused = waits.decide(&lane(7), &raise.id, &person(false), true).await;
    assert_eq!(refused, Err(OfferRefusal::NotOwner));
    let raised = waits.decide(&lane(7), &raise.id, &person(true), true).await;
    assert_eq!(raised, Ok(OfferEffect::Decided("💰 Raised by")));
    team.collected.answers(2).await;
    assert!(waits.all().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn lanes_with_running_turns_or_without_waiting_prompts_are_not_listed() {
    let team = Team::new(&[&[THREE_HOURS]]).await;
    assert!(team.dispatcher.waits.all().await.is_empty());
    team.ask(7, "build it");
    let notice = team.collected.notices(1).await.remove(0);
    let cancelled =
        team.dispatcher.waits.decide(&lane(7), id(&notice, "Cancel"), &person(false), true).await;
    assert_eq!(cancelled, Ok(OfferEffect::Decided("🛑 Cancelled by")));
    assert!(team.dispatcher.waits.all().await.is_empty());
}
