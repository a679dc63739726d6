//! Traces of turns, sent by the real program to a collector.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::trace::v1::Span;
use rustix::process::Signal;
use serde_json::Value;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord};
use crate::support::program::{Installation, Program};
use crate::support::trace_collector::{CollectorMood, TraceCollector, attribute};

/// A value of a header of the collector, and a secret of the gateway.
const CANARY: &str = "canary-0123456789abcdef";

fn traced(local: &LocalDiscord, collector: &TraceCollector) -> Installation {
    installed(local).with("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.address())
}

fn of(span: &Span, name: &str) -> Option<String> {
    attribute(&span.attributes, name)
}

/// Returns the lines of finished turns.
fn turn_lines(installation: &Installation) -> Vec<Value> {
    let folder = installation.path("config/state/turns");
    let days = std::fs::read_dir(folder).into_iter().flatten().map(|day| day.unwrap().path());
    let text: String = days.map(|day| std::fs::read_to_string(day).unwrap()).collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn nanoseconds(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// Returns how many warnings about lost spans were logged.
fn warnings(bot: &Program) -> usize {
    let is_warning = |line: &Value| {
        line["message"].as_str().is_some_and(|text| text.starts_with("spans were lost"))
    };
    bot.log().iter().filter(|line| is_warning(line)).count()
}

#[tokio::test]
async fn a_turn_is_a_trace_with_its_tools_and_without_texts() {
    let local = LocalDiscord::start().await;
    let collector = TraceCollector::start(CollectorMood::Takes).await;
    let installation = traced(&local, &collector)
        .with("OTEL_EXPORTER_OTLP_HEADERS", &format!("authorization=Bearer%20{CANARY}"))
        .with("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test");
    let before = nanoseconds(SystemTime::now());
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, &format!("tool cat /home/ann/{CANARY}/plan.txt"));
    local.wait_for_message(CHANNEL, |text| text.ends_with("one did not.")).await;
    let root = collector.turns(1).await.remove(0);
    let after = nanoseconds(SystemTime::now());
    let spans = collector.spans();

    assert_eq!(root.name, "invoke_agent demo");
    assert!(root.parent_span_id.is_empty() && root.span_id.len() == 8 && root.trace_id.len() == 16);
    let line = local.wait_for("the turn", |_| turn_lines(&installation).pop()).await;
    for (name, value) in [
        ("gen_ai.operation.name", "invoke_agent"),
        ("gen_ai.agent.name", "demo"),
        ("gen_ai.provider.name", "demo"),
        ("gen_ai.conversation.id", &format!("channel:{CHANNEL}")),
        ("aetheel.turn", line["turn"].as_str().unwrap()),
        ("aetheel.turn.ending", "completed"),
        ("aetheel.turn.trigger", "message"),
        ("aetheel.turn.tools", "2"),
        ("gen_ai.usage.input_tokens", &line["usage"]["input"].to_string()),
        ("gen_ai.usage.output_tokens", &line["usage"]["output"].to_string()),
    ] {
        assert_eq!(of(&root, name).as_deref(), Some(value), "{name} in {root:?}");
    }
    assert!(of(&root, "aetheel.turn.waited_ms").is_some() && of(&root, "error.type").is_none());
    let took = (root.end_time_unix_nano - root.start_time_unix_nano) / 1_000_000;
    assert_eq!(took, line["took-ms"].as_u64().unwrap());

    let tools: Vec<&Span> =
        spans.iter().filter(|span| span.name.starts_with("execute_tool ")).collect();
    let named: Vec<(String, Option<String>)> = tools
        .iter()
        .map(|tool| (of(tool, "gen_ai.tool.call.id").unwrap(), of(tool, "error.type")))
        .collect();
    assert_eq!(named, [("t1".into(), None), ("t2".into(), Some("failed".into()))]);
    for tool in tools {
        assert_eq!((&tool.trace_id, &tool.parent_span_id), (&root.trace_id, &root.span_id));
        assert_eq!(of(tool, "gen_ai.operation.name").as_deref(), Some("execute_tool"));
        let times =
            [before, tool.start_time_unix_nano, tool.end_time_unix_nano, root.end_time_unix_nano];
        assert!(times.is_sorted() && times[3] <= after, "{times:?} {after}");
    }

    let requests = collector.requests();
    for request in &requests {
        assert_eq!(request.path, "/v1/traces");
        assert_eq!(request.headers["authorization"], format!("Bearer {CANARY}"));
        assert_eq!(request.headers["content-type"], "application/x-protobuf");
        let resource = &request.content.resource_spans[0].resource.as_ref().unwrap().attributes;
        assert_eq!(attribute(resource, "service.name").as_deref(), Some("aetheel"));
        assert_eq!(attribute(resource, "deployment.environment.name").as_deref(), Some("test"));
        let text = String::from_utf8_lossy(&request.body);
        for hidden in [CANARY, "plan.txt", "/home", "cat ", "I will look"] {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
        assert!(!text.contains(&ANN.to_string()), "{text}");
    }

    // The header is in no output and no file but those of the agent, which got it as a prompt.
    bot.signal(Signal::TERM);
    let ended = bot.ended().await;
    assert!(ended.code == 0 && !ended.stderr.contains(CANARY), "{}", ended.stderr);
    for (path, bytes) in installation.everything() {
        let agents_own = path.starts_with(installation.path("workspace"));
        let text = String::from_utf8_lossy(&bytes);
        assert!(agents_own || !text.contains(CANARY), "{}", path.display());
    }
}

#[tokio::test]
async fn without_an_endpoint_nothing_is_sent_and_no_other_variable_counts() {
    let local = LocalDiscord::start().await;
    let collector = TraceCollector::start(CollectorMood::Takes).await;
    let installation = installed(&local)
        .with("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .with("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &collector.address())
        .with("OTEL_SERVICE_NAME", "other");
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "tool");
    local.wait_for_message(CHANNEL, |text| text.ends_with("one did not.")).await;
    bot.signal(Signal::TERM);
    assert_eq!(bot.ended().await.code, 0);
    assert!(collector.requests().is_empty());
}

#[tokio::test]
async fn the_last_spans_are_sent_at_a_shutdown() {
    let local = LocalDiscord::start().await;
    let collector = TraceCollector::start(CollectorMood::Takes).await;
    let installation = traced(&local, &collector);
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    bot.signal(Signal::TERM);
    assert_eq!(bot.ended().await.code, 0);
    assert_eq!(collector.turns(1).await.len(), 1);
}

#[tokio::test]
async fn a_collector_that_hangs_delays_no_turn_and_no_shutdown() {
    let local = LocalDiscord::start().await;
    let collector = TraceCollector::start(CollectorMood::Hangs).await;
    let installation = traced(&local, &collector);
    let mut bot = serving(&installation).await;
    for number in 0..5 {
        local.mention(CHANNEL, ANN, &format!("hello {number}"));
        let said = format!("You said: hello {number}");
        local.wait_for_message(CHANNEL, |text| text.starts_with(&said)).await;
    }
    // The first request is on its way, and the answer to it never comes.
    collector.turns(1).await;
    bot.signal(Signal::TERM);
    let lost = bot.logs("the collector of traces does not respond; the last spans are lost").await;
    assert_eq!(lost["lost"], 5, "{lost}");
    assert_eq!(bot.ended().await.code, 0);
}

#[tokio::test]
async fn a_collector_that_refuses_spans_is_reported_once_and_its_recovery_too() {
    let local = LocalDiscord::start().await;
    let collector = TraceCollector::start(CollectorMood::Answers(500)).await;
    let installation = traced(&local, &collector);
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "tool");
    let warned = bot.logs("spans were lost on the way to the collector of traces").await;
    assert!(warned["lost"].as_u64().unwrap() > 0, "{warned}");
    assert_eq!(warned["problem"], "the collector answers with status 500 Internal Server Error");
    local.mention(CHANNEL, ANN, "hello");
    collector.turns(2).await;
    let refused = collector.spans().len() as u64;
    collector.set_mood(CollectorMood::Takes);
    local.mention(CHANNEL, ANN, "again");
    let recovered = bot.logs("the collector of traces takes spans again").await;
    assert_eq!(warnings(&bot), 1, "the second loss is within the same minute");
    let lost = warned["lost"].as_u64().unwrap() + recovered["lost"].as_u64().unwrap();
    assert_eq!(lost, refused, "{warned} {recovered}");
}

#[tokio::test]
async fn spans_are_sent_again_after_a_temporary_error() {
    let local = LocalDiscord::start().await;
    let collector = TraceCollector::start(CollectorMood::Answers(503)).await;
    let installation = traced(&local, &collector);
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    collector.turns(1).await;
    collector.set_mood(CollectorMood::Takes);
    let turns = collector.turns(2).await;
    assert_eq!(turns[0].span_id, turns[1].span_id);
    assert_eq!(warnings(&bot), 0);
}

#[tokio::test]
async fn an_absent_collector_is_reported_and_turns_go_on() {
    let local = LocalDiscord::start().await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let installation = installed(&local).with("OTEL_EXPORTER_OTLP_ENDPOINT", &address);
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    let warned = bot.logs("spans were lost on the way to the collector of traces").await;
    assert!(warned["problem"].as_str().unwrap().contains("onnect"), "{warned}");
    local.mention(CHANNEL, ANN, "again");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: again")).await;
    bot.signal(Signal::TERM);
    assert_eq!(bot.ended().await.code, 0);
}

#[tokio::test]
async fn a_turn_that_outlives_a_killed_gateway_is_one_trace_with_its_real_beginning() {
    let local = LocalDiscord::start().await;
    let collector = TraceCollector::start(CollectorMood::Takes).await;
    let installation = traced(&local, &collector)
        .with("AGENT_HOLDER", "require")
        .with("AGENT_HOLD_SECONDS", "60")
        .with("DEMO_AGENT_DELAY_MS", "100");
    let mut killed = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 4");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let seen = nanoseconds(SystemTime::now());
    killed.signal(Signal::KILL);
    killed.ended().await;
    let _next = serving(&installation).await;
    local.wait_for_message(CHANNEL, |text| text.ends_with("There.")).await;
    let root = collector.turns(1).await.remove(0);
    assert!(root.start_time_unix_nano < seen, "it began before the kill: {root:?}");
    assert!(root.end_time_unix_nano > seen);
    assert_eq!(of(&root, "aetheel.turn.resumed").as_deref(), Some("true"));
    assert_eq!(of(&root, "aetheel.turn.ending").as_deref(), Some("completed"));
    let line = local.wait_for("the turn", |_| turn_lines(&installation).pop()).await;
    assert_eq!(of(&root, "aetheel.turn").as_deref(), line["turn"].as_str());
    // Another turn shows that all spans before it have arrived.
    local.mention(CHANNEL, ANN, "hello");
    let turns = collector.turns(2).await;
    assert_eq!(turns.len(), 2);
    assert_ne!(turns[0].trace_id, turns[1].trace_id);
}

#[tokio::test]
async fn tools_before_and_after_a_kill_are_in_the_same_trace() {
    let local = LocalDiscord::start().await;
    let collector = TraceCollector::start(CollectorMood::Takes).await;
    let installation = traced(&local, &collector)
        .with("AGENT_HOLDER", "require")
        .with("AGENT_HOLD_SECONDS", "60")
        .with("DEMO_AGENT_DELAY_MS", "100");
    let mut killed = serving(&installation).await;
    local.mention(CHANNEL, ANN, "tool");
    super::used_a_tool(&local, &installation).await;
    killed.signal(Signal::KILL);
    killed.ended().await;
    let _next = serving(&installation).await;
    let root = collector.turns(1).await.remove(0);
    for span in collector.spans() {
        assert_eq!(span.trace_id, root.trace_id, "{span:?}");
        assert!(span.span_id == root.span_id || span.parent_span_id == root.span_id, "{span:?}");
        assert!(root.start_time_unix_nano <= span.start_time_unix_nano, "{span:?} {root:?}");
    }
}

#[tokio::test]
async fn wrong_settings_are_reported_together_before_the_start_and_without_headers() {
    let installation = Installation::new()
        .with("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317")
        .with("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .with("OTEL_EXPORTER_OTLP_HEADERS", CANARY)
        .with("OTEL_TRACES_SAMPLER", "jaeger_remote")
        .with("AGENT_ENV", "OTEL_EXPORTER_OTLP_HEADERS");
    let checked = installation.run(&["check"], "").await;
    let text = format!("{}{}", checked.stdout, checked.stderr);
    for part in [
        "OTEL_EXPORTER_OTLP_ENDPOINT must be an address such as",
        "OTEL_EXPORTER_OTLP_PROTOCOL \"grpc\" must be `http/protobuf`",
        "OTEL_EXPORTER_OTLP_HEADERS: part 1 is not NAME=VALUE",
        "OTEL_TRACES_SAMPLER \"jaeger_remote\" must be one of",
        "AGENT_ENV must not name `OTEL_EXPORTER_OTLP_HEADERS`",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(checked.code != 0 && !text.contains(CANARY), "{text}");
}

#[tokio::test]
async fn no_variable_of_the_export_reaches_an_agent_unless_the_operator_names_it() {
    let local = LocalDiscord::start().await;
    let collector = TraceCollector::start(CollectorMood::Takes).await;
    let installation = traced(&local, &collector)
        .with("OTEL_EXPORTER_OTLP_HEADERS", &format!("x={CANARY}"))
        .with("OTEL_SERVICE_NAME", "named")
        .with("AGENT_ENV", "OTEL_SERVICE_NAME");
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hang");
    let agents = local
        .wait_for("the agent", |_| Some(bot.agents()).filter(|agents| !agents.is_empty()))
        .await;
    let environment = |pid: rustix::process::Pid| {
        let bytes = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap();
        String::from_utf8_lossy(&bytes).replace('\0', "\n")
    };
    for agent in agents {
        let text = environment(agent);
        let names: Vec<&str> = text.lines().filter(|line| line.starts_with("OTEL_")).collect();
        assert_eq!(names, ["OTEL_SERVICE_NAME=named"]);
        assert!(!text.contains(CANARY));
    }
    for holder in installation.holders() {
        assert!(!environment(holder).contains(CANARY), "the holder does not get it either");
    }
}
