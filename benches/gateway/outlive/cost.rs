//! The cost of the holder in normal operation: per line of an agent, per turn, and in memory.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use aetheel_model::agent::descriptor::Framing;
use aetheel_process::{Custody, Means};
use aetheel_turn::{AgentProcess, Launch, Launcher, ProcessCommand, ProcessEvent, Reach};

use super::holder::Holder;
use crate::cpu::{self, Used};
use crate::program::Home;
use crate::turns::Gateway;
use crate::{report, times};

/// Lines that an agent prints together, number of rounds, and lines sent one at a time.
const LINES: u32 = 100_000;
const ROUNDS: usize = 5;
const ONE_AT_A_TIME: usize = 2_000;
/// Characters of an answer, and of one line of it.
const LONG: usize = 600_000;
const PIECE: usize = 24;
/// Turns of a round.
const TURNS: usize = 200;
/// Maximum additional time and processor time of a line.
const MORE_TIME: Duration = Duration::from_micros(200);
const MORE_CPU: f64 = 0.02;

/// The resources used for `count` repetitions.
#[derive(Clone, Copy, Default)]
struct Spent {
    count: u32,
    wall: Duration,
    /// Processor time of this process, which is the gateway.
    gateway: Duration,
    /// Processor time of the holder.
    holder: Duration,
}

impl Spent {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.wall += other.wall;
        self.gateway += other.gateway;
        self.holder += other.holder;
    }
}

/// Measures, and prints the figures.
pub async fn measure() {
    let (home, direct_home) = (Home::new(), Home::new());
    let custody: Arc<dyn Launcher> = Arc::new(Custody::new(Means::Best).unwrap());
    let holder = Holder::new(&home);
    let held: Arc<dyn Launcher> = Arc::new(holder.launcher().await);
    let id = holder.id();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let idle = memory(id);

    let ways = [&custody, &held];
    for (way, flush) in [("written in blocks", ""), ("written one by one", "fflush()")] {
        report::part(&format!("{LINES} lines of an agent, {way}, not parsed"));
        let script = format!(
            r#"awk 'BEGIN {{ for (i = 0; i < {LINES}; i++) {{ print "{{\"type\":\"text\",\"text\":\"twenty-four characters..\"}}"; {flush} }} }}'"#
        );
        let mut spent = [Spent::default(); 2];
        for _ in 0..times(ROUNDS) {
            for (way, launcher) in ways.into_iter().enumerate() {
                let measured = spending(id, LINES, lines(launcher, &script)).await;
                spent[way].add(measured);
            }
        }
        compare("a line", &spent);
        more_time(&spent);
    }
    let trips = there_and_back(ways).await;
    report::part("one line to an agent and one back");
    report::figure("direct", &report::spread(&trips[0]));
    report::figure("held", &report::spread(&trips[1]));
    let [direct, held_trip] = trips.map(|trip| report::percentile(&trip, 50));
    let more = held_trip.saturating_sub(direct);
    report::goal(
        "the difference of the medians",
        &report::time(more),
        "≤ 0.2 ms",
        more <= MORE_TIME,
    );

    report::part("the holder's memory");
    show_memory("idle", idle);
    show_memory("after those lines", memory(id));

    let program = || PathBuf::from(env!("CARGO_BIN_EXE_aetheel"));
    let gateways = [
        Gateway::over(&direct_home, "demo", program(), 5, custody, false).await,
        Gateway::over(&home, "demo", program(), 5, held, false).await,
    ];
    through_links(&gateways, id).await;
    turns(&gateways, id).await;
    report::part("the holder's memory");
    show_memory("after those turns", memory(id));
    for gateway in gateways {
        gateway.dispatcher.shutdown(Duration::ZERO).await;
    }
    holder.end().await;
}

/// Measures lines on their whole path: process, link, component, recording, answer.
async fn through_links(gateways: &[Gateway; 2], id: u32) {
    let lines = (LONG / PIECE) as u32;
    report::part(&format!(
        "{lines} lines of the demo agent (`long {LONG}`) through link, component, recording"
    ));
    let prompt = format!("long {LONG}");
    let mut spent = [Spent::default(); 2];
    let mut ratios = Vec::new();
    for round in 0..=times(ROUNDS) {
        let mut of_round = [Spent::default(); 2];
        for (way, gateway) in gateways.iter().enumerate() {
            of_round[way] = spending(id, lines, gateway.turns_in(0, &prompt, 1)).await;
        }
        // The first round opens the session.
        if round > 0 {
            ratios.push(of_round[1].gateway.as_secs_f64() / of_round[0].gateway.as_secs_f64());
            spent.iter_mut().zip(of_round).for_each(|(spent, more)| spent.add(more));
        }
    }
    compare("a line", &spent);
    let ratio = spent[1].gateway.as_secs_f64() / spent[0].gateway.as_secs_f64();
    let least = ratios.iter().copied().fold(f64::MAX, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let (what, value) = (
        "the gateway's processor time, held against direct",
        format!("{ratio:.3} × ({least:.2} to {most:.2})"),
    );
    let most_wanted = 1.0 + MORE_CPU;
    if least <= most_wanted && most > most_wanted {
        report::figure(what, &format!("{value}   goal ≤ 1.02 ×: rounds disagree"));
    } else {
        report::goal(what, &value, "≤ 1.02 ×", most <= most_wanted);
    }
    more_time(&spent);
}

/// Prints how much longer a line takes through a holder.
fn more_time(spent: &[Spent; 2]) {
    let [direct, held] = spent.each_ref().map(|spent| per(spent.wall, spent.count));
    let more = held.saturating_sub(direct);
    let (what, kept) = ("time of a line beyond direct pipes", more <= MORE_TIME);
    report::goal(what, &report::time(more), "≤ 0.2 ms", kept);
}

async fn turns(gateways: &[Gateway; 2], id: u32) {
    let count = times(TURNS);
    report::part("short turns of the demo agent, 5 at a time");
    let mut spent = [Spent::default(); 2];
    for gateway in gateways {
        gateway.turns("Hello", 20).await;
    }
    for _ in 0..times(ROUNDS) {
        for (way, gateway) in gateways.iter().enumerate() {
            spent[way].add(spending(id, count as u32, gateway.turns("Hello", count)).await);
        }
    }
    compare("a turn", &spent);
    let each = per(spent[1].holder, spent[1].count);
    report::goal(
        "the holder's processor time per turn",
        &report::time(each),
        "≤ 0.1 ms",
        each <= Duration::from_micros(100),
    );
}

/// Prints the cost of something without and with a holder.
fn compare(what: &str, [direct, held]: &[Spent; 2]) {
    let each = |time: Duration, spent: &Spent| per(time, spent.count);
    let ratio = |held: Duration, direct: Duration| held.as_secs_f64() / direct.as_secs_f64();
    for (name, direct, held) in [
        ("time", each(direct.wall, direct), each(held.wall, held)),
        ("the gateway's processor time", each(direct.gateway, direct), each(held.gateway, held)),
    ] {
        report::figure(
            &format!("{name} for {what}: direct; held"),
            &format!("{}; {} ({:.2} ×)", fine(direct), fine(held), ratio(held, direct)),
        );
    }
    report::figure(
        &format!("the holder's processor time for {what}"),
        &fine(each(held.holder, held)),
    );
}

fn fine(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 100.0 { format!("{micros:.2} µs") } else { report::time(time) }
}

fn per(time: Duration, count: u32) -> Duration {
    time / count.max(1)
}

async fn spending(holder: u32, count: u32, doing: impl Future<Output = ()>) -> Spent {
    let holders = || cpu::used_by(&holder.to_string()).own;
    let (begun, gateway, before) = (Instant::now(), Used::now(), holders());
    doing.await;
    Spent {
        count,
        wall: begun.elapsed(),
        gateway: Used::since(gateway).own,
        holder: holders() - before,
    }
}

/// Reads the output of an agent to its end, and confirms lines as recorded, as a link does.
async fn lines(launcher: &Arc<dyn Launcher>, script: &str) {
    let mut process = launcher.launch(sh(script)).await.unwrap();
    let mut received = 0;
    loop {
        match process.events.recv().await.expect("the process ends") {
            ProcessEvent::Lines(lines) => received += lines.len() as u64,
            ProcessEvent::OutputLimit => panic!("more than the output limit"),
            ProcessEvent::Exited { .. } => {
                record(&process, received + 1);
                break;
            }
        }
        record(&process, received);
    }
    assert_eq!(received, u64::from(LINES));
}

fn record(process: &AgentProcess, lines: u64) {
    // Fails if the process has ended and none of its output is held.
    let _ = process.commands.send(ProcessCommand::Recorded(lines));
}

/// Measures round trips, alternating between the two launchers.
async fn there_and_back(ways: [&Arc<dyn Launcher>; 2]) -> [Vec<Duration>; 2] {
    let script = "while read x; do echo $x; done";
    let mut processes =
        [ways[0].launch(sh(script)).await.unwrap(), ways[1].launch(sh(script)).await.unwrap()];
    let mut trips = [Vec::new(), Vec::new()];
    assert!(!processes[0].held && processes[1].held);
    for number in 1..=times(ONE_AT_A_TIME) as u64 {
        for (process, trips) in processes.iter_mut().zip(&mut trips) {
            let begun = Instant::now();
            process.commands.send(ProcessCommand::Write(b"a line\n".to_vec())).unwrap();
            match process.events.recv().await {
                Some(ProcessEvent::Lines(lines)) => assert_eq!(lines.len(), 1),
                other => panic!("{other:?}"),
            }
            trips.push(begun.elapsed());
            record(process, number);
        }
    }
    trips
}

fn sh(script: &str) -> Launch {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    Launch {
        run: format!("bench.{}", NUMBER.fetch_add(1, Ordering::Relaxed)),
        proc: 1,
        program: PathBuf::from("/bin/sh"),
        arguments: ["-c", script].map(OsString::from).into(),
        environment: vec![("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())],
        cwd: PathBuf::from("/"),
        stdin: Vec::new(),
        keep_open: true,
        framing: Framing::Lines,
        line_limit: 1 << 20,
        output_limit: 1 << 30,
        reach: Reach::default(),
    }
}

/// Returns the resident and the private memory of the holder in bytes.
fn memory(holder: u32) -> (usize, usize) {
    (cpu::resident_of(holder, "VmRSS"), cpu::private_of(holder))
}

fn show_memory(when: &str, (all, own): (usize, usize)) {
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    report::goal(
        &format!("{when}: its own pages (Private_Dirty)"),
        &format!("{:.1} MiB", mib(own)),
        "≤ 5 MiB",
        mib(own) <= 5.0,
    );
    report::goal(
        &format!("{when}: all of its pages (VmRSS)"),
        &format!("{:.1} MiB", mib(all)),
        "≤ 5 MiB",
        mib(all) <= 5.0,
    );
}
