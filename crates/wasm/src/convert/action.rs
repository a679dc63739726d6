//! Conversion of actions from a guest.

use super::{Carry, Excess, record, variant, wit};
use aetheel_model::agent;

variant!(wit::Value => agent::ArgumentValue { Text, File, Secret; Port, Inherit });
variant!(wit::Chunk => agent::Chunk { Text, Base64, Secret; });
variant!(wit::Signal => agent::Signal { ; Interrupt, Terminate, Kill });
variant!(wit::FailureKind => agent::FailureKind {
    ; NotFound, Authentication, RateLimited, Overloaded, BadRequest, ModelNotFound, ContextFull, SessionUnknown, Protocol,
    Crashed, TimedOut, Refused, Unsupported, Other
});
variant!(wit::ToolStatus => agent::ToolStatus { ; Ok, Failed, Denied, Cancelled, Unknown });
variant!(wit::PlanStatus => agent::PlanStatus { ; Pending, Active, Done });
variant!(wit::SteerOutcome => agent::SteerOutcome { ; Injected, Queued, NotNow, Dropped });
variant!(wit::Level => agent::DiagnosticLevel { ; Debug, Info, Warn, Error });
variant!(wit::Outcome => agent::TurnOutcome { Failed, Lost, Limit; Completed, Interrupted });
variant!(wit::FileChange => agent::FileChange { ; Edited, Added, Deleted, Renamed });
variant!(wit::AnswerForm => agent::AnswerForm { ; Text, Number, Whole, YesNo });
variant!(wit::Scope => agent::DecisionScope { ; Once, Session, Project, User, Always });
variant!(wit::TaskKind => agent::TaskKind { ; Agent, Command, Other });
variant!(wit::TaskStatus => agent::TaskStatus { ; Running, Done, Failed, Stopped });
variant!(wit::ArtifactBody => agent::ArtifactBody { Base64, Text, Link; });
variant!(wit::AskKind => agent::AskKind { Permission, PlanApproval, Questions, SignIn; });
variant!(wit::QueryResult => agent::QueryResult { Health, Models, Sessions, Raw, Failed; Done });
variant!(wit::EventKind => agent::AgentEventKind {
    Text, Thinking, ToolStart, ToolOutput, ToolEnd, Plan, Usage, Artifact, Task, Quota, Retry, Notice, Mode, Title, Unrecognised,
    Raw;
});
variant!(wit::Action => agent::Action {
    Spawn, Write, CloseStdin, Stop, PutFile, Http, OpenStream, CloseStream, SetTimer, CancelTimer, SessionReady, TurnBegun,
    Event, Ask, AskWithdrawn, Steered, TurnDone, QueryAnswer, Diagnostic;
});

record!(wit::Variable => agent::AgentVariable { name, value });
record!(wit::BasicAuth => agent::BasicAuth { user, secret });
record!(wit::Spawn => agent::Spawn { proc, program, arguments, environment, stdin, keep_open, listens, basic_auth, session, turn });
record!(wit::Write => agent::Write { proc, body });
record!(wit::Stop => agent::StopProcess { proc, signal, grace_ms });
record!(wit::PutFile => agent::PutFile { name, body });
record!(wit::HttpRequest => agent::HttpRequest { request, proc, method, path, body, timeout_ms });
record!(wit::OpenStream => agent::OpenStream { stream, proc, path });
record!(wit::SetTimer => agent::SetTimer { timer, after_ms });
record!(wit::Failure => agent::AgentFailure { kind, message, retry_after_ms });
record!(wit::SessionReady => agent::SessionReady { session, native_id, model, title });
record!(wit::TurnRef => agent::TurnRef { session, turn });
record!(wit::Text => agent::TextEvent { part, text, replace, parent });
record!(wit::FileDiff => agent::FileDiff { path, change, old_path, binary, old_text, new_text, unified });
record!(wit::ToolStart => agent::ToolStart { id, parent, kind, native_name, title, target, input });
record!(wit::ToolOutput => agent::ToolOutput { id, text });
record!(wit::ToolEnd => agent::ToolEnd { id, status, output, exit_code, diffs });
record!(wit::PlanEntry => agent::PlanEntry { text, status });
record!(wit::ModelUsage => agent::ModelUsage { model, input, output, cached, cache_write, cost_usd });
record!(wit::Usage => agent::Usage {
    input, output, cached, cache_write, reasoning, cost_usd, models, context_used, context_size
});
record!(wit::Artifact => agent::Artifact { name, media_type, body, tool });
record!(wit::Task => agent::AgentTask { id, kind, title, status, tool, background, summary });
record!(wit::Quota => agent::Quota { id, label, used_percent, resets, exhausted });
record!(wit::Unrecognised => agent::Unrecognised { what, path, sample });
record!(wit::Event => agent::AgentEvent { session, turn, kind });
record!(wit::Choice => agent::QuestionChoice { id, label, description });
record!(wit::Question => agent::Question {
    id, text, description, form, options, many, free_text, optional, preset, secret
});
record!(wit::AskOption => agent::AskOption { id, label, allows, scope });
record!(wit::Ask => agent::Ask { ask, session, turn, title, kind, always_label, options, diffs, changeable });
record!(wit::Steered => agent::SteerResult { message, outcome });
record!(wit::TurnDone => agent::TurnDone { session, turn, outcome, text, usage });
record!(wit::Model => agent::Model { id, label, efforts });
record!(wit::SessionInfo => agent::SessionInfo { native_id, title, cwd, updated });
record!(wit::QueryAnswer => agent::QueryAnswer { query, answer });
record!(wit::Diagnostic => agent::Diagnostic { level, text });
