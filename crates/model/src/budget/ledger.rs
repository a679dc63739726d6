//! The sums of all accounts in their current periods.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::account::{AccountUse, BudgetGrant};
use super::amount::{BudgetUnit, SpentAmounts};
use super::period::PeriodSpan;
use super::rules::{BudgetAccount, BudgetRules, BudgetSubject};
use super::shared::{ClusterTurnUse, TurnUseState};
use crate::id::ChannelId;

/// How long finished turns are kept. Months are the longest periods.
const KEPT: SignedDuration = SignedDuration::from_hours(33 * 24);
/// Largest step back of the clock over which the latest period continues. A larger step corrects a
/// clock that was far ahead, and whose period must not last until then.
const MAX_STEP_BACK: SignedDuration = SignedDuration::from_hours(48);
/// The number of new turns after which old ones are removed.
const TURNS_PER_TIDYING: usize = 1_000;

/// The use of a finished turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpentTurn {
    /// When the turn ended. It counts in the period that contains this instant.
    pub ended: Timestamp,
    /// The properties of the turn.
    pub subject: BudgetSubject,
    /// The amounts that the turn used.
    pub spent: SpentAmounts,
}

/// A turn that runs.
#[derive(Clone, Debug)]
struct UnfinishedUse {
    subject: BudgetSubject,
    since: Timestamp,
    spent: SpentAmounts,
    /// Whether the turn runs on this machine.
    is_own: bool,
}

impl UnfinishedUse {
    /// Returns the amounts so far. A clock that was set back does not reduce them.
    fn so_far(&self, now: Timestamp) -> SpentAmounts {
        let ms = now.duration_since(self.since).as_millis();
        let took_ms = u64::try_from(ms).unwrap_or(0).max(self.spent.took_ms);
        SpentAmounts { took_ms, ..self.spent }
    }

    fn as_reported(&self, turn: &str, now: Timestamp) -> ClusterTurnUse {
        ClusterTurnUse {
            turn: turn.to_owned(),
            subject: self.subject.clone(),
            state: TurnUseState::Running,
            at: self.since,
            spent: self.so_far(now),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct AccountSum {
    /// The index of the account's cap.
    cap: usize,
    spent: SpentAmounts,
}

/// Adds up the use of all accounts.
#[derive(Debug)]
pub struct BudgetLedger {
    zone: TimeZone,
    rules: Arc<BudgetRules>,
    finished: HashMap<String, SpentTurn>,
    running: HashMap<String, UnfinishedUse>,
    grants: BTreeMap<BudgetAccount, BudgetGrant>,
    /// The sums of finished turns, and the period of each cap for which they were computed.
    sums: BTreeMap<BudgetAccount, AccountSum>,
    spans: Vec<PeriodSpan>,
    added: usize,
    /// The latest time that was seen.
    latest: Timestamp,
}

impl BudgetLedger {
    /// Creates an empty ledger for an operator's time zone.
    #[must_use]
    pub fn new(zone: TimeZone) -> Self {
        Self {
            zone,
            rules: Arc::default(),
            finished: HashMap::new(),
            running: HashMap::new(),
            grants: BTreeMap::new(),
            sums: BTreeMap::new(),
            spans: Vec::new(),
            added: 0,
            latest: Timestamp::MIN,
        }
    }

    /// Sets the caps.
    pub fn set_rules(&mut self, rules: Arc<BudgetRules>) {
        if self.rules != rules {
            self.rules = rules;
            self.spans.clear();
        }
    }

    /// Returns the caps.
    #[must_use]
    pub fn rules(&self) -> &Arc<BudgetRules> {
        &self.rules
    }

    /// Sets the decisions about an account. Decisions about an earlier period than the known ones
    /// change nothing.
    pub fn set_grant(&mut self, grant: BudgetGrant) {
        if self.grants.get(&grant.account).is_none_or(|known| known.start <= grant.start) {
            self.grants.insert(grant.account.clone(), grant);
        }
    }

    /// Returns all decisions.
    #[must_use]
    pub fn grants(&self) -> Vec<BudgetGrant> {
        self.grants.values().cloned().collect()
    }

    /// Returns the decisions about an account in a period.
    #[must_use]
    pub fn grant(&self, account: &BudgetAccount, span: PeriodSpan) -> BudgetGrant {
        let known = self.grants.get(account).filter(|grant| grant.start == span.start);
        known.cloned().unwrap_or_else(|| BudgetGrant {
            account: account.clone(),
            start: span.start,
            raised: None,
            until: None,
            warned: None,
            asked: None,
        })
    }

    /// Adds a finished turn, unless it is known. The turn no longer counts as running.
    pub fn finish(&mut self, turn: &str, mut spent: SpentTurn, now: Timestamp) {
        let was_running = self.running.remove(turn).is_some();
        if self.finished.contains_key(turn) {
            return;
        }
        if spent.ended.duration_since(now) <= MAX_STEP_BACK {
            self.latest = self.latest.max(spent.ended);
        }
        if was_running {
            // It counts in the period that is in force, also if the clock was set back.
            spent.ended = spent.ended.max(self.period_time(now));
        }
        if !self.spans.is_empty() {
            self.count(&spent);
        }
        self.finished.insert(turn.to_owned(), spent);
        self.added += 1;
        if self.added.is_multiple_of(TURNS_PER_TIDYING) {
            self.finished.retain(|_, turn| now.duration_since(turn.ended) <= KEPT);
        }
    }

    /// Adds a running turn of this machine, which counts from now on. A turn of a previous process
    /// keeps the amounts that it used before.
    pub fn begin(&mut self, turn: &str, subject: BudgetSubject, now: Timestamp) {
        let before = self.forget_finished(turn).map(|turn| turn.spent);
        let before = before.or_else(|| Some(self.running.get(turn)?.so_far(now)));
        let mut spent = before.unwrap_or_default();
        spent.turns = 1;
        let took = i64::try_from(spent.took_ms).unwrap_or(i64::MAX);
        let since = now.checked_sub(SignedDuration::from_millis(took)).unwrap_or(now);
        let running = UnfinishedUse { subject, since, spent, is_own: true };
        self.running.insert(turn.to_owned(), running);
    }

    /// Takes what another machine or a previous process reported about a turn. A turn that runs on
    /// this machine stays as it is.
    pub fn take(&mut self, used: ClusterTurnUse) {
        let ClusterTurnUse { turn, subject, state, at, spent } = used;
        if self.running.get(&turn).is_some_and(|running| running.is_own) {
            return;
        }
        match state {
            TurnUseState::Running => {
                self.forget_finished(&turn);
                let running = UnfinishedUse { subject, since: at, spent, is_own: false };
                self.running.insert(turn, running);
            }
            TurnUseState::Closed | TurnUseState::Finished => {
                self.running.remove(&turn);
                let ended = SpentTurn { ended: at, subject, spent };
                if self.finished.get(&turn) != Some(&ended) {
                    self.forget_finished(&turn);
                    self.finish(&turn, ended, at);
                }
            }
            TurnUseState::Withdrawn => {
                self.running.remove(&turn);
                self.forget_finished(&turn);
            }
        }
    }

    fn forget_finished(&mut self, turn: &str) -> Option<SpentTurn> {
        let finished = self.finished.remove(turn)?;
        // The next question computes the sums again.
        self.spans.clear();
        Some(finished)
    }

    /// Returns the running turns of this machine with their amounts so far.
    #[must_use]
    pub fn own_running(&self, now: Timestamp) -> Vec<ClusterTurnUse> {
        let own = self.running.iter().filter(|(_, running)| running.is_own);
        let used = own.map(|(turn, running)| running.as_reported(turn, now));
        used.collect()
    }

    /// Records the usage of a running turn. Usage that an agent takes back still counts until the
    /// turn ends.
    pub fn report(&mut self, turn: &str, spent: SpentAmounts) {
        if let Some(running) = self.running.get_mut(turn) {
            running.spent = running.spent.max(spent);
        }
    }

    /// Removes a running turn that left no line. Returns its amounts so far.
    pub fn abandon(&mut self, turn: &str, now: Timestamp) -> Option<ClusterTurnUse> {
        let running = self.running.remove(turn)?;
        Some(running.as_reported(turn, now))
    }

    /// Returns whether no turn runs.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Returns the use of the accounts in which a turn counts.
    pub fn uses_of(&mut self, subject: &BudgetSubject, now: Timestamp) -> Vec<AccountUse> {
        self.refresh(now);
        self.accounts_of(subject).map(|(cap, account)| self.use_of(cap, account, now)).collect()
    }

    /// Returns which of these running turns must not begin, because a cap that applies to them is
    /// reached without them. The earlier ones take precedence.
    pub fn turns_to_refuse(&mut self, turns: &[String], now: Timestamp) -> Vec<String> {
        let removed = turns.iter().filter_map(|turn| self.running.remove_entry(turn));
        let removed: Vec<(String, UnfinishedUse)> = removed.collect();
        let mut refused = Vec::new();
        for (turn, running) in removed {
            if self.uses_of(&running.subject, now).iter().any(AccountUse::is_reached) {
                refused.push((turn, running));
            } else {
                self.running.insert(turn, running);
            }
        }
        let names = refused.iter().map(|(turn, _)| turn.clone()).collect();
        self.running.extend(refused);
        names
    }

    /// Returns the use of all accounts that have any.
    pub fn uses(&mut self, now: Timestamp) -> Vec<AccountUse> {
        self.refresh(now);
        let mut sums = self.sums.clone();
        for turn in self.running.values() {
            let spent = turn.so_far(now);
            add(&mut sums, self.accounts_of(&turn.subject), &spent);
        }
        sums.into_iter().map(|(account, sum)| self.account_use(account, sum, now)).collect()
    }

    /// Returns the running turns that count in an account that has reached its cap. A cap of turns
    /// stops no running turn, because a turn counts when it begins.
    pub fn turns_to_stop(&mut self, now: Timestamp) -> Vec<String> {
        let must_stop =
            |used: &AccountUse| used.is_reached() && used.rule.unit != BudgetUnit::Turns;
        let reached = self.uses(now).into_iter().filter(must_stop).map(|used| used.account);
        let reached: HashSet<BudgetAccount> = reached.collect();
        if reached.is_empty() {
            return Vec::new();
        }
        let counts = |turn: &UnfinishedUse| {
            self.accounts_of(&turn.subject).any(|(_, account)| reached.contains(&account))
        };
        let stopped = self.running.iter().filter(|(_, turn)| counts(turn));
        stopped.map(|(id, _)| id.clone()).collect()
    }

    /// Returns the channel of a running turn, or else of the last turn, that counts in an account.
    #[must_use]
    pub fn last_channel(&self, account: &BudgetAccount) -> Option<ChannelId> {
        let counts = |subject: &BudgetSubject| {
            self.accounts_of(subject).any(|(_, counted)| counted == *account)
        };
        let running = self.running.values().map(|turn| &turn.subject).find(|turn| counts(turn));
        let finished = || {
            let turns = self.finished.values().filter(|turn| counts(&turn.subject));
            turns.max_by_key(|turn| turn.ended).map(|turn| &turn.subject)
        };
        running.or_else(finished)?.channel
    }

    /// Returns the accounts in which a turn counts, with the indexes of their caps.
    fn accounts_of(&self, subject: &BudgetSubject) -> impl Iterator<Item = (usize, BudgetAccount)> {
        let caps = self.rules.caps.iter().enumerate();
        caps.filter_map(|(at, cap)| Some((at, cap.account_of(subject)?)))
    }

    fn use_of(&self, cap: usize, account: BudgetAccount, now: Timestamp) -> AccountUse {
        let none = AccountSum { cap, spent: SpentAmounts::default() };
        let mut sum = self.sums.get(&account).copied().unwrap_or(none);
        for turn in self.running.values() {
            if self.rules.caps[cap].account_of(&turn.subject).as_ref() == Some(&account) {
                sum.spent.add(&turn.so_far(now));
            }
        }
        self.account_use(account, sum, now)
    }

    fn account_use(&self, account: BudgetAccount, sum: AccountSum, now: Timestamp) -> AccountUse {
        let (rule, span) = (self.rules.caps[sum.cap].clone(), self.spans[sum.cap]);
        let grant = self.grant(&account, span);
        let cap = grant.raised.unwrap_or(rule.amount).max(rule.amount);
        let is_in_force = grant.until.is_none_or(|until| until <= now);
        let used = sum.spent.in_unit(rule.unit);
        AccountUse { account, rule, cap, used, span, is_in_force }
    }

    /// Returns the time whose period counts: a clock that is set back does not begin a period again.
    /// A clock that is set back by more than [`MAX_STEP_BACK`] was wrong before.
    fn period_time(&mut self, now: Timestamp) -> Timestamp {
        if self.latest.duration_since(now) > MAX_STEP_BACK {
            self.latest = now;
        }
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Computes the sums again if a period has ended, or the caps or the clock were changed.
    fn refresh(&mut self, now: Timestamp) {
        let now = self.period_time(now);
        let caps = self.rules.caps.len();
        if self.spans.len() == caps && self.spans.iter().all(|span| span.contains(now)) {
            return;
        }
        let spans = self.rules.caps.iter().map(|cap| cap.period.span(now, &self.zone));
        self.spans = spans.collect();
        self.sums.clear();
        let turns: Vec<SpentTurn> = self.finished.values().cloned().collect();
        turns.iter().for_each(|turn| self.count(turn));
    }

    fn count(&mut self, turn: &SpentTurn) {
        let accounts: Vec<_> = self.accounts_of(&turn.subject).collect();
        let in_period =
            accounts.into_iter().filter(|(cap, _)| self.spans[*cap].contains(turn.ended));
        add(&mut self.sums, in_period, &turn.spent);
    }
}

fn add(
    sums: &mut BTreeMap<BudgetAccount, AccountSum>,
    accounts: impl Iterator<Item = (usize, BudgetAccount)>,
    spent: &SpentAmounts,
) {
    for (cap, account) in accounts {
        let none = AccountSum { cap, spent: SpentAmounts::default() };
        sums.entry(account).or_insert(none).spent.add(spent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Lane;
    use crate::id::UserId;
    use proptest::prelude::*;

    fn time(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn subject(person: u64) -> BudgetSubject {
        let person = Some(UserId::discord(person));
        BudgetSubject { person, ..BudgetSubject::of_lane(&Lane::Console, "mini") }
    }

    fn turn(person: u64, ended: &str, dollars: u64) -> SpentTurn {
        let spent =
            SpentAmounts { micro_usd: dollars * 1_000_000, turns: 1, ..SpentAmounts::default() };
        SpentTurn { ended: time(ended), subject: subject(person), spent }
    }

    fn ledger(text: &str) -> BudgetLedger {
        let mut ledger = BudgetLedger::new(TimeZone::UTC);
        ledger.set_rules(Arc::new(BudgetRules::parse(text)));
        ledger
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_begin_a_day_again() {
        let mut ledger = ledger("## all\n- cap: $10 a day\n");
        let (today, before) = (time("2026-11-26T12:00:00Z"), time("2026-11-25T13:00:00Z"));
        ledger.finish("a", turn(4, "2026-11-26T11:00:00Z", 6), today);
        let used = |ledger: &mut BudgetLedger, now| ledger.uses_of(&subject(4), now)[0].used;
        assert_eq!((used(&mut ledger, today), used(&mut ledger, before)), (6_000_000, 6_000_000));
        // A turn that ends meanwhile counts too.
        ledger.begin("b", subject(4), before);
        ledger.finish("b", turn(4, "2026-11-25T13:00:00Z", 3), before);
        assert_eq!((used(&mut ledger, before), used(&mut ledger, today)), (9_000_000, 9_000_000));
        // After a restart, the turns of the files show the latest day.
        let mut restarted = self::ledger("## all\n- cap: $10 a day\n");
        restarted.finish("a", turn(4, "2026-11-26T11:00:00Z", 6), before);
        assert_eq!(used(&mut restarted, before), 6_000_000);
        assert_eq!(used(&mut restarted, time("2026-11-27T00:00:00Z")), 0);
        // A clock that was years ahead does not stop all turns until then.
        assert_eq!(used(&mut ledger, time("2036-01-01T00:00:00Z")), 0);
        assert_eq!(used(&mut ledger, today), 9_000_000);
    }

    #[test]
    fn running_turns_count_and_an_ended_period_begins_again() {
        let mut ledger = ledger("## all\n- cap: $10 a day\n");
        let now = time("2026-11-26T12:00:00Z");
        ledger.finish("a", turn(4, "2026-11-26T11:00:00Z", 6), now);
        ledger.finish("a", turn(4, "2026-11-26T11:00:00Z", 6), now);
        ledger.finish("old", turn(4, "2026-11-25T23:59:59Z", 50), now);
        ledger.begin("b", subject(4), now);
        let used = |ledger: &mut BudgetLedger, now| ledger.uses_of(&subject(4), now).remove(0);
        assert_eq!(used(&mut ledger, now).used, 6_000_000);
        let report = |dollars| SpentAmounts { micro_usd: dollars, ..SpentAmounts::default() };
        ledger.report("b", report(2_000_000));
        ledger.report("b", report(0));
        let near = used(&mut ledger, now);
        assert_eq!((near.used, near.is_near(), near.is_reached()), (8_000_000, true, false));
        ledger.report("b", report(5_000_000));
        assert!(used(&mut ledger, now).is_reached());
        assert_eq!(ledger.turns_to_stop(now), ["b"]);
        let tomorrow = time("2026-11-27T00:00:00Z");
        assert_eq!(used(&mut ledger, tomorrow).used, 5_000_000, "only the turn that still runs");
        // The clock jumps back.
        assert_eq!(used(&mut ledger, now).used, 5_000_000, "the latest day continues");
    }

    #[test]
    fn owners_raise_a_cap_or_lift_it_for_one_period() {
        let mut ledger = ledger("## all\n- cap: $10 a day\n");
        let now = time("2026-11-26T12:00:00Z");
        ledger.finish("a", turn(4, "2026-11-26T11:00:00Z", 11), now);
        let reached = ledger.uses_of(&subject(4), now).remove(0);
        assert!(reached.is_reached());
        let grant = ledger.grant(&reached.account, reached.span);
        ledger.set_grant(BudgetGrant { raised: Some(15_000_000), ..grant.clone() });
        assert!(!ledger.uses_of(&subject(4), now)[0].is_reached());
        ledger.set_grant(BudgetGrant { raised: Some(1), ..grant.clone() });
        assert!(ledger.uses_of(&subject(4), now)[0].is_reached(), "a grant never lowers the cap");
        ledger.set_grant(BudgetGrant { until: Some(reached.span.end), ..grant });
        assert!(!ledger.uses_of(&subject(4), now)[0].is_reached());
        let tomorrow = time("2026-11-27T12:00:00Z");
        ledger.finish("b", turn(4, "2026-11-27T11:00:00Z", 11), tomorrow);
        assert!(ledger.uses_of(&subject(4), tomorrow)[0].is_reached());
    }

    #[test]
    fn turns_of_other_machines_count_once_whatever_is_reported_about_them() {
        let mut ledger = ledger("## all\n- cap: $10 a day\n- cap: 10 minutes a day\n");
        let (now, later) = (time("2026-11-26T12:00:00Z"), time("2026-11-26T12:02:00Z"));
        let used = |ledger: &mut BudgetLedger, now| {
            let uses = ledger.uses_of(&subject(4), now);
            (uses[0].used / 1_000_000, uses[1].used / 60_000)
        };
        let report = |state, dollars: u64, minutes: u64| ClusterTurnUse {
            turn: "a".to_owned(),
            subject: subject(5),
            state,
            at: now,
            spent: SpentAmounts {
                micro_usd: dollars * 1_000_000,
                took_ms: minutes * 60_000,
                ..SpentAmounts::default()
            },
        };
        ledger.take(report(TurnUseState::Running, 2, 0));
        assert_eq!(used(&mut ledger, later), (2, 2), "its time runs here, too");
        assert!(ledger.own_running(later).is_empty());
        ledger.take(report(TurnUseState::Closed, 3, 1));
        assert_eq!(used(&mut ledger, later), (3, 1), "its machine is gone");
        // The turn continues on this machine.
        ledger.begin("a", subject(5), now);
        assert_eq!(used(&mut ledger, later), (3, 3));
        ledger.take(report(TurnUseState::Closed, 3, 1));
        assert_eq!(ledger.own_running(later)[0].spent.took_ms, 3 * 60_000);
        assert!(ledger.abandon("a", later).is_some());
        for _ in 0..2 {
            ledger.take(report(TurnUseState::Finished, 4, 3));
        }
        assert_eq!(used(&mut ledger, later), (4, 3));
        ledger.begin("b", subject(4), later);
        ledger.take(report(TurnUseState::Withdrawn, 0, 0));
        assert_eq!(used(&mut ledger, later), (0, 0));
        assert!(!ledger.is_idle());
    }

    #[test]
    fn of_turns_that_begin_together_the_first_ones_take_the_rest_of_a_cap() {
        let mut ledger = ledger("## each\n- person: each\n- cap: 2 turns a day\n");
        let now = time("2026-11-26T12:00:00Z");
        ledger.finish("old", turn(4, "2026-11-26T11:00:00Z", 1), now);
        let turns: Vec<String> = ["c", "b", "a", "other"].map(str::to_owned).into();
        for (turn, person) in turns.iter().zip([4, 4, 4, 5]) {
            ledger.begin(turn, subject(person), now);
        }
        assert_eq!(ledger.turns_to_refuse(&turns, now), ["b", "a"]);
        assert_eq!(ledger.own_running(now).len(), 4, "they count until they are removed");
    }

    #[test]
    fn a_late_decision_about_the_last_period_does_not_replace_one_about_this_period() {
        let mut ledger = ledger("## all\n- cap: $10 a day\n");
        let now = time("2026-11-26T12:00:00Z");
        ledger.finish("a", turn(4, "2026-11-26T11:00:00Z", 11), now);
        let reached = ledger.uses_of(&subject(4), now).remove(0);
        let grant = ledger.grant(&reached.account, reached.span);
        ledger.set_grant(BudgetGrant { raised: Some(15_000_000), ..grant.clone() });
        ledger.set_grant(BudgetGrant { start: time("2026-11-25T00:00:00Z"), ..grant });
        assert!(!ledger.uses_of(&subject(4), now)[0].is_reached());
    }

    proptest! {
        /// Whatever the order of reports and questions, a sum is that of the turns of its period.
        #[test]
        fn sums_are_those_of_the_turns_of_the_period(
            turns in prop::collection::vec((1_u64..4, 0_i64..200 * 3_600, 0_u64..9), 0..60),
            asked in prop::collection::vec(0_i64..200 * 3_600, 1..20),
        ) {
            let begin = time("2026-11-23T00:00:00Z");
            let at = |second: i64| begin + SignedDuration::from_secs(second);
            let mut ledger = ledger("## all\n- cap: $10 a day\n- cap: 5 turns a week\n## each\n- person: each\n- cap: $5 a day\n");
            for (number, (person, second, dollars)) in turns.iter().enumerate() {
                let spent = SpentTurn { ended: at(*second), ..turn(*person, "2026-11-23T00:00:00Z", *dollars) };
                ledger.finish(&number.to_string(), spent, at(*second));
                let now = at(asked[number % asked.len()]);
                for used in ledger.uses_of(&subject(*person), now) {
                    let expected: u64 = turns[..=number].iter()
                        .filter(|(one, second, _)| used.span.contains(at(*second)) && (!used.account.0.contains("person") || one == person))
                        .map(|(_, _, dollars)| if used.rule.unit == BudgetUnit::Turns { 1 } else { dollars * 1_000_000 })
                        .sum();
                    prop_assert_eq!(used.used, expected, "{:?}", used.account);
                }
            }
        }
    }
}
