//! Runs the commands of `docs/mending.md` as a reader would type them, with the real program, and
//! measures their time.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::kit::tutorial::blocks;
use crate::support::program::aetheel;

#[test]
fn the_loop_from_a_renamed_field_to_the_delivered_reply_works_as_described() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/mending.md")).unwrap();
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let programs = aetheel().parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let (mut said, begun) = (Vec::new(), Instant::now());
    for (info, lines) in blocks(&page) {
        if let Some(file) = info.split_once("file=").map(|(_, file)| file) {
            std::fs::write(folder.path().join(file), lines.join("\n") + "\n").unwrap();
        }
        for command in
            lines.iter().filter(|_| info == "console").filter_map(|line| line.strip_prefix("$ "))
        {
            let output = Command::new("sh")
                .args(["-c", command])
                .current_dir(folder.path())
                .env("PATH", &path)
                .env("CHECKOUT", root)
                .env("CACHE_DIR", folder.path().join("cache"))
                // The programs are in the folder of this build, not in a folder of the system.
                .env("AGENT_READ", &programs)
                .env_remove("RUSTFLAGS")
                .output()
                .unwrap();
            let text =
                [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
            let text = text.concat();
            println!("$ {command}\n{text}({:.1} s)", begun.elapsed().as_secs_f64());
            assert!(output.status.success(), "{command}: {}\n{text}", output.status);
            said.push(text);
        }
    }
    println!("the whole loop: {:.0} s", begun.elapsed().as_secs_f64());
    let position = |part: &str| said.iter().position(|text| text.contains(part));
    let steps = ["(unread, ", "mended: ", "installed as", "recovered: 1"].map(position);
    assert!(steps.is_sorted() && steps.iter().all(Option::is_some), "{steps:?}: {said:#?}");
    // A round has one build, and the first round was accepted.
    assert!(!said.iter().any(|text| text.contains("refused:")), "{said:#?}");
    let last = said.last().unwrap();
    assert!(last.contains("You said: good morning"), "{last}");
}
