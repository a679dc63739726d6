//! Settings of a part of the program, which are handed to it whole.

use std::time::Duration;

use aetheel_model::access::AllowLists;
use aetheel_model::choice::FooterPart;
use aetheel_model::discord::DiscordSettings;
use aetheel_model::id::{ChannelId, GuildId, RoleId, UserId};
use aetheel_model::limits::{AgentLimits, ResourceLimits};
use aetheel_model::traces::TraceSettings;
use secrecy::SecretString;

use crate::parsers::{
    each_id, milliseconds, milliseconds_or_never, number, number_or_auto, number_or_zero, some_of,
};
use crate::table::settings;

settings! {
    impl DiscordSettings {
        owners: Vec<UserId> = "OWNERS", "", parts(each_id(UserId::parse_nonzero)),
            "Discord user ids with the rights of the application's owner, separated by commas";
        output_channel: Option<ChannelId> = "OUTPUT_CHANNEL_ID", "", id(ChannelId::parse_nonzero),
            "Discord channel of heartbeats, cron jobs, hooks and webhooks that name none, and of notices to the operator";
        long_answer: Option<usize> = "LONG_ANSWER_CHARS", "16000", value(number_or_zero(1 << 30)),
            "An answer with more characters is sent as a file; 0: never";
        footer: Vec<FooterPart> = "FOOTER", "backend,time,cost", parts(some_of(&FooterPart::WORDS)),
            "Parts of the line below an answer: `backend`, `model`, `time`, `tokens`, `cost`, separated by commas; `none`: no such line";
        command_alias: Option<String> = "COMMAND_ALIAS", "", optional(),
            advanced "Second name of `/ask` and, with `-reset`, of `/reset`; unset: the name of the backend that answers, if its descriptor says so (`own-command`)";
        api_base: String = "DISCORD_API_BASE", "https://discord.com", address(),
            advanced "Discord's address; for proxies and tests";
        requests_per_second: usize = "DISCORD_REQUESTS_PER_SECOND", "45", value(number(0, 1_000_000)),
            advanced "Maximum number of requests to Discord in a second; Discord allows 50; 0: no limit";
        shards: Option<u32> = "SHARDS", "auto", value(number_or_auto(1, 1_000)),
            advanced "Connections to Discord's gateway: `auto` (as many as Discord recommends) or a number from 1 to 1000";
    }
    also {
        allowed: AllowLists = AllowLists::read_from;
    }
}

settings! {
    impl AllowLists {
        users: Vec<UserId> = "ALLOWED_USERS", "", parts(each_id(UserId::parse_nonzero)),
            "Discord user ids that may use the bot, separated by commas";
        roles: Vec<RoleId> = "ALLOWED_ROLES", "", parts(each_id(RoleId::parse_nonzero)),
            "Discord role ids that may use the bot, separated by commas";
        channels: Vec<ChannelId> = "ALLOWED_CHANNELS", "", parts(each_id(ChannelId::parse_nonzero)),
            "Ids of the Discord channels in which the bot answers, separated by commas. An empty list means all";
        guilds: Vec<GuildId> = "ALLOWED_GUILDS", "", parts(each_id(GuildId::parse_nonzero)),
            "Ids of the Discord guilds in which the bot answers, separated by commas. An empty list means all";
    }
}

settings! {
    impl AgentLimits {
        query_timeout: Duration = "QUERY_TIMEOUT_MS", "3600000", value(milliseconds(1_000)),
            "Longest turn, in milliseconds, without the time in which people are asked";
        idle_timeout: Option<Duration> = "IDLE_TIMEOUT_MS", "900000", value(milliseconds_or_never(1_000)),
            "Longest time without output of an agent while none of its tools runs, in milliseconds; 0: no limit";
        ask_timeout: Duration = "ASK_TIMEOUT_MS", "600000", value(milliseconds(1_000)),
            "How long an agent's question to people stays open before it is refused, in milliseconds";
        link_idle: Duration = "LINK_IDLE_MS", "900000", value(milliseconds(0)),
            advanced "How long a long-lived agent is kept without a turn, in milliseconds";
        links_warm: usize = "LINKS_WARM", "5", value(number(0, 10_000)),
            advanced "Maximum number of long-lived agents kept without a turn; the one that has been idle longest is ended first";
        stop_grace: Duration = "STOP_GRACE_MS", "5000", value(milliseconds(100)),
            advanced "How long an agent has to end after an interrupt, and again after SIGTERM, in milliseconds";
    }
}

settings! {
    impl ResourceLimits {
        line: usize = "LINE_LIMIT_BYTES", "8388608", value(number(8 << 20, 1 << 30)),
            advanced "Longest line of agent output that is kept whole, in bytes; can only be raised";
        output: u64 = "OUTPUT_LIMIT_BYTES", "67108864", value(number(64 << 20, 1 << 40)),
            advanced "Maximum output of a turn, in bytes; beyond it the turn is stopped; can only be raised";
        prompt: usize = "PROMPT_LIMIT_BYTES", "262144", value(number(256 << 10, 1 << 30)),
            advanced "Longest prompt, in bytes; can only be raised";
        guest_memory: usize = "GUEST_MEMORY_BYTES", "134217728", value(number(128 << 20, 4 << 30)),
            advanced "Memory of one backend instance, in bytes; can only be raised";
        guest_pool: Option<u32> = "GUEST_POOL", "64", value(number_or_zero(1_000)),
            advanced "Backend instances whose memory is reserved and reused, which makes short turns cheaper; more get new memory; 0 switches the reuse off";
        guest_call: Duration = "GUEST_CALL_MS", "1000", value(milliseconds(1_000)),
            advanced "Processor time of one call into a backend, in milliseconds; can only be raised";
        component: u64 = "COMPONENT_LIMIT_BYTES", "50331648", value(number(48 << 20, 1 << 30)),
            advanced "Largest backend file, in bytes; can only be raised";
        compile: Duration = "COMPILE_TIMEOUT_MS", "120000", value(milliseconds(120_000)),
            advanced "Longest time to compile a backend, in milliseconds; can only be raised";
    }
}

// The names are those of OpenTelemetry.
settings! {
    impl TraceSettings {
        endpoint: Option<String> = "OTEL_EXPORTER_OTLP_ENDPOINT", "", trimmed(),
            "Address of an OpenTelemetry collector that gets traces of turns, for example `http://127.0.0.1:4318`. Without it, no traces, and the other `OTEL_…` variables have no effect";
        headers: Option<SecretString> = "OTEL_EXPORTER_OTLP_HEADERS", "", secret(),
            "Headers for the collector, as `NAME=VALUE`, separated by commas, with special characters as `%2C`. A secret, never given to an agent";
        protocol: String = "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", text(),
            advanced "Protocol of the collector; only `http/protobuf`";
        service_name: String = "OTEL_SERVICE_NAME", "aetheel", text(),
            "Name of this gateway in traces";
        resource_attributes: String = "OTEL_RESOURCE_ATTRIBUTES", "", text(),
            "Further attributes of this gateway in traces, as `NAME=VALUE`, separated by commas, for example `deployment.environment.name=staging`";
        sampler: String = "OTEL_TRACES_SAMPLER", "always_on", text(),
            "Which turns get a trace: `always_on`, `always_off` or `traceidratio`; with `parentbased_` before it the same, because turns have no parent";
        sampler_arg: String = "OTEL_TRACES_SAMPLER_ARG", "1.0", text(),
            "Part of all turns that get a trace with `traceidratio`, from 0 to 1";
    }
}
