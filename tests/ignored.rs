//! Tests that each ignored test is run by a target of the Makefile or by another test.

use std::fs;
use std::path::Path;

/// A test that `cargo test` skips.
struct Ignored {
    /// Its path with modules, as `cargo test` prints it.
    path: String,
    reason: String,
    /// The text of its file.
    file: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the text of a function, up to its closing brace.
fn body<'a>(file: &'a str, function: &str) -> Option<&'a str> {
    let from = &file[file.find(&format!("fn {function}("))?..];
    Some(&from[..from.find("\n}\n").unwrap_or(from.len())])
}

/// Returns the path of a module of `src`, of a crate's `src` or of `tests`, from the path of its
/// file.
fn module(file: &Path) -> String {
    let file = file.with_extension("");
    let folders = if file.starts_with("crates") { 3 } else { 1 };
    let parts: Vec<&str> = file.iter().skip(folders).filter_map(|part| part.to_str()).collect();
    let parts = parts.strip_suffix(&["mod"]).unwrap_or(&parts);
    parts.join("::")
}

fn ignored_in(file: &Path, text: &str) -> Vec<Ignored> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        if !line.starts_with("#[ignore") {
            continue;
        }
        let reason = line.split('"').nth(1).unwrap_or_default().to_owned();
        let function = lines[number..]
            .iter()
            .find_map(|line| line.split_once("fn ")?.1.split_once('('))
            .map_or("", |(name, _)| name);
        let path = format!("{}::{function}", module(file));
        found.push(Ignored { path, reason, file: text.to_owned() });
    }
    found
}

fn ignored() -> Vec<Ignored> {
    let mut folders = vec![root().join("src"), root().join("crates"), root().join("tests")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&entry).unwrap();
                found.extend(ignored_in(entry.strip_prefix(root()).unwrap(), &text));
            }
        }
    }
    found
}

/// Returns the commands of a target of the Makefile and of the scripts that it starts.
fn commands(makefile: &str, target: &str) -> Option<String> {
    let begin = format!("\n{target}:");
    let recipe = &makefile[makefile.find(&begin)? + begin.len()..];
    let recipe: Vec<&str> =
        recipe.lines().skip(1).take_while(|line| line.starts_with('\t')).collect();
    let mut commands = recipe.join("\n");
    for word in recipe.iter().flat_map(|line| line.split_whitespace()) {
        let script = word.trim_start_matches('@');
        if script.starts_with("scripts/") {
            commands += &fs::read_to_string(root().join(script)).unwrap_or_default();
        }
    }
    Some(commands)
}

/// Returns whether commands run a test: one of them asks for ignored tests with the path of the
/// test or of a module that contains it.
fn run(commands: &str, path: &str) -> bool {
    let filters = |line: &str, path: &str| {
        line.split([' ', '"', '$', '(']).any(|word| {
            let word = word.trim_end_matches("::");
            word.contains("::") && path.starts_with(word)
                || !word.is_empty() && path.split("::").next() == Some(word)
        })
    };
    commands.lines().any(|line| {
        let asks = line.contains("--ignored") || line.contains("--include-ignored");
        asks && filters(line, path)
    })
}

/// Returns why nothing is known to run a test, or `None` if something runs it.
fn fault(test: &Ignored, makefile: &str) -> Option<String> {
    let (path, reason) = (&test.path, &test.reason);
    if let Some((_, target)) = reason.split_once("make ") {
        return match commands(makefile, target) {
            None => Some(format!("{path}: the Makefile has no target `{target}`")),
            Some(commands) if !run(&commands, path) => {
                Some(format!("{path}: `make {target}` does not run it"))
            }
            Some(_) => None,
        };
    }
    let Some((_, starter)) = reason.split_once("run by ") else {
        return Some(format!("{path}: its reason names neither `make TARGET` nor `run by TEST`"));
    };
    let starts = body(&test.file, starter).is_some_and(|body| body.contains(path.as_str()));
    (!starts).then(|| format!("{path}: no test `{starter}` in its file starts it"))
}

#[test]
fn each_ignored_test_is_run_by_a_target_of_the_makefile_or_by_another_test() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let ignored = ignored();
    assert!(ignored.len() > 50, "the search finds them: {}", ignored.len());
    let faults: Vec<String> = ignored.iter().filter_map(|test| fault(test, &makefile)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_test_that_nothing_runs_is_found() {
    let makefile = "\ntest: guests\n\tcargo test\nlive:\n\tcargo test live:: -- --ignored\n";
    let test = |path: &str, reason: &str, file: &str| {
        let test = Ignored { path: path.into(), reason: reason.into(), file: file.into() };
        fault(&test, makefile).is_none()
    };
    assert!(test("live::one", "slow: make live", ""));
    assert!(!test("other::one", "slow: make live", ""), "another module");
    assert!(!test("live::one", "slow: make test", ""), "without the ignored ones");
    assert!(!test("live::one", "slow: make nothing", ""), "no such target");
    assert!(!test("live::one", "slow", ""), "the reason names no way to run it");
    let file = "fn starter() {\n    alone(\"a::one\")\n}\nfn other() {\n}\n";
    assert!(test("a::one", "run by starter", file));
    assert!(!test("a::one", "run by other", file) && !test("a::one", "no such test runs it", file));
    assert_eq!(module(Path::new("tests/live/mod.rs")), "live");
    assert_eq!(
        module(Path::new("crates/store/src/workspace/turns/tests.rs")),
        "workspace::turns::tests"
    );
}
