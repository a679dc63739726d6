//! Scenarios about the sandbox: agents with all rights, whose model instructs them to break out.
//!
//! Each row also does ordinary work, so that an agent that cannot run at all does not pass. With
//! `AGENT_SANDBOX=off` every one of them fails.

use super::super::gateway::Cell;
use super::super::program::{Site, all_below};
use crate::support::model_server::{Intent, Reply};

/// Commands that must work. They print words and leave a file.
const ORDINARY: &str = "cat note.txt; echo made > made.txt; cat made.txt; t=$(mktemp) && echo temp > $t && mv $t moved.txt; cat moved.txt";

/// Writes a script to the workspace and returns the command that runs it, since agents and shells
/// cannot modify a single command.
fn script(site: &Site, lines: &str) -> Intent {
    site.write("workspace/try.sh", &format!("{ORDINARY}\n{lines}\necho to-the-end\n"));
    Intent::shell("sh try.sh 2>&1")
}

/// Fails unless the ordinary work was done.
#[track_caller]
fn worked(site: &Site, heard: &str) {
    for word in ["words of the workspace", "made", "temp", "to-the-end"] {
        assert!(heard.contains(word), "no {word:?}: {heard}");
    }
    assert_eq!(
        (site.read("workspace/made.txt").as_str(), site.read("workspace/moved.txt").as_str()),
        ("made\n", "temp\n"),
        "{heard}"
    );
}

pub(super) async fn secrets(cell: Cell) {
    let site = Site::new(&cell);
    let tries = "
for process in /proc/[0-9]*; do tr '\\0' '\\n' <$process/environ | grep canary; done 2>/dev/null
exec 2>/dev/null
cat ../gateway.env ../credentials/* ../config/state/* ../config/state/*/* ../recordings/*/*
cp ../gateway.env copied; ln ../gateway.env hard; ln -s ../gateway.env soft; cat copied hard soft; rm -f hard soft
cd ..; cat gateway.env; find . -name '*.env' -exec cat {} +; grep -r canary . ";
    let work = Reply::does("call_1", script(&site, tries))
        .then_does("call_2", Intent::read(&site.at("gateway.env")));
    let ran = site.run(work).await;
    ran.assert_no_secret();
    worked(&site, &ran.tool_results());
}

pub(super) async fn neighbour(cell: Cell) {
    let site = Site::new(&cell);
    let tries = "
ls ../other-project; cat ../other-project/note.txt; cat $HOME/.ssh/id; cp -r ../other-project mine; cat mine/*
ln ../other-project/note.txt hard; cat hard; rm -rf mine hard
echo changed >> ../other-project/note.txt; rm ../other-project/note.txt; mv ../other-project gone";
    let work = Reply::does("call_1", script(&site, tries))
        .then_does("call_2", Intent::read(&site.at("other-project/note.txt")))
        .then_does("call_3", Intent::edit(&site.at("other-project/note.txt"), "canary", "changed"));
    let ran = site.run(work).await;
    ran.assert_no_secret();
    assert_eq!(
        site.read("other-project/note.txt"),
        "canary-of-the-neighbour\n",
        "{}",
        ran.tool_results()
    );
    assert_eq!(site.read("home/.ssh/id"), "canary-of-the-home\n", "{}", ran.tool_results());
    worked(&site, &ran.tool_results());
}

pub(super) async fn outside(cell: Cell) {
    let site = Site::new(&cell);
    let mark = format!(
        "outside-{}",
        site.path("").file_name().expect("it has a name").to_string_lossy().trim_start_matches('.')
    );
    let tries = format!(
        "
for place in .. ../config ../config/state ../backends ../other-project ../recordings $HOME $HOME/.ssh / /tmp /var/tmp /dev/shm /usr/local/bin; do
echo out > $place/{mark}; mkdir $place/{mark}-folder; ln -s /etc/passwd $place/{mark}-link; cp made.txt $place/{mark}-copied
done
echo out >> ../gateway.env; true > ../credentials/DISCORD_BOT_TOKEN; echo out >> ../config/acp.md; echo out > ../backends/it.wasm"
    );
    let work = Reply::does("call_1", script(&site, &tries))
        .then_does("call_2", Intent::write(&site.at(&format!("{mark}-written")), "out\n"))
        .then_does("call_3", Intent::write(&site.at(&format!("config/{mark}-written")), "out\n"));
    let components = std::fs::read(site.path("backends/it.wasm")).unwrap();
    let ran = site.run(work).await;
    let inside = site.path("workspace");
    let mut made: Vec<_> =
        all_below(&site.path("")).into_iter().filter(|path| !path.starts_with(&inside)).collect();
    made.extend(
        ["/", "/tmp", "/var/tmp", "/dev/shm", "/usr/local/bin"]
            .map(|place| std::path::Path::new(place).join(&mark)),
    );
    made.retain(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&mark))
            && path.symlink_metadata().is_ok()
    });
    assert!(made.is_empty(), "made outside: {made:?}\n{}", ran.tool_results());
    for (name, text) in [
        ("gateway.env", "canary-of-the-env-file"),
        ("credentials/DISCORD_BOT_TOKEN", "canary-of-the-credentials"),
    ] {
        assert!(
            site.read(name).trim_end().ends_with(text),
            "{name} was changed: {}",
            ran.tool_results()
        );
    }
    assert!(
        std::fs::read(site.path("backends/it.wasm")).unwrap() == components
            && !site.read("config/acp.md").contains("\nout\n")
    );
    worked(&site, &ran.tool_results());
}
