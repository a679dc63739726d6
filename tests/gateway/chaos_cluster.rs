//! Three machines for one bot under load, while programs die and sleep, links are cut and stall,
//! and the database is killed: every message is answered, none twice, each channel in its order, no
//! tool is used twice unless a person has it done again, and no two turns of a channel run at the
//! same time.
//!
//! The machines have clocks that differ by 30 s, and connections to the database that are idle for
//! `IDLE_CUT_MS` (2,000) are cut; 0 leaves them. `FAULTS`, `EVENTS` and `CHANNELS` say how much,
//! `SEED` repeats a run's choices, `KINDS` is `mixed` or `term` (drains and SIGTERM alone).
//! `make chaos-cluster` is the large one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use tempfile::TempDir;

use super::installed;
use super::load::{Prompts, number};
use crate::support::discord::CROWD;
use crate::support::link::{Link, Way};
use crate::support::postgres::Postgres;
use crate::support::program::{Installation, Program};

const LEASE: Duration = Duration::from_secs(3);
/// The longest time in which others may not have gone on with what a machine had.
const TAKEOVER: Duration = Duration::from_secs(10);
const NAMES: [&str; 3] = ["one", "two", "three"];
/// Without any answer for so long something is lost.
const PROGRESS: Duration = Duration::from_secs(60);
const TOOK_OVER: &str = "this node goes on with what another one had";

/// Stands before the agent. It notes an agent that begins while another one of its channel runs,
/// and does the work of each first tool before the gateway can know of it: a line in `tools`.
const GUARD: &str = r#"#!/bin/bash
IFS= read -r line
if [[ $line =~ in\ c([0-9]+) ]]; then
    exec 9>"LOCKS/${BASH_REMATCH[1]}"
    flock --nonblock 9 || printf '%s\n' "$line" >>LOCKS/overlaps
fi
[[ $line =~ tool\ number\ ([0-9]+) ]] && number=${BASH_REMATCH[1]}
"$@" < <(exec 9>&-; printf '%s\n' "$line"; exec cat) | while IFS= read -r said; do
    [[ -n $number && $said == *'"id":"t1"'* && $said == *'"type":"tool"'* ]] && echo "$number" >>LOCKS/tools
    printf '%s\n' "$said"
done
exit "${PIPESTATUS[0]}"
"#;

/// A machine: what is installed there, its links, and the program while it runs.
struct Machine {
    installation: Installation,
    database: Link,
    discord: [Link; 2],
    /// Where its link to the database is.
    _folder: TempDir,
    program: Program,
    /// The logs of its earlier lives.
    before: String,
    /// When it is started again; none: as soon as it has ended.
    asleep_until: Option<Instant>,
    /// It was told to give its channels away.
    drained: bool,
    /// When its links are mended.
    cut_until: Option<Instant>,
    /// When it was killed or fell asleep, and how often others had told before of having taken over
    /// what it had.
    gone: Option<(Instant, usize)>,
}

/// What happens to the machines.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    /// As a machine that loses power: its holder dies, too.
    KillAll,
    Sleep,
    Database,
    CutFromDatabase(Way),
    CutFromDiscord(Way),
    /// From both.
    Cut(Way),
    Drain,
    /// SIGTERM of the gateway: its holder keeps the agents.
    Term,
    /// SIGTERM of both.
    TermAll,
    /// A server that takes no writes, as a primary that is about to be replaced.
    ReadOnly,
}

struct Run {
    prompts: Prompts,
    postgres: Postgres,
    machines: Vec<Machine>,
    faults: usize,
    locks: TempDir,
    takeovers: Vec<Duration>,
    answered: usize,
    log: Vec<String>,
}

#[tokio::test]
async fn three_machines_answer_every_message_once_and_in_order_whatever_happens_to_them() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let (seed, faults) = (number("SEED", now), number("FAULTS", 12));
    let (events, channels) = (number("EVENTS", 20 * faults), number("CHANNELS", 24));
    println!("SEED={seed} FAULTS={faults} EVENTS={events} CHANNELS={channels}");
    let run = Run::new(seed, faults as usize, events as usize, channels).await;
    let (mut run, began) = (run, Instant::now());
    match run.through(began).await {
        Ok(report) => println!("{report}"),
        Err(fault) => panic!("SEED={seed}: {fault}\n{}", run.story()),
    }
}

/// Builds the library that shifts a program's clock.
fn skewed_clock(folder: &Path) -> PathBuf {
    let library = folder.join("skew.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/skew.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .status()
        .expect("a C compiler");
    assert!(built.success());
    library
}

impl Machine {
    async fn new(
        prompts: &Prompts,
        postgres: &Postgres,
        locks: &Path,
        (name, skew): (&str, i64),
    ) -> Self {
        let folder = tempfile::Builder::new().prefix("link").tempdir_in("/tmp").expect("a folder");
        let database = Link::to_postgres(folder.path(), postgres.folder());
        match number("IDLE_CUT_MS", 2_000) {
            0 => {}
            idle => database.cut_idle(Duration::from_millis(idle)),
        }
        let (base, discord) = prompts.local.linked().await;
        let installation = installed(&prompts.local)
            .with("DISCORD_API_BASE", &base)
            .with("AGENT_HOLDER", "require")
            .with("AGENT_WRAPPER", &locks.join("guard").display().to_string())
            .with("CLUSTER_URL", &postgres.url_by(folder.path()))
            .with("CLUSTER_LEASE_SECONDS", &LEASE.as_secs().to_string())
            .with("NODE_NAME", name)
            .with("BUSY_POLICY", "queue")
            .with("MAX_QUEUE_DEPTH", "100000")
            .with("MAX_CONCURRENT_QUERIES", "8")
            .with("DEMO_AGENT_DELAY_MS", "15")
            .with("LD_PRELOAD", &locks.join("skew.so").display().to_string())
            .with("SKEW_SECONDS", &skew.to_string());
        let program = installation.start(&["run"]);
        Self {
            installation,
            database,
            discord,
            _folder: folder,
            program,
            before: String::new(),
            asleep_until: None,
            drained: false,
            cut_until: None,
            gone: None,
        }
    }

    fn start(&mut self) {
        self.before.push_str(&self.program.stderr());
        self.program = self.installation.start(&["run"]);
    }

    fn cut(&mut self, way: Way, database: bool, discord: bool, until: Instant) {
        if database {
            self.database.set(way);
        }
        for link in self.discord.iter().filter(|_| discord) {
            link.set(way);
        }
        self.cut_until = Some(until);
    }

    fn mend(&mut self) {
        self.database.set(Way::Open);
        self.discord.iter().for_each(|link| link.set(Way::Open));
        self.cut_until = None;
    }

    /// Its holder, which is a process of its own.
    fn holder(&self) -> Option<i32> {
        let folder = self.installation.path("config").canonicalize().ok()?;
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.find(|pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(" hold") && line.contains(&*folder.to_string_lossy())
        })
    }
}

impl Run {
    async fn new(seed: u64, faults: usize, events: usize, channels: u64) -> Self {
        let locks = tempfile::tempdir().expect("a folder");
        let guard = locks.path().join("guard");
        fs::write(&guard, GUARD.replace("LOCKS", &locks.path().display().to_string())).unwrap();
        fs::set_permissions(&guard, fs::Permissions::from_mode(0o755)).unwrap();
        skewed_clock(locks.path());
        let (mut prompts, postgres) =
            (Prompts::new(seed, events, channels).await, Postgres::start());
        let mut machines = Vec::new();
        for machine in NAMES.into_iter().zip([0, 30, -30]) {
            machines.push(Machine::new(&prompts, &postgres, locks.path(), machine).await);
        }
        prompts.tools_one_in = 4;
        let (takeovers, answered, log) = (Vec::new(), 0, Vec::new());
        Self { prompts, postgres, machines, faults, locks, takeovers, answered, log }
    }

    async fn through(&mut self, began: Instant) -> Result<String, String> {
        for route in ["POST messages", "PATCH message", "guilds", "channels"] {
            self.prompts.local.faults().limit(route, 1_000, Duration::from_secs(1));
        }
        for machine in &self.machines {
            machine.program.logs("aetheel is ready").await;
            machine.program.logs("discord is ready").await;
        }
        // Only channels where the bot was spoken to before are caught up with.
        for channel in 0..self.prompts.channels {
            self.prompts.send(CROWD + channel);
        }
        self.prompts.settle(&mut self.answered).await?;
        for count in 1..=self.faults {
            self.prompts.allowed = self.prompts.events * count / self.faults;
            let fault = self.strike().await;
            println!("{:7.1} s  {fault}", began.elapsed().as_secs_f64());
            self.log.push(fault);
            let next = 500 + self.prompts.random.below(3_000);
            self.go_on(Instant::now() + Duration::from_millis(next)).await?;
        }
        self.prompts.allowed = self.prompts.events;
        let mut progress = (Instant::now(), 0);
        while self.answered < self.prompts.events || !self.is_whole() {
            self.go_on(Instant::now() + Duration::from_millis(100)).await?;
            if self.answered > progress.1 {
                progress = (Instant::now(), self.answered);
            }
            if progress.0.elapsed() > PROGRESS {
                self.prompts.check()?;
                let (answered, sent) = (self.answered, self.prompts.sent.len());
                return Err(format!("only {answered} of {sent} are answered"));
            }
        }
        let read = |name: &str| fs::read_to_string(self.locks.path().join(name));
        let overlaps = read("overlaps").unwrap_or_default();
        let tools_twice = self.tools_twice(&read("tools").unwrap_or_default());
        let (counts, faults) = self.prompts.counts();
        self.prompts.waits.sort();
        let wait = |part: usize| {
            let last = self.prompts.waits.len().saturating_sub(1);
            self.prompts.waits.get(last * part / 100).map_or(0.0, Duration::as_secs_f64)
        };
        println!(
            "{} prompts, {counts:?}, {} tools twice, {} overlaps; waits {:.1} / {:.1} / {:.1} s (p50, p99, most)",
            self.prompts.sent.len(),
            tools_twice.len(),
            overlaps.lines().count(),
            wait(50),
            wait(99),
            wait(100)
        );
        if !faults.is_empty() {
            return Err(faults);
        }
        if !overlaps.is_empty() {
            return Err(format!("turns of a channel overlapped: {overlaps}"));
        }
        if !tools_twice.is_empty() {
            return Err(format!("tools of these prompts ran twice: {tools_twice:?}"));
        }
        self.takeovers.sort();
        let at = |part: usize| {
            let last = self.takeovers.len().saturating_sub(1);
            self.takeovers.get(last * part / 100).map_or(0.0, Duration::as_secs_f64)
        };
        let (median, late, most) = (at(50), at(99), at(100));
        if late > TAKEOVER.as_secs_f64() {
            return Err(format!("taking over took {late:.1} s (p99)"));
        }
        Ok(format!(
            "{} faults, {} prompts in {} channels: each answered once and in order, no turns of a channel overlapped; {} takeovers, \
             after {median:.1} / {late:.1} / {most:.1} s (median, p99, most); {} by the button of an offer; {:.0} s",
            self.faults,
            self.prompts.sent.len(),
            self.prompts.channels,
            self.takeovers.len(),
            self.prompts.offered.len(),
            began.elapsed().as_secs_f64()
        ))
    }

    /// Numbers of the prompts whose tool ran more than once although nobody had it done again.
    fn tools_twice(&self, lines: &str) -> Vec<usize> {
        let mut times: BTreeMap<usize, usize> = BTreeMap::new();
        for number in lines.lines().filter_map(|line| line.parse().ok()) {
            *times.entry(number).or_default() += 1;
        }
        let offered = |number: usize| self.prompts.offered.contains(&self.prompts.sent[number].1);
        let twice = times.into_iter().filter(|(number, times)| *times > 1 && !offered(*number));
        twice.map(|(number, _)| number).collect()
    }

    /// What the machines and the database say of themselves.
    fn story(&self) -> String {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chaos-cluster");
        let _ = fs::create_dir_all(&folder);
        for (machine, name) in self.machines.iter().zip(NAMES) {
            let log = [machine.before.as_str(), &machine.program.stderr()].concat();
            let _ = fs::write(folder.join(name), log);
        }
        let journals = "select node || e'\n' || string_agg(lines, '' order by start, batch) from aetheel.journal group by node";
        let _ = fs::write(folder.join("journals"), self.postgres.ask(journals));
        let mail = "select number, key, root, node, kind, done from aetheel.mail order by number";
        let _ = fs::write(folder.join("mail"), self.postgres.ask(mail));
        let rows = [
            "select name, start, lease > now(), drain from aetheel.node",
            "select node, count(*), bool_and(open), bool_or(held) from aetheel.lane group by node",
            "select number, root, node, left(body, 60) from aetheel.mail where done is null order by number limit 20",
            "select id, from_node, to_node, roots from aetheel.handover",
        ];
        let rows = rows.map(|rows| format!("{rows}\n{}", self.postgres.ask(rows)));
        format!("{}\nlogs and journals are in {}", rows.join("\n"), folder.display())
    }

    fn is_whole(&self) -> bool {
        self.machines
            .iter()
            .all(|machine| machine.asleep_until.is_none() && machine.cut_until.is_none())
    }

    /// Has something happen to one of the machines that work, or to the database.
    async fn strike(&mut self) -> String {
        let random = &mut self.prompts.random;
        let way = [Way::Cut, Way::Stalled][random.below(2) as usize];
        let terms = std::env::var("KINDS").is_ok_and(|kinds| kinds == "term");
        let fault = match random.below(16) {
            choice if terms => match choice % 3 {
                0 => Fault::Term,
                1 => Fault::TermAll,
                _ => Fault::Drain,
            },
            12 => Fault::Term,
            13 => Fault::TermAll,
            14 => Fault::ReadOnly,
            15 => Fault::CutFromDatabase(Way::Slow),
            0..=2 => Fault::Kill,
            3 | 4 => Fault::KillAll,
            5 => Fault::Sleep,
            6 => Fault::Database,
            7 => Fault::CutFromDatabase(way),
            8 => Fault::CutFromDiscord(way),
            9 | 10 => Fault::Cut(way),
            _ => Fault::Drain,
        };
        let chosen = random.below(self.machines.len() as u64) as usize;
        // From a moment to twice the lease: some come back in time.
        let span = Duration::from_millis(random.below(2 * LEASE.as_millis() as u64));
        let until = Instant::now() + span;
        let before = self.taken_over(chosen);
        let machine = &mut self.machines[chosen];
        if !matches!(fault, Fault::Database | Fault::ReadOnly)
            && (machine.asleep_until.is_some() || machine.cut_until.is_some())
        {
            return format!("machine {chosen} is struck already");
        }
        if let Fault::Database = fault {
            self.postgres.kill();
            // Some of it within the lease, some not.
            self.go_on(until.min(Instant::now() + LEASE)).await.ok();
            self.postgres.again();
            return format!("the database is killed, for {span:?}");
        }
        if let Fault::ReadOnly = fault {
            self.postgres.read_only(true);
            self.go_on(until).await.ok();
            self.postgres.read_only(false);
            return format!("the database is read-only, for {span:?}");
        }
        match fault {
            Fault::Term | Fault::TermAll => {
                machine.program.signal(Signal::TERM);
                if let (Fault::TermAll, Some(holder)) = (fault, machine.holder()) {
                    let _ = rustix::process::kill_process(
                        rustix::process::Pid::from_raw(holder).unwrap(),
                        Signal::TERM,
                    );
                }
            }
            Fault::Kill | Fault::KillAll => {
                if let (Fault::KillAll, Some(holder)) = (fault, machine.holder()) {
                    let _ = rustix::process::kill_process(
                        rustix::process::Pid::from_raw(holder).unwrap(),
                        Signal::KILL,
                    );
                }
                machine.program.signal(Signal::KILL);
                machine.program.ended().await;
                machine.asleep_until = Some(until);
                machine.gone = Some((Instant::now(), before));
            }
            Fault::Sleep => {
                machine.program.signal(Signal::STOP);
                machine.asleep_until = Some(Instant::now() + LEASE * 2);
                machine.gone = Some((Instant::now(), before));
            }
            Fault::CutFromDatabase(way) => machine.cut(way, true, false, until),
            Fault::CutFromDiscord(way) => machine.cut(way, false, true, until),
            Fault::Cut(way) => machine.cut(way, true, true, until),
            Fault::Drain | Fault::Database | Fault::ReadOnly => {
                let arguments = ["drain", NAMES[chosen], "--no-wait"];
                let undo = ["drain", NAMES[chosen], "--undo"];
                let arguments: &[&str] = if machine.drained { &undo } else { &arguments };
                machine.drained = !machine.drained;
                let ended = machine.installation.run(arguments, "").await;
                return format!("machine {chosen}: {arguments:?}, {}", ended.code);
            }
        }
        format!("machine {chosen}: {fault:?}, for {span:?}")
    }

    /// Keeps the load, mends what is to be mended, and starts again what has ended, as a service
    /// manager does.
    async fn go_on(&mut self, until: Instant) -> Result<(), String> {
        loop {
            self.prompts.load(&mut self.answered);
            let now = Instant::now();
            for machine in &mut self.machines {
                if machine.cut_until.is_some_and(|at| at <= now) {
                    machine.mend();
                }
                match machine.asleep_until {
                    Some(at) if at > now => continue,
                    Some(_) => {
                        machine.asleep_until = None;
                        machine.gone = None;
                        if machine.program.is_over() {
                            machine.start();
                        } else {
                            machine.program.signal(Signal::CONT);
                        }
                    }
                    None if machine.program.is_over() => {
                        let ended = machine.program.ended().await;
                        if ![0, 75].contains(&ended.code) {
                            return Err(format!(
                                "a machine ended with {}: {}",
                                ended.code, ended.stderr
                            ));
                        }
                        machine.start();
                    }
                    None => {}
                }
            }
            self.note_takeovers();
            if Instant::now() >= until {
                return Ok(());
            }
            self.prompts.local.wait_a_moment().await;
        }
    }

    /// How long it took until others went on with what a machine had.
    fn note_takeovers(&mut self) {
        for number in 0..self.machines.len() {
            let Some((since, before)) = self.machines[number].gone else { continue };
            if self.taken_over(number) > before {
                self.takeovers.push(since.elapsed());
                self.machines[number].gone = None;
            }
        }
    }

    /// How often others tell of having taken over what a machine had.
    fn taken_over(&self, number: usize) -> usize {
        let from = format!("\"from\":\"{}\"", NAMES[number]);
        let tells = |line: &&str| line.contains(TOOK_OVER) && line.contains(&from);
        let texts = self.machines.iter().map(|machine| machine.program.stderr());
        texts.map(|text| text.lines().filter(tells).count()).sum()
    }
}
