//! Tests that events of lanes of another node are sent there.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use aetheel_dispatch::{Placement, PromptRefusal, Router};
use aetheel_model::event::{EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::id::{ChannelId, UserId};

use crate::support::scripted::{Desk, DeskOptions, behind_a_gate, message};

/// A router to another node that has some lanes. Records the events that were sent.
#[derive(Default)]
pub struct Other {
    pub lanes: HashSet<Lane>,
    pub sent: Mutex<Vec<NewEvent>>,
    /// The database is unreachable.
    pub away: bool,
}

#[async_trait::async_trait]
impl Router for Other {
    fn is_remote(&self, event: &NewEvent) -> bool {
        self.lanes.contains(&event.lane)
    }

    async fn serves(&self, channel: ChannelId) -> bool {
        !self.lanes.contains(&Lane::Channel(channel))
    }

    async fn send(&self, event: NewEvent) -> Result<(), PromptRefusal> {
        if self.away {
            return Err(PromptRefusal::NotSaved);
        }
        self.sent.lock().unwrap().push(event);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_goes_unchanged_to_the_node_that_has_its_lane() {
    let other = Arc::new(Other {
        lanes: [Lane::Channel(ChannelId::discord(8))].into(),
        ..Other::default()
    });
    let (_gate, launcher) = behind_a_gate(true);
    let desk =
        Desk::new(launcher, DeskOptions { router: Some(other.clone()), ..DeskOptions::default() })
            .await;
    let here = desk.dispatcher.intake.submit_or_route(message(7, "here")).await.unwrap();
    assert!(matches!(here, Placement::Local(_)));
    assert_eq!(here.wait_until_saved().await, Ok(Some(1)));
    let event = NewEvent {
        key: Some("k".to_owned()),
        asker: Some(UserId::discord(4)),
        ..message(8, "there")
    };
    let there = desk.dispatcher.intake.submit_or_route(event.clone()).await.unwrap();
    assert_eq!(there.wait_until_saved().await, Ok(None));
    let sent = other.sent.lock().unwrap().clone();
    assert_eq!(sent, std::slice::from_ref(&event));
    let json = serde_json::to_string(&sent[0]).unwrap();
    assert_eq!(serde_json::from_str::<NewEvent>(&json).unwrap(), event);
    desk.collected.answers(1).await;
    assert_eq!(desk.launcher.prompts(), ["here"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_cannot_be_sent_is_refused() {
    let other = Arc::new(Other {
        lanes: [Lane::Channel(ChannelId::discord(8))].into(),
        away: true,
        ..Other::default()
    });
    let (_gate, launcher) = behind_a_gate(true);
    let desk =
        Desk::new(launcher, DeskOptions { router: Some(other), ..DeskOptions::default() }).await;
    let refused = desk.dispatcher.intake.submit_or_route(message(8, "there")).await;
    assert_eq!(refused.err(), Some(PromptRefusal::NotSaved));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarded_heartbeat_is_dropped_while_the_previous_one_waits() {
    let (gate, launcher) = behind_a_gate(false);
    let desk = Desk::new(launcher, DeskOptions::default()).await;
    let tick = |prompt: &str| {
        let lane = Lane::Heartbeat("inbox".to_owned());
        NewEvent::new(
            EventKind::Heartbeat,
            lane,
            EventOrigin::Internal { channel: Some(ChannelId::discord(7)) },
            prompt,
        )
    };
    assert!(desk.dispatcher.intake.submit_routed(tick("one")).unwrap().is_some());
    assert!(desk.dispatcher.intake.submit_routed(tick("two")).unwrap().is_none());
    assert!(desk.dispatcher.intake.submit_routed(message(7, "a message")).unwrap().is_some());
    assert!(desk.dispatcher.intake.submit_routed(message(7, "another")).unwrap().is_some());
    gate.send_replace(true);
    desk.dispatcher.turns.idle().await;
    let mut prompts = desk.launcher.prompts();
    prompts.sort();
    assert_eq!(prompts, ["a message", "another", "one"]);
}
