//! Compares `docs/requirements.md` with the existing tests.

use std::fs;
use std::path::{Path, PathBuf};

/// The number of criteria of each requirement of the gateway.
const CRITERIA: [usize; 22] = [3, 3, 4, 4, 4, 4, 4, 3, 3, 3, 5, 5, 5, 4, 5, 4, 6, 5, 6, 5, 4, 5];
/// The number of criteria of each requirement of the backends.
const OF_BACKENDS: [usize; 10] = [4, 6, 7, 6, 6, 5, 4, 4, 3, 4];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the cells of each row of all tables.
fn rows() -> Vec<Vec<String>> {
    let text =
        fs::read_to_string(root().join("docs/requirements.md")).expect("docs/requirements.md");
    let cells = |line: &str| -> Vec<String> {
        line.trim().trim_matches('|').split(" |").map(|cell| cell.trim().to_owned()).collect()
    };
    let rows = text.lines().filter(|line| {
        line.starts_with('|') && !line.starts_with("|--") && !line.contains("| shown by |")
    });
    rows.map(cells).collect()
}

/// Returns the tests that a row names.
fn tests(row: &[String]) -> Vec<&str> {
    row[row.len() - 2].split('`').skip(1).step_by(2).collect()
}

/// Returns the files that could contain a test with this name, and the name of its function.
pub fn places(test: &str) -> (Vec<PathBuf>, &str) {
    let (place, function) = test.rsplit_once("::").unwrap_or_default();
    if place.ends_with(".rs") {
        return (vec![place.into()], function);
    }
    let place = place.replace("::", "/");
    let file = |folder: &str, place: &str| {
        let beside = place.strip_suffix("/tests").into_iter().flat_map(|beside| {
            [format!("{folder}/{beside}.rs"), format!("{folder}/{beside}/mod.rs")]
        });
        [format!("{folder}/{place}.rs"), format!("{folder}/{place}/mod.rs")]
            .into_iter()
            .chain(beside)
            .map(PathBuf::from)
            .collect::<Vec<_>>()
    };
    let mut places: Vec<PathBuf> = ["tests", "src", "crates/model/src", "crates/store/src"]
        .iter()
        .flat_map(|folder| file(folder, &place))
        .collect();
    // Tests of the other crates are named after their crate.
    let (own, rest) = place.split_once('/').unwrap_or((&place, "lib"));
    places.extend(file(&format!("crates/{own}/src"), if rest == "tests" { "lib" } else { rest }));
    places.extend(file(&format!("crates/{own}/src"), rest));
    (places, function)
}

/// How often a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It runs with every `make test`.
    Always,
    /// It is ignored, and runs only on request.
    OnDemand,
}

/// Returns how often a test of this name in the file runs: a function with the attribute directly
/// above it.
pub fn proof(text: &str, function: &str) -> Option<Proof> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| line.contains(&format!("fn {function}(")))?;
    let above = &lines[at.saturating_sub(4)..at];
    let begins = |with: &str| above.iter().rposition(|line| line.starts_with(with));
    let test = begins("#[test]").or_else(|| begins("#[tokio::test"))?;
    let ignored = above[test..].iter().any(|line| line.starts_with("#[ignore"));
    Some(if ignored { Proof::OnDemand } else { Proof::Always })
}

/// Returns the text of a function, from its name to its closing brace.
fn body<'a>(text: &'a str, function: &str) -> Option<&'a str> {
    let from = &text[text.find(&format!("fn {function}("))?..];
    Some(&from[..from.find("\n}\n").unwrap_or(from.len())])
}

/// Returns whether a text mentions a criterion: `12.3`, but not `12.34`.
fn mentions(text: &str, criterion: &str) -> bool {
    let number = |letter: Option<char>| {
        letter.is_some_and(|letter| letter.is_ascii_digit() || letter == '.')
    };
    text.match_indices(criterion).any(|(at, _)| {
        let behind = &text[at + criterion.len()..];
        !number(text[..at].chars().next_back())
            && !behind.starts_with(|letter: char| letter.is_ascii_digit())
    })
}

fn read(place: &Path) -> Option<String> {
    fs::read_to_string(root().join(place)).ok()
}

#[test]
fn every_test_that_is_named_exists_and_every_row_names_one() {
    let mut faults = Vec::new();
    for row in rows() {
        let shown = &row[row.len() - 2];
        if tests(&row).is_empty() && shown != "–" {
            faults.push(format!("no test is named: {row:?}"));
        }
        let mut proofs = Vec::new();
        for test in tests(&row) {
            let (places, function) = places(test);
            match places
                .iter()
                .filter_map(|place| read(place))
                .find_map(|text| proof(&text, function))
            {
                Some(proof) => proofs.push(proof),
                None => faults.push(format!("there is no test `{test}`")),
            }
        }
        if proofs.iter().all(|proof| *proof == Proof::OnDemand) && !proofs.is_empty() {
            faults.push(format!("rests only on tests that nobody runs unless asked to: {row:?}"));
        }
    }
    assert!(faults.is_empty(), "docs/requirements.md:\n{}", faults.join("\n"));
}

#[test]
fn every_numbered_requirement_has_all_its_criteria_and_a_test_named_after_it() {
    let rows = rows();
    let mut faults = Vec::new();
    let numbered = |prefix: &str, criteria: &[usize]| -> Vec<String> {
        let of = |(number, count): (usize, &usize)| {
            (1..=*count).map(move |criterion| (number + 1, criterion)).collect::<Vec<_>>()
        };
        criteria
            .iter()
            .enumerate()
            .flat_map(of)
            .map(|(number, criterion)| format!("{prefix}{number}.{criterion}"))
            .collect()
    };
    let wanted = [numbered("", &CRITERIA), numbered("C", &OF_BACKENDS)].concat();
    let first: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    for id in &wanted {
        let times = first.iter().filter(|first| *first == id).count();
        if times != 1 {
            faults.push(format!("{id} stands there {times} times"));
        }
    }
    for row in &rows {
        let Some((number, _)) = row[0].split_once('.') else { continue };
        let Ok(number) = number.parse::<usize>() else { continue };
        let named = format!("::requirement_{number:02}_");
        let named: Vec<&str> = tests(row)
            .into_iter()
            .filter(|test| test.starts_with("requirements::") && test.contains(&named))
            .collect();
        if named.is_empty() {
            faults.push(format!("{} names no test that is named after it", row[0]));
        }
        let looked_at = named.iter().any(|test| {
            let (places, function) = places(test);
            places
                .iter()
                .filter_map(|place| read(place))
                .any(|text| body(&text, function).is_some_and(|body| mentions(body, &row[0])))
        });
        if !named.is_empty() && !looked_at {
            faults.push(format!("{}: {named:?} says nowhere that it looks at it", row[0]));
        }
    }
    assert!(faults.is_empty(), "docs/requirements.md:\n{}", faults.join("\n"));
}

#[test]
fn a_test_is_recognised_by_its_attribute_and_an_ignored_one_by_another() {
    let text = "#[test]\nfn one() {}\n\n#[tokio::test(flavor = \"multi_thread\")]\nasync fn two() {}\nfn three() {}\n\
                #[test]\n#[ignore = \"slow\"]\nfn four() {}\n#[test]\nfn five() {}\n";
    let known = ["one", "two", "four", "five"].map(|name| proof(text, name));
    assert_eq!(
        known,
        [Some(Proof::Always), Some(Proof::Always), Some(Proof::OnDemand), Some(Proof::Always)]
    );
    assert_eq!((proof(text, "thre"), proof("fn one() {}", "one")), (None, None));
    let (places, function) = places("queue::tests::name");
    assert!(
        places.contains(&PathBuf::from("crates/model/src/queue/tests.rs"))
            && places.contains(&PathBuf::from("crates/model/src/queue/mod.rs"))
    );
    assert_eq!(function, "name");
}

#[test]
fn a_criterion_is_recognised_by_its_exact_number() {
    let text =
        "fn one() {\n    assert!(true, \"12.3, 2.12: so\");\n}\nfn two() {\n    // 12.4\n}\n";
    let one = body(text, "one").unwrap();
    assert!(
        mentions(one, "12.3")
            && mentions(one, "2.12")
            && mentions(body(text, "two").unwrap(), "12.4")
    );
    assert!(!mentions(one, "12.4") && !mentions(one, "2.3") && !mentions(one, "2.1"), "{one}");
}
