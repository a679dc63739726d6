//! Tests that for every recorded failure of any agent, people see the reason, and no noise from
//! stderr.

use std::collections::{BTreeMap, BTreeSet};

use aetheel_model::agent::descriptor::StderrNoise;
use aetheel_model::agent::{Action, Descriptor, Input, TurnOutcome};
use aetheel_recording::Ending;

use crate::support::recordings::{actions, cases, inputs};

/// Lines that runtimes print for any agent.
const NOISE: [&str; 5] = [
    "(node:4711) [DEP0040] DeprecationWarning: The `punycode` module is deprecated.",
    "npm notice New major version of npm available! 10.9.2 -> 11.0.0",
    "    at Module._compile (node:internal/modules/cjs/loader:1554:14)",
    "at async Turn.run (file:///opt/cli/bundle/chunk-JDPZ4CE3.js:333001:24) {",
    "Node.js v22.14.0",
];

/// Words that show that a part of the noise was included.
const MARKS: [&str; 5] =
    ["DeprecationWarning", "npm notice", "node:internal", "file:///", "Node.js v"];

/// Returns the lines that a component lists as noise.
fn listed(backend: &str) -> StderrNoise {
    let path =
        format!("{}/guest-backends/{backend}/src/descriptor.json", env!("CARGO_MANIFEST_DIR"));
    let json = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    Descriptor::parse(&json).unwrap_or_else(|error| panic!("{path}: {error}")).stderr_noise
}

/// Returns the end of stderr as backends report it (`stderr_end` of the SDK).
fn stderr_end(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let end = lines[lines.len().saturating_sub(5)..].join("\n");
    end[end.ceil_char_boundary(end.len().saturating_sub(1024))..].to_owned()
}

/// Returns the message that people see for an outcome, or `None` if nothing failed.
fn message(outcome: &TurnOutcome, stderr: &str, noise: &StderrNoise) -> Option<String> {
    let ending = Ending::of(Some(outcome.clone()), None, None, None);
    match ending.with_readable_message(stderr, noise) {
        Ending::Agent(failure) => Some(failure.message),
        _ => None,
    }
}

/// Returns the same failure of an agent that printed more on stderr.
fn with_more(outcome: &TurnOutcome, stderr: &str, more: &str) -> TurnOutcome {
    let (was, is) = (stderr_end(stderr), stderr_end(more));
    let mut outcome = outcome.clone();
    let (TurnOutcome::Failed(failure) | TurnOutcome::Lost(failure)) = &mut outcome else {
        panic!("a failure")
    };
    failure.message = match was.as_str() {
        // In the format of `without_result` and `last_words` of the SDK.
        "" => format!("{}: {is}", failure.message),
        was => failure.message.replace(was, &is),
    };
    outcome
}

#[test]
fn every_recorded_failure_shows_its_reason_and_nothing_else_of_stderr() {
    let mut kinds: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut ends = 0;
    for backend in ["acp", "claude", "codex", "droid", "gemini", "opencode"] {
        let listed = &listed(backend);
        let own =
            listed.contains.iter().map(|part| format!("\u{1b}[31mERROR\u{1b}[0m It {part} here."));
        let own = own.chain(listed.starts_with.iter().map(|opening| format!("{opening} of it")));
        let noises: Vec<String> = NOISE.map(str::to_owned).into_iter().chain(own).collect();
        let marks = listed.contains.iter().chain(&listed.starts_with).map(String::as_str);
        let marks: Vec<&str> = MARKS.into_iter().chain(marks).collect();
        for case in cases(backend) {
            let path = case.path.display();
            let tail = inputs(&case).into_iter().rev().find_map(|told| match told.input {
                Input::Exited(exited) => Some(exited.stderr_tail),
                _ => None,
            });
            let tail = tail.unwrap_or_default();
            for action in actions(&case) {
                let Action::TurnDone(done) = action else { continue };
                let (TurnOutcome::Failed(failure) | TurnOutcome::Lost(failure)) = &done.outcome
                else {
                    continue;
                };
                kinds.entry(backend).or_default().insert(format!("{:?}", failure.kind));
                let plain = message(&done.outcome, &tail, listed).unwrap();
                for mark in &marks {
                    assert!(!plain.contains(*mark), "{path}: {plain}");
                }
                // If the message includes the end of stderr, more noise changes nothing, wherever
                // it is.
                let ended = tail.is_empty() && failure.message.contains(" ended")
                    || !tail.is_empty() && failure.message.contains(&stderr_end(&tail));
                if !ended {
                    assert_eq!(plain, failure.message.trim(), "{path}: it is the agent's own");
                    continue;
                }
                ends += 1;
                for noise in &noises {
                    for more in [
                        format!("{tail}\n{noise}"),
                        format!("{tail}{}", format!("\n{noise}").repeat(7)),
                    ] {
                        let outcome = with_more(&done.outcome, &tail, &more);
                        let is = message(&outcome, &more, listed).unwrap();
                        assert_eq!(is, plain, "{path}: with {noise:?} {outcome:?}");
                    }
                }
            }
        }
    }
    for (backend, kinds) in &kinds {
        assert!(kinds.len() >= 2, "{backend}: only {kinds:?}");
    }
    assert!(kinds.len() == 6 && ends >= 8, "{} backends, {ends} ends of processes", kinds.len());
}
