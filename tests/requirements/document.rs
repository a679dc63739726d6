//! `docs/requirements.md` against the tests that are there.

use std::fs;
use std::path::{Path, PathBuf};

/// How many criteria each of the gateway's requirements has.
const CRITERIA: [usize; 22] = [3, 3, 4, 4, 4, 4, 4, 3, 3, 3, 5, 5, 5, 4, 5, 4, 6, 5, 6, 5, 4, 5];
/// And those of the backends.
const OF_BACKENDS: [usize; 10] = [4, 6, 7, 6, 6, 5, 4, 4, 3, 4];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The rows of all tables: the cells of each.
fn rows() -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("docs/requirements.md")).expect("docs/requirements.md");
    let cells = |line: &str| -> Vec<String> { line.trim().trim_matches('|').split(" |").map(|cell| cell.trim().to_owned()).collect() };
    let rows = text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|--") && !line.contains("| shown by |"));
    rows.map(cells).collect()
}

/// The tests that a row names.
fn tests(row: &[String]) -> Vec<&str> {
    row[row.len() - 2].split('`').skip(1).step_by(2).collect()
}

/// Where a test of this name could stand, and the name of its function.
fn places(test: &str) -> (Vec<PathBuf>, &str) {
    let (place, function) = test.rsplit_once("::").unwrap_or_default();
    if place.ends_with(".rs") {
        return (vec![place.into()], function);
    }
    let place = place.replace("::", "/");
    let mut places: Vec<PathBuf> = ["tests", "src"].iter().map(|folder| format!("{folder}/{place}.rs").into()).collect();
    places.push(format!("src/{place}/mod.rs").into());
    if let Some(beside) = place.strip_suffix("/tests") {
        places.extend([format!("src/{beside}.rs").into(), format!("src/{beside}/mod.rs").into()]);
    }
    (places, function)
}

/// Whether a file has a test of this name: a function with the attribute just above it.
fn has_test(text: &str, function: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| line.contains(&format!("fn {function}(")));
    at.is_some_and(|at| lines[at.saturating_sub(4)..at].iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test")))
}

#[test]
fn every_test_that_is_named_exists_and_every_row_names_one() {
    let mut faults = Vec::new();
    for row in rows() {
        let shown = &row[row.len() - 2];
        if tests(&row).is_empty() && shown != "–" {
            faults.push(format!("no test is named: {row:?}"));
        }
        for test in tests(&row) {
            let (places, function) = places(test);
            let found = places.iter().filter_map(|place| fs::read_to_string(root().join(place)).ok()).any(|text| has_test(&text, function));
            if !found {
                faults.push(format!("there is no test `{test}`"));
            }
        }
    }
    assert!(faults.is_empty(), "docs/requirements.md:\n{}", faults.join("\n"));
}

#[test]
fn every_numbered_requirement_is_there_with_each_of_its_criteria_and_a_test_named_after_it() {
    let rows = rows();
    let mut faults = Vec::new();
    let numbered = |prefix: &str, criteria: &[usize]| -> Vec<String> {
        let of = |(number, count): (usize, &usize)| (1..=*count).map(move |criterion| (number + 1, criterion)).collect::<Vec<_>>();
        criteria.iter().enumerate().flat_map(of).map(|(number, criterion)| format!("{prefix}{number}.{criterion}")).collect()
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
        if !tests(row).iter().any(|test| test.starts_with("requirements::") && test.contains(&named)) {
            faults.push(format!("{} names no test that is named after it", row[0]));
        }
    }
    assert!(faults.is_empty(), "docs/requirements.md:\n{}", faults.join("\n"));
}

#[test]
fn a_test_is_known_by_its_attribute() {
    let text = "#[test]\nfn one() {}\n\n#[tokio::test(flavor = \"multi_thread\")]\nasync fn two() {}\nfn three() {}\n";
    assert!(has_test(text, "one") && has_test(text, "two"));
    assert!(!has_test(text, "thre") && !has_test("fn one() {}", "one"));
    let (places, function) = places("queue::tests::name");
    assert!(places.contains(&PathBuf::from("src/queue/tests.rs")) && places.contains(&PathBuf::from("src/queue.rs")));
    assert_eq!(function, "name");
}
