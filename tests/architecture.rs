//! Tests of the structure of the sources: layers, dependencies on libraries, sizes and names, and
//! documents that match the code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use aetheel_runtime::figures::FIGURES;
use aetheel_settings::VARIABLES;

/// Crates of the workspace, lowest layer first. A crate may name crates of lower layers only.
const LAYERS: [&[&str]; 8] = [
    &["model"],
    &["runtime", "settings"],
    &["recording", "store"],
    &["turn"],
    &["dispatch", "kit"],
    &["cluster", "console", "discord", "otel", "process", "registry", "wasm", "web"],
    &["hold", "mending"],
    // Above the program in `src/`.
    &["authoring"],
];

/// Libraries, and the crates that may depend on each. `aetheel` is the program in `src/`.
const OWNERS: [(&str, &str); 16] = [
    ("wasmtime", "wasm"),
    ("wasmtime-wasi", "wasm"),
    ("serenity", "discord"),
    ("tokio-tungstenite", "discord"),
    ("tokio-postgres", "cluster"),
    ("metrics-exporter-prometheus", "web"),
    ("rustyline", "console"),
    ("rustyline", "aetheel"),
    ("flate2", "registry"),
    ("tar", "registry"),
    ("axum", "web"),
    ("rmcp", "web"),
    ("opentelemetry", "otel"),
    ("opentelemetry_sdk", "otel"),
    ("opentelemetry-proto", "otel"),
    ("prost", "otel"),
];

/// Cycles between modules of one folder. The list may only shrink.
const CIRCLES: [&str; 3] = [
    "console: editing input names outlet reply",
    "model::prompt: marks neutral",
    "store::workspace: channels lane_memory",
];

/// Folders with our sources.
const FOLDERS: [&str; 6] = ["src", "crates", "contrib", "guest-backends", "tests", "benches"];

/// Names that say nothing about the contents.
const EMPTY_NAMES: [&str; 8] =
    ["util", "utils", "helper", "helpers", "common", "misc", "manager", "service"];

#[derive(Clone)]
struct Source {
    /// Relative to the repository.
    path: PathBuf,
    /// Unchanged.
    text: String,
    /// Without comments.
    code: String,
}

impl Source {
    /// Returns the path of the file's module, beginning with its crate.
    fn module(&self) -> Vec<String> {
        let path = self.path.with_extension("");
        let mut parts: Vec<String> =
            path.iter().map(|part| part.to_str().expect("UTF-8").to_owned()).collect();
        parts.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
        match parts.first().map(String::as_str) {
            Some("crates") => [&parts[1..2], &parts[3..]].concat(),
            _ => [&["aetheel".to_owned()], &parts[1..]].concat(),
        }
    }

    /// Returns whether the file belongs to a module, which is named from its crate on.
    fn is_in(&self, module: &str) -> bool {
        let own = self.module();
        module.split("::").eq(own.iter().take(module.split("::").count()).map(String::as_str))
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

/// Returns the sources of the program and of its crates.
fn host() -> Vec<Source> {
    [sources("src"), sources("crates")].concat()
}

fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with("//") {
        ""
    } else {
        line.split(" // ").next().unwrap_or_default()
    }
}

/// Returns the names below `[dependencies]` in the manifest of a crate.
fn dependencies(crate_name: &str) -> Vec<String> {
    let folder = match crate_name {
        "aetheel" => root().to_owned(),
        name => root().join("crates").join(name),
    };
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
    let (_, entries) = manifest.split_once("\n[dependencies]\n").expect("dependencies");
    let entries = entries.split("\n[").next().unwrap_or_default().lines();
    entries
        .filter_map(|line| Some(line.split_once([' ', '.'])?.0.to_owned()))
        .filter(|name| !name.starts_with('#'))
        .collect()
}

#[test]
fn crates_depend_on_lower_layers_only_and_each_library_has_one_owner() {
    let mut on_disk: Vec<String> = fs::read_dir(root().join("crates"))
        .expect("crates")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    on_disk.sort();
    let mut listed: Vec<&str> = LAYERS.concat();
    listed.sort_unstable();
    assert_eq!(on_disk, listed, "left: the folders in crates/, right: `LAYERS`");
    let front = fs::read_to_string(root().join("src/lib.rs")).expect("src/lib.rs");
    let mut faults = Vec::new();
    for (layer, crates) in LAYERS.iter().enumerate() {
        for name in *crates {
            if !front.contains(&format!("`aetheel-{name}`")) {
                faults.push(format!("src/lib.rs: `aetheel-{name}` is missing in the table"));
            }
            for dependency in dependencies(name) {
                let Some(other) = dependency.strip_prefix("aetheel-") else { continue };
                if !LAYERS[..layer].concat().contains(&other) {
                    faults.push(format!("crates/{name} depends on `{other}`, not a lower layer"));
                }
            }
        }
    }
    for name in listed.into_iter().chain(["aetheel"]) {
        let dependencies = dependencies(name);
        for (library, owner) in OWNERS {
            let may = OWNERS.contains(&(library, name));
            if !may && dependencies.iter().any(|dependency| dependency == library) {
                faults.push(format!("{name}: `{library}` belongs to `{owner}`"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Crates of the workspace that must not be in the holder's program, directly or indirectly.
const NOT_IN_HOLDER: [&str; 8] =
    ["cluster", "discord", "dispatch", "kit", "otel", "registry", "wasm", "web"];

#[test]
fn the_holders_program_contains_no_crate_with_large_libraries() {
    let main = fs::read_to_string(root().join("src/bin/aetheel-hold.rs")).expect("its source");
    let code: Vec<&str> = main.lines().map(without_comment).collect();
    assert_eq!(code.join("\n").matches("aetheel").count(), 1, "it names another crate: {main}");
    let (mut all, mut next) = (BTreeSet::new(), vec!["hold".to_owned()]);
    while let Some(name) = next.pop() {
        let below = dependencies(&name);
        next.extend(
            below.iter().filter_map(|name| Some(name.strip_prefix("aetheel-")?.to_owned())),
        );
        all.insert(name);
    }
    let wrong: Vec<&str> = NOT_IN_HOLDER.into_iter().filter(|name| all.contains(*name)).collect();
    assert!(wrong.is_empty(), "crates/hold depends on {wrong:?}");
}

/// Reads a path from the beginning of `code` and adds it to `found`. `a::{b, c::d}` counts as
/// several paths, each after the part before the group. Returns the remaining code.
fn read_path<'a>(code: &'a str, before: &[&'a str], found: &mut Vec<Vec<&'a str>>) -> &'a str {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let (mut path, mut rest) = (before.to_vec(), code);
    loop {
        let (word, after) = rest.split_at(rest.find(|c| !part(c)).unwrap_or(rest.len()));
        path.push(word);
        rest = after;
        match after.strip_prefix("::") {
            Some(next) if next.starts_with(part) => rest = next,
            Some(next) if next.starts_with('{') => {
                rest = &next[1..];
                while !rest.is_empty() && !rest.starts_with('}') {
                    rest = if rest.starts_with(part) {
                        read_path(rest, &path, found)
                    } else {
                        let first = rest.chars().next().map_or(0, char::len_utf8);
                        &rest[first..]
                    };
                }
                return rest.strip_prefix('}').unwrap_or(rest);
            }
            _ => {
                found.push(path);
                return rest;
            }
        }
    }
}

/// Returns all paths in a piece of code, or with `of_uses` only those of its `use` lines.
fn paths(code: &str, of_uses: bool) -> Vec<Vec<&str>> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let (mut found, mut rest) = (Vec::new(), code);
    while let Some(at) = rest.find(part) {
        let (gap, next) = rest.split_at(at);
        let mut read = Vec::new();
        rest = read_path(next, &[], &mut read);
        let is_use = |path: &Vec<&str>| path.len() == 1 && path[0] == "use";
        if read.first().is_some_and(is_use) && rest.starts_with(' ') {
            rest = read_path(rest.trim_start(), &[], &mut found);
        } else if !of_uses && !gap.ends_with(['.', '"']) {
            found.append(&mut read);
        }
    }
    found
}

/// Returns the modules of the host, each with its code without tests.
fn modules() -> BTreeMap<Vec<String>, String> {
    let mut modules: BTreeMap<Vec<String>, String> = BTreeMap::new();
    for source in host() {
        let code = source.code.split("\n#[cfg(test)]").next().unwrap_or_default();
        modules.entry(source.module()).or_default().push_str(code);
    }
    modules
}

#[test]
fn modules_of_one_folder_form_no_cycles() {
    let modules = modules();
    let owned = |path: &[&str]| path.iter().map(|&part| part.to_owned()).collect::<Vec<String>>();
    let resolve = |module: &[String], path: &[&str]| -> Option<Vec<String>> {
        let ups = path.iter().take_while(|part| **part == "super").count();
        match path[0] {
            "crate" => Some([&module[..1], &owned(&path[1..])].concat()),
            "self" => Some([module, &owned(&path[1..])].concat()),
            "super" => Some([module.get(..module.len() - ups)?, &owned(&path[ups..])].concat()),
            child => modules
                .contains_key(&[module, &[child.to_owned()]].concat())
                .then(|| [module, &owned(path)].concat()),
        }
    };
    let mut exported = BTreeMap::new();
    for (module, code) in &modules {
        for target in paths(code, true).iter().filter_map(|path| resolve(module, path)) {
            let name = target.last().cloned().unwrap_or_default();
            exported.insert([&module[..], &[name]].concat(), target);
        }
    }
    let module_of = |mut path: Vec<String>| {
        // A re-exported item belongs to the module that it comes from.
        for _ in 0..8 {
            let at = (0..=path.len()).rev().find(|at| modules.contains_key(&path[..*at]));
            let at = at.unwrap_or_default();
            match path.get(..=at).and_then(|name| exported.get(name)) {
                Some(target) if *target != path[..=at] => {
                    path = [&target[..], &path[at + 1..]].concat();
                }
                _ => return path[..at].to_vec(),
            }
        }
        path
    };
    let mut folders: BTreeMap<&[String], BTreeMap<&str, BTreeSet<String>>> = BTreeMap::new();
    for (module, code) in &modules {
        for target in paths(code, false).iter().filter_map(|path| resolve(module, path)) {
            let target = module_of(target);
            let shared = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
            if let (1.., Some(from), Some(to)) = (shared, module.get(shared), target.get(shared)) {
                let folder = folders.entry(&module[..shared]).or_default();
                folder.entry(from).or_default().insert(to.clone());
            }
        }
    }
    let mut circles = BTreeSet::new();
    for (folder, named) in folders {
        let named_by = |module: &str| named.get(module).into_iter().flatten().map(String::as_str);
        let reached = |from: &str| {
            let (mut reached, mut next) = (BTreeSet::new(), Vec::from_iter(named_by(from)));
            while let Some(module) = next.pop() {
                if reached.insert(module) {
                    next.extend(named_by(module));
                }
            }
            reached
        };
        for module in named.keys() {
            let round: Vec<&str> = reached(module)
                .into_iter()
                .filter(|other| reached(other).contains(module))
                .collect();
            if !round.is_empty() {
                circles.insert(format!("{}: {}", folder.join("::"), round.join(" ")));
            }
        }
    }
    let listed: BTreeSet<String> = CIRCLES.map(str::to_owned).into();
    assert_eq!(circles, listed, "left: the cycles, right: `CIRCLES`");
}

/// Returns whether the code contains `word` as a whole word.
fn names(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .any(|(at, _)| !code[..at].ends_with(part) && !code[at + word.len()..].starts_with(part))
}

#[test]
fn processes_are_started_and_metrics_are_counted_in_one_place() {
    let mut faults = Vec::new();
    for source in host() {
        if source.code.contains("metrics::") && !source.is_in("runtime::figures") {
            faults.push(format!("{}: figures are kept by `figures` only", source.path.display()));
        }
        // Modules of tests may start programs.
        let is_test = source.path.iter().any(|part| part == "tests" || part == "tests.rs");
        if is_test || source.is_in("process") {
            continue;
        }
        let grouped = source
            .code
            .lines()
            .any(|line| line.contains("std::process::{") && names(line, "Command"));
        if grouped
            || source.code.contains("process::Command")
            || source.code.contains("tokio::process")
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
fn the_use_cases_tell_the_time_with_their_clock_only() {
    const READS: [&str; 4] =
        ["Timestamp::now()", "Zoned::now()", "SystemTime::now()", "lease::boot_ms"];
    let mut wrong = Vec::new();
    for source in sources("crates/dispatch/src") {
        let code = source.code.split("#[cfg(test)]").next().unwrap_or_default();
        let found = READS.iter().filter(|read| code.contains(**read));
        wrong.extend(found.map(|read| format!("{}: {read}", source.path.display())));
    }
    assert!(
        wrong.is_empty(),
        "use the clock of `DispatcherDeps`, which tests can move: {wrong:#?}"
    );
}

#[test]
fn tasks_that_run_as_long_as_the_program_are_supervised() {
    // The threads of these files end on their own, or are restarted by their users.
    let threads = [
        "crates/runtime/src/supervisor.rs",
        "crates/authoring/src/record/mod.rs",
        "crates/wasm/src/engine.rs",
        "crates/console/src/input.rs",
        "crates/discord/src/connection/login.rs",
    ];
    let mut faults = Vec::new();
    for source in host()
        .iter()
        .filter(|source| !source.is_in("aetheel::demo") && !source.path.ends_with("tests.rs"))
        .filter(|source| !source.path.iter().any(|folder| folder == "tests"))
    {
        let code = source.code.split("#[cfg(test)]").next().unwrap_or_default();
        let path = source.path.display().to_string();
        if (code.contains("thread::spawn(") || code.contains("thread::Builder"))
            && !threads.contains(&path.as_str())
        {
            faults.push(format!("{path}: threads are started by `supervisor::spawn_thread`"));
        }
        for (at, spawn) in code.match_indices("tokio::spawn(") {
            let body: Vec<&str> = code[at + spawn.len()..].lines().take(3).map(str::trim).collect();
            let endless = |line: &&str| {
                *line == "loop {" || (line.starts_with("while ") && line.contains(".recv().await"))
            };
            // The task in `typing` ends with its answer, that in `login` with the connection, and
            // that in `launcher` when another holder answers.
            let ending = [
                "crates/discord/src/delivery/typing.rs",
                "crates/discord/src/connection/login.rs",
                "crates/process/src/holder/launcher.rs",
            ];
            if body.iter().any(endless) && !ending.contains(&path.as_str()) {
                faults.push(format!(
                    "{path}: tasks without an end are started by `supervisor::spawn`: {}",
                    body.join(" ")
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn files_have_a_readable_size_and_a_meaningful_name() {
    let mut faults = Vec::new();
    for folder in FOLDERS {
        for source in sources(folder) {
            let is_test = |part| part == "tests" || part == "tests.rs" || part == "benches";
            let most = if source.path.iter().any(is_test) {
                800
            } else if folder == "guest-backends" {
                500
            } else {
                400
            };
            // Tests at the end of a file do not count.
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
fn every_file_is_declared_as_a_module() {
    let sources = host();
    let forgotten: Vec<String> = sources
        .iter()
        .filter(|source| {
            let path = source.path.display().to_string();
            let file = source.path.file_name().expect("a file").to_str().expect("UTF-8");
            if ["lib.rs", "main.rs"].contains(&file) || path.contains("/bin/") {
                return false;
            }
            // The integration tests of a crate are programs, not modules.
            if path.starts_with("crates/") && !path.contains("/src/") {
                return false;
            }
            let folder = source.path.parent().expect("a folder");
            let (name, folder) = match file {
                "mod.rs" => (folder.file_name().expect("a name"), folder.parent().expect("one")),
                _ => (source.path.file_stem().expect("a name"), folder),
            };
            let declaration = format!("mod {};", name.to_str().expect("UTF-8"));
            let parents = ["mod.rs", "lib.rs", "main.rs"].map(|name| folder.join(name));
            let parents = parents.into_iter().chain([folder.with_extension("rs")]);
            let is_declared = |parent: &Source| {
                parent.text.contains(&declaration)
                    || parent.text.contains(&format!("path = \"{file}\""))
            };
            let mut parents =
                parents.filter_map(|path| sources.iter().find(|source| source.path == path));
            !parents.any(is_declared)
        })
        .map(|source| source.path.display().to_string())
        .collect();
    assert!(forgotten.is_empty(), "the compiler never reads: {}", forgotten.join(", "));
}

#[test]
fn the_front_page_of_each_crate_lists_its_modules() {
    let mut missing = Vec::new();
    for front in sources("crates").iter().filter(|source| source.path.ends_with("src/lib.rs")) {
        let rows: Vec<&str> = front.text.lines().filter(|line| line.starts_with("//! |")).collect();
        for line in front.code.lines() {
            let line = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
            let module = line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'));
            let Some(module) = module else { continue };
            let links = [format!("`{module}`"), format!("`mod@{module}`")];
            if !rows.iter().any(|row| links.iter().any(|link| row.contains(link.as_str()))) {
                missing.push(format!("{}: `{module}`", front.path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "add a row to the table of modules: {missing:#?}");
}

#[test]
fn no_source_contains_todo_or_unimplemented() {
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
        assert!(before.is_none(), "{} is documented twice", row[0]);
    }
    let wanted: BTreeMap<String, String> = VARIABLES
        .iter()
        .map(|variable| (variable.name.to_owned(), variable.default.to_owned()))
        .collect();
    assert_eq!(documented, wanted, "left: docs/configuration.md, right: `VARIABLES`");
    let (_, below) = text.split_once("\n## Advanced settings\n").expect("the advanced settings");
    let section = below.split("\n## ").next().unwrap_or_default();
    for variable in VARIABLES {
        let is_below = section.contains(&format!("\n| `{variable}` |"));
        assert_eq!(is_below, variable.advanced, "{variable}: the section \"Advanced settings\"");
    }
}

#[test]
fn the_documentation_lists_every_figure() {
    let text = fs::read_to_string(root().join("docs/monitoring.md")).expect("docs/monitoring.md");
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
    assert_eq!(documented, wanted, "left: docs/monitoring.md, right: `FIGURES`");
}

#[test]
fn a_build_without_the_optional_parts_contains_neither_their_crates_nor_their_libraries() {
    const PARTS: [&str; 9] = [
        "aetheel-cluster",
        "aetheel-console",
        "aetheel-otel",
        "aetheel-registry",
        "maud",
        "opentelemetry",
        "prost",
        "tar",
        "tokio-postgres",
    ];
    let crates = |features: &[&str]| -> BTreeSet<String> {
        let mut cargo = std::process::Command::new("cargo");
        cargo.current_dir(root()).args(["tree", "--locked", "--offline", "--package", "aetheel"]);
        cargo.args(["--prefix", "none", "--edges", "normal", "--format", "{p}"]).args(features);
        let listed = cargo.output().unwrap();
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        let listed = String::from_utf8(listed.stdout).unwrap();
        listed.lines().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect()
    };
    let is_in = |crates: &BTreeSet<String>| PARTS.iter().all(|part| crates.contains(*part));
    assert!(is_in(&crates(&[])), "a complete build contains {PARTS:?}");
    let core = crates(&["--no-default-features"]);
    let still: Vec<&&str> = PARTS.iter().filter(|part| core.contains(**part)).collect();
    assert!(still.is_empty(), "{still:?}");
}

#[test]
fn every_cargo_command_chooses_the_same_features_so_that_the_sandbox_is_built_once() {
    let asked = std::process::Command::new(root().join("scripts/one-build")).output().unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
}
