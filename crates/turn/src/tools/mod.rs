//! The tools of the host that an agent may call during a turn: a file for each tool with the input
//! of its calls, from which its description and schema for the model are derived.
//! `link/task/tools` carries out the calls, and `docs/host-tools.md` describes them.
//!
//! A question becomes one of the link, with a key of the host. A file is read from the working
//! directory in the background. All other calls go to [`Audience::delegate`](crate::Audience),
//! because their effect goes beyond the turn.

mod ask;
mod claim;
mod delegated;
mod handoff;
mod input;
mod limits;
mod list_agents;
mod post_file;
mod read_channel;
mod remind;
mod schedule;
mod sleep_until;

pub use self::claim::{ClaimAction, ClaimCall};
pub(crate) use self::delegated::delegated_result;
pub use self::delegated::{DelegatedCall, HostRequest, call_done, call_failed};
pub use self::handoff::HandOffRequest;
use self::input::{HostToolInput, Tool};
pub use self::limits::ToolLimits;
pub(crate) use self::limits::{ToolRates, WINDOW};
pub use self::list_agents::ListAgents;
pub(crate) use self::post_file::{PostFile, PostFileError};
pub use self::read_channel::ReadChannelRequest;
pub use self::remind::LaterTurn;
pub use self::schedule::RepeatedTurn;
pub use self::sleep_until::SleepUntil;
use aetheel_model::agent::HostTool;
use aetheel_model::fold::MAX_ARTIFACTS;
use aetheel_model::host_tool::{AskPeople, HostToolKind};

/// The key of a call, unique among the open calls of a link.
pub(crate) type CallKey = u32;

/// Maximum number of calls that a turn may have open at the same time.
pub(crate) const MAX_OPEN_CALLS: usize = 8;

/// The reason why a call is not carried out. The model gets the text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// The tool does not exist, or was not offered in this turn.
    #[error("the host offers no tool {name:?} in this turn; its tools are: {offered}")]
    NotOffered {
        /// The name in the call.
        name: String,
        /// The names of the tools of this turn.
        offered: String,
    },
    /// The input cannot be parsed.
    #[error("the input of the tool is not valid: {0}; correct it and call the tool again")]
    Input(#[from] serde_json::Error),
    /// The input violates a limit.
    #[error("the input of the tool is not valid: {0}; correct it and call the tool again")]
    Limit(&'static str),
    /// The turn has had its calls.
    #[error(
        "this turn has had its {0} calls of host tools; continue without them, or end the turn"
    )]
    TurnSpent(u32),
    /// The lane has had its calls of this hour.
    #[error(
        "this conversation has had its {0} calls of host tools in an hour; continue without them"
    )]
    HourSpent(u32),
    /// Too many calls are open.
    #[error(
        "{MAX_OPEN_CALLS} calls of host tools are open already; wait for a result and call the tool again"
    )]
    TooManyCalls,
    /// The answer has the maximum number of files.
    #[error("an answer has at most {MAX_ARTIFACTS} files; put the others into an archive")]
    TooManyFiles,
    /// The key of the question is in use.
    #[error("another question of the agent is open under the same key; call the tool again later")]
    AskInUse,
    /// The turn of the call is not open.
    #[error("the turn of this call is not open")]
    TurnNotOpen,
    /// The file cannot be posted.
    #[error(transparent)]
    PostFile(#[from] PostFileError),
}

/// The parsed input of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolInput {
    PostFile(PostFile),
    Ask(AskPeople),
    Delegated(HostToolKind, HostRequest),
}

/// Returns a tool. The type of its input is that of the function in its row.
fn tool(kind: HostToolKind) -> Tool {
    match kind {
        HostToolKind::PostFile => Tool::new(ToolInput::PostFile),
        HostToolKind::Ask => Tool::new(ToolInput::Ask),
        HostToolKind::Claim => delegated(kind, HostRequest::Claim),
        HostToolKind::Remind => delegated(kind, HostRequest::Remind),
        HostToolKind::Schedule => delegated(kind, HostRequest::Schedule),
        HostToolKind::SleepUntil => delegated(kind, HostRequest::SleepUntil),
        HostToolKind::ListAgents => delegated(kind, HostRequest::ListAgents),
        HostToolKind::HandOff => delegated(kind, HostRequest::HandOff),
        HostToolKind::ReadChannel => delegated(kind, HostRequest::ReadChannel),
    }
}

/// Returns a tool that the audience of the turn carries out.
fn delegated<T: HostToolInput>(kind: HostToolKind, request: fn(T) -> HostRequest) -> Tool {
    Tool::new(move |input| ToolInput::Delegated(kind, request(input)))
}

/// Returns the descriptions of tools, which a turn that offers them begins with.
#[must_use]
pub fn host_tools(kinds: &[HostToolKind]) -> Vec<HostTool> {
    kinds.iter().map(|kind| tool(*kind).describe(*kind)).collect()
}

/// Parses the input of a call of one of the `offered` tools.
///
/// # Errors
/// [`ToolError`] if the tool is not offered or the input is not valid.
pub(crate) fn parse(name: &str, input: &str, offered: &[String]) -> Result<ToolInput, ToolError> {
    let kind = HostToolKind::ALL.into_iter().find(|kind| kind.name() == name);
    let Some(kind) = kind.filter(|_| offered.iter().any(|known| known == name)) else {
        let offered = match offered {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        return Err(ToolError::NotOffered { name: name.chars().take(64).collect(), offered });
    };
    tool(kind).parse(input)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn offered() -> Vec<String> {
        host_tools(&HostToolKind::ALL).into_iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn every_tool_has_a_valid_name_and_a_schema_of_an_object() {
        for tool in host_tools(&HostToolKind::ALL) {
            assert!(tool.name.len() <= 64, "{}", tool.name);
            assert!(tool.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
            let schema: serde_json::Value = serde_json::from_str(&tool.input_schema).unwrap();
            assert_eq!(schema["type"], "object", "{}", tool.name);
        }
    }

    #[test]
    fn agents_see_the_recorded_descriptions_and_schemas() {
        let recorded: Value =
            serde_json::from_str(include_str!("../../fixtures/host-tools.json")).unwrap();
        let mut tools = serde_json::Map::new();
        for tool in host_tools(&HostToolKind::ALL) {
            let schema: Value = serde_json::from_str(&tool.input_schema).unwrap();
            let seen = json!({"description": tool.description, "input_schema": schema});
            tools.insert(tool.name, seen);
        }
        assert_eq!(Value::Object(tools), recorded);
    }

    #[test]
    fn a_tool_that_is_unknown_or_not_offered_is_refused_with_the_names_of_the_others() {
        let refusal = |name: &str, offered: &[String]| {
            parse(name, r#"{"path":"a","question":"b"}"#, offered).unwrap_err().to_string()
        };
        assert!(refusal("rm", &offered()).ends_with("aetheel_handoff, aetheel_read_channel"));
        assert!(refusal("aetheel_ask", &[]).ends_with("its tools are: none"));
        assert!(refusal("aetheel_ask", &offered()[..1]).ends_with("aetheel_post_file"));
    }

    #[test]
    fn an_invalid_input_is_refused_with_the_reason() {
        let refusal =
            |name: &str, input: &str| parse(name, input, &offered()).unwrap_err().to_string();
        assert!(refusal("aetheel_post_file", "").contains("missing field `path`"));
        assert!(refusal("aetheel_post_file", "[").contains("EOF"));
        assert!(refusal("aetheel_post_file", r#"{"path":1}"#).contains("invalid type"));
        assert!(refusal("aetheel_ask", r#"{"question":" "}"#).contains("empty"));
        let many = serde_json::json!({"question": "a", "options": vec!["x"; 26]}).to_string();
        assert!(refusal("aetheel_ask", &many).contains("options"));
        assert!(parse("aetheel_ask", r#"{"question":"a","options":null}"#, &offered()).is_ok());
        for (name, input, reason) in [
            ("aetheel_remind", r#"{"text":"a"}"#, "either `at` or `in`"),
            ("aetheel_remind", r#"{"in":"1h","at":"x","text":"a"}"#, "either `at` or `in`"),
            ("aetheel_sleep_until", r#"{"in":"1h","reason":" "}"#, "`text` is empty"),
            ("aetheel_schedule", r#"{"cron":"@daily"}"#, "missing field `text`"),
            ("aetheel_handoff", r#"{"text":"a"}"#, "`channel`, `agent` or both"),
            ("aetheel_read_channel", r#"{"messages":51}"#, "from 1 to 50"),
        ] {
            let refusal = refusal(name, input);
            assert!(refusal.contains(reason), "{refusal}");
        }
    }
}
