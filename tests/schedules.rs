//! Tests of heartbeats and cron jobs, from the operator's files to the dispatcher, with a clock
//! that the test sets.

use std::fs;
use std::time::Duration;

use aetheel::sources::Scheduler;
use aetheel_model::event::{EventKind, EventOrigin, Lane};
use aetheel_model::id::ChannelId;
use aetheel_store::workspace::Workspace;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::watch;

use crate::support::scripted::{Desk, DeskOptions, behind_a_gate};

const HEARTBEATS: &str =
    "## Inbox\n- interval: 30m\n- channel: 42\n- instruction: Look for mail.\n";
const JOBS: &str = "## Cron Jobs\n- **Backup** `0 9 * * *`: Back it up.\n";

struct Stand {
    desk: Desk,
    folder: tempfile::TempDir,
    gate: watch::Sender<bool>,
}

impl Stand {
    async fn new(desk_options: DeskOptions) -> Self {
        let (gate, launcher) = behind_a_gate(true);
        let stand = Self {
            desk: Desk::new(launcher, desk_options).await,
            folder: tempfile::tempdir().unwrap(),
            gate,
        };
        stand.write("heartbeat.md", HEARTBEATS);
        stand.write("agents.md", JOBS);
        stand
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// Loads the schedules as after a start.
    async fn schedules(&self) -> Scheduler {
        let workspace = Workspace::open(self.folder.path()).await.unwrap();
        Scheduler::new(&self.desk.dispatcher, workspace, TimeZone::UTC, Some(ChannelId::discord(7)))
            .await
    }

    /// Waits until all accepted prompts are answered, and returns them.
    async fn answered(&self) -> Vec<String> {
        tokio::time::timeout(Duration::from_secs(30), self.desk.dispatcher.turns.idle())
            .await
            .unwrap();
        self.desk.launcher.prompts()
    }
}

fn at(time: &str) -> Timestamp {
    format!("2026-06-01T{time}Z").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_and_cron_jobs_become_events_of_their_own_lanes() {
    let stand = Stand::new(DeskOptions::default()).await;
    let mut schedules = stand.schedules().await;
    assert_eq!(
        schedules.step(at("08:59:58")).await,
        Duration::from_secs(2),
        "the scheduler sleeps until the next tick"
    );
    assert_eq!(schedules.step(at("08:59:59.5")).await, Duration::from_millis(500));
    assert_eq!(
        schedules.step(at("09:00:00")).await,
        Duration::from_secs(5),
        "and checks the files every 5 s"
    );
    let mut answers = stand.desk.collected.answers(2).await;
    answers.sort_by_key(|(event, _)| event.lane.to_string());
    let told: Vec<_> = answers
        .iter()
        .map(|(event, _)| (event.kind, event.lane.clone(), event.origin.clone(), &*event.prompt))
        .collect();
    let internal = |channel| EventOrigin::Internal { channel };
    assert_eq!(
        told,
        [
            (EventKind::Cron, Lane::Cron("Backup".into()), internal(None), "Back it up."),
            (
                EventKind::Heartbeat,
                Lane::Heartbeat("Inbox".into()),
                internal(Some(ChannelId::discord(42))),
                "Look for mail."
            ),
        ]
    );
    let keys: Vec<_> = answers.iter().map(|(event, _)| event.key.as_deref().unwrap()).collect();
    assert_eq!(keys, ["cron:Backup:2026-06-01T09:00:00Z", "heartbeat:Inbox:2026-06-01T09:00:00Z"]);
    // A lane is busy for a moment after its answer, and a heartbeat is skipped while the previous
    // one runs.
    assert_eq!(stand.answered().await.len(), 2);
    for later in ["09:00:01", "09:15:00", "07:00:00", "09:29:59"] {
        schedules.step(at(later)).await;
    }
    schedules.step(at("09:30:00")).await;
    assert_eq!(stand.answered().await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_is_skipped_while_the_previous_one_runs() {
    let stand = Stand::new(DeskOptions::default()).await;
    let mut schedules = stand.schedules().await;
    schedules.step(at("09:10:00")).await;
    stand.gate.send(false).unwrap();
    for tick in ["09:30:00", "10:00:00", "10:30:00"] {
        schedules.step(at(tick)).await;
        assert!(stand.desk.dispatcher.turns.is_busy(&Lane::Heartbeat("Inbox".into())));
    }
    stand.gate.send(true).unwrap();
    assert_eq!(stand.answered().await.len(), 1, "no ticks accumulated");
    schedules.step(at("11:00:00")).await;
    assert_eq!(stand.answered().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_the_schedule_files_take_effect() {
    let stand = Stand::new(DeskOptions::default()).await;
    fs::remove_file(stand.folder.path().join("heartbeat.md")).unwrap();
    let mut schedules = stand.schedules().await;
    schedules.step(at("08:50:00")).await;
    stand.write("heartbeat.md", HEARTBEATS);
    stand.write(
        "agents.md",
        "## Cron Jobs\n- **Bad** `0 25 * * *`: Never.\n- **Other** `5 9 * * *`: Do it.\n",
    );
    schedules.step(at("08:59:00")).await;
    schedules.step(at("09:00:00")).await;
    assert_eq!(stand.answered().await, ["Look for mail."]);
    fs::remove_file(stand.folder.path().join("heartbeat.md")).unwrap();
    schedules.step(at("09:05:00")).await;
    schedules.step(at("09:30:00")).await;
    assert_eq!(stand.answered().await, ["Look for mail.", "Do it."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_neither_repeats_nor_loses_a_tick() {
    let stand = Stand::new(DeskOptions::default()).await;
    stand.write("heartbeat.md", "");
    let mut schedules = stand.schedules().await;
    schedules.step(at("08:59:00")).await;
    let state = || fs::read_to_string(stand.folder.path().join("state/schedules.md")).unwrap();
    assert!(
        state().contains("- `cron:Backup` (`0 9 * * * UTC`) up to `2026-06-01T08:59:00Z`"),
        "{}",
        state()
    );
    drop(schedules);

    let mut schedules = stand.schedules().await;
    schedules.step(at("09:03:00")).await;
    assert_eq!(
        stand.answered().await,
        ["Back it up."],
        "missed while it was down, and young enough"
    );
    assert!(state().contains("up to `2026-06-01T09:00:00Z`"), "{}", state());
    drop(schedules);

    let mut schedules = stand.schedules().await;
    schedules.step(at("09:03:01")).await;
    assert_eq!(stand.answered().await.len(), 1, "not again");
    drop(schedules);

    let mut schedules = stand.schedules().await;
    schedules.step("2026-06-02T09:05:01Z".parse().unwrap()).await;
    assert_eq!(stand.answered().await.len(), 1, "too old");
    schedules.step("2026-06-03T09:00:00Z".parse().unwrap()).await;
    assert_eq!(stand.answered().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cron_job_that_finds_no_free_slot_is_retried() {
    let stand = Stand::new(DeskOptions { slots: 1, depth: 1, ..DeskOptions::default() }).await;
    let mut schedules = stand.schedules().await;
    schedules.step(at("08:59:00")).await;
    stand.gate.send(false).unwrap();
    stand.desk.ask(1, "running");
    stand.desk.ask(1, "waiting");
    assert!(schedules.step(at("09:00:00")).await > Duration::ZERO, "the scheduler does not spin");
    stand.gate.send(true).unwrap();
    assert_eq!(stand.answered().await.len(), 2);
    schedules.step(at("09:00:10")).await;
    assert_eq!(stand.answered().await.len(), 2, "not at once");
    schedules.step(at("09:00:15")).await;
    assert_eq!(
        stand.answered().await[2..],
        ["Back it up."],
        "and the heartbeat waits for its next tick"
    );
}
