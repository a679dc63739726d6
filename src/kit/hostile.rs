//! What a bad day tells a guest: recordings with everything wrong with them, and prompts with every
//! setting there is.

use super::damage::{self, GARBAGE};
use super::dice::Dice;
use super::script::{Manner, Script, Tell, said, turn_at};
use super::stage::PROMPT;
use crate::agent::descriptor::{Feature, OneShot, Sharing};
use crate::agent::{
    Answer, Attachment, Command, Decision, DeliveryWish, Descriptor, Exit, Exited, HttpFailed,
    HttpResponse, Input, Line, Mode, Part, Pipe, Query, QueryKind, Safety, Settings, SpawnFailed,
    Spawned, StartTurn, Steer, StreamClosed, StreamEvent, StreamOpened, TurnRef,
};

/// A key nobody uses.
const NOBODYS: u32 = 987_654;
/// The host's longest line, unless the descriptor has a shorter one.
const LINE: usize = 8 << 20;

/// How processes may end.
const EXITS: [Exit; 5] =
    [Exit::Code(0), Exit::Code(1), Exit::Code(127), Exit::Signal(9), Exit::Unknown];

/// What a recording becomes when things go wrong; the first is the recording as it is.
pub(super) fn of_recording(base: &[Tell], dice: &mut Dice, most: usize) -> Vec<Script> {
    let mut scripts = vec![plain("as recorded", base.to_vec())];
    let lines: Vec<usize> =
        (0..base.len()).filter(|at| base[*at].line_of_output().is_some()).collect();
    for exit in EXITS {
        if let Some(first) = lines.first() {
            let manner = Manner { exit, ..Manner::default() };
            scripts.push(Script {
                name: format!("the agent exits before its first line ({exit:?})"),
                tells: base[..*first].to_vec(),
                manner,
            });
        }
    }
    // Only the first turn surely starts one.
    if let Some(at) = base.iter().position(|tell| tell.start().is_some()) {
        let failed =
            SpawnFailed { proc: 1, message: "program not found: kit".into(), not_found: true };
        scripts.push(plain(
            "the agent cannot be started",
            with(&base[..=at], at + 1, [Tell::own(Input::SpawnFailed(failed))]),
        ));
    }
    cuts(base, &lines, dice, &mut scripts);
    garbage(base, &lines, dice, &mut scripts);
    for at in dice.pick(lines.len(), 24).into_iter().map(|at| lines[at]) {
        let text = &base[at].line_of_output().map_or("", |line| &line.text);
        for (what, text) in damage::broken(text, 2, dice) {
            scripts.push(forged(
                &format!("line {} with {what}", number(base, at)),
                retold(base, at, &text, false),
            ));
        }
    }
    // A turn begins once, and before everything that is about it: of that a host takes care.
    let others: Vec<usize> = (0..base.len()).filter(|at| base[*at].start().is_none()).collect();
    for at in dice.pick(others.len(), 5).into_iter().map(|at| others[at]) {
        let name = format!("line {} ", number(base, at));
        scripts.push(plain(&(name.clone() + "told twice"), with(base, at, [base[at].clone()])));
        if base.get(at + 1).is_some_and(|next| next.start().is_none()) {
            let mut swapped = base.to_vec();
            swapped.swap(at, at + 1);
            scripts.push(plain(&(name.clone() + "and the next one swapped"), swapped));
        }
        let mut missing = base.to_vec();
        missing.remove(at);
        scripts.push(plain(&(name + "missing"), missing));
    }
    commands(base, dice, &mut scripts);
    for (at, exited) in
        base.iter().enumerate().filter(|(_, tell)| matches!(tell.input, Input::Exited(_)))
    {
        scripts.push(plain("the agent exits twice", with(base, at, [exited.clone()])));
    }
    // Always the first, and of the others as many as there is time for, from everywhere.
    let kept = dice.pick(scripts.len() - 1, most.saturating_sub(1));
    let mut all: Vec<Option<Script>> = scripts.into_iter().map(Some).collect();
    std::iter::once(0)
        .chain(kept.into_iter().map(|at| at + 1))
        .filter_map(|at| all[at].take())
        .collect()
}

fn cuts(base: &[Tell], lines: &[usize], dice: &mut Dice, scripts: &mut Vec<Script>) {
    for at in dice.pick(base.len(), 10) {
        let manner = Manner { exit: EXITS[dice.roll(EXITS.len())], ..Manner::default() };
        scripts.push(Script {
            name: format!("everything ends after line {}", number(base, at)),
            tells: base[..=at].to_vec(),
            manner,
        });
    }
    for at in dice.pick(lines.len(), 4).into_iter().map(|at| lines[at]) {
        let Some(line) = base[at].line_of_output() else { continue };
        let end = line.text.floor_char_boundary(dice.roll(line.text.len().max(1)));
        let name = format!("line {} cut after {end} bytes", number(base, at));
        scripts.push(plain(&name, retold(base, at, &line.text[..end], true)));
        scripts.push(plain(
            &(name + " and the last one"),
            retold(&base[..=at], at, &line.text[..end], false),
        ));
    }
}

fn garbage(base: &[Tell], lines: &[usize], dice: &mut Dice, scripts: &mut Vec<Script>) {
    if lines.is_empty() {
        return;
    }
    for (what, text) in GARBAGE {
        let at = lines[dice.roll(lines.len())];
        scripts.push(plain(
            &format!("{what} in place of line {}", number(base, at)),
            retold(base, at, text, false),
        ));
        let proc = base[at].line_of_output().map_or(1, |line| line.proc);
        let more = Tell { line: base[at].line, ..Tell::own(said(proc, text)) };
        scripts.push(plain(
            &format!("{what} before line {}", number(base, at)),
            with(base, at, [more]),
        ));
    }
}

fn commands(base: &[Tell], dice: &mut Dice, scripts: &mut Vec<Script>) {
    let first = base.iter().position(|tell| tell.start().is_some()).map_or(0, |at| at + 1);
    let places: Vec<usize> =
        dice.pick(base.len().saturating_sub(first), 4).into_iter().map(|at| at + first).collect();
    for at in places {
        let Some(turn) = turn_at(base, at) else { continue };
        let before = format!("before line {}", number(base, at));
        let interrupt = || Tell::foreign(Input::Command(Command::Interrupt(turn)));
        let mut add = |what: &str, tells: Vec<Tell>| {
            scripts.push(plain(&format!("{what} {before}"), with(base, at, tells)))
        };
        add("interrupted", vec![interrupt()]);
        add("interrupted twice", vec![interrupt(), interrupt()]);
        add("a turn interrupted that never was", vec![foreign_turn()]);
        add(
            "steered",
            [DeliveryWish::Steer, DeliveryWish::Queue, DeliveryWish::Replace]
                .map(|wish| steer(turn, wish))
                .to_vec(),
        );
        add("asked about everything", queries(turn.session));
        add("told about what was never asked for", strangers());
        let mut cut = with(&base[..at], at, [interrupt()]);
        scripts.push(plain(
            &format!("interrupted {before}, and everything ends"),
            std::mem::take(&mut cut),
        ));
        let close = Tell::foreign(Input::Command(Command::CloseSession(turn.session)));
        let shutdown = Tell::foreign(Input::Command(Command::Shutdown));
        scripts.push(plain(&format!("shut down {before}"), with(base, at, [close, shutdown])));
    }
}

/// What can be tried without any recording: the descriptor says what may come.
pub(super) fn of_descriptor(descriptor: &Descriptor) -> Vec<Script> {
    let mut scripts = Vec::new();
    for start in starts(descriptor) {
        let what =
            format!("a first prompt ({:?}, {:?})", start.settings.safety, start.settings.mode)
                .to_lowercase();
        let begun = || Tell::own(Input::Command(Command::StartTurn(start.clone())));
        let spawned =
            || Tell::own(Input::Spawned(Spawned { proc: 1, agent_version: Some("1.2.3".into()) }));
        for exit in EXITS {
            let manner = Manner { exit, ..Manner::default() };
            scripts.push(Script {
                name: format!("{what}, then the agent exits ({exit:?})"),
                tells: vec![begun(), spawned()],
                manner,
            });
        }
        let all = GARBAGE.iter().map(|(_, text)| Tell::own(said(1, text)));
        let tells = [begun(), spawned()].into_iter().chain(all).collect();
        scripts.push(plain(&format!("{what}, then every kind of garbage"), tells));
        for (body, decision) in [
            ("{", Decision::AllowAlways),
            ("null", Decision::DenyAndStop),
            ("{\"type\":\"kit\"}", Decision::Deny(None)),
        ] {
            let manner = Manner { body: Some(body), decision, ..Manner::default() };
            scripts.push(Script {
                name: format!("{what}, every request answered with `{body}`"),
                tells: vec![begun(), spawned()],
                manner,
            });
        }
    }
    let begun = || {
        vec![Tell::own(Input::Command(Command::StartTurn(StartTurn {
            one_shot: one_shot(descriptor),
            ..StartTurn::plain(PROMPT, Safety::Default)
        })))]
    };
    let spawned = || Tell::own(Input::Spawned(Spawned { proc: 1, agent_version: None }));
    let longest = descriptor.line_limit.map_or(LINE, |limit| LINE.min(limit as usize));
    let huge = |text: String| {
        Tell::own(Input::Line(Line { proc: 1, pipe: Pipe::Stdout, text, truncated: true }))
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
        scripts.push(plain(what, begun().into_iter().chain([spawned(), huge(text)]).collect()));
    }
    scripts.push(plain(
        "questions and commands before any turn",
        queries(1).into_iter().chain([foreign_turn()]).chain(strangers()).collect(),
    ));
    let many = (0..2_000).map(|number| {
        Tell::own(Input::Line(Line {
            proc: 1,
            pipe: Pipe::Stderr,
            text: format!("warning {number}"),
            truncated: false,
        }))
    });
    scripts.push(plain(
        "two thousand lines on stderr",
        begun().into_iter().chain([spawned()]).chain(many).collect(),
    ));
    scripts
}

/// A first prompt, and everything there is of garbage for an answer.
pub(super) fn of_nothing(descriptor: &Descriptor) -> Vec<Tell> {
    let start =
        StartTurn { one_shot: one_shot(descriptor), ..StartTurn::plain(PROMPT, Safety::Default) };
    let exited = Exited { proc: 1, how: Exit::Code(1), stderr_tail: "no".into() };
    let begun = [
        Input::Command(Command::StartTurn(start)),
        Input::Spawned(Spawned { proc: 1, agent_version: None }),
    ];
    let garbage = GARBAGE.iter().map(|(_, text)| said(1, text));
    begun.into_iter().chain(garbage).chain([Input::Exited(exited)]).map(Tell::own).collect()
}

/// The longest text of a recording's line, made as long as lines get.
pub(super) fn swollen(base: &[Tell], descriptor: &Descriptor) -> Option<Script> {
    let longest = descriptor.line_limit.map_or(LINE, |limit| LINE.min(limit as usize));
    let (at, line) = base
        .iter()
        .enumerate()
        .filter_map(|(at, tell)| tell.line_of_output().map(|line| (at, line)))
        .max_by_key(|(_, line)| line.text.len())?;
    let mut value: serde_json::Value = serde_json::from_str(&line.text).ok()?;
    let mut places = Vec::new();
    damage::nodes(&value, &mut String::new(), &mut places);
    let widest = places.into_iter().max_by_key(|place| {
        value.pointer(place).and_then(|there| there.as_str()).map_or(0, str::len)
    })?;
    let text = value.pointer_mut(&widest).filter(|there| there.is_string())?;
    *text = "z".repeat(longest.saturating_sub(line.text.len() + 16)).into();
    Some(forged(
        &format!("line {} with 8 MiB in `{}`", number(base, at), damage::field(&widest)),
        retold(base, at, &value.to_string(), false),
    ))
}

/// A first turn for every level, with everything chosen that the descriptor offers, and with
/// nothing.
fn starts(descriptor: &Descriptor) -> Vec<StartTurn> {
    let mut starts = Vec::new();
    let has = |feature| descriptor.has(feature);
    let modes: &[Mode] =
        if has(Feature::Plan) { &[Mode::Build, Mode::Plan] } else { &[Mode::Build] };
    for safety in [Safety::Default, Safety::Edit, Safety::Danger] {
        for mode in modes {
            let plain = StartTurn {
                one_shot: one_shot(descriptor),
                settings: Settings { mode: *mode, ..Settings::plain(safety) },
                ..StartTurn::plain(PROMPT, safety)
            };
            let settings = Settings {
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
                    vec!["Read".into(), "--evil".into()]
                } else {
                    Vec::new()
                },
                max_turns: has(Feature::MaxTurns).then_some(3),
                ..plain.settings.clone()
            };
            let mut parts: Vec<Part> =
                ["--help", "@/etc/passwd", "/clear", "!ls", "-", "", PROMPT, "a\"b\\c\nd\u{1F600}"]
                    .map(|text| Part::Text(text.into()))
                    .into();
            let file = |blob, media: &str| Attachment {
                blob,
                name: "--x.png".into(),
                media_type: media.into(),
                size: 3,
                path: "/tmp/--x.png".into(),
            };
            if has(Feature::Images) {
                parts.push(Part::Image(file(1, "image/png")));
            }
            if has(Feature::Files) {
                parts.push(Part::File(file(2, "text/plain")));
            }
            let resumed = has(Feature::Resume).then(|| "5f0c9b1e-kit.session:1".to_owned());
            let full = StartTurn { native_id: resumed.clone(), settings, parts, ..plain.clone() };
            if has(Feature::Fork) && resumed.is_some() {
                starts.push(StartTurn { fork: true, ..full.clone() });
            }
            if descriptor.sharing != Sharing::Turn && descriptor.one_shot != OneShot::Never {
                starts.push(StartTurn { one_shot: true, ..full.clone() });
                starts.push(StartTurn { one_shot: true, ..plain.clone() });
            }
            starts.extend([plain, full]);
        }
    }
    starts
}

fn one_shot(descriptor: &Descriptor) -> bool {
    descriptor.sharing == Sharing::Turn
}

/// A trial in which the agent says something else than it did.
fn forged(name: &str, tells: Vec<Tell>) -> Script {
    Script { name: name.to_owned(), tells, manner: Manner { forged: true, ..Manner::default() } }
}

fn plain(name: &str, tells: Vec<Tell>) -> Script {
    Script { name: name.to_owned(), tells, manner: Manner::default() }
}

/// The line of the recording, or the place in the trial.
fn number(base: &[Tell], at: usize) -> usize {
    base.get(at).and_then(|tell| tell.line).unwrap_or(at + 1)
}

fn with(base: &[Tell], at: usize, more: impl IntoIterator<Item = Tell>) -> Vec<Tell> {
    let line = base.get(at).or(base.last()).and_then(|tell| tell.line);
    let more = more.into_iter().map(|tell| Tell { line: tell.line.or(line), ..tell });
    let end = at.min(base.len());
    base[..end].iter().cloned().chain(more).chain(base[end..].iter().cloned()).collect()
}

fn retold(base: &[Tell], at: usize, text: &str, truncated: bool) -> Vec<Tell> {
    let mut tells = base.to_vec();
    if let Input::Line(line) = &mut tells[at].input {
        line.text = text.to_owned();
        line.truncated = truncated;
    }
    tells
}

fn foreign_turn() -> Tell {
    Tell::foreign(Input::Command(Command::Interrupt(TurnRef { session: NOBODYS, turn: NOBODYS })))
}

fn steer(turn: TurnRef, delivery: DeliveryWish) -> Tell {
    let (session, turn) = (turn.session, turn.turn);
    let parts = vec![Part::Text(format!("--stop {PROMPT}"))];
    let fresh_id = "00000000-0000-4000-8000-000000000001".to_owned();
    Tell::foreign(Input::Command(Command::Steer(Steer {
        session,
        turn,
        message: 900,
        parts,
        delivery,
        fresh_id,
    })))
}

fn queries(session: u32) -> Vec<Tell> {
    let kinds = [
        QueryKind::Health,
        QueryKind::Models,
        QueryKind::Sessions,
        QueryKind::Rename("--x\n".into()),
        QueryKind::Compact,
        QueryKind::DeleteSession("--x".into()),
        QueryKind::Raw("{".into()),
    ];
    let ask = |(number, kind): (usize, QueryKind)| {
        let session = (number % 2 == 0).then_some(session);
        Tell::foreign(Input::Command(Command::Query(Query {
            query: 900 + u32::try_from(number).unwrap_or_default(),
            session,
            kind,
        })))
    };
    kinds.into_iter().enumerate().map(ask).collect()
}

/// Inputs about things that do not exist.
fn strangers() -> Vec<Tell> {
    let key = NOBODYS;
    let inputs = [
        said(key, "{\"type\":\"result\"}"),
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
        Input::Command(Command::Answer(Answer { ask: key, decision: Decision::AllowAlways })),
        Input::Command(Command::Answer(Answer {
            ask: key,
            decision: Decision::Answers(vec![("q".into(), vec!["a".into()])]),
        })),
        Input::Command(Command::CloseSession(key)),
    ];
    inputs.map(Tell::foreign).into()
}
