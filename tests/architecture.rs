//! The shape of the sources: layers, who may name which library, sizes and names, and documents
//! that match the code.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use aetheel::config::VARIABLES;
use aetheel::figures::FIGURES;

/// Libraries, and the modules that may name them.
const AT_HOME: [(&str, &[&str]); 7] = [
    ("wasmtime", &["backend"]),
    ("wasmtime_wasi", &["backend"]),
    ("serenity", &["discord"]),
    // Discord's API, and agents' servers on loopback.
    ("reqwest", &["discord", "turn"]),
    ("tokio_tungstenite", &["discord"]),
    ("metrics_exporter_prometheus", &["web"]),
    // What it logs of keys is left out.
    ("rustyline", &["console", "telemetry"]),
];

/// Where our sources are.
const FOLDERS: [&str; 4] = ["src", "guest-backends", "tests", "benches"];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 8] =
    ["util", "utils", "helper", "helpers", "common", "misc", "manager", "service"];

struct Source {
    /// Relative to the repository.
    path: PathBuf,
    /// As it is.
    text: String,
    /// Without comments.
    code: String,
}

impl Source {
    /// The module directly under `src` this file belongs to.
    fn module(&self) -> &str {
        let first = self
            .path
            .components()
            .nth(1)
            .and_then(|part| part.as_os_str().to_str())
            .expect("sources have UTF-8 names");
        first.strip_suffix(".rs").unwrap_or(first)
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &str) -> Vec<Source> {
    let mut folders = vec![root().join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().map(|entry| entry.unwrap().path())
        {
            if entry.is_dir() && !entry.ends_with("target") {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&entry).unwrap();
                let code = text.lines().map(without_comment).collect::<Vec<_>>().join("\n");
                found.push(Source {
                    path: entry.strip_prefix(root()).unwrap().to_owned(),
                    text,
                    code,
                });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with("//") {
        ""
    } else {
        line.split(" // ").next().unwrap_or_default()
    }
}

/// Whether a word stands in the code, not as a part of a longer one.
fn names(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .any(|(at, _)| !code[..at].ends_with(part) && !code[at + word.len()..].starts_with(part))
}

/// The modules of this crate that a piece of code names: `crate::module` and `crate::{module::…,
/// module}`.
fn imports(code: &str, own_crate: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, path) in code.match_indices(&format!("{own_crate}::")) {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + path.len()..];
        let word = |text: &str| {
            text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
        };
        match rest.strip_prefix('{') {
            None => found.push(word(rest)),
            Some(group) => {
                let mut depth = 1;
                let mut first = true;
                for (at, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 1 => break,
                        '}' => depth -= 1,
                        ',' if depth == 1 => first = true,
                        _ if first && !c.is_whitespace() => {
                            found.push(word(&group[at..]));
                            first = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    found
}

/// The layers from the table in `src/lib.rs`, lowest first, each with its modules.
fn layers() -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let rows = text
        .lines()
        .filter_map(|line| line.strip_prefix("//! | ")?.split_once(" | "))
        .filter(|(_, row)| row.contains("[`"));
    let modules = |row: &str| row.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let mut layers: Vec<_> = rows.map(|(layer, row)| (layer.to_owned(), modules(row))).collect();
    layers.reverse();
    layers
}

#[test]
fn every_module_stands_in_one_layer() {
    let mut listed: Vec<String> = layers().into_iter().flat_map(|(_, modules)| modules).collect();
    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let mut declared: Vec<String> = lib
        .lines()
        .filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'))
        .map(str::to_owned)
        .collect();
    listed.sort();
    declared.sort();
    assert_eq!(listed, declared, "left: the table of layers in src/lib.rs, right: its modules");
}

#[test]
fn lower_modules_never_import_higher_ones_and_adapters_never_each_other() {
    let layers = layers();
    let rank: BTreeMap<&str, usize> = layers
        .iter()
        .enumerate()
        .flat_map(|(rank, (_, modules))| modules.iter().map(move |module| (module.as_str(), rank)))
        .collect();
    let mut faults = Vec::new();
    for source in sources("src").iter().filter(|source| !["lib", "main"].contains(&source.module()))
    {
        let module = source.module();
        for import in imports(&source.code, "crate") {
            let (Some(own), Some(other)) = (rank.get(module), rank.get(import.as_str())) else {
                continue;
            };
            let sideways = own == other && module != import && layers[*own].0 == "adapters";
            if other > own || sideways {
                faults.push(format!(
                    "{}: `{module}` ({}) imports `{import}` ({})",
                    source.path.display(),
                    layers[*own].0,
                    layers[*other].0
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn imports_are_found_in_every_spelling() {
    let code = "use crate::turn::Guest;\nuse crate::{agent::{Action, Input}, fold, queue::Queue};\nfn f() { crate::split::cut() } mycrate::x;";
    assert_eq!(imports(code, "crate"), ["turn", "agent", "fold", "queue", "split"]);
}

#[test]
fn libraries_and_processes_are_named_only_where_they_are_at_home() {
    let mut faults = Vec::new();
    for source in sources("src") {
        for (library, home) in AT_HOME {
            if names(&source.code, library) && !home.contains(&source.module()) {
                faults.push(format!("{}: `{library}` belongs to {home:?}", source.path.display()));
            }
        }
        if source.code.contains("metrics::") && source.module() != "figures" {
            faults.push(format!("{}: figures are kept by `figures` only", source.path.display()));
        }
        let grouped = source
            .code
            .lines()
            .any(|line| line.contains("std::process::{") && names(line, "Command"));
        // A module of tests may start what it tests with.
        if source.path.ends_with("tests.rs") {
            continue;
        }
        if (grouped
            || source.code.contains("process::Command")
            || source.code.contains("tokio::process"))
            && source.module() != "process"
        {
            faults.push(format!(
                "{}: processes are started by `process` only",
                source.path.display()
            ));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_lives_as_long_as_the_program_is_watched() {
    // Each of these ends by itself, or is begun anew by whoever needs it.
    let threads = [
        "src/vigil.rs",
        "src/commands/backend/record.rs",
        "src/backend/engine.rs",
        "src/console/input.rs",
        "src/discord/gateway.rs",
    ];
    let mut faults = Vec::new();
    for source in sources("src")
        .iter()
        .filter(|source| source.module() != "demo" && !source.path.ends_with("tests.rs"))
    {
        let code = source.code.split("#[cfg(test)]").next().unwrap_or_default();
        let path = source.path.display().to_string();
        if (code.contains("thread::spawn(") || code.contains("thread::Builder"))
            && !threads.contains(&path.as_str())
        {
            faults.push(format!("{path}: threads are started by `vigil::thread`"));
        }
        for (at, spawn) in code.match_indices("tokio::spawn(") {
            let body: Vec<&str> = code[at + spawn.len()..].lines().take(3).map(str::trim).collect();
            let endless = |line: &&str| {
                *line == "loop {" || (line.starts_with("while ") && line.contains(".recv().await"))
            };
            // `typing` ends with its answer, and the gateway's look at the connection with that.
            if body.iter().any(endless)
                && !["src/discord/typing.rs", "src/discord/gateway.rs"].contains(&path.as_str())
            {
                faults.push(format!(
                    "{path}: tasks without an end are started by `vigil::task`: {}",
                    body.join(" ")
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn files_are_of_readable_size_and_named_after_what_is_inside() {
    let mut faults = Vec::new();
    for folder in FOLDERS {
        for source in sources(folder) {
            let most = if source.path.iter().any(|part| part == "tests" || part == "benches") {
                800
            } else {
                500
            };
            // Tests at the end of a file are read apart from it.
            let lines = source.text.lines().take_while(|line| *line != "#[cfg(test)]").count();
            if lines > most {
                faults.push(format!("{}: {lines} lines, at most {most}", source.path.display()));
            }
            let parts = source.path.iter().filter_map(|part| Path::new(part).file_stem()?.to_str());
            faults.extend(
                parts
                    .filter(|part| EMPTY_NAMES.contains(part))
                    .map(|part| format!("{}: `{part}`", source.path.display())),
            );
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn nothing_is_left_to_be_written() {
    let unfinished = ["todo", "unimplemented"].map(|name| format!("{name}!("));
    let all = FOLDERS.into_iter().flat_map(sources);
    let found: Vec<_> = all
        .filter(|source| unfinished.iter().any(|name| source.code.contains(name)))
        .map(|source| source.path)
        .collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn the_documentation_lists_every_variable_with_its_default() {
    let text =
        fs::read_to_string(root().join("docs/configuration.md")).expect("docs/configuration.md");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let mut documented = BTreeMap::new();
    for row in rows.iter().filter(|row| row[0].starts_with(|c: char| c.is_ascii_uppercase())) {
        let before = documented
            .insert(row[0].trim_end_matches('`').to_owned(), row[1].trim_matches('`').to_owned());
        assert!(before.is_none(), "{} stands there twice", row[0]);
    }
    let wanted: BTreeMap<String, String> = VARIABLES
        .iter()
        .map(|variable| (variable.name.to_owned(), variable.default.to_owned()))
        .collect();
    assert_eq!(documented, wanted, "left: docs/configuration.md, right: `VARIABLES`");
}

#[test]
fn the_documentation_lists_every_figure() {
    let text = fs::read_to_string(root().join("docs/operating.md")).expect("docs/operating.md");
    let rows = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .filter(|(name, _)| name.starts_with("aetheel_") || name.starts_with("process_"));
    let documented: Vec<(String, String)> = rows
        .map(|(name, rest)| (name.to_owned(), rest.trim_end_matches(" |").to_owned()))
        .collect();
    let labels = |labels: &[&str]| {
        labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ")
    };
    let wanted: Vec<(String, String)> = FIGURES
        .iter()
        .map(|figure| {
            (
                figure.name.to_owned(),
                format!("{} | {} | {}", figure.kind.word(), labels(figure.labels), figure.meaning),
            )
        })
        .collect();
    assert_eq!(documented, wanted, "left: docs/operating.md, right: `FIGURES`");
}

#[test]
fn every_cargo_command_chooses_the_same_features_so_that_the_sandbox_is_built_once() {
    let asked = std::process::Command::new(root().join("scripts/one-build")).output().unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
}
