//! The real Claude Code 2.1.197 against a scripted model service: the facts its backend is built on.
//!
//! Ignored by `cargo test`; `make test-live` installs the CLI and runs them one at a time, `make test-live CASE=name`
//! those whose name contains `name`. Nothing leaves loopback.

mod fixture;


use self::fixture::LiveClaude;
use crate::support::model_server::{ModelServer, Reply};

const SKIP: &str = "--dangerously-skip-permissions";

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_prompt_reaches_the_model_and_its_answer_comes_back() {
    let claude = LiveClaude::new(ModelServer::replying([Reply::pieces(["Hel", "lo ", "there."])]).await);
    let ended = claude.run(&[SKIP], "Say hello.").await;
    assert_eq!(ended.answer(), "Hello there.");
    assert_eq!(ended.deltas("text_delta"), ["Hel", "lo ", "there."]);
    let request = claude.model.only_request();
    println!("{}", serde_json::to_string_pretty(&request.body["messages"]).unwrap());
    println!("{:?} {:?}", request.headers, claude.model.others());
    println!("{}", request.system());
    println!("{:#?}", ended);
    assert_eq!(request.prompts(), ["Say hello."]);
}
