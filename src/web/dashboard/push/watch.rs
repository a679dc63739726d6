//! The task that looks for questions of agents, and wakes the devices of those who may answer.
//! While no device waits, it looks at nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use super::super::Shared;
use super::super::guard::standing_in;
use super::Push;
use super::rounds::Rounds;
use crate::dispatch::{OpenQuestion, Person};
use crate::event::Lane;
use crate::workspace::Subscription;

/// Between two looks, however much changes.
const PACE: Duration = Duration::from_millis(500);

/// What somebody may answer, and on which devices they are told.
#[derive(Default)]
struct Found {
    /// Questions that are settled: theirs to answer, or not.
    settled: Vec<String>,
    theirs: Vec<String>,
    devices: Vec<Subscription>,
    /// Devices switched on where they may not use the bot any more.
    gone: Vec<Subscription>,
    /// Discord did not say all of it.
    unsure: bool,
}

/// Looks as long as the dashboard is there.
pub(in super::super) async fn watch(shared: Arc<Shared>, push: Arc<Push>) {
    loop {
        while push.notes.known().is_empty() {
            push.new.notified().await;
        }
        let mut lanes = shared.dispatcher.watch_lanes();
        let mut rounds = Rounds::default();
        loop {
            lanes.mark_unchanged();
            let questions = shared.dispatcher.open_questions();
            let devices = push.notes.known();
            if devices.is_empty() {
                break;
            }
            round(&shared, &push, &mut rounds, (&questions, &devices)).await;
            let users = devices.iter().map(|device| device.user).collect();
            let next = rounds.next(&users, Instant::now());
            let look = async {
                match next {
                    Some(at) => sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            sleep(PACE).await;
            tokio::select! {
                _ = lanes.changed() => {}
                () = push.new.notified() => {}
                () = look => {}
            }
        }
    }
}

async fn round(
    shared: &Arc<Shared>,
    push: &Arc<Push>,
    rounds: &mut Rounds,
    (questions, devices): (&[(Lane, OpenQuestion)], &[Subscription]),
) {
    let now = Instant::now();
    rounds.look(questions.iter().map(|(_, question)| question.id.as_str()), now);
    let users: HashSet<u64> = devices.iter().map(|device| device.user).collect();
    let mut asking = JoinSet::new();
    for user in users {
        let due = rounds.due(user, now);
        if due.is_empty() {
            continue;
        }
        if shared.sessions.is_followed_by(user) {
            tracing::debug!(user, "a user looks at the dashboard, and is not told on a device");
            rounds.put_off(user, now);
            continue;
        }
        let lanes = questions.iter().filter(|(_, question)| due.contains(&question.id));
        let lanes = lanes.map(|(lane, question)| (lane.clone(), question.id.clone())).collect();
        let theirs = devices.iter().filter(|device| device.user == user).cloned().collect();
        let shared = Arc::clone(shared);
        asking.spawn(async move { (user, find(&shared, user, lanes, theirs).await) });
    }
    while let Some(found) = asking.join_next().await {
        let Ok((user, found)) = found else { continue };
        for device in found.gone {
            push.drop_device(
                device,
                "its user may not use the bot any more where they switched it on",
            )
            .await;
        }
        rounds.settle(user, &found.settled);
        if found.unsure {
            rounds.put_off(user, now);
        }
        if !found.theirs.is_empty() && !found.devices.is_empty() {
            tracing::info!(
                user,
                questions = found.theirs.join(" "),
                "a user is told that an agent asks"
            );
            rounds.told(user, now);
            found.devices.into_iter().for_each(|device| push.wake(device));
        }
    }
}

/// Asks what somebody may now.
async fn find(
    shared: &Shared,
    user: u64,
    questions: Vec<(Lane, String)>,
    devices: Vec<Subscription>,
) -> Found {
    let mut found = Found::default();
    let mut owner = false;
    for device in devices {
        match shared.house.standing(user, device.channel).await {
            Ok(standing) if standing.sees => {
                owner |= standing.owner;
                found.devices.push(device);
            }
            Ok(_) => found.gone.push(device),
            Err(_) => found.unsure = true,
        }
    }
    if found.devices.is_empty() {
        return found;
    }
    for (lane, id) in questions {
        let Ok(standing) = standing_in(shared, (user, owner), &lane).await else {
            found.unsure = true;
            continue;
        };
        let person = Person::User {
            id: user,
            roles: standing.roles,
            owner: standing.owner,
            name: String::new(),
        };
        if standing.sees && shared.dispatcher.could_answer(&id, &person) {
            found.theirs.push(id.clone());
        }
        found.settled.push(id);
    }
    found
}
