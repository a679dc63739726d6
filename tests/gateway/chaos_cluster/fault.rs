//! Faults of the machines and of the database.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::super::load::Random;
use super::{LEASE, NAMES, Run};
use crate::support::link::Way;
use crate::support::postgres::Refusal;

/// Which faults a run has (`KINDS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kinds {
    Mixed,
    /// Only drains and SIGTERM.
    Term,
    /// Only outages of the database for all machines, which must not end any turn.
    Database,
    /// Only refusals of the database, which must not end any turn.
    Refusal,
}

impl Kinds {
    pub(super) fn of_environment() -> Self {
        match std::env::var("KINDS").as_deref() {
            Err(_) | Ok("mixed") => Self::Mixed,
            Ok("term") => Self::Term,
            Ok("database") => Self::Database,
            Ok("refusal") => Self::Refusal,
            Ok(other) => panic!("KINDS is mixed, term, database or refusal, not {other}"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    /// Kills the gateway and its holder, like a power failure.
    KillAll,
    Sleep,
    /// Stops the gateway and its holder.
    SleepAll,
    Database,
    CutFromDatabase(Way),
    CutFromDiscord(Way),
    /// From the database and from Discord.
    Cut(Way),
    Drain,
    /// SIGTERM to the gateway. Its holder keeps the agents.
    Term,
    /// SIGTERM to the gateway and its holder.
    TermAll,
    /// The database refuses writes, like a primary before a failover.
    ReadOnly,
    /// The database refuses the user of all machines.
    Refuse(Refusal),
}

impl Fault {
    fn choose(kinds: Kinds, random: &mut Random) -> Self {
        let way = [Way::Cut, Way::Stalled][random.below(2) as usize];
        let refusals = [Refusal::Password, Refusal::Login, Refusal::Connections, Refusal::Rights];
        let refuse = Self::Refuse(refusals[random.below(4) as usize]);
        match (kinds, random.below(18)) {
            (Kinds::Term, choice) => [Self::Term, Self::TermAll, Self::Drain][choice as usize % 3],
            (Kinds::Database, choice) => {
                [Self::Database, Self::ReadOnly, refuse][choice as usize % 3]
            }
            (Kinds::Refusal, _) | (Kinds::Mixed, 16) => refuse,
            (Kinds::Mixed, 0..=2) => Self::Kill,
            (Kinds::Mixed, 3 | 4) => Self::KillAll,
            (Kinds::Mixed, 5) => Self::Sleep,
            (Kinds::Mixed, 6) => Self::Database,
            (Kinds::Mixed, 7) => Self::CutFromDatabase(way),
            (Kinds::Mixed, 8) => Self::CutFromDiscord(way),
            (Kinds::Mixed, 9 | 10) => Self::Cut(way),
            (Kinds::Mixed, 11) => Self::Drain,
            (Kinds::Mixed, 12) => Self::Term,
            (Kinds::Mixed, 13) => Self::TermAll,
            (Kinds::Mixed, 14) => Self::ReadOnly,
            (Kinds::Mixed, 15) => Self::CutFromDatabase(Way::Slow),
            (Kinds::Mixed, _) => Self::SleepAll,
        }
    }
}

impl Run {
    /// Causes a random fault in one of the machines or in the database.
    pub(super) async fn strike(&mut self) -> String {
        let fault = Fault::choose(self.kinds, &mut self.prompts.random);
        let random = &mut self.prompts.random;
        let chosen = random.below(self.machines.len() as u64) as usize;
        // At most twice the lease, so that some machines return in time. With outages of the
        // database alone, up to ten leases.
        let only_database = matches!(self.kinds, Kinds::Database | Kinds::Refusal);
        let leases = if only_database { 10 } else { 2 };
        let span = Duration::from_millis(random.below(leases * LEASE.as_millis() as u64));
        match fault {
            Fault::Database | Fault::ReadOnly | Fault::Refuse(_) => {
                self.strike_database(fault, span).await
            }
            fault => self.strike_machine(fault, chosen, span).await,
        }
    }

    async fn strike_database(&mut self, fault: Fault, span: Duration) -> String {
        let until = Instant::now() + span;
        if let Fault::ReadOnly = fault {
            self.postgres.read_only(true);
            self.go_on(until).await.ok();
            self.postgres.read_only(false);
        } else if let Fault::Refuse(refusal) = fault {
            self.postgres.refuse_team(refusal);
            self.go_on(until).await.ok();
            self.postgres.accept_team();
        } else {
            self.postgres.kill();
            self.go_on(until).await.ok();
            self.postgres.again();
        }
        format!("{fault:?}, for {span:?}")
    }

    async fn strike_machine(&mut self, fault: Fault, chosen: usize, span: Duration) -> String {
        let until = Instant::now() + span;
        let before = self.taken_over(chosen);
        let machine = &mut self.machines[chosen];
        if machine.asleep_until.is_some() || machine.cut_until.is_some() {
            return format!("machine {chosen} already has a fault");
        }
        match fault {
            Fault::Term => machine.program.signal(Signal::TERM),
            Fault::TermAll => {
                machine.program.signal(Signal::TERM);
                machine.signal_holder(Signal::TERM);
            }
            Fault::Kill | Fault::KillAll => {
                if let Fault::KillAll = fault {
                    machine.signal_holder(Signal::KILL);
                }
                machine.program.signal(Signal::KILL);
                machine.program.ended().await;
                machine.asleep_until = Some(until);
                machine.gone = Some((Instant::now(), before));
            }
            Fault::Sleep | Fault::SleepAll => {
                if let Fault::SleepAll = fault {
                    machine.signal_holder(Signal::STOP);
                }
                machine.program.signal(Signal::STOP);
                machine.asleep_until = Some(Instant::now() + LEASE * 2);
                machine.gone = Some((Instant::now(), before));
            }
            Fault::CutFromDatabase(way) => machine.cut(way, true, false, until),
            Fault::CutFromDiscord(way) => machine.cut(way, false, true, until),
            Fault::Cut(way) => machine.cut(way, true, true, until),
            Fault::Drain | Fault::Database | Fault::ReadOnly | Fault::Refuse(_) => {
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
}
