use super::*;

fn lines(
    home: &Path,
    prompt: &str,
    change: impl FnOnce(&mut DemoOptions, &mut DemoStop),
) -> (u8, Vec<Value>) {
    let mut options = DemoOptions {
        resume: None,
        model: None,
        system_file: None,
        home: home.to_owned(),
        delay: Duration::ZERO,
        talk: false,
    };
    let mut stop = DemoStop::default();
    change(&mut options, &mut stop);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let code = DemoAgent::new(options, stop, AnswerSource::nobody(), &mut stdout, &mut stderr)
        .turn(prompt)
        .expect("a vector takes everything");
    let text = String::from_utf8(stdout).expect("JSON lines");
    (code, text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

fn kinds(lines: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    kinds.dedup();
    kinds
}

fn answer(lines: &[Value]) -> String {
    lines
        .iter()
        .filter(|line| line["type"] == "text")
        .filter_map(|line| line["text"].as_str())
        .collect()
}

#[test]
fn a_prompt_is_repeated_and_every_turn_ends_with_usage_and_a_last_line() {
    let home = tempfile::tempdir().expect("a folder");
    let (code, lines) =
        lines(home.path(), "grüße, wie geht es dir an diesem schönen Tag?", |_, _| {});
    assert_eq!(code, 0);
    assert_eq!(kinds(&lines), ["hello", "text", "usage", "done"]);
    assert!(
        answer(&lines).starts_with("You said: grüße, wie geht es dir an diesem schönen Tag?\n"),
        "{}",
        answer(&lines)
    );
}

#[test]
fn a_session_is_resumed_by_its_id_and_an_unknown_one_is_an_error() {
    let home = tempfile::tempdir().expect("a folder");
    let (_, first) = lines(home.path(), "my name is Ada", |_, _| {});
    let id = first[0]["session"].as_str().expect("an id").to_owned();
    let (_, second) =
        lines(home.path(), "[ada]: history", |options, _| options.resume = Some(id.clone()));
    assert_eq!(second[0]["session"], id.as_str());
    assert_eq!(answer(&second), "You said before:\n\n- my name is Ada");
    for unknown in ["demo-0", "../x", ""] {
        let (code, lines) =
            lines(home.path(), "hi", |options, _| options.resume = Some(unknown.to_owned()));
        assert_eq!(
            (code, lines.last().expect("a line")["kind"].as_str()),
            (1, Some("session-unknown")),
            "{unknown}"
        );
    }
}

#[test]
fn every_word_of_the_help_has_its_effect() {
    let home = tempfile::tempdir().expect("a folder");
    let text = &["hello", "text", "usage", "done"][..];
    for (prompt, code, expected) in [
        ("help", 0, text),
        (
            "tool ls",
            0,
            &[
                "hello",
                "text",
                "tool",
                "tool-output",
                "tool-end",
                "tool",
                "tool-output",
                "tool-end",
                "text",
                "usage",
                "done",
            ],
        ),
        ("think stars", 0, &["hello", "thinking", "text", "usage", "done"]),
        // Without `--talk` nobody can be asked.
        ("ask ls", 0, text),
        ("question", 0, text),
        ("plan", 0, &["hello", "plan", "text", "usage", "done"]),
        ("markdown", 0, text),
        ("code zig", 0, text),
        ("long 100", 0, text),
        ("remember tea", 0, text),
        ("system", 0, text),
        ("retry", 0, &["hello", "retry", "text", "usage", "done"]),
        ("fail overloaded", 1, &["hello", "text", "usage", "error"]),
        ("crash", 101, &["hello", "text"]),
        ("silent", 0, &["hello", "usage", "done"]),
        ("noise", 0, &["hello", "hologram", "text", "usage", "done"]),
    ] {
        let (found, lines) = lines(home.path(), prompt, |_, _| {});
        assert_eq!((found, kinds(&lines).as_slice()), (code, expected), "{prompt}");
    }
}

#[test]
fn a_stop_request_ends_a_hanging_turn_with_a_line_interrupted() {
    let home = tempfile::tempdir().expect("a folder");
    let (code, lines) = lines(home.path(), "hang", |_, stop| {
        let stop = stop.clone();
        std::thread::spawn(move || stop.request());
    });
    assert_eq!((code, kinds(&lines).as_slice()), (130, &["hello", "usage", "interrupted"][..]));
}

#[test]
fn the_system_prompt_is_read_from_its_file() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("system.md");
    fs::write(&file, "be kind").expect("written");
    let (_, lines) = lines(home.path(), "system", |options, _| options.system_file = Some(file));
    assert_eq!(answer(&lines), "be kind");
}

#[test]
fn wrong_arguments_are_named_and_the_version_is_printed() {
    let call = |args: &[&str]| {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let code = run(args.iter().map(ToString::to_string), io::empty(), &mut stdout, &mut stderr);
        (code, String::from_utf8(stdout).expect("text"), String::from_utf8(stderr).expect("text"))
    };
    assert!(call(&["--version"]).1.starts_with("aetheel demo-agent "));
    for args in [&["--resume"][..], &["--what"], &["prompt"]] {
        let (code, _, stderr) = call(args);
        assert_eq!(code, 64);
        assert!(stderr.contains(args[0]) && stderr.contains("usage:"), "{stderr}");
    }
}

#[test]
fn sigint_ends_a_hanging_turn() {
    let home = tempfile::tempdir().expect("a folder");
    let (code, lines) = lines(home.path(), "hang", |_, stop| {
        // The signal is handled from here on, so it does not end the test process.
        *stop = DemoStop::on_signals().expect("listening");
        let this = rustix::process::getpid();
        rustix::process::kill_process(this, rustix::process::Signal::INT).expect("sent");
    });
    assert_eq!((code, lines.last().expect("a line")["type"].as_str()), (130, Some("interrupted")));
}

/// Runs a turn in which the agent reads one reply. Returns the exit code and the lines.
fn talk(home: &Path, prompt: &str, reply: &str) -> (u8, Vec<Value>) {
    let answers = AnswerSource::read(io::Cursor::new(format!("{reply}\n").into_bytes()));
    let options = DemoOptions {
        resume: None,
        model: None,
        system_file: None,
        home: home.to_owned(),
        delay: Duration::ZERO,
        talk: true,
    };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let code = DemoAgent::new(options, DemoStop::default(), answers, &mut stdout, &mut stderr)
        .turn(prompt)
        .expect("a vector takes everything");
    let text = String::from_utf8(stdout).expect("JSON lines");
    (code, text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

#[test]
fn a_tool_of_the_gateway_is_called_and_its_result_shown() {
    let home = tempfile::tempdir().expect("a folder");
    let prompt = r#"call note {"text":"hello"}"#;
    let result = r#"{"type":"result","call":1,"text":"noted","failed":false}"#;
    let (code, lines) = talk(home.path(), prompt, result);
    let call = json!({"type": "call", "call": 1, "name": "note", "input": {"text": "hello"}});
    assert!(code == 0 && lines.contains(&call), "{lines:?}");
    assert_eq!(answer(&lines), "The tool returned: noted");
    let failed = r#"{"type":"result","call":1,"text":"no","failed":true}"#;
    assert_eq!(answer(&talk(home.path(), "call note", failed).1), "The tool failed: no");
    assert_eq!(answer(&talk(home.path(), "call note", "{}").1), "There was no result.");
    assert!(answer(&talk(home.path(), "call note {", "{}").1).contains("not JSON"));
}

#[test]
fn several_tools_are_called_in_order_and_surplus_results_counted() {
    let home = tempfile::tempdir().expect("a folder");
    let results = r#"{"type":"result","call":1,"text":"first","failed":false}
{"type":"result","call":1,"text":"first","failed":false}
{"type":"result","call":2,"text":"second","failed":false}"#;
    let prompt = "call note {\"text\": \"a\"}\nnote {\"text\": \"b\"}";
    let (_, lines) = talk(home.path(), prompt, results);
    let calls: Vec<&Value> = lines.iter().filter(|line| line["type"] == "call").collect();
    assert_eq!(
        (calls.len(), &calls[1]["call"], &calls[1]["input"]["text"]),
        (2, &json!(2), &json!("b"))
    );
    let expected = "The tool returned: first\n\nThe tool returned: second\n\nResults that I did not expect: 1.";
    assert_eq!(answer(&lines), expected);
}

#[test]
fn questions_are_asked_and_every_decision_is_understood() {
    let home = tempfile::tempdir().expect("a folder");
    let talk = |prompt: &str, decision: &str| {
        let (code, lines) = talk(home.path(), prompt, decision);
        assert!(lines.iter().any(|line| line["type"] == "ask" && line["ask"] == 1), "{lines:?}");
        (code, answer(&lines))
    };
    for (prompt, decision, ends) in [
        ("ask ls", json!({"decision": "allow"}), "this once."),
        ("ask ls", json!({"decision": "always"}), "not ask again."),
        ("ask ls", json!({"decision": "deny"}), "Then not."),
        ("edit", json!({"decision": "deny", "words": "it is mine"}), "because: it is mine"),
        ("propose", json!({"decision": "allow"}), "with the plan."),
        ("choose ls", json!({"decision": "chosen", "option": "project"}), "as you chose: project."),
        (
            "choose ls",
            json!({"decision": "chosen", "option": "never"}),
            "not ask for such commands again.",
        ),
        (
            "choose ls",
            json!({"decision": "changed", "input": {"command": "pwd"}}),
            "as you changed it.",
        ),
        ("survey", json!({"decision": "declined"}), "go on without an answer."),
        (
            "survey",
            json!({"decision": "answers", "answers": [["many", ["3"]], ["sure", ["yes"]]]}),
            "me 2 answers.",
        ),
        ("login", json!({"decision": "dismissed"}), "so I did not."),
        (
            "question",
            json!({"decision": "answers", "answers": [["colour", ["Red"]], ["letters", ["A", "B"]]]}),
            "colour Red; letters A and B.",
        ),
    ] {
        let mut line = decision;
        line["type"] = json!("answer");
        line["ask"] = json!(1);
        let (code, text) = talk(prompt, &line.to_string());
        assert!(code == 0 && text.ends_with(ends), "{prompt}: {text}");
    }
    assert_eq!(talk("ask ls", r#"{"type":"answer","ask":1,"decision":"stop"}"#).0, 130);
    assert!(
        talk("ask ls", r#"{"type":"answer","ask":7,"decision":"allow"}"#)
            .1
            .ends_with("so I did not."),
        "the input ended"
    );
}
