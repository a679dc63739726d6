use super::*;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("state")).unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn read(folder: &tempfile::TempDir, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).unwrap()
}

const BOOT: &str = "\
# Boot

## Required

- soul.md
- `rules.md`: the operator's rules
- memory.md

## Optional

- user.md
- tools.md

## rules.md

What a new one holds:

```markdown
# Rules

## First

- startup: none
```

## First run

Read everything.

### Then

Introduce yourself.
";

#[test]
fn required_files_are_created_with_their_content_and_optional_ones_are_not() {
    let folder = folder(&[("boot.md", BOOT), ("soul.md", "mine"), ("tools.md", "")]);
    let booted = boot(folder.path(), false).unwrap();
    assert_eq!(booted.loaded, ["soul.md", "tools.md"]);
    assert_eq!(booted.created, ["rules.md", "memory.md"]);
    assert_eq!((booted.missing, booted.by_default), (vec!["user.md".to_owned()], false));
    assert_eq!(read(&folder, "soul.md"), "mine", "an existing file is never changed");
    assert_eq!(read(&folder, "rules.md"), "# Rules\n\n## First\n\n- startup: none\n");
    assert_eq!(read(&folder, "memory.md"), "# Memory\n");
    assert!(!folder.path().join("user.md").exists());
    let again = boot(folder.path(), false).unwrap();
    assert_eq!((again.loaded.len(), again.created.len()), (4, 0));
}

#[test]
fn the_first_start_has_instructions_until_they_were_passed_on() {
    let folder = folder(&[("boot.md", BOOT)]);
    for _ in 0..2 {
        let told = boot(folder.path(), false).unwrap().instructions.unwrap();
        assert_eq!(told, "Read everything.\n\n### Then\n\nIntroduce yourself.");
    }
    mark_instructed(folder.path(), "2026-11-22T06:00:00Z").unwrap();
    assert_eq!(boot(folder.path(), false).unwrap().instructions, None);
    assert!(read(&folder, "state/boot.md").ends_with("- handed over: 2026-11-22T06:00:00Z\n"));
    fs::remove_file(folder.path().join("state/boot.md")).unwrap();
    assert!(
        boot(folder.path(), false).unwrap().instructions.is_some(),
        "the operator asked for it"
    );
}

#[test]
fn without_boot_md_soul_and_identity_have_content_and_the_others_a_heading() {
    let folder = folder(&[]);
    let looked = boot(folder.path(), true).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "checking creates nothing");
    let booted = boot(folder.path(), false).unwrap();
    assert_eq!(looked, booted);
    assert!(
        booted.by_default
            && booted.loaded.is_empty()
            && booted.missing.is_empty()
            && booted.instructions.is_none()
    );
    assert_eq!(
        booted.created,
        ["soul.md", "identity.md", "agents.md", "user.md", "memory.md", "tools.md"]
    );
    assert!(
        read(&folder, "soul.md").len() > 100 && read(&folder, "identity.md").contains("Aetheel")
    );
    for (name, header) in
        [("agents.md", "# Agents\n"), ("user.md", "# User\n"), ("tools.md", "# Tools\n")]
    {
        assert_eq!(read(&folder, name), header);
    }
}

#[test]
fn names_outside_the_folder_are_ignored_with_a_warning() {
    let text = "# Required\n- ../soul.md\n- /etc/passwd\n- state/x.md\n- .hidden.md\n- notes.txt\n- .md\n- soul.md\n- soul.md\n\
# ../evil.md\n```\nx\n```\n# extra.md\n```\nx\n```\n# soul.md\nno code\n";
    let boot = Boot::parse(text);
    assert_eq!(boot.required, ["soul.md", "extra.md"]);
    assert_eq!(boot.contents.keys().collect::<Vec<_>>(), ["extra.md"]);
    let lines: Vec<_> =
        boot.warnings.iter().map(|warning| warning.split(": ").next().unwrap()).collect();
    assert_eq!(
        lines,
        [2, 3, 4, 5, 6, 7, 10, 14, 18].map(|line| format!("boot.md line {line}")),
        "{:?}",
        boot.warnings
    );
    assert_eq!(Boot::parse("# Boot\n").required, REQUIRED, "the section is missing");
    assert_eq!(Boot::parse("# Required\n").required, [""; 0], "the section is empty");
}

#[test]
fn the_starter_files_cause_no_warnings() {
    let boot = Boot::parse(include_str!("../../../../../config/boot.md"));
    assert_eq!(
        (boot.warnings, boot.instructions, boot.required),
        (vec![], None, REQUIRED.map(str::to_owned).to_vec())
    );
    assert!(boot.optional.contains(&"heartbeat.md".to_owned()) && boot.contents.is_empty());
    assert_eq!(
        super::super::Hooks::parse(include_str!("../../../../../config/agents.md")),
        super::super::Hooks::default()
    );
}

#[test]
fn an_error_names_the_file_that_cannot_be_created_or_is_not_a_regular_one() {
    let folder = folder(&[("boot.md", "# Required\n- soul.md\n")]);
    let soul = folder.path().join("soul.md");
    std::os::unix::fs::symlink("/nowhere/at/all.md", &soul).unwrap();
    let error = boot(folder.path(), false).unwrap_err();
    assert!(
        error.to_string().contains("create") && error.to_string().contains("soul.md"),
        "{error}"
    );
    fs::remove_file(&soul).unwrap();
    fs::create_dir(&soul).unwrap();
    let error = boot(folder.path(), false).unwrap_err();
    assert!(error.to_string().contains("use") && error.to_string().contains("soul.md"), "{error}");
}

#[test]
fn a_line_that_is_not_read_is_reported() {
    assert_eq!(Boot::parse(BOOT).warnings, [""; 0]);
    assert_eq!(Boot::parse(include_str!("../../../../../config/boot.md")).warnings, [""; 0]);
    let slips = [
        ("## Required\n\n- soul", "##Required\n\n- soul", 3),
        ("## Required\n\n- soul", " ## Required\n\n- soul", 3),
        ("## Required\n\n- soul", "Required\n---\n\n- soul", 3),
        ("## Required\n\n- soul", "**Required**\n\n- soul", 3),
        ("## Required\n\n- soul", "## Requird\n\n- soul", 3),
        ("- soul.md", "  - soul.md", 5),
        ("- soul.md", "-soul.md", 5),
        ("- soul.md", "soul.md", 5),
        ("- soul.md", "<!-- \n- soul.md", 5),
        ("## Optional\n", "##Optional\n", 9),
        ("## First run", "##First run", 26),
        ("## First run", "## First runn", 26),
        ("```markdown\n# Rules", "````markdown\n# Rules", 18),
    ];
    for (line, slip, number) in slips {
        assert!(BOOT.contains(line), "{line}");
        let warnings = Boot::parse(&BOOT.replacen(line, slip, 1)).warnings;
        let place = format!("boot.md line {number}: ");
        assert!(warnings.iter().any(|warning| warning.starts_with(&place)), "{slip}: {warnings:?}");
    }
}
