//! Tests of checkpoints: a link that cannot be rebuilt from the beginning of its recording, or only
//! slowly, is rebuilt from a checkpoint.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use aetheel_model::agent::Exit;
use tokio::sync::watch;

use super::outlive::{Gateway, Setup, recording};
use crate::support::lasting::{AgentCommand, LastingAgent, LastingBackend, Replaceable};
use crate::support::scripted::{Agent, ScriptedLauncher};
use crate::support::shelf::Shelf;

/// A long-lived agent that answers `half`, and says `rest` and ends the turn when the flag is set.
struct Halves {
    folder: tempfile::TempDir,
    shelf: Shelf,
    agents: Arc<ScriptedLauncher>,
    finish: watch::Sender<bool>,
}

impl Halves {
    fn new() -> Self {
        let (finish, given) = watch::channel(false);
        let agents = ScriptedLauncher::new(move |agent: Agent| {
            let mut given = given.clone();
            async move {
                let mut lasting = LastingAgent::new(agent, &Arc::default());
                while let Some(AgentCommand::Prompt { session, turn, .. }) =
                    lasting.next_command().await
                {
                    lasting.agent.say(&[&format!("{session} {turn} text half")]).await;
                    let _ = given.wait_for(|given| *given).await;
                    lasting.answer(&session, &turn, "rest").await;
                }
                lasting.agent.exit(Exit::Code(0), "").await;
            }
        });
        let shelf = Shelf::new(agents.clone());
        Self { folder: tempfile::tempdir().unwrap(), shelf, agents, finish }
    }

    fn begin(&self, backends: &Arc<Replaceable>) -> Gateway {
        let backends = Arc::clone(backends) as _;
        let setup = Setup { backend: "lasting", ..Setup::with(backends) };
        Gateway::begin(self.folder.path(), &self.shelf, setup)
    }

    /// Runs one turn to its end.
    fn turn(&self, gateway: &Gateway, prompt: &str, count: usize) {
        self.finish.send_replace(true);
        gateway.ask(prompt);
        assert_eq!(gateway.runtime.block_on(gateway.collected.answers(count)).len(), count);
        self.wait_for_checkpoint(gateway);
    }

    fn wait_for_checkpoint(&self, gateway: &Gateway) {
        let path = recording(self.folder.path());
        gateway.wait_until("a checkpoint at the end of the recording", || {
            std::fs::read_to_string(&path).unwrap().lines().last().is_some_and(is_checkpoint)
        });
    }

    /// Begins a turn, and kills the gateway in the middle of it.
    fn die_in_a_turn(&self, gateway: Gateway, generation: u32) {
        self.finish.send_replace(false);
        gateway.collected.shown.lock().unwrap().clear();
        let path = recording(self.folder.path());
        // Prompts must differ, because repetitions are ignored.
        gateway.ask(&format!("after {} bytes", path.metadata().unwrap().len()));
        gateway.wait_for_text(&format!("half (by {generation})"));
        gateway.die();
        self.finish.send_replace(true);
    }

    /// Returns the text of the turn that continues, and how often the agent was started.
    fn continued(&self, gateway: &Gateway) -> (String, usize) {
        let (_, answer) = gateway.runtime.block_on(gateway.collected.answers(1)).remove(0);
        assert_eq!(answer.failure, None);
        (answer.text, self.agents.prompts().len())
    }

    /// Changes the lines of the recording.
    fn edit(&self, change: impl Fn(usize, &str) -> Option<String>) {
        let path = recording(self.folder.path());
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().enumerate().filter_map(|(at, line)| change(at, line));
        std::fs::write(&path, lines.map(|line| line + "\n").collect::<String>()).unwrap();
    }
}

fn is_checkpoint(line: &str) -> bool {
    line.contains(r#","checkpoint":{"#)
}

fn backends() -> Arc<Replaceable> {
    Replaceable::new(LastingBackend::new("session", 1))
}

#[test]
fn a_link_that_moved_to_a_new_version_continues_after_a_crash() {
    let (halves, backends) = (Halves::new(), backends());
    let first = halves.begin(&backends);
    halves.turn(&first, "one", 1);
    // The new version writes other texts, so the link moves by its state.
    backends.replace(LastingBackend::new("session", 2));
    halves.die_in_a_turn(first, 2);
    let text = std::fs::read_to_string(recording(halves.folder.path())).unwrap();
    assert!(text.contains(r#""moved":{"#), "{text}");
    let second = halves.begin(&backends);
    assert_eq!(halves.continued(&second), ("half (by 2)rest (by 2)".to_owned(), 1));
}

#[test]
fn an_idle_agent_is_kept_however_often_the_gateway_restarts() {
    let (halves, backends) = (Halves::new(), backends());
    let mut gateway = halves.begin(&backends);
    halves.turn(&gateway, "one", 1);
    for _ in 0..12 {
        gateway.die();
        gateway = halves.begin(&backends);
    }
    halves.turn(&gateway, "two", 1);
    assert_eq!(halves.agents.prompts().len(), 1, "the agent was started once");
}

#[test]
fn a_restart_keeps_as_many_idle_agents_as_the_operator_wants() {
    let (halves, backends) = (Halves::new(), backends());
    let begin = |most| {
        let setup = Setup::with(Arc::clone(&backends) as _);
        let setup = Setup { backend: "lasting", max_idle_links: Some(most), ..setup };
        Gateway::begin(halves.folder.path(), &halves.shelf, setup)
    };
    halves.finish.send_replace(true);
    let first = begin(2);
    for channel in [7, 8] {
        first.ask_in(channel, &format!("in {channel}"));
    }
    first.runtime.block_on(first.collected.answers(2));
    first.runtime.block_on(first.dispatcher.turns.idle());
    first.die();
    assert_eq!(halves.shelf.held().len(), 2);
    let second = begin(1);
    second.wait_until("one agent ends", || halves.shelf.held().len() == 1);
}

#[test]
fn a_recording_with_a_gap_is_used_from_the_next_checkpoint_on() {
    for with_checkpoint in [true, false] {
        let (halves, backends) = (Halves::new(), backends());
        let first = halves.begin(&backends);
        halves.turn(&first, "one", 1);
        halves.die_in_a_turn(first, 1);
        halves.edit(|at, line| match at {
            2 => Some("{\"t\":1,\"in".to_owned()),
            3 => None,
            _ if is_checkpoint(line) && !with_checkpoint => None,
            _ => Some(line.to_owned()),
        });
        let second = halves.begin(&backends);
        let (text, launches) = halves.continued(&second);
        assert_eq!(text, "half (by 1)rest (by 1)", "with a checkpoint: {with_checkpoint}");
        assert_eq!(launches, if with_checkpoint { 1 } else { 2 });
    }
}

#[test]
fn a_changed_checkpoint_is_skipped() {
    let (halves, backends) = (Halves::new(), backends());
    let first = halves.begin(&backends);
    halves.turn(&first, "one", 1);
    halves.die_in_a_turn(first, 1);
    halves.edit(|_, line| {
        let is_changed = is_checkpoint(line);
        Some(if is_changed {
            line.replace("\\\"procs\\\":1", "\\\"procs\\\":7")
        } else {
            line.to_owned()
        })
    });
    let second = halves.begin(&backends);
    assert_eq!(halves.continued(&second), ("half (by 1)rest (by 1)".to_owned(), 1));
}

#[test]
fn a_version_that_refuses_the_state_replays_the_whole_recording() {
    let (halves, backends) = (Halves::new(), backends());
    let first = halves.begin(&backends);
    halves.turn(&first, "one", 1);
    halves.die_in_a_turn(first, 1);
    let mut refuses = LastingBackend::new("session", 1);
    refuses.loads = false;
    let second = halves.begin(&Replaceable::new(refuses));
    assert_eq!(halves.continued(&second), ("half (by 1)rest (by 1)".to_owned(), 1));
}

#[test]
fn only_the_inputs_since_the_last_checkpoint_are_replayed() {
    const TURNS: usize = 20;
    let (halves, backends) = (Halves::new(), backends());
    let first = halves.begin(&backends);
    for turn in 1..=TURNS {
        halves.turn(&first, &turn.to_string(), turn);
    }
    halves.die_in_a_turn(first, 1);
    let text = std::fs::read_to_string(recording(halves.folder.path())).unwrap();
    let recorded = text.lines().filter(|line| line.contains(r#","in":{"#)).count();
    let backend = LastingBackend::new("session", 1);
    let handled = Arc::clone(&backend.handled);
    let second = halves.begin(&Replaceable::new(backend));
    assert_eq!(halves.continued(&second).1, 1);
    let handled = handled.load(Ordering::Relaxed);
    assert!(recorded > 3 * TURNS && handled < 10, "{recorded} recorded, {handled} handled");
}

#[test]
fn a_link_is_rebuilt_from_checkpoints_again_and_again() {
    let (halves, backends) = (Halves::new(), backends());
    let mut gateway = halves.begin(&backends);
    halves.turn(&gateway, "one", 1);
    for _ in 0..4 {
        halves.die_in_a_turn(gateway, 1);
        gateway = halves.begin(&backends);
        assert_eq!(halves.continued(&gateway), ("half (by 1)rest (by 1)".to_owned(), 1));
        halves.wait_for_checkpoint(&gateway);
    }
}
