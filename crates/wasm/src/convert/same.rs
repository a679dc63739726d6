//! Conversions of the types that are the same in several versions of the contract. Each macro is used
//! where `wit` is the module of the generated types.

/// Implements the conversions of types that are the same in all supported versions.
macro_rules! same_in_all_versions {
    () => {
        variant!(agent::Safety => wit::Safety { ; Default, Edit, Danger });
        variant!(agent::Mode => wit::Mode { ; Build, Plan });
        variant!(agent::Pipe => wit::Pipe { ; Stdout, Stderr });
        variant!(agent::Exit => wit::Exit { Code, Signal; Unknown });
        variant!(agent::PromptPart => wit::Part { Text, Image, File; });
        variant!(agent::HostCommand => wit::Command {
            StartTurn, Steer, Interrupt, Answer, CloseSession, Query; Shutdown
        });
        record!(agent::TurnSettings => wit::Settings { model, safety, mode, effort, system_prompt, allowed_tools, max_turns, options });
        record!(agent::Attachment => wit::Attachment { blob, name, media_type, size, path });
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

        variant!(wit::Signal => agent::Signal { ; Interrupt, Terminate, Kill });
        variant!(wit::ToolStatus => agent::ToolStatus { ; Ok, Failed, Denied, Cancelled, Unknown });
        variant!(wit::PlanStatus => agent::PlanStatus { ; Pending, Active, Done });
        variant!(wit::SteerOutcome => agent::SteerOutcome { ; Injected, Queued, NotNow, Dropped });
        variant!(wit::Level => agent::DiagnosticLevel { ; Debug, Info, Warn, Error });
        variant!(wit::Outcome => agent::TurnOutcome { Failed, Lost, Limit; Completed, Interrupted });
        variant!(wit::AskKind => agent::AskKind { Permission, PlanApproval, Questions, SignIn; });
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
        record!(wit::TurnRef => agent::TurnRef { session, turn });
        record!(wit::ToolStart => agent::ToolStart { id, parent, kind, native_name, title, target, input });
        record!(wit::ToolEnd => agent::ToolEnd { id, status, output, exit_code, diffs });
        record!(wit::PlanEntry => agent::PlanEntry { text, status });
        record!(wit::Event => agent::AgentEvent { session, turn, kind });
        record!(wit::Steered => agent::SteerResult { message, outcome });
        record!(wit::TurnDone => agent::TurnDone { session, turn, outcome, text, usage });
        record!(wit::Model => agent::Model { id, label, efforts });
        record!(wit::SessionInfo => agent::SessionInfo { native_id, title, cwd, updated });
        record!(wit::QueryAnswer => agent::QueryAnswer { query, answer });
        record!(wit::Diagnostic => agent::Diagnostic { level, text });
    };
}

/// Implements the conversions of types that are the same since version 0.2.
macro_rules! same_since_0_2 {
    () => {
        variant!(agent::AskDecision => wit::Decision {
            AllowChanged, Chosen, Deny, Answers; AllowOnce, AllowAlways, DenyAndStop, Declined, Dismissed
        });
        variant!(wit::FileChange => agent::FileChange { ; Edited, Added, Deleted, Renamed });
        variant!(wit::AnswerForm => agent::AnswerForm { ; Text, Number, Whole, YesNo });
        variant!(wit::Scope => agent::DecisionScope { ; Once, Session, Project, User, Always });
        variant!(wit::TaskKind => agent::TaskKind { ; Agent, Command, Other });
        variant!(wit::TaskStatus => agent::TaskStatus { ; Running, Done, Failed, Stopped });
        variant!(wit::ArtifactBody => agent::ArtifactBody { Base64, Text, Link; });
        record!(wit::Text => agent::TextEvent { part, text, replace, parent });
        record!(wit::FileDiff => agent::FileDiff { path, change, old_path, binary, old_text, new_text, unified });
        record!(wit::ModelUsage => agent::ModelUsage { model, input, output, cached, cache_write, cost_usd });
        record!(wit::Usage => agent::Usage {
            input, output, cached, cache_write, reasoning, cost_usd, models, context_used, context_size
        });
        record!(wit::Artifact => agent::Artifact { name, media_type, body, tool });
        record!(wit::Task => agent::AgentTask { id, kind, title, status, tool, background, summary });
        record!(wit::Quota => agent::Quota { id, label, used_percent, resets, exhausted });
        record!(wit::Choice => agent::QuestionChoice { id, label, description });
        record!(wit::AskOption => agent::AskOption { id, label, allows, scope });
    };
}

/// Implements the conversions of types that are the same in all versions before 0.3.
macro_rules! same_before_0_3 {
    () => {
        /// Converts inputs to the generated types.
        pub(crate) fn inputs(inputs: Vec<TimedInput>) -> Vec<wit::TimedInput> {
            unbounded(expressible_before_0_3(inputs))
        }

        variant!(agent::QueryKind => wit::QueryKind { ; Health, Models, Sessions, Compact });

        variant!(wit::Value => agent::ArgumentValue { Text, File, Secret; Port, Inherit });
        variant!(wit::Chunk => agent::Chunk { Text, Base64, Secret; });
        variant!(wit::FailureKind => agent::FailureKind {
            ; NotFound, Authentication, RateLimited, Overloaded, BadRequest, ModelNotFound, ContextFull, SessionUnknown, Protocol,
            Crashed, TimedOut, Refused, Unsupported, Other
        });
        variant!(wit::Action => agent::Action {
            Spawn, Write, CloseStdin, Stop, PutFile, Http, OpenStream, CloseStream, SetTimer, CancelTimer, SessionReady, TurnBegun,
            Event, Ask, AskWithdrawn, Steered, TurnDone, QueryAnswer, Diagnostic;
        });

        impl Carry<wit::StartTurn> for agent::StartTurn {
            fn carry(self, cap: usize) -> Result<wit::StartTurn, Excess> {
                Ok(wit::StartTurn {
                    session: self.session,
                    turn: self.turn,
                    cwd: self.cwd,
                    native_id: self.native_id,
                    fork: self.fork,
                    fresh_id: self.fresh_id,
                    one_shot: self.one_shot,
                    settings: self.settings.carry(cap)?,
                    parts: self.parts.carry(cap)?,
                })
            }
        }

        impl Carry<wit::Steer> for agent::Steer {
            fn carry(self, cap: usize) -> Result<wit::Steer, Excess> {
                Ok(wit::Steer {
                    session: self.session,
                    turn: self.turn,
                    message: self.message,
                    parts: self.parts.carry(cap)?,
                    delivery: wit::Delivery::Steer,
                    fresh_id: self.fresh_id,
                })
            }
        }

        impl Carry<wit::Input> for agent::Input {
            fn carry(self, cap: usize) -> Result<wit::Input, Excess> {
                Ok(match self {
                    Self::Command(value) => wit::Input::Command(value.carry(cap)?),
                    Self::Spawned(value) => wit::Input::Spawned(value.carry(cap)?),
                    Self::SpawnFailed(value) => wit::Input::SpawnFailed(value.carry(cap)?),
                    Self::Line(value) => wit::Input::Line(value.carry(cap)?),
                    Self::Exited(value) => wit::Input::Exited(value.carry(cap)?),
                    Self::HttpResponse(value) => wit::Input::HttpResponse(value.carry(cap)?),
                    Self::HttpFailed(value) => wit::Input::HttpFailed(value.carry(cap)?),
                    Self::StreamOpened(value) => wit::Input::StreamOpened(value.carry(cap)?),
                    Self::StreamEvent(value) => wit::Input::StreamEvent(value.carry(cap)?),
                    Self::StreamClosed(value) => wit::Input::StreamClosed(value.carry(cap)?),
                    Self::Timer(value) => wit::Input::Timer(value),
                    Self::ToolResult(_) => unreachable!("`expressible` removed it"),
                })
            }
        }

        impl Carry<agent::SessionReady> for wit::SessionReady {
            fn carry(self, cap: usize) -> Result<agent::SessionReady, Excess> {
                Ok(agent::SessionReady {
                    session: self.session,
                    native_id: self.native_id.carry(cap)?,
                    model: self.model.carry(cap)?,
                    title: self.title.carry(cap)?,
                    tools: Vec::new(),
                })
            }
        }

        impl Carry<agent::ToolOutput> for wit::ToolOutput {
            fn carry(self, cap: usize) -> Result<agent::ToolOutput, Excess> {
                Ok(agent::ToolOutput {
                    id: self.id.carry(cap)?,
                    text: self.text.carry(cap)?,
                    replace: false,
                })
            }
        }

        impl Carry<agent::Unrecognised> for wit::Unrecognised {
            fn carry(self, cap: usize) -> Result<agent::Unrecognised, Excess> {
                Ok(agent::Unrecognised {
                    difference: agent::OutputDifference::Unknown,
                    what: self.what.carry(cap)?,
                    path: self.path.carry(cap)?,
                    sample: self.sample.carry(cap)?,
                })
            }
        }

        impl Carry<agent::QueryResult> for wit::QueryResult {
            fn carry(self, cap: usize) -> Result<agent::QueryResult, Excess> {
                Ok(match self {
                    Self::Health(line) => agent::QueryResult::Health(line.carry(cap)?),
                    Self::Models(models) => agent::QueryResult::Models(models.carry(cap)?),
                    Self::Sessions(sessions) => agent::QueryResult::Sessions(sessions.carry(cap)?),
                    // The host never sends a `raw` query, so its result answers nothing.
                    Self::Done | Self::Raw(_) => agent::QueryResult::Done,
                    Self::Failed(failure) => agent::QueryResult::Failed(failure.carry(cap)?),
                })
            }
        }
    };
}
pub(super) use {same_before_0_3, same_in_all_versions, same_since_0_2};
