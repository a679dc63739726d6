//! The names of all attributes and events of spans.
//!
//! Names that begin with `gen_ai.`, and [`ERROR_TYPE`], are those of OpenTelemetry's [semantic
//! conventions, version
//! 1.41.0](https://github.com/open-telemetry/semantic-conventions/tree/v1.41.0/docs/gen-ai), the last
//! version before the conventions for generative AI moved to a repository of their own. All other
//! names begin with `aetheel.`.

/// The schema of the names: the version of the semantic conventions.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";

/// The operation of a span: [`INVOKE_AGENT`] or [`EXECUTE_TOOL`].
pub const OPERATION_NAME: &str = "gen_ai.operation.name";
/// The beginning of the name of a turn's span, before the name of the backend.
pub const TURN_PREFIX: &str = "invoke_agent ";
/// The operation of a turn.
pub const INVOKE_AGENT: &str = TURN_PREFIX.trim_ascii_end();
/// The operation of a tool use. The name of its span begins with it.
pub const EXECUTE_TOOL: &str = "execute_tool";
/// The name of the backend.
pub const AGENT_NAME: &str = "gen_ai.agent.name";
/// Required by the conventions. The gateway does not know which company serves the model, so this
/// is the name of the backend too.
pub const PROVIDER_NAME: &str = "gen_ai.provider.name";
/// The lane.
pub const CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// The model that was asked for.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// The model that the agent names.
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// Input tokens, as the agent reports them.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Output tokens, as the agent reports them.
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// The agent's own name of a tool.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// The agent's own id of a tool use.
pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// The word for a failure.
pub const ERROR_TYPE: &str = "error.type";

/// The correlation id of the turn, as in logs and below failures.
pub const TURN: &str = "aetheel.turn";
/// The word for the end of the turn.
pub const TURN_ENDING: &str = "aetheel.turn.ending";
/// The kind of event that asked for the turn, such as `message` or `cron`.
pub const TURN_TRIGGER: &str = "aetheel.turn.trigger";
/// Milliseconds from the acceptance of the prompt to the beginning of the turn.
pub const TURN_WAITED_MS: &str = "aetheel.turn.waited_ms";
/// Whether the turn continued after a restart of the gateway.
pub const TURN_RESUMED: &str = "aetheel.turn.resumed";
/// The number of tool uses.
pub const TURN_TOOLS: &str = "aetheel.turn.tools";
/// US dollars, as the agent reports them.
pub const TURN_COST_USD: &str = "aetheel.turn.cost_usd";
/// The version of the backend.
pub const BACKEND_VERSION: &str = "aetheel.backend.version";
/// The unified kind of a tool.
pub const TOOL_KIND: &str = "aetheel.tool.kind";
/// The word for the result of a tool use.
pub const TOOL_STATUS: &str = "aetheel.tool.status";
/// The exit status of a command.
pub const TOOL_EXIT_CODE: &str = "aetheel.tool.exit_code";
/// The event of a span: the agent asks people.
pub const QUESTION_OPENED: &str = "aetheel.question.opened";
/// The event of a span: a question is closed.
pub const QUESTION_CLOSED: &str = "aetheel.question.closed";
/// The kind of a question.
pub const QUESTION_ABOUT: &str = "aetheel.question.about";
/// The decision, or the reason without one.
pub const QUESTION_RESULT: &str = "aetheel.question.result";
