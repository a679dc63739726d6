//! The decisions of policies: components that decide about an agent's request to use a tool before
//! people are asked. Pure.

use serde::{Deserialize, Serialize};

use crate::agent::{Ask, AskKey, AskKind, Safety, ToolStart, is_read_only};
use crate::plain::{one_line, short_line};
use crate::redact::Redactor;

mod collision;
mod path;

pub use self::path::ToolPath;

/// Maximum length of a reason, in characters.
pub const REASON_LIMIT: usize = 300;
/// Maximum length of a request's texts, in bytes.
const TEXT_LIMIT: usize = 64 << 10;
const MAX_PATHS: usize = 1_000;

/// The effect of a decision on a request, from weak to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyEffect {
    /// The policy has no rule for the request.
    Pass,
    /// The agent may use the tool this once.
    Allow,
    /// People are asked.
    Ask,
    /// The agent may not use the tool.
    Deny,
}

impl PolicyEffect {
    /// Returns the word of the contract.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// The requests that policies may allow in place of people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyCeiling {
    /// No requests: policies can only deny.
    Nothing,
    /// Requests for tools that only read.
    Read,
    /// Also edits of files in the working directory.
    Edit,
    /// All requests.
    All,
}

impl PolicyCeiling {
    /// All values with their words.
    pub const WORDS: [(&str, Self); 4] = [
        ("nothing", Self::Nothing),
        ("read", Self::Read),
        ("edit", Self::Edit),
        ("all", Self::All),
    ];

    fn permits(self, request: &PolicyRequest) -> bool {
        match self {
            Self::Nothing => false,
            Self::Read => request.reads_only,
            Self::Edit => request.reads_only || request.edits_inside(),
            Self::All => true,
        }
    }
}

/// The turn in which an agent asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyContext {
    /// The name of the backend.
    pub backend: String,
    /// The lane, as it is written in recordings.
    pub lane: String,
    /// The project of the channel.
    pub project: Option<String>,
    /// The id of the person who asked for the turn.
    pub person: Option<String>,
    /// The safety level of the turn.
    pub safety: Safety,
    /// The working directory.
    pub cwd: String,
}

/// An agent's request to use a tool, as policies see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRequest {
    /// The turn.
    pub context: PolicyContext,
    /// The unified kind of the tool.
    pub kind: String,
    /// The agent's own name of the tool.
    pub tool: String,
    /// One line for people.
    pub title: String,
    /// The command of a shell.
    pub command: Option<String>,
    /// The files that the tool reads or changes.
    pub paths: Vec<ToolPath>,
    /// The address that is fetched.
    pub address: Option<String>,
    /// The input of the tool, as JSON text.
    pub input: String,
    /// Whether a sub-agent asks.
    pub is_sub_agent: bool,
    reads_only: bool,
}

impl PolicyRequest {
    /// Makes the request of an agent's question. Secrets are removed from its texts.
    ///
    /// Returns `None` if no policy can decide: the question does not ask for permission to use a
    /// tool, or the request is too large to be shown to a policy completely.
    #[must_use]
    pub fn of(context: PolicyContext, ask: &Ask, redactor: &Redactor) -> Option<Self> {
        let AskKind::Permission(tool) = &ask.kind else { return None };
        let clean = |text: &str| redactor.redact(text.to_owned());
        // Some agents ask for several uses at once. Kind and target are only those of the first.
        let is_one = matches!(serde_json::from_str(&tool.input), Ok(serde_json::Value::Object(_)));
        let kind = if is_one { tool.kind.as_str() } else { "other" };
        let target = tool.target.as_deref().filter(|target| !target.trim().is_empty());
        let of_kind = |kinds: &[&str]| target.filter(|_| kinds.contains(&kind));
        let files = of_kind(&["file_read", "file_write", "file_edit"]);
        let changed = ask.diffs.iter().flat_map(|diff| [Some(&diff.path), diff.old_path.as_ref()]);
        let mut paths: Vec<&str> = files.into_iter().collect();
        paths.extend(changed.flatten().map(String::as_str));
        paths.dedup();
        let size = paths.iter().map(|path| path.len()).sum::<usize>() + target.map_or(0, str::len);
        if size > TEXT_LIMIT || paths.len() > MAX_PATHS {
            return None;
        }
        let title = if tool.title.is_empty() { &ask.title } else { &tool.title };
        Some(Self {
            kind: kind.to_owned(),
            tool: cut(clean(&tool.native_name)),
            title: cut(clean(&one_line(title))),
            command: of_kind(&["bash"]).map(clean),
            paths: paths.into_iter().map(|path| ToolPath::of(&clean(path), &context.cwd)).collect(),
            address: of_kind(&["web_fetch"]).map(clean),
            input: cut(clean(&tool.input)),
            is_sub_agent: ask.parent.is_some() || tool.parent.is_some(),
            reads_only: is_one && is_read_only(tool),
            context,
        })
    }

    /// Returns whether the request only edits files, all of them in the working directory.
    fn edits_inside(&self) -> bool {
        matches!(self.kind.as_str(), "file_write" | "file_edit")
            && !self.paths.is_empty()
            && self.paths.iter().all(|path| path.is_inside)
    }
}

/// The decision of one policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyVote {
    /// The name of the policy.
    pub policy: String,
    /// The version in its descriptor.
    pub version: String,
    /// The decision.
    pub effect: PolicyEffect,
    /// The policy's reason, on one line, or the reason why it could not decide.
    pub reason: String,
    /// Whether the policy could not decide. The effect is [`PolicyEffect::Ask`] then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

impl PolicyVote {
    /// Returns the vote with a reason that is safe to show and short.
    #[must_use]
    pub fn bounded(mut self, redactor: &Redactor) -> Self {
        self.reason = short_line(&redactor.redact(one_line(&self.reason)), REASON_LIMIT);
        self
    }
}

/// The decision of all policies about one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyRuling {
    /// The key of the question.
    pub ask: AskKey,
    /// The decision, never [`PolicyEffect::Pass`].
    pub effect: PolicyEffect,
    /// Whether the policies allowed the request, but `POLICY_ALLOW` does not let them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over_ceiling: bool,
    /// The decision of each policy, ordered by name.
    pub votes: Vec<PolicyVote>,
}

impl PolicyRuling {
    /// Combines the decisions of all policies: the strongest one wins. People are asked if no
    /// policy has a rule, and if the policies allow more than `ceiling`.
    #[must_use]
    pub fn of(
        ask: AskKey,
        request: &PolicyRequest,
        votes: Vec<PolicyVote>,
        ceiling: PolicyCeiling,
    ) -> Self {
        let strongest = votes.iter().map(|vote| vote.effect).max().unwrap_or(PolicyEffect::Pass);
        let over_ceiling = strongest == PolicyEffect::Allow && !ceiling.permits(request);
        let effect = match strongest {
            PolicyEffect::Pass => PolicyEffect::Ask,
            PolicyEffect::Allow if over_ceiling => PolicyEffect::Ask,
            other => other,
        };
        Self { ask, effect, over_ceiling, votes }
    }

    /// Returns whether people are not asked.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self.effect, PolicyEffect::Allow | PolicyEffect::Deny)
    }

    /// Returns the first vote that has the effect of the ruling.
    #[must_use]
    pub fn decisive(&self) -> Option<&PolicyVote> {
        self.votes.iter().find(|vote| vote.effect == self.effect)
    }

    /// Returns one line for people, for example ``denied by the policy `guard`: outside``, or
    /// `None` if people were asked and no policy said why.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let said = |vote: &PolicyVote| {
            let reason = Some(&vote.reason).filter(|reason| !reason.is_empty());
            let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("the policy `{}`{reason}", vote.policy)
        };
        if let Some(reason) = self.collision() {
            return Some(format!(
                "left to people, because another conversation uses the files: {reason}"
            ));
        }
        match (self.effect, self.decisive()) {
            (PolicyEffect::Deny, Some(vote)) => Some(format!("denied by {}", said(vote))),
            (PolicyEffect::Allow, Some(vote)) => Some(format!("allowed by {}", said(vote))),
            (PolicyEffect::Ask, Some(vote)) if vote.failed => {
                Some(format!("the policy `{}` could not decide: {}", vote.policy, vote.reason))
            }
            (PolicyEffect::Ask, Some(vote)) => Some(format!("left to people by {}", said(vote))),
            (PolicyEffect::Ask, None) if self.over_ceiling => {
                Some("policies may not allow this here (`POLICY_ALLOW`)".to_owned())
            }
            _ => None,
        }
    }

    /// Returns the reason for the refused agent.
    #[must_use]
    pub fn refusal(&self) -> String {
        match self.decisive() {
            Some(vote) if !vote.reason.is_empty() => {
                format!(
                    "The operator's policy `{}` does not allow this: {}",
                    vote.policy, vote.reason
                )
            }
            Some(vote) => format!("The operator's policy `{}` does not allow this.", vote.policy),
            None => "The operator's policies do not allow this.".to_owned(),
        }
    }
}

/// Returns what a tool works on, as one line for people.
#[must_use]
pub fn subject_of(tool: &ToolStart) -> String {
    let target = tool.target.as_deref().filter(|target| !target.trim().is_empty());
    let text = target.unwrap_or(if tool.title.trim().is_empty() {
        &tool.native_name
    } else {
        &tool.title
    });
    one_line(text)
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT_LIMIT {
        text.truncate(text.floor_char_boundary(TEXT_LIMIT));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::FileDiff;

    fn context() -> PolicyContext {
        PolicyContext {
            backend: "b".into(),
            lane: "console".into(),
            project: None,
            person: None,
            safety: Safety::Default,
            cwd: "/srv/dir".into(),
        }
    }

    fn ask(kind: &str, target: Option<&str>) -> Ask {
        let tool = ToolStart {
            id: "t".into(),
            parent: None,
            kind: kind.into(),
            native_name: "Tool".into(),
            title: "A tool".into(),
            target: target.map(str::to_owned),
            input: r#"{"key":"sk-canary"}"#.into(),
        };
        Ask {
            ask: 7,
            session: 1,
            turn: 1,
            title: "May I?".into(),
            kind: AskKind::Permission(tool),
            always_label: None,
            options: Vec::new(),
            diffs: Vec::new(),
            changeable: false,
            parent: None,
            deadline_ms: None,
        }
    }

    fn request(kind: &str, target: Option<&str>) -> PolicyRequest {
        let redactor = Redactor::new(&["sk-canary".to_owned().into()]);
        PolicyRequest::of(context(), &ask(kind, target), &redactor).expect("a permission")
    }

    fn vote(policy: &str, effect: PolicyEffect) -> PolicyVote {
        let (policy, version) = (policy.to_owned(), "1".to_owned());
        PolicyVote { policy, version, effect, reason: "because".into(), failed: false }
    }

    fn ruling(
        request: &PolicyRequest,
        effects: &[PolicyEffect],
        ceiling: PolicyCeiling,
    ) -> PolicyRuling {
        let votes = effects.iter().enumerate().map(|(at, effect)| vote(&format!("p{at}"), *effect));
        PolicyRuling::of(7, request, votes.collect(), ceiling)
    }

    #[test]
    fn a_request_names_command_files_and_address_without_secrets() {
        let bash = request("bash", Some("curl -H sk-canary"));
        assert_eq!(bash.command.as_deref(), Some("curl -H ***"));
        assert_eq!((bash.paths.len(), bash.address.as_ref()), (0, None));
        assert!(!bash.input.contains("canary"), "{}", bash.input);
        let edit = request("file_edit", Some("src/../main.rs"));
        assert_eq!(
            (edit.paths[0].resolved.as_str(), edit.paths[0].is_inside),
            ("/srv/dir/main.rs", true)
        );
        assert_eq!(request("web_fetch", Some("https://x")).address.as_deref(), Some("https://x"));
        let mut several = ask("other", None);
        several.diffs.push(FileDiff { path: "/etc/passwd".into(), ..FileDiff::default() });
        let several = PolicyRequest::of(context(), &several, &Redactor::default()).expect("one");
        assert!(!several.paths[0].is_inside);
    }

    #[test]
    fn a_request_for_several_tools_is_not_taken_for_its_first_one() {
        let mut several = ask("file_read", Some("a\nrm -rf /"));
        let AskKind::Permission(tool) = &mut several.kind else { panic!("a permission") };
        tool.input = r#"[{"path":"a"},{"command":"rm -rf /"}]"#.into();
        let request = PolicyRequest::of(context(), &several, &Redactor::default()).expect("one");
        assert_eq!((request.kind.as_str(), request.paths.len()), ("other", 0));
        let allowed = |ceiling| ruling(&request, &[PolicyEffect::Allow], ceiling).effect;
        assert_eq!(allowed(PolicyCeiling::Edit), PolicyEffect::Ask);
    }

    #[test]
    fn a_request_that_would_be_cut_is_not_shown_to_policies() {
        let long = format!("ls {}; rm -rf /", "x".repeat(TEXT_LIMIT));
        assert!(
            PolicyRequest::of(context(), &ask("bash", Some(&long)), &Redactor::default()).is_none()
        );
        let mut many = ask("other", None);
        let diff = |at: usize| FileDiff { path: format!("a{at}"), ..FileDiff::default() };
        many.diffs = (0..=MAX_PATHS).map(diff).collect();
        assert!(PolicyRequest::of(context(), &many, &Redactor::default()).is_none());
    }

    #[test]
    fn the_strongest_decision_wins_and_no_decision_asks_people() {
        use PolicyEffect::{Allow, Ask, Deny, Pass};
        let of = |effects: &[PolicyEffect]| {
            ruling(&request("bash", Some("ls")), effects, PolicyCeiling::All).effect
        };
        assert_eq!(of(&[Allow, Deny, Ask, Pass]), Deny);
        assert_eq!(of(&[Allow, Ask, Pass]), Ask);
        assert_eq!(of(&[Pass, Allow]), Allow);
        assert_eq!(of(&[Pass, Pass]), Ask);
        assert_eq!(of(&[]), Ask);
    }

    #[test]
    fn no_policy_allows_more_than_the_operator_lets_policies_allow() {
        let requests = [
            request("file_read", Some("/etc/passwd")),
            request("file_edit", Some("a.txt")),
            request("file_edit", Some("../a.txt")),
            request("file_write", None),
            request("bash", Some("ls")),
        ];
        let allowed = |ceiling| {
            requests.each_ref().map(|request| {
                ruling(request, &[PolicyEffect::Allow], ceiling).effect == PolicyEffect::Allow
            })
        };
        assert_eq!(allowed(PolicyCeiling::Nothing), [false; 5]);
        assert_eq!(allowed(PolicyCeiling::Read), [true, false, false, false, false]);
        assert_eq!(allowed(PolicyCeiling::Edit), [true, true, false, false, false]);
        assert_eq!(allowed(PolicyCeiling::All), [true; 5]);
        let over = ruling(&requests[4], &[PolicyEffect::Allow], PolicyCeiling::Read);
        assert!(over.over_ceiling && over.line().is_some_and(|line| line.contains("POLICY_ALLOW")));
        let denied = ruling(&requests[4], &[PolicyEffect::Deny], PolicyCeiling::Nothing);
        assert_eq!(denied.effect, PolicyEffect::Deny);
    }

    #[test]
    fn a_reason_is_one_short_line_without_secrets() {
        let redactor = Redactor::new(&["sk-canary".to_owned().into()]);
        let reason = format!("a\nb\u{202e} sk-canary {}", "x".repeat(1_000));
        let vote = PolicyVote { reason, ..vote("p", PolicyEffect::Deny) }.bounded(&redactor);
        assert!(vote.reason.starts_with("a b *** x"), "{}", vote.reason);
        assert!(vote.reason.chars().count() <= REASON_LIMIT + 1);
    }
}
