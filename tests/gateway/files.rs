//! The operator's files and the agent's memory, with the real program.

use std::fs;

use crate::support::program::Installation;

#[tokio::test]
async fn every_prompt_gets_the_current_files_in_labelled_sections() {
    let installation = Installation::new().with("LOG_LEVEL", "info");
    let write =
        |name: &str, text: &str| fs::write(installation.path("config").join(name), text).unwrap();
    for (name, text) in [
        ("soul", "calm"),
        ("identity", "Marvin"),
        ("agents", "rules"),
        ("user", "Ann"),
        ("memory", "- tea"),
        ("tools", "a hammer"),
    ] {
        write(&format!("{name}.md"), text);
    }
    let titles = |prompt: &str| {
        prompt
            .lines()
            .filter_map(|line| line.strip_prefix("## "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let mut console = installation.start(&["console"]);
    console.type_in("system\n").await;
    let first = console
        .prints("the system prompt", |text| text.contains("a hammer").then(|| text.to_owned()))
        .await;
    assert_eq!(
        titles(&first),
        ["Identity", "Soul", "Agents", "User", "Long-Term Memory", "Tool Configuration"]
    );
    assert!(first.contains("## Soul\n\ncalm\n") && first.contains("## User\n\nAnn\n"), "{first}");

    write("soul.md", "cheerful");
    fs::remove_file(installation.path("config").join("user.md")).unwrap();
    console.type_in("remember - coffee\nsystem\n").await;
    let after = |text: &str| {
        text.split_once("Noted.")
            .map(|(_, rest)| rest.to_owned())
            .filter(|rest| rest.contains("a hammer"))
    };
    let second = console.prints("the system prompt", after).await;
    assert_eq!(
        titles(&second),
        ["Identity", "Soul", "Agents", "Long-Term Memory", "Tool Configuration"]
    );
    assert!(second.contains("cheerful") && !second.contains("calm"), "{second}");
    assert!(second.contains("## Long-Term Memory\n\n- tea\n- coffee\n"), "{second}");
    assert_eq!(installation.read("memory.md"), "- tea\n- coffee\n");
    console.tells("user.md is missing").await;
    console.end_input();
    assert_eq!(console.ended().await.code, 0);
}
