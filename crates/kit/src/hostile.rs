//! Creates trials with hostile input: recordings with all kinds of disturbances, and prompts with
//! every setting.

use super::damage::{self, GARBAGE};
use super::seeded_rng::SeededRng;
use super::simulator::PROMPT;
use super::trial::{Endings, GuestTrial, TrialStep, stdout_line, turn_at};
use aetheel_model::agent::descriptor::{Feature, LinkSharing, OneShot};
use aetheel_model::agent::{
    AgentLine, AgentQuery, AskAnswer, AskDecision, Attachment, Descriptor, Exit, Exited,
    HostCommand, HttpFailed, HttpResponse, Input, Mode, Pipe, PromptPart, QueryKind, Safety,
    SpawnFailed, Spawned, StartTurn, Steer, StreamClosed, StreamEvent, StreamOpened, ToolResult,
    TurnRef, TurnSettings,
};
use aetheel_recording::comparison::{field_name, pointers};

/// A key that guests do not use.
const UNKNOWN_KEY: u32 = 987_654;
/// Maximum length of a line that the host passes on, in bytes, unless the descriptor has a lower
/// limit.
const MAX_LINE: usize = 8 << 20;

/// The ways in which a process can end.
const EXITS: [Exit; 5] =
    [Exit::Code(0), Exit::Code(1), Exit::Code(127), Exit::Signal(9), Exit::Unknown];

/// Creates at most `most` trials from a recording. The first is the unchanged recording.
pub(super) fn of_recording(
    base: &[TrialStep],
    rng: &mut SeededRng,
    most: usize,
) -> Vec<GuestTrial> {
    let mut trials = vec![GuestTrial::new("as recorded", base.to_vec())];
    let lines: Vec<usize> = (0..base.len()).filter(|at| base[*at].output().is_some()).collect();
    for exit in EXITS {
        if let Some(first) = lines.first() {
            trials.push(GuestTrial::exiting(
                format!("the agent exits before its first line ({exit:?})"),
                base[..*first].to_vec(),
                exit,
            ));
        }
    }
    // Only the first turn certainly starts an agent.
    if let Some(at) = base.iter().position(|step| step.start().is_some()) {
        let failed =
            SpawnFailed { proc: 1, message: "program not found: kit".into(), not_found: true };
        trials.push(GuestTrial::new(
            "the agent cannot be started",
            with_more(&base[..=at], at + 1, [TrialStep::own(Input::SpawnFailed(failed))]),
        ));
    }
    cuts(base, &lines, rng, &mut trials);
    garbage(base, &lines, rng, &mut trials);
    for at in rng.pick(lines.len(), 24).into_iter().map(|at| lines[at]) {
        let text = &base[at].output().map_or("", |line| &line.text);
        for (what, text) in damage::broken(text, 2, rng) {
            trials.push(GuestTrial::forged(
                format!("line {} with {what}", number(base, at)),
                with_text(base, at, &text, false),
            ));
        }
    }
    // The start of a turn is not moved, because a host starts a turn once, before all its other
    // inputs.
    let others: Vec<usize> = (0..base.len()).filter(|at| base[*at].start().is_none()).collect();
    for at in rng.pick(others.len(), 5).into_iter().map(|at| others[at]) {
        let name = format!("line {} ", number(base, at));
        trials.push(GuestTrial::new(
            &(name.clone() + "repeated"),
            with_more(base, at, [base[at].clone()]),
        ));
        if base.get(at + 1).is_some_and(|next| next.start().is_none()) {
            let mut swapped = base.to_vec();
            swapped.swap(at, at + 1);
            trials.push(GuestTrial::new(&(name.clone() + "and the next one swapped"), swapped));
        }
        let mut missing = base.to_vec();
        missing.remove(at);
        trials.push(GuestTrial::new(&(name + "missing"), missing));
    }
    commands(base, rng, &mut trials);
    for (at, exited) in
        base.iter().enumerate().filter(|(_, step)| matches!(step.input, Input::Exited(_)))
    {
        trials
            .push(GuestTrial::new("the agent exits twice", with_more(base, at, [exited.clone()])));
    }
    // Keeps the first trial, and a random selection of the others.
    let kept = rng.pick(trials.len() - 1, most.saturating_sub(1));
    let mut all: Vec<Option<GuestTrial>> = trials.into_iter().map(Some).collect();
    std::iter::once(0)
        .chain(kept.into_iter().map(|at| at + 1))
        .filter_map(|at| all[at].take())
        .collect()
}

fn cuts(base: &[TrialStep], lines: &[usize], rng: &mut SeededRng, trials: &mut Vec<GuestTrial>) {
    for at in rng.pick(base.len(), 10) {
        trials.push(GuestTrial::exiting(
            format!("everything ends after line {}", number(base, at)),
            base[..=at].to_vec(),
            EXITS[rng.below(EXITS.len())],
        ));
    }
    for at in rng.pick(lines.len(), 4).into_iter().map(|at| lines[at]) {
        let Some(line) = base[at].output() else { continue };
        let end = line.text.floor_char_boundary(rng.below(line.text.len().max(1)));
        let name = format!("line {} cut after {end} bytes", number(base, at));
        trials.push(GuestTrial::new(&name, with_text(base, at, &line.text[..end], true)));
        trials.push(GuestTrial::new(
            &(name + " and the last one"),
            with_text(&base[..=at], at, &line.text[..end], false),
        ));
    }
}

fn garbage(base: &[TrialStep], lines: &[usize], rng: &mut SeededRng, trials: &mut Vec<GuestTrial>) {
    if lines.is_empty() {
        return;
    }
    for (what, text) in GARBAGE {
        let at = lines[rng.below(lines.len())];
        trials.push(GuestTrial::new(
            format!("{what} in place of line {}", number(base, at)),
            with_text(base, at, text, false),
        ));
        let proc = base[at].output().map_or(1, |line| line.proc);
        let more = TrialStep { line: base[at].line, ..TrialStep::own(stdout_line(proc, text)) };
        trials.push(GuestTrial::new(
            format!("{what} before line {}", number(base, at)),
            with_more(base, at, [more]),
        ));
    }
}

fn commands(base: &[TrialStep], rng: &mut SeededRng, trials: &mut Vec<GuestTrial>) {
    let first = base.iter().position(|step| step.start().is_some()).map_or(0, |at| at + 1);
    let places: Vec<usize> =
        rng.pick(base.len().saturating_sub(first), 4).into_iter().map(|at| at + first).collect();
    for at in places {
        let Some(turn) = turn_at(base, at) else { continue };
        let before = format!("before line {}", number(base, at));
        let interrupt = || TrialStep::foreign(Input::Command(HostCommand::Interrupt(turn)));
        let mut add = |what: &str, steps: Vec<TrialStep>| {
            trials.push(GuestTrial::new(format!("{what} {before}"), with_more(base, at, steps)))
        };
        add("interrupted", vec![interrupt()]);
        add("interrupted twice", vec![interrupt(), interrupt()]);
        add("a nonexistent turn interrupted", vec![foreign_turn()]);
        add("steered", vec![steer(turn)]);
        add("sent every query", queries(turn.session));
        add("sent inputs with unknown keys", about_unknown_keys());
        let mut cut = with_more(&base[..at], at, [interrupt()]);
        trials.push(GuestTrial::new(
            format!("interrupted {before}, and everything ends"),
            std::mem::take(&mut cut),
        ));
        let close = TrialStep::foreign(Input::Command(HostCommand::CloseSession(turn.session)));
        let shutdown = TrialStep::foreign(Input::Command(HostCommand::Shutdown));
        trials.push(GuestTrial::new(
            format!("shut down {before}"),
            with_more(base, at, [close, shutdown]),
        ));
    }
}

/// Creates the trials that need only the descriptor.
pub(super) fn of_descriptor(descriptor: &Descriptor) -> Vec<GuestTrial> {
    let mut trials = Vec::new();
    for start in starts(descriptor) {
        let what =
            format!("a first prompt ({:?}, {:?})", start.settings.safety, start.settings.mode)
                .to_lowercase();
        let begun = || TrialStep::own(Input::Command(HostCommand::StartTurn(start.clone())));
        let spawned = || {
            TrialStep::own(Input::Spawned(Spawned { proc: 1, agent_version: Some("1.2.3".into()) }))
        };
        for exit in EXITS {
            trials.push(GuestTrial::exiting(
                format!("{what}, then the agent exits ({exit:?})"),
                vec![begun(), spawned()],
                exit,
            ));
        }
        let all = GARBAGE.iter().map(|(_, text)| TrialStep::own(stdout_line(1, text)));
        let steps = [begun(), spawned()].into_iter().chain(all).collect();
        trials.push(GuestTrial::new(format!("{what}, then every kind of garbage"), steps));
        for (body, decision) in [
            ("{", AskDecision::AllowAlways),
            ("null", AskDecision::DenyAndStop),
            ("{\"type\":\"kit\"}", AskDecision::Deny(None)),
        ] {
            let endings = Endings { body: Some(body), decision, ..Endings::default() };
            let name = format!("{what}, every request answered with `{body}`");
            trials.push(GuestTrial { endings, ..GuestTrial::new(name, vec![begun(), spawned()]) });
        }
    }
    let begun = || {
        vec![TrialStep::own(Input::Command(HostCommand::StartTurn(StartTurn {
            one_shot: one_shot(descriptor),
            ..StartTurn::plain(PROMPT, Safety::Default)
        })))]
    };
    let spawned = || TrialStep::own(Input::Spawned(Spawned { proc: 1, agent_version: None }));
    let longest = descriptor.line_limit.map_or(MAX_LINE, |limit| MAX_LINE.min(limit as usize));
    let huge = |text: String| {
        TrialStep::own(Input::Line(AgentLine {
            proc: 1,
            pipe: Pipe::Stdout,
            text,
            truncated: true,
        }))
    };
    for (what, text) in [
        ("a line as long as lines get", "x".repeat(longest)),
        (
            "a text as long as lines get",
            format!(
                "{{\"type\":\"text\",\"text\":\"{}\"}}",
                "y".repeat(longest.saturating_sub(40))
            ),
        ),
        ("lists in lists", damage::deep()),
    ] {
        trials.push(GuestTrial::new(
            what,
            begun().into_iter().chain([spawned(), huge(text)]).collect(),
        ));
    }
    trials.push(GuestTrial::new(
        "questions and commands before any turn",
        queries(1).into_iter().chain([foreign_turn()]).chain(about_unknown_keys()).collect(),
    ));
    let many = (0..2_000).map(|number| {
        TrialStep::own(Input::Line(AgentLine {
            proc: 1,
            pipe: Pipe::Stderr,
            text: format!("warning {number}"),
            truncated: false,
        }))
    });
    trials.push(GuestTrial::new(
        "two thousand lines on stderr",
        begun().into_iter().chain([spawned()]).chain(many).collect(),
    ));
    trials
}

/// Returns the steps of a first prompt that is answered with all kinds of garbage.
pub(super) fn without_recording(descriptor: &Descriptor) -> Vec<TrialStep> {
    let start =
        StartTurn { one_shot: one_shot(descriptor), ..StartTurn::plain(PROMPT, Safety::Default) };
    let exited = Exited { proc: 1, how: Exit::Code(1), stderr_tail: "no".into() };
    let begun = [
        Input::Command(HostCommand::StartTurn(start)),
        Input::Spawned(Spawned { proc: 1, agent_version: None }),
    ];
    let garbage = GARBAGE.iter().map(|(_, text)| stdout_line(1, text));
    begun.into_iter().chain(garbage).chain([Input::Exited(exited)]).map(TrialStep::own).collect()
}

/// Extends the longest string in a recording to the maximum line length.
pub(super) fn oversized(base: &[TrialStep], descriptor: &Descriptor) -> Option<GuestTrial> {
    let longest = descriptor.line_limit.map_or(MAX_LINE, |limit| MAX_LINE.min(limit as usize));
    let (at, line) = base
        .iter()
        .enumerate()
        .filter_map(|(at, step)| step.output().map(|line| (at, line)))
        .max_by_key(|(_, line)| line.text.len())?;
    let mut value: serde_json::Value = serde_json::from_str(&line.text).ok()?;
    let places = pointers(&value);
    let widest = places.into_iter().max_by_key(|place| {
        value.pointer(place).and_then(|there| there.as_str()).map_or(0, str::len)
    })?;
    let text = value.pointer_mut(&widest).filter(|there| there.is_string())?;
    *text = "z".repeat(longest.saturating_sub(line.text.len() + 16)).into();
    Some(GuestTrial::forged(
        format!(
            "line {} with {longest} bytes, most of them in `{}`",
            number(base, at),
            field_name(&widest)
        ),
        with_text(base, at, &value.to_string(), false),
    ))
}

/// Returns first turns for every safety level and mode: with all settings that the descriptor
/// offers, and with none.
fn starts(descriptor: &Descriptor) -> Vec<StartTurn> {
    let mut starts = Vec::new();
    let has = |feature| descriptor.has(feature);
    let modes: &[Mode] =
        if has(Feature::Plan) { &[Mode::Build, Mode::Plan] } else { &[Mode::Build] };
    for safety in [Safety::Default, Safety::Edit, Safety::Danger] {
        for mode in modes {
            let plain = StartTurn {
                one_shot: one_shot(descriptor),
                settings: TurnSettings { mode: *mode, ..TurnSettings::plain(safety) },
                ..StartTurn::plain(PROMPT, safety)
            };
            let settings = TurnSettings {
                model: has(Feature::Model).then(|| {
                    descriptor.models.first().map_or("kit-model".into(), |model| model.id.clone())
                }),
                effort: descriptor
                    .efforts
                    .last()
                    .filter(|_| has(Feature::Effort))
                    .map(|effort| effort.id.clone()),
                system_prompt: has(Feature::SystemPrompt)
                    .then(|| format!("--append {PROMPT}\n$(id) \"quoted\" ü")),
                allowed_tools: if has(Feature::AllowedTools) {
                    let known = descriptor.tools.values().flatten().next();
                    let known = known.cloned().unwrap_or_else(|| "kit-tool".into());
                    vec![known, "--evil".into()]
                } else {
                    Vec::new()
                },
                max_turns: has(Feature::MaxTurns).then_some(3),
                ..plain.settings.clone()
            };
            let mut parts: Vec<PromptPart> =
                ["--help", "@/etc/passwd", "/clear", "!ls", "-", "", PROMPT, "a\"b\\c\nd\u{1F600}"]
                    .map(|text| PromptPart::Text(text.into()))
                    .into();
            let file = |blob, media: &str| Attachment {
                blob,
                name: "--x.png".into(),
                media_type: media.into(),
                size: 3,
                path: "/tmp/--x.png".into(),
            };
            if has(Feature::Images) {
                parts.push(PromptPart::Image(file(1, "image/png")));
            }
            if has(Feature::Files) {
                parts.push(PromptPart::File(file(2, "text/plain")));
            }
            let resumed = has(Feature::Resume).then(|| "5f0c9b1e-kit.session:1".to_owned());
            let full = StartTurn { native_id: resumed.clone(), settings, parts, ..plain.clone() };
            if has(Feature::Fork) && resumed.is_some() {
                starts.push(StartTurn { fork: true, ..full.clone() });
            }
            if descriptor.sharing != LinkSharing::Turn && descriptor.one_shot != OneShot::Never {
                starts.push(StartTurn { one_shot: true, ..full.clone() });
                starts.push(StartTurn { one_shot: true, ..plain.clone() });
            }
            starts.extend([plain, full]);
        }
    }
    starts
}

fn one_shot(descriptor: &Descriptor) -> bool {
    descriptor.sharing == LinkSharing::Turn
}

/// Returns the line of the recording, or the position in the trial.
fn number(base: &[TrialStep], at: usize) -> usize {
    base.get(at).and_then(|step| step.line).unwrap_or(at + 1)
}

fn with_more(
    base: &[TrialStep],
    at: usize,
    more: impl IntoIterator<Item = TrialStep>,
) -> Vec<TrialStep> {
    let line = base.get(at).or(base.last()).and_then(|step| step.line);
    let more = more.into_iter().map(|step| TrialStep { line: step.line.or(line), ..step });
    let end = at.min(base.len());
    base[..end].iter().cloned().chain(more).chain(base[end..].iter().cloned()).collect()
}

fn with_text(base: &[TrialStep], at: usize, text: &str, truncated: bool) -> Vec<TrialStep> {
    let mut steps = base.to_vec();
    if let Input::Line(line) = &mut steps[at].input {
        line.text = text.to_owned();
        line.truncated = truncated;
    }
    steps
}

fn foreign_turn() -> TrialStep {
    TrialStep::foreign(Input::Command(HostCommand::Interrupt(TurnRef {
        session: UNKNOWN_KEY,
        turn: UNKNOWN_KEY,
    })))
}

fn steer(turn: TurnRef) -> TrialStep {
    let (session, turn) = (turn.session, turn.turn);
    let parts = vec![PromptPart::Text(format!("--stop {PROMPT}"))];
    let fresh_id = "00000000-0000-4000-8000-000000000001".to_owned();
    TrialStep::foreign(Input::Command(HostCommand::Steer(Steer {
        session,
        turn,
        message: 900,
        parts,
        fresh_id,
    })))
}

fn queries(session: u32) -> Vec<TrialStep> {
    let kinds = [QueryKind::Health, QueryKind::Models, QueryKind::Sessions, QueryKind::Compact];
    let ask = |(number, kind): (usize, QueryKind)| {
        let session = (number % 2 == 0).then_some(session);
        TrialStep::foreign(Input::Command(HostCommand::Query(AgentQuery {
            query: 900 + u32::try_from(number).unwrap_or_default(),
            session,
            kind,
        })))
    };
    kinds.into_iter().enumerate().map(ask).collect()
}

/// Returns inputs with keys that the guest never used.
fn about_unknown_keys() -> Vec<TrialStep> {
    let key = UNKNOWN_KEY;
    let inputs = [
        stdout_line(key, "{\"type\":\"result\"}"),
        Input::Spawned(Spawned { proc: key, agent_version: None }),
        Input::SpawnFailed(SpawnFailed { proc: key, message: String::new(), not_found: false }),
        Input::Exited(Exited { proc: key, how: Exit::Code(0), stderr_tail: String::new() }),
        Input::HttpResponse(HttpResponse { request: key, status: 200, body: "{}".into() }),
        Input::HttpFailed(HttpFailed { request: key, message: String::new(), timed_out: true }),
        Input::StreamOpened(StreamOpened { stream: key, status: 500 }),
        Input::StreamEvent(StreamEvent {
            stream: key,
            name: Some("x".into()),
            id: None,
            data: "{".into(),
        }),
        Input::StreamClosed(StreamClosed { stream: key, message: None }),
        Input::Timer(key),
        Input::ToolResult(ToolResult { call: key, text: "x".into(), failed: false }),
        Input::Command(HostCommand::Answer(AskAnswer {
            ask: key,
            decision: AskDecision::AllowAlways,
        })),
        Input::Command(HostCommand::Answer(AskAnswer {
            ask: key,
            decision: AskDecision::Answers(vec![("q".into(), vec!["a".into()])]),
        })),
        Input::Command(HostCommand::CloseSession(key)),
    ];
    inputs.map(TrialStep::foreign).into()
}
