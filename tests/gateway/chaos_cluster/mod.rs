//! Three machines serve one bot under load, while programs are killed or stopped, links are cut or
//! stall, and the database is killed. Every message is answered exactly once, and each channel in
//! order. No tool runs twice unless a user repeats the turn. No two turns of a channel run at the
//! same time.
//!
//! The clocks of the machines differ by 30 s. Connections to the database that are idle for
//! `IDLE_CUT_MS` (2,000 by default) are cut, unless it is 0. `FAULTS`, `EVENTS` and `CHANNELS` set
//! the size of a run, and `SEED` repeats its random choices. `KINDS` is `mixed`, `term` (only
//! drains and SIGTERM), `database` (only outages of the database for up to ten leases, which must
//! not end any turn) or `refusal` (only those in which the database refuses the machines).
//! `make chaos-cluster` runs the large test.

mod fault;
mod machine;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use tempfile::TempDir;

use self::fault::Kinds;
use self::machine::{GUARD, Machine, skewed_clock};
use super::load::{Prompts, number};
use crate::support::discord::CROWD;
use crate::support::postgres::Postgres;

const LEASE: Duration = Duration::from_secs(3);
/// The longest time until others take over the channels of a machine.
const TAKEOVER: Duration = Duration::from_secs(10);
/// The longest time until half of the prompts get a reply. Most prompts are written while no fault
/// lasts.
const MEDIAN_WAIT: Duration = Duration::from_secs(15);
const NAMES: [&str; 3] = ["one", "two", "three"];
/// After this time without an answer, something is lost.
const PROGRESS: Duration = Duration::from_secs(60);
const TOOK_OVER: &str = "this node continues the work of another node";

struct Run {
    prompts: Prompts,
    postgres: Postgres,
    machines: Vec<Machine>,
    faults: usize,
    kinds: Kinds,
    locks: TempDir,
    takeovers: Vec<Duration>,
    answered: usize,
    log: Vec<String>,
}

#[tokio::test]
async fn three_machines_answer_every_message_once_and_in_order_despite_faults() {
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

impl Run {
    async fn new(seed: u64, faults: usize, events: usize, channels: u64) -> Self {
        let locks = tempfile::tempdir().expect("a folder");
        let guard = locks.path().join("guard");
        fs::write(&guard, GUARD.replace("LOCKS", &locks.path().display().to_string())).unwrap();
        fs::set_permissions(&guard, fs::Permissions::from_mode(0o755)).unwrap();
        skewed_clock(locks.path());
        let (mut prompts, postgres) =
            (Prompts::new(seed, events, channels).await, Postgres::start());
        postgres.create_team();
        let mut machines = Vec::new();
        for machine in NAMES.into_iter().zip([0, 30, -30]) {
            machines.push(Machine::new(&prompts, &postgres, locks.path(), machine).await);
        }
        prompts.tools_one_in = 4;
        let (takeovers, answered, log) = (Vec::new(), 0, Vec::new());
        let kinds = Kinds::of_environment();
        Self { prompts, postgres, machines, faults, kinds, locks, takeovers, answered, log }
    }

    async fn through(&mut self, began: Instant) -> Result<String, String> {
        for route in ["POST messages", "PATCH message", "guilds", "channels"] {
            self.prompts.local.faults().limit(route, 1_000, Duration::from_secs(1));
        }
        for machine in &self.machines {
            machine.program.logs("aetheel is ready").await;
            machine.program.logs("discord is ready").await;
        }
        // Missed messages are fetched only in channels where the bot was addressed before.
        for channel in 0..self.prompts.channels {
            self.prompts.send(CROWD + channel);
        }
        self.prompts.settle(&mut self.answered).await?;
        for count in 1..=self.faults {
            self.prompts.allowed = self.prompts.events * count / self.faults;
            let fault = self.strike().await;
            println!("{:7.1} s  {fault}", began.elapsed().as_secs_f64());
            // Hundreds of logins within minutes exceed the bot's login budget, and the next login
            // would wait. This fails while the database is away.
            let _ = self.postgres.psql_team("delete from aetheel.login");
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
        if wait(50) > MEDIAN_WAIT.as_secs_f64() {
            return Err(format!("half of the prompts waited {:.1} s", wait(50)));
        }
        if matches!(self.kinds, Kinds::Database | Kinds::Refusal) {
            self.check_turns_went_on()?;
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
            return Err(format!("a takeover took {late:.1} s (p99)"));
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

    /// Checks that outages of the database ended no turn and no machine.
    fn check_turns_went_on(&self) -> Result<(), String> {
        let offered = self.prompts.offered.len();
        let starts = |machine: &Machine| machine.before.matches("aetheel starts").count();
        let restarts: usize = self.machines.iter().map(starts).sum();
        if offered + restarts + self.takeovers.len() > 0 {
            return Err(format!(
                "a database that was away ended {offered} turns and {restarts} machines, and {} were taken over",
                self.takeovers.len()
            ));
        }
        Ok(())
    }

    /// Returns the numbers of the prompts whose tool ran more than once, although no user repeated
    /// them.
    fn tools_twice(&self, lines: &str) -> Vec<usize> {
        let mut times: BTreeMap<usize, usize> = BTreeMap::new();
        for number in lines.lines().filter_map(|line| line.parse().ok()) {
            *times.entry(number).or_default() += 1;
        }
        let offered =
            |number: usize| self.prompts.offered.contains_key(&self.prompts.sent[number].1);
        let twice = times.into_iter().filter(|(number, times)| *times > 1 && !offered(*number));
        twice.map(|(number, _)| number).collect()
    }

    /// Saves the logs and the journals in a folder, and returns the state of the cluster.
    fn story(&self) -> String {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chaos-cluster");
        let _ = fs::create_dir_all(&folder);
        for (machine, name) in self.machines.iter().zip(NAMES) {
            let log = [machine.before.as_str(), &machine.program.stderr()].concat();
            let _ = fs::write(folder.join(name), log);
        }
        let journals = "select node || e'\n' || string_agg(lines, '' order by start, batch) from aetheel.journal group by node";
        let _ = fs::write(folder.join("journals"), self.postgres.ask_team(journals));
        let mail = "select number, key, root, node, kind, done from aetheel.mail order by number";
        let _ = fs::write(folder.join("mail"), self.postgres.ask_team(mail));
        let rows = [
            "select name, start, lease > now(), drain from aetheel.node",
            "select node, count(*), bool_and(open), bool_or(held) from aetheel.lane group by node",
            "select number, root, node, left(body, 60) from aetheel.mail where done is null order by number limit 20",
            "select id, from_node, to_node, roots from aetheel.handover",
        ];
        let rows = rows.map(|rows| format!("{rows}\n{}", self.postgres.ask_team(rows)));
        format!("{}\nlogs and journals are in {}", rows.join("\n"), folder.display())
    }

    fn is_whole(&self) -> bool {
        self.machines
            .iter()
            .all(|machine| machine.asleep_until.is_none() && machine.cut_until.is_none())
    }

    /// Keeps the load until `until`. Restores links that are due, and restarts programs that have
    /// ended, as a service manager does.
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
                            machine.signal_holder(Signal::CONT);
                            machine.program.signal(Signal::CONT);
                        }
                    }
                    None if machine.program.is_over() => {
                        let ended = machine.program.ended().await;
                        // SIGTERM also ends a program that is not ready to handle it yet.
                        let unready = !ended.stderr.contains("aetheel is ready");
                        let allowed: &[i32] = if unready { &[0, 75, 143] } else { &[0, 75] };
                        if !allowed.contains(&ended.code) {
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

    /// Measures how long others needed to take over from a machine.
    fn note_takeovers(&mut self) {
        for number in 0..self.machines.len() {
            let Some((since, before)) = self.machines[number].gone else { continue };
            if self.taken_over(number) > before {
                self.takeovers.push(since.elapsed());
                self.machines[number].gone = None;
            }
        }
    }

    /// Returns how often others logged that they took over from a machine.
    fn taken_over(&self, number: usize) -> usize {
        let from = format!("\"from\":\"{}\"", NAMES[number]);
        let tells = |line: &&str| line.contains(TOOK_OVER) && line.contains(&from);
        let texts = self.machines.iter().map(|machine| machine.program.stderr());
        texts.map(|text| text.lines().filter(tells).count()).sum()
    }
}
