//! The result of `aetheel policy replay`, for people and as JSON.
//!
//! Fields of the JSON form may be added, but never change or disappear.

use std::path::Path;

use serde::Serialize;

use aetheel::terminal::{self, OutputStyle};
use aetheel_kit::answered::{AnsweredRequest, RequestOutcome};
use aetheel_model::agent::AskKind;
use aetheel_model::plain::{counted, short_line};
use aetheel_model::policy::{PolicyEffect, PolicyRuling, subject_of};
use aetheel_model::redact::Redactor;
use aetheel_wasm::LoadedPolicy;

/// Maximum length of a request and of a reason, in characters.
const TEXT_LIMIT: usize = 120;

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct ReplayedRequest {
    turn: String,
    backend: String,
    lane: String,
    kind: String,
    request: String,
    reason: String,
    /// The words of people who denied it.
    words: Option<String>,
    #[serde(skip)]
    effect: PolicyEffect,
    #[serde(skip)]
    failed: bool,
    #[serde(skip)]
    outcome: RequestOutcome,
}

impl ReplayedRequest {
    pub(super) fn new(request: &AnsweredRequest, ruling: &PolicyRuling) -> Self {
        let vote = ruling.votes.first();
        let (kind, subject) = match &request.ask.kind {
            AskKind::Permission(tool) => (tool.kind.clone(), subject_of(tool)),
            _ => (String::new(), request.ask.title.clone()),
        };
        let words = match &request.outcome {
            RequestOutcome::Denied(words) => words.as_deref(),
            _ => None,
        };
        Self {
            turn: request.turn.clone(),
            backend: request.backend.clone(),
            lane: request.lane.clone(),
            kind: short_line(&kind, 40),
            request: short_line(&subject, TEXT_LIMIT),
            reason: vote.map(|vote| vote.reason.clone()).unwrap_or_default(),
            words: words.map(|words| short_line(words, TEXT_LIMIT)),
            effect: ruling.effect,
            failed: vote.is_some_and(|vote| vote.failed),
            outcome: request.outcome.clone(),
        }
    }

    fn line(&self) -> String {
        let words = self.words.as_ref().map(|words| format!(" (denied: {words})"));
        let reason = if self.reason.is_empty() { "no reason" } else { &self.reason };
        let (turn, kind, request) = (&self.turn, &self.kind, &self.request);
        format!(
            "turn {turn}  {}  {kind}  {request}{}: {reason}",
            self.lane,
            words.unwrap_or_default()
        )
    }
}

/// How often people answered in each way.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
struct OutcomeCounts {
    people_allowed: u32,
    people_denied: u32,
    unanswered: u32,
}

impl OutcomeCounts {
    fn add(&mut self, outcome: &RequestOutcome) {
        match outcome {
            RequestOutcome::Allowed => self.people_allowed += 1,
            RequestOutcome::Denied(_) => self.people_denied += 1,
            RequestOutcome::Unanswered | RequestOutcome::Automatic => self.unanswered += 1,
        }
    }
}

/// How often people answered in each way, for each decision of the policy.
#[derive(Debug, Default, Serialize)]
struct DecisionCounts {
    allow: OutcomeCounts,
    ask: OutcomeCounts,
    deny: OutcomeCounts,
    failed: OutcomeCounts,
}

impl DecisionCounts {
    fn add(&mut self, request: &ReplayedRequest) {
        let counts = match request.effect {
            _ if request.failed => &mut self.failed,
            PolicyEffect::Allow => &mut self.allow,
            PolicyEffect::Deny => &mut self.deny,
            PolicyEffect::Ask | PolicyEffect::Pass => &mut self.ask,
        };
        counts.add(&request.outcome);
    }

    fn rows(&self) -> [(&'static str, OutcomeCounts); 4] {
        [
            ("policy allows", self.allow),
            ("people are asked", self.ask),
            ("policy denies", self.deny),
            ("policy fails", self.failed),
        ]
    }
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct ReplayReport {
    policy: String,
    version: String,
    sha256: String,
    #[serde(skip)]
    title: String,
    pub(super) recordings: u32,
    /// Requests that settings or another policy decided, which are not compared.
    automatic: u32,
    #[serde(flatten)]
    counts: DecisionCounts,
    allowed_but_denied: Vec<ReplayedRequest>,
    denied_but_allowed: Vec<ReplayedRequest>,
    could_not_decide: Vec<ReplayedRequest>,
    /// Recordings that could not be read, each with the reason.
    left_out: Vec<String>,
}

impl ReplayReport {
    pub(super) fn new(title: String, policy: &LoadedPolicy) -> Self {
        Self {
            policy: policy.descriptor().name.clone(),
            version: policy.descriptor().version.clone(),
            sha256: policy.digest().to_owned(),
            title,
            ..Self::default()
        }
    }

    /// Notes that a recording could not be read.
    pub(super) fn leave_out(&mut self, path: &Path, why: &str) {
        self.left_out.push(format!("{}: {why}", path.display()));
    }

    pub(super) fn add(&mut self, request: ReplayedRequest) {
        if request.outcome == RequestOutcome::Automatic {
            self.automatic += 1;
            return;
        }
        self.counts.add(&request);
        match (request.effect, &request.outcome) {
            _ if request.failed => self.could_not_decide.push(request),
            (PolicyEffect::Allow, RequestOutcome::Denied(_)) => {
                self.allowed_but_denied.push(request)
            }
            (PolicyEffect::Deny, RequestOutcome::Allowed) => self.denied_but_allowed.push(request),
            _ => {}
        }
    }

    /// Returns whether the policy would have allowed a request that people denied.
    pub(super) fn is_dangerous(&self) -> bool {
        !self.allowed_but_denied.is_empty()
    }

    pub(super) fn print(&self, redactor: &Redactor) {
        let page = OutputStyle::for_stdout();
        let say = |text: &str| terminal::line(&redactor.redact(text.to_owned()));
        let rows = self.counts.rows();
        let answered: u32 =
            rows.iter().map(|(_, counts)| counts.people_allowed + counts.people_denied).sum();
        say(&format!(
            "{}: {} in {}",
            page.bold(&self.title),
            counted(answered, "answer"),
            counted(self.recordings, "recording")
        ));
        say(&format!(
            "{:16}  {:>14}  {:>13}  {:>10}",
            "", "people allowed", "people denied", "unanswered"
        ));
        for (what, counts) in rows {
            let OutcomeCounts { people_allowed, people_denied, unanswered } = counts;
            say(&format!("{what:16}  {people_allowed:>14}  {people_denied:>13}  {unanswered:>10}"));
        }
        let DecisionCounts { allow, ask, deny, .. } = &self.counts;
        let agreed = allow.people_allowed + deny.people_denied;
        let asked = ask.people_allowed + ask.people_denied;
        say(&format!("it agrees with people in {agreed} of {answered}, and asks them in {asked}"));
        if self.automatic > 0 {
            say(&format!("not compared: {} that settings or policies decided", self.automatic));
        }
        let lists = [
            (
                "allowed by the policy, although people denied it (dangerous):",
                &self.allowed_but_denied,
            ),
            ("denied by the policy, although people allowed it:", &self.denied_but_allowed),
            ("the policy could not decide:", &self.could_not_decide),
        ];
        for (at, (title, requests)) in lists.into_iter().enumerate() {
            if !requests.is_empty() {
                say(&if at == 0 { page.bad(title) } else { page.bold(title) });
                requests.iter().for_each(|request| say(&format!("  {}", request.line())));
            }
        }
        self.left_out.iter().for_each(|left| say(&format!("left out: {left}")));
    }
}
