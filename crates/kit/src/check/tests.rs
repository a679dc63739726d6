use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;

use super::*;
use aetheel_model::agent::{
    Action, AgentEvent, AgentEventKind, AgentFailure, ArgumentValue, Chunk, FailureKind,
    HostCommand, Input, PromptPart, Spawn, StartTurn, TextEvent, TimedInput, TurnDone, TurnOutcome,
    Write,
};
use aetheel_recording::{Generation, Guest};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GuestFault {
    None,
    PromptAsArgument,
    OtherEveryTime,
    LastOfACall,
    Forgets,
    ForgetsNumbers,
    ForgetsConversation,
    GivesUp,
    TalksAfterwards,
    SavesNothing,
    ShowsNothing,
    /// The guest has no fault, but the first guest that gets the line `null` exceeds its time
    /// limit.
    SlowOnce,
}

struct FaultyBackend {
    descriptor: Descriptor,
    generation: Generation,
    fault: GuestFault,
    guests: Arc<AtomicU32>,
    slow: Arc<AtomicU32>,
}

fn agent(fault: GuestFault) -> FaultyBackend {
    let json = r#"{"name":"x","version":"1","sharing":"session","features":["resume","system-prompt"],
        "programs":[{"name":"x","flags":[{"name":"--prompt","value":"one"}]}]}"#;
    let generation = Generation { number: 1, digest: String::new() };
    FaultyBackend {
        descriptor: Descriptor::parse(json).unwrap(),
        generation,
        fault,
        guests: Arc::default(),
        slow: Arc::default(),
    }
}

#[async_trait]
impl Backend for FaultyBackend {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn generation(&self) -> &Generation {
        &self.generation
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        let number = self.guests.fetch_add(1, Ordering::Relaxed);
        let slow = self.slow.clone();
        Ok(Box::new(FaultyGuest {
            fault: self.fault,
            slow,
            number,
            turn: None,
            last: None,
            proc: None,
            procs: 0,
            lines: 0,
            prompts: 0,
            conversation: 0,
        }))
    }
}

/// A guest that repeats every line of its agent, numbered. It numbers its prompts too, and names the
/// conversation, which is the number of its first turn.
struct FaultyGuest {
    fault: GuestFault,
    slow: Arc<AtomicU32>,
    number: u32,
    turn: Option<u32>,
    last: Option<u32>,
    proc: Option<u32>,
    procs: u32,
    lines: u32,
    prompts: u32,
    conversation: u32,
}

impl FaultyGuest {
    fn say(&self, turn: u32, text: String) -> Action {
        Action::Event(AgentEvent {
            session: 1,
            turn,
            kind: AgentEventKind::Text(TextEvent { part: 0, text, replace: false, parent: None }),
        })
    }

    fn take(&mut self, input: Input, last: bool) -> Result<Vec<Action>, GuestFailure> {
        Ok(match input {
            Input::Command(HostCommand::StartTurn(start)) => {
                self.turn = Some(start.turn);
                self.last = self.turn;
                self.prompts += 1;
                if let Some(proc) = self.proc {
                    let text = format!("{} in {}\n", self.prompts, self.conversation);
                    let body = vec![Chunk::Text(text)];
                    return Ok(vec![Action::Write(Write { proc, body })]);
                }
                self.conversation = start.turn;
                self.procs += 1;
                self.proc = Some(self.procs);
                vec![Action::Spawn(self.spawn(&start))]
            }
            Input::Line(line) if Some(line.proc) == self.proc => {
                self.lines += 1;
                if self.fault == GuestFault::GivesUp && line.text == "null" {
                    return Err(GuestFailure::Refused("null is no object".into()));
                }
                if self.fault == GuestFault::SlowOnce
                    && line.text == "null"
                    && self.slow.fetch_add(1, Ordering::Relaxed) == 0
                {
                    return Err(GuestFailure::CutOff("it took longer than 1s".into()));
                }
                let number =
                    if self.fault == GuestFault::OtherEveryTime { self.number } else { self.lines };
                match self.turn {
                    Some(_) if self.fault == GuestFault::LastOfACall && !last => Vec::new(),
                    Some(turn) if line.text == "done" => {
                        self.turn = None;
                        vec![done(turn, TurnOutcome::Completed)]
                    }
                    Some(_) if self.fault == GuestFault::ShowsNothing => Vec::new(),
                    Some(turn) => vec![self.say(turn, format!("{number}: {}", line.text))],
                    None => Vec::new(),
                }
            }
            Input::Exited(exited) if Some(exited.proc) == self.proc => {
                self.proc = None;
                let lost = TurnOutcome::Lost(AgentFailure {
                    kind: FailureKind::Crashed,
                    message: "gone".into(),
                    retry_after_ms: None,
                });
                self.turn.take().map(|turn| done(turn, lost)).into_iter().collect()
            }
            Input::SpawnFailed(failed) if Some(failed.proc) == self.proc => {
                self.proc = None;
                let failed = TurnOutcome::Failed(AgentFailure {
                    kind: FailureKind::NotFound,
                    message: "no".into(),
                    retry_after_ms: None,
                });
                self.turn.take().map(|turn| done(turn, failed)).into_iter().collect()
            }
            Input::Command(HostCommand::Shutdown) if self.fault == GuestFault::TalksAfterwards => {
                self.last.map(|turn| self.say(turn, "bye".into())).into_iter().collect()
            }
            _ => Vec::new(),
        })
    }

    fn spawn(&self, start: &StartTurn) -> Spawn {
        let texts = start.parts.iter().filter_map(|part| {
            if let PromptPart::Text(text) = part { Some(text.clone()) } else { None }
        });
        let prompt = texts.collect::<Vec<_>>().join(" ");
        let arguments = match self.fault {
            GuestFault::PromptAsArgument => vec![
                ArgumentValue::Text("--prompt".into()),
                ArgumentValue::Text(
                    prompt.replace('-', "_").replace("kit_prompt_7c1f7e52", "kit-prompt-7c1f7e52"),
                ),
            ],
            _ => Vec::new(),
        };
        let (environment, stdin, session, turn) =
            (Vec::new(), vec![Chunk::Text(prompt)], Some(start.session), Some(start.turn));
        Spawn {
            proc: self.procs,
            program: "x".into(),
            arguments,
            environment,
            stdin,
            keep_open: true,
            listens: false,
            basic_auth: None,
            session,
            turn,
        }
    }
}

fn done(turn: u32, outcome: TurnOutcome) -> Action {
    Action::TurnDone(TurnDone { session: 1, turn, outcome, text: None, usage: None })
}

#[async_trait]
impl Guest for FaultyGuest {
    async fn handle(&mut self, inputs: Vec<TimedInput>) -> Result<Vec<Action>, GuestFailure> {
        let mut actions = Vec::new();
        let count = inputs.len();
        for (number, timed) in inputs.into_iter().enumerate() {
            actions.extend(self.take(timed.input, number + 1 == count)?);
        }
        Ok(actions)
    }

    async fn save(&mut self) -> Result<Option<String>, GuestFailure> {
        Ok((self.fault != GuestFault::SavesNothing).then(|| {
            let Self { procs, lines, prompts, conversation, .. } = self;
            let proc = self.proc.unwrap_or(0);
            format!("{proc} {procs} {lines} {prompts} {conversation}")
        }))
    }

    async fn load(&mut self, state: &str, _: &str) -> Result<(), GuestFailure> {
        let numbers: Vec<u32> = state.split(' ').filter_map(|number| number.parse().ok()).collect();
        let [proc, procs, lines, prompts, conversation] = numbers[..] else {
            return Err(GuestFailure::Refused("no state of mine".into()));
        };
        self.proc = (proc > 0).then_some(proc);
        self.procs = procs;
        let forgets = |fault, number| if self.fault == fault { 0 } else { number };
        self.lines = forgets(GuestFault::Forgets, lines);
        self.prompts = forgets(GuestFault::ForgetsNumbers, prompts);
        self.conversation = forgets(GuestFault::ForgetsConversation, conversation);
        Ok(())
    }
}

/// A recording of two turns with one agent.
fn case() -> Case {
    let mut text = r#"{"aetheel-recording":1,"link":"l","backend":"x","backend-version":"1","generation":1,"digest":"","agent-version":null,"started":""}"#.to_owned();
    let start = |turn| {
        Input::Command(HostCommand::StartTurn(StartTurn {
            turn,
            one_shot: false,
            ..StartTurn::plain("Hi", aetheel_model::agent::Safety::Default)
        }))
    };
    let spawned = Input::Spawned(aetheel_model::agent::Spawned { proc: 1, agent_version: None });
    let line = |text: &str| trial::stdout_line(1, text);
    for (t, input) in [
        start(1),
        spawned,
        line("{\"a\":\"said by the agent\"}"),
        line("two"),
        line("done"),
        start(2),
        line("three"),
        line("four"),
        line("done"),
    ]
    .iter()
    .enumerate()
    {
        text.push_str(&format!("\n{}", serde_json::json!({ "t": t, "in": input })));
    }
    Case { path: "two.jsonl".into(), tape: ParsedRecording::read(&text).unwrap(), actions: None }
}

fn found(fault: GuestFault) -> Vec<CheckFinding> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let areas = runtime.block_on(check(&agent(fault), &[case()])).unwrap();
    assert!(areas.iter().all(|area| area.trials > 0), "{areas:?}");
    areas.into_iter().flat_map(|area| area.findings).collect()
}

#[test]
fn a_guest_that_follows_the_contract_passes() {
    for fault in [GuestFault::None, GuestFault::SlowOnce] {
        let found = found(fault);
        assert!(found.is_empty(), "{fault:?}: {found:#?}");
    }
}

#[test]
fn each_fault_is_found_by_its_rule_and_its_line() {
    let cases = [
        (GuestFault::PromptAsArgument, Rule::Plan, None),
        (GuestFault::OtherEveryTime, Rule::Determinism, Some(4)),
        (GuestFault::LastOfACall, Rule::Batching, Some(4)),
        (GuestFault::Forgets, Rule::Handover, Some(8)),
        (GuestFault::ForgetsNumbers, Rule::Handover, Some(7)),
        (GuestFault::ForgetsConversation, Rule::Handover, Some(7)),
        (GuestFault::TalksAfterwards, Rule::EndsOnce, None),
        (GuestFault::ShowsNothing, Rule::Reads, Some(4)),
    ];
    for (fault, rule, line) in cases {
        let all = found(fault);
        let found: Vec<_> = all.iter().filter(|finding| finding.rule == rule).collect();
        assert!(!found.is_empty(), "{fault:?}: {all:#?}");
        if let Some(line) = line {
            assert!(found.iter().any(|it| it.recording.as_deref() == Some("two.jsonl") && it.line == Some(line)), "{fault:?}: {found:#?}");
        }
    }
}

#[test]
fn a_recording_of_one_turn_shows_what_a_state_lacks() {
    let mut one = case();
    one.tape.entries.truncate(5);
    one.tape.lines.truncate(5);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for fault in [GuestFault::ForgetsNumbers, GuestFault::ForgetsConversation] {
        let areas = runtime.block_on(check(&agent(fault), std::slice::from_ref(&one))).unwrap();
        let handover = areas.into_iter().find(|area| area.name == "handover").unwrap();
        let rules: Vec<_> = handover.findings.iter().map(|finding| finding.rule).collect();
        assert_eq!(rules, [Rule::Handover], "{fault:?}: {:#?}", handover.findings);
    }
}

#[test]
fn the_report_explains_why_no_handover_was_tried() {
    let why = |fault: GuestFault, cases: &[Case]| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let areas = runtime.block_on(check(&agent(fault), cases)).unwrap();
        let handover = areas.into_iter().find(|area| area.name == "handover").unwrap();
        (handover.trials, handover.why.unwrap_or_default())
    };
    assert_eq!(why(GuestFault::None, &[]), (0, "there is no recording".to_owned()));
    let mut cut = case();
    cut.tape.entries.truncate(3);
    assert_eq!(why(GuestFault::None, &[cut]), (0, "no turn of a recording has ended".to_owned()));
    let (trials, said) = why(GuestFault::SavesNothing, &[case()]);
    assert!(
        trials == 0
            && said
                .contains("`save` returned none at 2 idle places: every reload restarts its agent"),
        "{said}"
    );
    assert_eq!(why(GuestFault::None, &[case()]).1, "");
}

#[test]
fn a_failure_names_the_input_that_caused_it() {
    let all = found(GuestFault::GivesUp);
    let failure = all.iter().find(|finding| finding.rule == Rule::NeverFails).unwrap();
    assert!(
        failure.got.contains("null is no object") && failure.input.contains("\"text\":\"null\""),
        "{failure:?}"
    );
    assert!(failure.times > 1, "{failure:?}");
}

#[test]
fn a_field_whose_loss_changes_what_people_see_is_noted() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let areas = runtime.block_on(check(&agent(GuestFault::None), &[case()])).unwrap();
    let fields = areas.into_iter().find(|area| area.name == "fields").unwrap();
    let [note] = &fields.notes[..] else { panic!("{fields:?}") };
    assert_eq!((note.trial.as_str(), note.line), ("`a` renamed", Some(4)), "{note:?}");
}
