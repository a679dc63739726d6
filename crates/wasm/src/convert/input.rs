//! Conversion of inputs for a guest.

use super::{Carry, Excess, record, variant, wit};
use aetheel_model::agent;

variant!(agent::Safety => wit::Safety { ; Default, Edit, Danger });
variant!(agent::Mode => wit::Mode { ; Build, Plan });
variant!(agent::SteerDelivery => wit::Delivery { ; Steer, Queue, Replace });
variant!(agent::Pipe => wit::Pipe { ; Stdout, Stderr });
variant!(agent::Exit => wit::Exit { Code, Signal; Unknown });
variant!(agent::PromptPart => wit::Part { Text, Image, File; });
variant!(agent::AskDecision => wit::Decision {
    AllowChanged, Chosen, Deny, Answers; AllowOnce, AllowAlways, DenyAndStop, Declined, Dismissed
});
variant!(agent::QueryKind => wit::QueryKind { Rename, DeleteSession, Raw; Health, Models, Sessions, Compact });
variant!(agent::HostCommand => wit::Command {
    StartTurn, Steer, Interrupt, Answer, CloseSession, Query; Shutdown
});
variant!(agent::Input => wit::Input {
    Command, Spawned, SpawnFailed, Line, Exited, HttpResponse, HttpFailed, StreamOpened, StreamEvent, StreamClosed, Timer;
});

record!(agent::TurnSettings => wit::Settings { model, safety, mode, effort, system_prompt, allowed_tools, max_turns, options });
record!(agent::Attachment => wit::Attachment { blob, name, media_type, size, path });
record!(agent::StartTurn => wit::StartTurn { session, turn, cwd, native_id, fork, fresh_id, one_shot, settings, parts });
record!(agent::Steer => wit::Steer { session, turn, message, parts, delivery, fresh_id });
record!(agent::TurnRef => wit::TurnRef { session, turn });
record!(agent::AskAnswer => wit::Answer { ask, decision });
record!(agent::AgentQuery => wit::Query { query, session, kind });
record!(agent::Spawned => wit::Spawned { proc, agent_version });
record!(agent::SpawnFailed => wit::SpawnFailed { proc, message, not_found });
record!(agent::AgentLine => wit::Line { proc, pipe, text, truncated });
record!(agent::Exited => wit::Exited { proc, how, stderr_tail });
record!(agent::HttpResponse => wit::HttpResponse { request, status, body });
record!(agent::HttpFailed => wit::HttpFailed { request, message, timed_out });
record!(agent::StreamOpened => wit::StreamOpened { stream, status });
record!(agent::StreamEvent => wit::StreamEvent { stream, name, id, data });
record!(agent::StreamClosed => wit::StreamClosed { stream, message });
record!(agent::TimedInput => wit::TimedInput { at_ms, input });
