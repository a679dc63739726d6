//! Converts between the host's types and those of contract version 0.3, the newest.

use super::same::{same_in_all_versions, same_since_0_2};
use super::{Carry, Excess, bounded, checked_actions, record, shorten_answer, unbounded, variant};
use crate::bindings::v0_3::aetheel::backend::types as wit;
use aetheel_model::agent::{self, Action, TimedInput};

pub(crate) fn inputs(inputs: Vec<TimedInput>) -> Vec<wit::TimedInput> {
    unbounded(inputs)
}

checked_actions!();
same_in_all_versions!();
same_since_0_2!();

variant!(agent::QueryKind => wit::QueryKind { ; Health, Models, Sessions, Compact });
record!(agent::HostTool => wit::HostTool { name, description, input_schema });
record!(agent::StartTurn => wit::StartTurn {
    session, turn, cwd, native_id, fork, fresh_id, one_shot, settings, parts, agent_version, tools
});
record!(agent::Steer => wit::Steer { session, turn, message, parts, fresh_id });
record!(agent::ToolResult => wit::ToolResult { call, text, failed });
variant!(agent::Input => wit::Input {
    Command, Spawned, SpawnFailed, Line, Exited, HttpResponse, HttpFailed, StreamOpened, StreamEvent, StreamClosed, Timer,
    ToolResult;
});

variant!(wit::Value => agent::ArgumentValue { Text, File, Secret, ToolServer; Port, Inherit });
variant!(wit::Chunk => agent::Chunk { Text, Base64, Secret, ToolServer; });
variant!(wit::FailureKind => agent::FailureKind {
    ; NotFound, Authentication, RateLimited, Quota, Overloaded, Network, Configuration, BadRequest, ModelNotFound,
    ContextFull, SessionUnknown, Protocol, Crashed, TimedOut, Refused, Unsupported, Other
});
variant!(wit::Difference => agent::OutputDifference { ; Unknown, Missing, Changed });
variant!(wit::QueryResult => agent::QueryResult { Health, Models, Sessions, Failed; Done });
record!(wit::SessionReady => agent::SessionReady { session, native_id, model, title, tools });
record!(wit::ToolOutput => agent::ToolOutput { id, text, replace });
record!(wit::Unrecognised => agent::Unrecognised { difference, what, path, sample });
record!(wit::Notice => agent::AgentNotice { level, key, text });
record!(wit::Compaction => agent::Compaction { done, tokens_before, tokens_after });
record!(wit::Question => agent::Question {
    id, text, description, form, options, many, free_text, optional, preset, placeholder, single_line, secret
});
record!(wit::Ask => agent::Ask {
    ask, session, turn, title, kind, always_label, options, diffs, changeable, parent, deadline_ms
});
record!(wit::ToolRequest => agent::ToolRequest { call, session, turn, name, input });
variant!(wit::EventKind => agent::AgentEventKind {
    Text, Thinking, ToolStart, ToolOutput, ToolEnd, Plan, Usage, Artifact, Task, Quota, Retry, Notice, Compaction,
    Mode, Title, Unrecognised;
});
variant!(wit::Action => agent::Action {
    Spawn, Write, CloseStdin, Stop, PutFile, Http, OpenStream, CloseStream, SetTimer, CancelTimer, SessionReady, TurnBegun,
    Event, Ask, AskWithdrawn, Steered, TurnDone, QueryAnswer, Diagnostic, ToolRequest;
});
