//! Tests that need a process of their own: nothing accumulates, and a killed gateway's leftovers
//! are found.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use aetheel_model::agent::Exit;
use aetheel_process::{Custody, Means};
use aetheel_turn::Launcher;

use super::{alone, custodies, is_living, line, living, pids, read_all, run, sh, state, wait_for};

#[test]
fn five_hundred_runs_leave_no_zombies_and_no_descriptors() {
    for means in ["best", "descent"] {
        let (passed, text) =
            alone("process::many::five_hundred_runs", &BTreeMap::from([("MEANS", means)]));
        assert!(passed, "{means}: {text}");
        println!(
            "{means}: {}",
            text.lines()
                .find_map(|line| line.find("cost").map(|at| &line[at..]))
                .unwrap_or("no figures")
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "counts what its own process has; run by five_hundred_runs_leave_no_zombies_and_no_descriptors"]
async fn five_hundred_runs() {
    let means = if std::env::var("MEANS").is_ok_and(|means| means == "descent") {
        Means::Descent
    } else {
        Means::Best
    };
    let custody = Custody::new(means).unwrap();
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let once =
        async |script: &str| assert_eq!(run(&custody, sh(script)).await.how, Some(Exit::Code(0)));
    // Creates everything that exists only once, such as the reactor's descriptors and threads.
    once("setsid sleep 1000 & exit 0").await;
    let before = descriptors();
    for number in 0..500 {
        match number % 5 {
            0 => once("setsid sleep 1000 >/dev/null 2>&1 & exit 0").await,
            1 => drop(custody.launch(sh("sleep 1000")).await.unwrap()),
            _ => {
                let mut launch = sh("");
                (launch.program, launch.arguments) = ("/bin/true".into(), Vec::new());
                let mut process = custody.launch(launch).await.unwrap();
                assert_eq!(read_all(&mut process).await.how, Some(Exit::Code(0)));
            }
        }
    }
    let own = std::process::id() as i32;
    let children = || {
        pids()
            .into_iter()
            .filter(|pid| state(*pid).is_some_and(|(_, parent)| parent == own))
            .collect::<Vec<_>>()
    };
    wait_for("children and descriptors are gone", || {
        children().is_empty() && descriptors() <= before
    });

    let used = || {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let fields: Vec<u64> = stat[stat.rfind(')').unwrap() + 1..]
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|f| f.parse().unwrap())
            .collect();
        Duration::from_millis((fields[0] + fields[1]) * 10)
    };
    let (cpu, wall) = (used(), Instant::now());
    for _ in 0..500 {
        let mut launch = sh("");
        (launch.program, launch.arguments) = ("/bin/true".into(), Vec::new());
        let mut process = custody.launch(launch).await.unwrap();
        assert_eq!(read_all(&mut process).await.how, Some(Exit::Code(0)));
    }
    println!(
        "cost of a run of `true`: {:?} CPU of ours, {:?} in all",
        (used() - cpu) / 500,
        wall.elapsed() / 500
    );
}

#[test]
fn leftovers_of_a_killed_gateway_are_killed_at_the_next_start_but_live_runs_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for (custody, means) in custodies().into_iter().zip(["best", "descent"]) {
        let file = folder.path().join(means);
        let (passed, text) = alone(
            "process::many::a_gateway_that_is_killed",
            &BTreeMap::from([("MEANS", means), ("NAME_FILE", file.to_str().unwrap())]),
        );
        assert!(!passed, "the process should have been killed: {text}");
        let name = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert!(living(&name).len() >= 2, "there were no leftovers, so nothing is proven");

        let mut process = runtime.block_on(async {
            let mut process =
                custody.launch(sh("setsid sleep 1000 & echo ready; wait")).await.unwrap();
            line(&mut process, "ready").await;
            process
        });
        // Processes of other tests may be counted too.
        let left = living(&name).len();
        assert!(custody.sweep_leftovers() >= left);
        assert_eq!(living(&name), Vec::<String>::new());
        assert!(is_living(process.pid.unwrap() as i32), "a live run was treated as a leftover");
        super::stop(&process, aetheel_model::agent::Signal::Kill, Duration::ZERO);
        assert_eq!(runtime.block_on(read_all(&mut process)).how, Some(Exit::Signal(9)));
    }
}

#[tokio::test]
#[ignore = "kills its own process; run by leftovers_of_a_killed_gateway_are_killed_at_the_next_start_but_live_runs_are_not"]
async fn a_gateway_that_is_killed() {
    let Some(file) = std::env::var_os("NAME_FILE") else { return };
    let means = if std::env::var("MEANS").is_ok_and(|means| means == "descent") {
        Means::Descent
    } else {
        Means::Best
    };
    let launch =
        sh("exec 2>&-; setsid sleep 1000 & setsid sh -c 'sleep 1000 & wait' & echo ready; wait");
    let name = launch.run.clone();
    let mut process = Custody::new(means).unwrap().launch(launch).await.unwrap();
    line(&mut process, "ready").await;
    fs::write(file, name).unwrap();
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
        .unwrap();
}
