//! Turns that a restart of the gateway cuts at every position: both processes together show, ask,
//! send and carry out what the turn without a restart does, and nothing twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::Steering;
use super::effects::{AskedQuestion, TurnEffect, TurnInput};
use super::machine::{TurnMachine, TurnRules};
use crate::link::{HOST_ASK, LinkReport, LinkRequest};
use crate::tools::HostRequest;
use crate::{DelegatedCall, NewsKind, PolicyVerdict, StopReason, TurnNews};
use aetheel_model::agent::{
    AgentEventKind, AgentFailure, Ask, AskDecision, AskKey, AskKind, FailureKind, SessionReady,
    TextEvent, ToolEnd, ToolStart, ToolStatus, TurnDone, TurnOutcome, TurnRef,
};
use aetheel_model::host_tool::HostToolKind;
use aetheel_model::limits::AgentLimits;
use aetheel_model::policy::{PolicyEffect, PolicyRuling};
use aetheel_recording::conservation::Examination;

/// The turns. Policies decide about questions with keys from 10 on: `rule 11.2 deny` is the decision
/// about the second question with the key 11. Keys of calls begin at 2147483648.
const TURNS: &[&str] = &[
    "session s, text a, ask 1, text b, decide 1, text c, done completed, over",
    "ask 1, ask 2, decide 2, decide 2, tool t, decide 1, ask 1, decide 1, done completed, over",
    "ask 1, withdraw 1, decide 1, ask 1, text a, decide 1, ask 2, withdraw 2, over",
    "ask 11, text a, rule 11.1 allow, ask 11, rule 11.2 deny, text b, done completed, over",
    "ask 11, ask 12, text a, rule 12.1 ask, ask 3, rule 11.1 allow, decide 12, over",
    "ask 11, withdraw 11, ask 11, rule 11.1 deny, text a, rule 11.2 allow, text b, over",
    "call 2147483649, ask 1, call 2147483648, decide 2147483648, text a, decide 2147483649, over",
    "call 2147483648, withdraw 2147483648, decide 2147483648, call 2147483649, tool t, over",
    "text a, steer, text b, ask 1, steer, decide 1, done completed, over",
    "text a, ask 1, call 2147483648, stop, text b, withdraw 1, decide 2147483648, over",
    "text a, ask 1, stop, withdraw 1, done interrupted, over",
    "tool t, stop, stop, wait 5, over",
    "stop, interrupt-ignored, over",
    "ask 1, text a, wait 600, text b, ask 1, decide 1, done completed, over",
    "text a, output-limit, output-limit, text b, done interrupted, over",
    "tool a, end a, tool b, tool c, text a, done interrupted, over",
    "text a, guest-failed, stop, failed, stderr, exited, orphaned, examined, over",
    "tool t, failed, stderr, orphaned, done completed, exited, examined, over",
];

/// A step of a turn, such as `text a`.
#[derive(Clone, Copy, Debug)]
struct Step<'a> {
    verb: &'a str,
    object: &'a str,
}

impl<'a> Step<'a> {
    fn all(turn: &'a str) -> Vec<Self> {
        let step = |step: &'a str| {
            let (verb, object) = step.split_once(' ').unwrap_or((step, ""));
            Self { verb, object }
        };
        turn.split(", ").map(step).collect()
    }

    fn key(self) -> AskKey {
        self.object.parse().expect("a key")
    }

    /// Returns the question and the decision of `rule`.
    fn ruling(self) -> (AskedQuestion, PolicyEffect) {
        let (key, word) = self.object.split_once(' ').expect("a question and a decision");
        let (key, time) = key.split_once('.').expect("a key and how often it was used");
        let effects = [PolicyEffect::Allow, PolicyEffect::Deny, PolicyEffect::Ask];
        let effect = effects.into_iter().find(|effect| effect.word() == word).expect("an effect");
        let ask = Arc::new(question(key.parse().expect("a key")));
        (AskedQuestion { ask, time: time.parse().expect("a number") }, effect)
    }

    /// Returns the report of the link that the step is, if it is one.
    fn report(self) -> Option<LinkReport> {
        let object = self.object.to_owned();
        Some(match self.verb {
            "text" => LinkReport::Event(AgentEventKind::Text(TextEvent {
                part: 0,
                text: object,
                replace: false,
                parent: None,
            })),
            "tool" => LinkReport::Event(AgentEventKind::ToolStart(ToolStart {
                id: object,
                parent: None,
                kind: "bash".to_owned(),
                native_name: "Bash".to_owned(),
                title: String::new(),
                target: None,
                input: "{}".to_owned(),
            })),
            "end" => LinkReport::Event(AgentEventKind::ToolEnd(ToolEnd {
                id: object,
                status: ToolStatus::Ok,
                output: None,
                exit_code: None,
                diffs: vec![],
            })),
            "session" => LinkReport::Session(SessionReady {
                session: 1,
                native_id: object,
                model: None,
                title: None,
                tools: vec![],
            }),
            "ask" => LinkReport::Ask(question(self.key())),
            "withdraw" => LinkReport::Withdrawn(self.key()),
            "call" => LinkReport::Delegated(DelegatedCall {
                key: self.key(),
                call: self.key() - HOST_ASK,
                tool: HostToolKind::ListAgents,
                request: HostRequest::ListAgents(crate::tools::ListAgents {}),
            }),
            "output-limit" => LinkReport::OutputLimit,
            "interrupt-ignored" => LinkReport::InterruptIgnored,
            "guest-failed" => LinkReport::GuestFailed,
            "failed" => LinkReport::AgentFailed(AgentFailure {
                kind: FailureKind::Crashed,
                message: "it crashed".to_owned(),
                retry_after_ms: None,
            }),
            "stderr" => LinkReport::Stderr("a panic".to_owned()),
            "exited" => LinkReport::ExitedWell,
            "orphaned" => LinkReport::Orphaned,
            "examined" => {
                let lost = Some("a.b".to_owned());
                LinkReport::Examined(Examination { lost, ..Examination::default() })
            }
            "done" => LinkReport::Done(TurnDone {
                session: 1,
                turn: 1,
                outcome: match self.object {
                    "completed" => TurnOutcome::Completed,
                    _ => TurnOutcome::Interrupted,
                },
                text: None,
                usage: None,
            }),
            "over" => LinkReport::Over(None),
            _ => return None,
        })
    }
}

fn question(key: AskKey) -> Ask {
    Ask {
        ask: key,
        session: 1,
        turn: 1,
        title: String::new(),
        kind: AskKind::PlanApproval(String::new()),
        always_label: None,
        options: vec![],
        diffs: vec![],
        changeable: false,
        parent: None,
        deadline_ms: None,
    }
}

/// One process of the gateway, with the recording of the link.
struct Process {
    machine: TurnMachine,
    now: Instant,
    /// The reports that the link sends after a restart.
    recording: Vec<LinkReport>,
    /// The effects of the machine.
    lines: Vec<String>,
}

impl Process {
    fn new(now: Instant, is_one_shot: bool, continues: bool) -> Self {
        let rules = TurnRules {
            turn: TurnRef { session: 1, turn: 1 },
            limits: AgentLimits {
                query_timeout: Duration::from_secs(9_000),
                idle_timeout: None,
                ask_timeout: Duration::from_secs(600),
                link_idle: Duration::ZERO,
                links_warm: 0,
                stop_grace: Duration::from_secs(5),
            },
            max_turns: Some(2),
            is_one_shot,
        };
        let machine = TurnMachine::new(rules, now, now, continues);
        Self { machine, now, recording: Vec::new(), lines: Vec::new() }
    }

    fn take(&mut self, step: Step<'_>) {
        let input = match step.verb {
            "rule" => {
                let (asked, effect) = step.ruling();
                let ruling =
                    PolicyRuling { ask: asked.ask.ask, effect, over_ceiling: false, votes: vec![] };
                let answer = ruling.is_final().then_some(AskDecision::AllowOnce);
                TurnInput::Ruling(asked, Some(PolicyVerdict { ruling, answer }))
            }
            "decide" => TurnInput::Decision(step.key(), AskDecision::AllowOnce),
            "steer" => {
                let reply_tx = oneshot::channel().0;
                TurnInput::Steering(Steering { parts: vec![], reply_tx })
            }
            "stop" => TurnInput::Stop(StopReason::User),
            "wait" => {
                self.now += Duration::from_secs(step.object.parse().expect("seconds"));
                TurnInput::Deadline
            }
            _ => TurnInput::Report(step.report()),
        };
        if let Some(report) = step.report().filter(|_| step.verb != "interrupt-ignored") {
            if matches!(report, LinkReport::Event(_)) {
                self.recording.push(LinkReport::Replayed(1_000));
            }
            self.recording.push(report);
        }
        self.handle(input);
    }

    fn handle(&mut self, input: TurnInput) {
        let effects = self.machine.handle(self.now, input);
        effects.into_iter().for_each(|effect| self.carry_out(effect));
    }

    fn carry_out(&mut self, effect: TurnEffect) {
        match effect {
            TurnEffect::Show(TurnNews { kind, replayed, at_ms }) => {
                let is_event = matches!(kind, NewsKind::Event(_));
                assert!(at_ms == replayed.then_some(1_000) || !is_event && at_ms.is_none());
                let again = if replayed { "again " } else { "" };
                self.lines.push(format!("{again}show {}", news_line(&kind)));
            }
            TurnEffect::Judge(question) => {
                let key = question.ask.ask;
                self.lines.push(format!("judge {key}.{}", question.time));
                if key < 10 {
                    self.handle(TurnInput::Ruling(question, None));
                }
            }
            TurnEffect::Ask(question) => {
                self.lines.push(format!("ask {}.{}", question.ask.ask, question.time));
            }
            TurnEffect::Delegate(call) => self.lines.push(format!("delegate {}", call.key)),
            TurnEffect::Request(request) => self.send(request),
            TurnEffect::SetNativeId(id) => {
                let again = if self.machine.is_catching_up() { "again " } else { "" };
                self.lines.push(format!("{again}show session {id}"));
            }
            TurnEffect::CountFirstText(_) => self.lines.push("count the first text".to_owned()),
        }
    }

    /// Records a request, as the link does.
    fn send(&mut self, request: LinkRequest) {
        let line = match request {
            LinkRequest::Interrupt(_) => {
                self.recording.push(LinkReport::Stopping);
                "send interrupt".to_owned()
            }
            LinkRequest::GiveUp(_) => "send give-up".to_owned(),
            LinkRequest::Steer(..) => {
                self.recording.push(LinkReport::Steered);
                "send steer".to_owned()
            }
            LinkRequest::Answer(ask, decision) => {
                let line = format!("send answer {ask} {decision:?}");
                self.recording.push(LinkReport::Answered(ask, decision));
                line
            }
            LinkRequest::Ruled(ruling) => {
                let line = format!("send ruling {}", ruling.ask);
                let is_asked = |report: &LinkReport| matches!(report, LinkReport::Ask(ask) if ask.ask == ruling.ask);
                // A question from before a restart is not in this recording.
                let asked = self.recording.iter().rposition(is_asked);
                if let Some(asked) = asked.filter(|_| ruling.is_final()) {
                    self.recording.insert(asked, LinkReport::Ruled(ruling));
                }
                line
            }
            _ => unreachable!("not a request of a turn"),
        };
        self.lines.push(line);
    }

    /// Returns the process after a restart that has not caught up yet. Its effects so far are those
    /// of the recording.
    fn restart(self, is_one_shot: bool) -> Self {
        let mut next = Self::new(self.now, is_one_shot, true);
        for report in self.recording {
            next.handle(TurnInput::Report(Some(report)));
        }
        assert!(next.machine.is_catching_up());
        next
    }

    fn catch_up(&mut self) {
        let (spent, elapsed) = (Duration::ZERO, Duration::ZERO);
        self.handle(TurnInput::Report(Some(LinkReport::CaughtUp { spent, elapsed })));
    }

    /// Ends the turn. Returns the state that decides about its ending.
    fn end(&mut self) -> String {
        let effects = self.machine.close(self.now);
        effects.into_iter().for_each(|effect| self.carry_out(effect));
        let TurnMachine { guard, observed, failures, examined, stopping, .. } = &self.machine;
        let (transcript, done, rounds) = (guard.transcript(), guard.is_done(), guard.rounds());
        let (text, tools, cause) = (transcript.text(), transcript.tools(), stopping.cause);
        format!("{text} {tools:?} {done} {rounds} {observed:?} {failures:?} {examined:?} {cause:?}")
    }
}

fn news_line(kind: &NewsKind) -> String {
    match kind {
        NewsKind::Event(AgentEventKind::Text(text)) => format!("text {}", text.text),
        NewsKind::Event(AgentEventKind::ToolStart(start)) => format!("tool {}", start.id),
        NewsKind::Event(AgentEventKind::ToolEnd(end)) => format!("end {} {:?}", end.id, end.status),
        NewsKind::Event(event) => format!("{event:?}"),
        NewsKind::Asked(ask) => format!("question {}", ask.ask),
        NewsKind::Steered => "message".to_owned(),
        NewsKind::Called(call) => format!("call {}", call.key),
        NewsKind::Ruled(_, ruling) => format!("ruling {} {}", ruling.ask, ruling.effect.word()),
        NewsKind::Answered(ask, decision) => format!("answer {} {decision:?}", ask.ask),
        NewsKind::Settled(ask, how) => format!("settled {ask} {how:?}"),
    }
}

/// Returns the news of the recording of a process that had these effects. The decision of policies
/// is known where the agent asked.
fn replayed_news(lines: &[String]) -> Vec<String> {
    let mut news = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let (verb, object) = line.split_once(' ').expect("two words");
        let shown = match (verb, object) {
            ("judge", id) => {
                let (key, _) = id.split_once('.').expect("a key and how often it was used");
                let (next, ruling) = (format!("judge {key}."), format!("show ruling {key} "));
                let later = lines[index + 1..].iter().take_while(|line| !line.starts_with(&next));
                let mut rulings = later.filter(|line| line.starts_with(&ruling));
                let is_final = |line: &&String| !line.ends_with(" ask");
                rulings.find(is_final).cloned().unwrap_or(format!("show question {key}"))
            }
            ("delegate", key) => format!("show call {key}"),
            ("send", "steer") => "show message".to_owned(),
            ("show", shown) if shown.starts_with("ruling ") => continue,
            ("show", shown) if shown.ends_with(" Expired") => {
                let key = shown.split(' ').nth(1).expect("a key");
                format!("show answer {key} Dismissed")
            }
            ("show", _) => line.clone(),
            _ => continue,
        };
        news.push(format!("again {shown}"));
    }
    news
}

/// Returns what a process with these effects has begun and not finished: calls first.
fn unfinished(lines: &[String]) -> Vec<String> {
    let mut open: BTreeMap<(bool, AskKey), String> = BTreeMap::new();
    for line in lines {
        let key = |of: &str| of.split([' ', '.']).next().and_then(|key| key.parse().ok());
        if let Some(key) = line.strip_prefix("judge ").and_then(key) {
            open.insert((true, key), line.clone());
        } else if let Some(key) = line.strip_prefix("delegate ").and_then(key) {
            open.insert((false, key), line.clone());
        } else if let Some(key) = line
            .strip_prefix("send answer ")
            .or_else(|| line.strip_prefix("show settled "))
            .and_then(key)
        {
            open.retain(|(_, open), _| *open != key);
        }
    }
    open.into_values().collect()
}

/// Cuts a turn before the step `cut`, and compares the effects of both processes with those of a
/// turn without a restart.
fn cut(turn: &str, cut: usize, is_one_shot: bool) {
    let context = format!("`{turn}`, cut at {cut}, one-shot: {is_one_shot}");
    let steps = Step::all(turn);
    let mut whole = Process::new(Instant::now(), is_one_shot, false);
    steps.iter().for_each(|step| whole.take(*step));
    let state = whole.end();

    let mut first = Process::new(Instant::now(), is_one_shot, false);
    steps[..cut].iter().for_each(|step| first.take(*step));
    let before = first.lines.clone();
    assert_eq!(before, whole.lines[..before.len()], "{context}");
    let rest = &whole.lines[before.len()..];

    let mut second = first.restart(is_one_shot);
    assert_eq!(std::mem::take(&mut second.lines), replayed_news(&before), "{context}");
    second.catch_up();
    let mut resumed = Vec::new();
    for line in unfinished(&before) {
        let id = line.strip_prefix("judge ").filter(|id| id.len() < "10.1".len());
        let asked = id.map(|id| format!("ask {id}"));
        resumed.extend([Some(line.clone()), asked].into_iter().flatten());
    }
    assert_eq!(std::mem::take(&mut second.lines), resumed, "{context}");
    for step in steps[..cut].iter().filter(|step| step.verb == "rule") {
        let (asked, _) = step.ruling();
        let (key, time) = (asked.ask.ask, asked.time);
        if resumed.contains(&format!("judge {key}.{time}")) {
            // Left to people before, and again.
            second.take(*step);
            let asked = format!("ask {key}.{time}");
            let again = [format!("send ruling {key}"), format!("show ruling {key} ask"), asked];
            assert_eq!(std::mem::take(&mut second.lines), again, "{context}");
        }
    }
    steps[cut..].iter().for_each(|step| second.take(*step));
    let state_after_restart = second.end();
    assert_eq!(second.lines, rest, "{context}");
    assert_eq!(state_after_restart, state, "{context}");
}

#[test]
fn a_turn_that_a_restart_cuts_at_any_position_has_the_effects_of_the_whole_turn() {
    for turn in TURNS {
        for is_one_shot in [true, false] {
            // The last step ends the link, so that nothing can continue after it.
            for position in 0..Step::all(turn).len() {
                cut(turn, position, is_one_shot);
            }
        }
    }
}

#[test]
fn an_interrupt_that_the_link_did_not_record_is_sent_after_the_restart() {
    for (turn, cause) in [("text a, output-limit", "Output"), ("tool a, tool b, tool c", "Rounds")]
    {
        let mut first = Process::new(Instant::now(), true, false);
        Step::all(turn).into_iter().for_each(|step| first.take(step));
        assert!(matches!(first.recording.pop(), Some(LinkReport::Stopping)));
        let mut second = first.restart(true);
        assert!(second.lines.iter().all(|line| line.starts_with("again ")));
        second.lines.clear();
        second.catch_up();
        assert_eq!(second.lines, ["send interrupt"]);
        assert!(second.end().ends_with(&format!("Some({cause})")));
    }
}

#[test]
fn a_turn_whose_link_ends_before_it_has_caught_up_is_over() {
    let mut first = Process::new(Instant::now(), false, false);
    Step::all("call 2147483648, ask 1, text a").into_iter().for_each(|step| first.take(step));
    let mut second = first.restart(false);
    second.lines.clear();
    second.handle(TurnInput::Report(None));
    assert!(second.machine.is_over() && !second.machine.is_catching_up());
    second.end();
    let closed = ["show settled 1 TurnEnded", "show settled 2147483648 TurnEnded"];
    let begun = ["delegate 2147483648", "judge 1.1", "ask 1.1"];
    assert_eq!(second.lines, [&begun[..], &closed].concat());
}
