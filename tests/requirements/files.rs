//! Tests of the operator's files: the agent's identity, its knowledge of people, its memory, and
//! the state that is kept over a restart.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use super::{discord, installed, repeated, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER};
use crate::support::program::{Installation, Program};

/// The files, and the sections they become, in their order.
const FILES: [(&str, &str); 6] = [
    ("identity.md", "Identity"),
    ("soul.md", "Soul"),
    ("agents.md", "Agents"),
    ("user.md", "User"),
    ("memory.md", "Long-Term Memory"),
    ("tools.md", "Tool Configuration"),
];

fn write(installation: &Installation, file: &str, text: &str) {
    fs::write(installation.path("config").join(file), text).unwrap();
}

/// Removes a file if it exists. The first start creates some.
fn remove(installation: &Installation, file: &str) {
    let _ = fs::remove_file(installation.path("config").join(file));
}

/// Returns the system prompt that the agent received, as it repeats it in a channel.
async fn system_prompt(local: &LocalDiscord, channel: u64) -> String {
    let before = local.texts(channel).len();
    local.mention(channel, ANN, "system");
    // A prompt that waits behind it is answered when the whole system prompt was posted.
    local.mention(channel, ANN, "enough");
    let told = |local: &LocalDiscord| {
        let texts = local.texts(channel);
        (texts.len() > before + 1
            && texts
                .last()
                .is_some_and(|text| text.starts_with("You said: enough\n") && text.ends_with('.')))
        .then_some(texts)
    };
    let texts = local.wait_for("the system prompt", told).await;
    texts[before..texts.len() - 1].join("\n\n")
}

fn sections(prompt: &str) -> Vec<&str> {
    prompt.lines().filter_map(|line| line.strip_prefix("## ")).collect()
}

/// Starts a program with all six files, each of which contains its own name.
async fn with_all_files(local: &LocalDiscord) -> (Installation, Program) {
    let installation = installed(local);
    for (file, _) in FILES {
        write(&installation, file, &format!("This is {file} at first.\n"));
    }
    let bot = serving(&installation).await;
    (installation, bot)
}

#[tokio::test]
async fn requirement_12_every_event_runs_with_the_current_files() {
    let local = discord().await;
    let (installation, bot) = with_all_files(&local).await;
    let first = system_prompt(&local, CHANNEL).await;
    for (file, _) in FILES {
        assert!(first.contains(&format!("This is {file} at first.")), "12.1: {file} in {first}");
        write(&installation, file, &format!("This is {file} later.\n"));
    }
    assert_eq!(
        sections(&first),
        FILES.map(|(_, section)| section),
        "12.2: all, with headers, in the order of 22.2"
    );
    let later = system_prompt(&local, CHANNEL).await;
    for (file, _) in FILES {
        assert!(
            later.contains(&format!("This is {file} later.")) && !later.contains("at first"),
            "12.1: {file} in {later}"
        );
    }
    local.mention(OTHER, ANN, "the payload of a message");
    local.wait_for_message(OTHER, |text| text == repeated("the payload of a message", 1)).await; // 12.3
    // 12.5: prompts that waited began when the previous turn had ended. `system_prompt` waits for
    // that.
    let ended = bot.log().iter().filter(|line| line["message"] == "turn ended").count();
    assert!(ended >= 4, "12.5: {ended} turns have ended");
    drop(bot);

    // 12.4: scheduled events have their instruction as the prompt.
    let local = discord().await;
    let installation = installed(&local).with("OUTPUT_CHANNEL_ID", &OTHER.to_string());
    write(
        &installation,
        "heartbeat.md",
        "## Inbox\n- interval: 60\n- instruction: The instruction of a heartbeat.\n",
    );
    write(
        &installation,
        "agents.md",
        "## Cron Jobs\n\n### Tick\n- cron: `* * * * * *`\n- instruction: The instruction of a job.\n",
    );
    let _bot = serving(&installation).await;
    local.wait_for_message(OTHER, |text| text == repeated("The instruction of a job.", 1)).await;
    // At the next full minute.
    let told = |local: &LocalDiscord| {
        local.texts(OTHER).contains(&repeated("The instruction of a heartbeat.", 1)).then_some(())
    };
    local.wait_within(Duration::from_secs(90), "12.4: the answer to the heartbeat", told).await;
}

#[tokio::test]
async fn requirement_13_soul_identity_and_agents_are_read_for_every_event() {
    let local = discord().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    FILES.iter().for_each(|(file, _)| remove(&installation, file));
    let mut without = system_prompt(&local, CHANNEL).await;
    for (criterion, file, section) in [
        ("13.1", "soul.md", "Soul"),
        ("13.2", "identity.md", "Identity"),
        ("13.3", "agents.md", "Agents"),
    ] {
        assert!(!sections(&without).contains(&section), "13.4: {without}");
        let line = bot.logs(&format!("{file} is missing")).await;
        assert_eq!(line["level"], "WARN", "13.4: {line}");
        write(&installation, file, "Now there is something.");
        let with = system_prompt(&local, CHANNEL).await;
        assert!(
            with.contains(&format!("## {section}\n\nNow there is something.")),
            "{criterion}, 13.5: {with}"
        );
        write(&installation, file, "And now something else.");
        let changed = system_prompt(&local, CHANNEL).await;
        assert!(
            changed.contains(&format!("## {section}\n\nAnd now something else.")),
            "13.5: {changed}"
        );
        remove(&installation, file);
        without = system_prompt(&local, CHANNEL).await;
    }
}

#[tokio::test]
async fn requirement_14_user_context_has_a_section_of_its_own() {
    let local = discord().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    own_section(&local, &installation, &bot, ("user.md", "User"), ["14.1", "14.2", "14.3", "14.4"])
        .await;
}

#[tokio::test]
async fn requirement_16_notes_on_tools_have_a_section_of_their_own() {
    let local = discord().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    own_section(
        &local,
        &installation,
        &bot,
        ("tools.md", "Tool Configuration"),
        ["16.1", "16.2", "16.3", "16.4"],
    )
    .await;
}

/// Checks that a file is read into its section, that a missing one causes a warning, and that a
/// change takes effect.
async fn own_section(
    local: &LocalDiscord,
    installation: &Installation,
    bot: &Program,
    (file, section): (&str, &str),
    [read, labelled, missing, changed]: [&str; 4],
) {
    remove(installation, file);
    let prompt = system_prompt(local, CHANNEL).await;
    assert!(!sections(&prompt).contains(&section), "{missing}: {prompt}");
    assert_eq!(bot.logs(&format!("{file} is missing")).await["level"], "WARN", "{missing}");
    write(installation, file, "It is about cats.");
    let prompt = system_prompt(local, CHANNEL).await;
    assert!(prompt.contains("It is about cats."), "{read}: {prompt}");
    assert!(prompt.contains(&format!("## {section}\n\nIt is about cats.")), "{labelled}: {prompt}");
    write(installation, file, "It is about dogs.");
    let prompt = system_prompt(local, CHANNEL).await;
    assert!(prompt.contains(&format!("## {section}\n\nIt is about dogs.")), "{changed}: {prompt}");
}

#[tokio::test]
async fn requirement_15_memory_is_shown_extended_and_created_when_missing() {
    let local = discord().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    assert_eq!(installation.read("memory.md").trim(), "# Memory", "15.5: created at the start");
    let prompt = system_prompt(&local, CHANNEL).await;
    assert!(sections(&prompt).contains(&"Long-Term Memory"), "15.2: {prompt}");
    assert!(prompt.contains("`memory.md`") && prompt.contains("```memory"), "15.3: {prompt}");

    local.mention(OTHER, ANN, "remember the cat is called Tom");
    local.wait_for_message(OTHER, |text| text == "Noted.").await;
    let noted = installation.read(&format!("memory/channel-{OTHER}.md"));
    assert!(noted.contains("the cat is called Tom"), "15.4: the memory is written");
    let prompt = system_prompt(&local, OTHER).await;
    assert!(prompt.contains("the cat is called Tom"), "15.1, 15.4: {prompt}");
    write(&installation, "memory.md", "# Memory\n\n- the dog is called Rex\n");
    let prompt = system_prompt(&local, CHANNEL).await;
    assert!(
        prompt.contains("Rex") && !prompt.contains("Tom"),
        "15.1: the operator's memory is shown everywhere, others only where they were made: {prompt}"
    );
    remove(&installation, "memory.md");
    system_prompt(&local, CHANNEL).await;
    assert_eq!(
        installation.read("memory.md").trim(),
        "# Memory",
        "15.5: created again if it is missing"
    );
}

#[tokio::test]
async fn requirement_21_all_state_is_markdown_and_survives_a_restart() {
    let local = discord().await;
    let (installation, mut bot) = with_all_files(&local).await;
    local.mention(CHANNEL, ANN, "remember the door is blue");
    local.wait_for_message(CHANNEL, |text| text == "Noted.").await;
    let noted = installation.read(&format!("memory/channel-{CHANNEL}.md"));
    assert!(noted.contains("the door is blue"), "21.2: on disk before it was answered");
    bot.signal(Signal::TERM);
    assert_eq!(bot.ended().await.code, 0);
    let folder = installation.path("config");
    // A lock has no contents, components that have served are programs, and the lines of turns and of
    // the audit log are a record like recordings.
    let strange: Vec<_> = installation
        .everything()
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| {
            // A holder has its log, its key and, until it ends, its socket beside the state, and the
            // gateway has a socket for the holder's relay.
            let holder =
                ["state/holder.log", "state/holder.key", "state/holder.sock", "state/tools.sock"];
            let programs = ["state/components", "state/partial-components"];
            let mut aside =
                programs.into_iter().chain(["state/turns", "state/audit"]).chain(holder);
            path.starts_with(&folder) && !aside.any(|place| path.starts_with(folder.join(place)))
        })
        .filter(|path| {
            path.extension().is_none_or(|extension| extension != "md" && extension != "lock")
        })
        .collect();
    assert!(strange.is_empty(), "21.1: {strange:?}");

    // Nothing except these files remains of the program.
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "history");
    let told =
        local.wait_for_message(CHANNEL, |text| text.starts_with("You said before:")).await.content;
    assert!(told.contains("the door is blue"), "21.3: the conversation continues: {told}");
    let prompt = system_prompt(&local, CHANNEL).await;
    for (file, _) in FILES {
        assert!(prompt.contains(&format!("This is {file} at first.")), "21.3: {file} in {prompt}");
    }
    // 21.4: the contents of the files take effect.
    let mended = installation
        .read("state/sessions.md")
        .lines()
        .filter(|line| !line.contains("demo-"))
        .collect::<Vec<_>>()
        .join("\n");
    write(&installation, "state/sessions.md", &mended);
    local.mention(CHANNEL, ANN, "history");
    local
        .wait_for_message(CHANNEL, |text| text == "This is the beginning of our conversation.")
        .await;
    drop(bot);
}

#[tokio::test]
async fn requirement_22_the_system_prompt_is_a_preamble_and_sections_in_order() {
    let local = discord().await;
    let (installation, _bot) = with_all_files(&local).await;
    let prompt = system_prompt(&local, CHANNEL).await;
    for (file, section) in FILES {
        assert!(
            prompt.contains(&format!("## {section}\n\nThis is {file} at first.")),
            "22.1: {file} in {prompt}"
        );
    }
    assert_eq!(sections(&prompt), FILES.map(|(_, section)| section), "22.2");
    let preamble = prompt.split("## ").next().unwrap();
    assert!(
        preamble.contains("`memory.md`") && preamble.contains("long-term memory"),
        "22.4: {preamble}"
    );
    // 22.3 and 22.5: whichever files exist, and whatever they contain, each has its section.
    for gone in [
        &["user.md"][..],
        &["soul.md", "tools.md"],
        &["identity.md", "agents.md", "user.md", "tools.md"],
    ] {
        for (file, _) in FILES {
            write(&installation, file, "# A title\n\n## Soul\n\n```\n## User\n");
        }
        for file in gone {
            if *file == "tools.md" {
                write(&installation, file, " \n");
            } else {
                remove(&installation, file);
            }
        }
        let prompt = system_prompt(&local, CHANNEL).await;
        let left: Vec<&str> = FILES
            .iter()
            .filter(|(file, _)| !gone.contains(file))
            .map(|(_, section)| *section)
            .collect();
        assert_eq!(sections(&prompt), left, "22.3, 22.5: without {gone:?}: {prompt}");
    }
}
