//! Trials that need no recording: first prompts with every setting of the descriptor, garbage in
//! place of the agent's output, and lines of maximum length.

use super::foreign::{about_unknown_keys, foreign_turn, queries};
use super::{EXITS, longest_line};
use crate::damage::{self, GARBAGE};
use crate::simulator::PROMPT;
use crate::trial::{Endings, GuestTrial, TrialStep, stdout_line};
use aetheel_model::agent::descriptor::{Feature, LinkSharing, OneShot};
use aetheel_model::agent::{
    AgentLine, AskDecision, Attachment, Descriptor, Exit, Exited, HostCommand, Input, Mode, Pipe,
    PromptPart, Safety, Spawned, StartTurn, TurnSettings,
};

/// Creates the trials that need only the descriptor.
pub(crate) fn of_descriptor(descriptor: &Descriptor) -> Vec<GuestTrial> {
    let mut trials = Vec::new();
    for start in starts(descriptor) {
        let what =
            format!("a first prompt ({:?}, {:?})", start.settings.safety, start.settings.mode)
                .to_lowercase();
        let prompt = || TrialStep::own(Input::Command(HostCommand::StartTurn(start.clone())));
        let spawned = || {
            TrialStep::own(Input::Spawned(Spawned { proc: 1, agent_version: Some("1.2.3".into()) }))
        };
        for exit in EXITS {
            trials.push(GuestTrial::exiting(
                format!("{what}, then the agent exits ({exit:?})"),
                vec![prompt(), spawned()],
                exit,
            ));
        }
        let all = GARBAGE.iter().map(|(_, text)| TrialStep::own(stdout_line(1, text)));
        let steps = [prompt(), spawned()].into_iter().chain(all).collect();
        trials.push(GuestTrial::new(format!("{what}, then every kind of garbage"), steps));
        for (body, decision) in [
            ("{", AskDecision::AllowAlways),
            ("null", AskDecision::DenyAndStop),
            ("{\"type\":\"kit\"}", AskDecision::Deny(None)),
        ] {
            let endings = Endings { body: Some(body), decision, ..Endings::default() };
            let name = format!("{what}, every request answered with `{body}`");
            trials.push(GuestTrial { endings, ..GuestTrial::new(name, vec![prompt(), spawned()]) });
        }
    }
    let prompt = || first_prompt(descriptor).map(TrialStep::own).into_iter();
    let longest = longest_line(descriptor);
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
        let line = line(Pipe::Stdout, text, true);
        trials.push(GuestTrial::new(what, prompt().chain([line]).collect()));
    }
    trials.push(GuestTrial::new(
        "questions and commands before any turn",
        queries(1).into_iter().chain([foreign_turn()]).chain(about_unknown_keys()).collect(),
    ));
    let many = (0..2_000).map(|number| line(Pipe::Stderr, format!("warning {number}"), false));
    trials.push(GuestTrial::new("two thousand lines on stderr", prompt().chain(many).collect()));
    trials
}

/// Returns the steps of a first prompt that is answered with all kinds of garbage.
pub(crate) fn without_recording(descriptor: &Descriptor) -> Vec<TrialStep> {
    let exited = Exited { proc: 1, how: Exit::Code(1), stderr_tail: "no".into() };
    let garbage = GARBAGE.iter().map(|(_, text)| stdout_line(1, text));
    let inputs = first_prompt(descriptor).into_iter().chain(garbage).chain([Input::Exited(exited)]);
    inputs.map(TrialStep::own).collect()
}

/// Returns the inputs of a plain first prompt whose agent starts.
fn first_prompt(descriptor: &Descriptor) -> [Input; 2] {
    let start =
        StartTurn { one_shot: one_shot(descriptor), ..StartTurn::plain(PROMPT, Safety::Default) };
    let spawned = Spawned { proc: 1, agent_version: None };
    [Input::Command(HostCommand::StartTurn(start)), Input::Spawned(spawned)]
}

fn line(pipe: Pipe, text: String, truncated: bool) -> TrialStep {
    TrialStep::own(Input::Line(AgentLine { proc: 1, pipe, text, truncated }))
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
