//! The time limits of one turn and of its questions. The limits of the turn are paused while a
//! question is open. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aetheel_model::agent::AskKey;
use aetheel_model::limits::AgentLimits;

/// How much earlier than its agent a question expires, so that the agent still gets the decision.
const EARLIER: Duration = Duration::from_secs(2);

pub(super) struct TurnTimer {
    started: Instant,
    /// When `QUERY_TIMEOUT_MS` elapses.
    budget: Instant,
    /// When the agent was last active.
    last_active: Instant,
    idle_timeout: Option<Duration>,
    /// Whether one of the agent's tools runs. Many tools print nothing until they end.
    tool_running: bool,
    ask_timeout: Duration,
    /// When the limits were paused, or `None` if they run.
    paused: Option<Instant>,
    /// The open questions, and when each expires.
    asks: BTreeMap<AskKey, Instant>,
}

/// The limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// The limit of the whole turn (`QUERY_TIMEOUT_MS`).
    Budget,
    /// The limit for an agent without output while none of its tools runs (`IDLE_TIMEOUT_MS`).
    Silence,
}

impl TurnTimer {
    pub(super) fn new(started: Instant, now: Instant, limits: &AgentLimits) -> Self {
        Self {
            started,
            budget: started + limits.query_timeout,
            last_active: now,
            idle_timeout: limits.idle_timeout,
            tool_running: false,
            ask_timeout: limits.ask_timeout,
            paused: None,
            asks: BTreeMap::new(),
        }
    }

    /// Continues the limits of a turn that began before a restart of the gateway. `elapsed` is the
    /// time since the turn began, and `spent` the part of it that counts towards the limit.
    pub(super) fn resume(&mut self, now: Instant, spent: Duration, elapsed: Duration) {
        self.started = now.checked_sub(elapsed).unwrap_or(now);
        self.budget = (self.budget.max(now)).checked_sub(spent).unwrap_or(now).max(now);
        self.last_active = now;
    }

    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// Restarts the limit for an agent without output.
    pub(super) fn active(&mut self, now: Instant) {
        self.last_active = now;
    }

    /// Sets whether one of the agent's tools runs. The limit for an agent without output is
    /// suspended while one does.
    pub(super) fn tool_runs(&mut self, now: Instant, runs: bool) {
        if self.tool_running && !runs {
            self.active(now);
        }
        self.tool_running = runs;
    }

    /// Adds an open question and pauses the limits of the turn. `deadline` is the time after which
    /// the agent stops waiting for the answer.
    pub(super) fn open_ask(&mut self, now: Instant, ask: AskKey, deadline: Option<Duration>) {
        self.paused.get_or_insert(now);
        let before = deadline.map(|deadline| deadline - EARLIER.min(deadline / 2));
        let timeout = before.map_or(self.ask_timeout, |before| before.min(self.ask_timeout));
        self.asks.insert(ask, now + timeout);
    }

    /// Removes a question. If it was the last open one, the limits of the turn continue. Returns
    /// false if the question was not open.
    pub(super) fn close_ask(&mut self, now: Instant, ask: AskKey) -> bool {
        let open = self.asks.remove(&ask).is_some();
        if self.asks.is_empty()
            && let Some(since) = self.paused.take()
        {
            let stood = now.saturating_duration_since(since);
            self.budget += stood;
            self.last_active += stood;
        }
        open
    }

    /// Returns the questions that expired.
    pub(super) fn expired_asks(&self, now: Instant) -> Vec<AskKey> {
        self.asks.iter().filter(|(_, at)| **at <= now).map(|(ask, _)| *ask).collect()
    }

    pub(super) fn open_asks(&self) -> Vec<AskKey> {
        self.asks.keys().copied().collect()
    }

    /// Returns the limit that is exceeded at `now`.
    pub(super) fn overdue(&self, now: Instant) -> Option<Overdue> {
        match self.paused {
            None if now >= self.budget => Some(Overdue::Budget),
            None if self.silence().is_some_and(|at| now >= at) => Some(Overdue::Silence),
            _ => None,
        }
    }

    fn silence(&self) -> Option<Instant> {
        self.idle_timeout.filter(|_| !self.tool_running).map(|idle| self.last_active + idle)
    }

    /// Returns when the first question expires.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.asks.values().min().copied()
    }

    /// Returns when the next limit of the turn is reached, or `None` while the limits are paused.
    pub(super) fn limit(&self) -> Option<Instant> {
        let limit = self.silence().map_or(self.budget, |silence| silence.min(self.budget));
        self.paused.is_none().then_some(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(10);

    fn clock() -> TurnTimer {
        let now = Instant::now();
        TurnTimer {
            started: now,
            budget: now + Duration::from_secs(60),
            last_active: now,
            idle_timeout: Some(IDLE),
            tool_running: false,
            ask_timeout: Duration::from_secs(600),
            paused: None,
            asks: BTreeMap::new(),
        }
    }

    #[test]
    fn a_question_expires_before_its_agent_stops_waiting() {
        let second = Duration::from_secs(1);
        for (deadline, expires) in [
            (None, 600 * second),
            (Some(900 * second), 600 * second),
            (Some(60 * second), 58 * second),
            (Some(second), second / 2),
        ] {
            let mut clock = clock();
            let now = clock.started;
            clock.open_ask(now, 1, deadline);
            assert_eq!(clock.next_expiry(), Some(now + expires), "{deadline:?}");
        }
    }

    #[test]
    fn a_silent_agent_is_overdue_unless_one_of_its_tools_runs() {
        let mut clock = clock();
        let began = clock.started;
        assert_eq!(clock.overdue(began + IDLE), Some(Overdue::Silence));
        clock.tool_runs(began, true);
        assert_eq!(clock.overdue(began + IDLE * 3), None);
        assert_eq!(clock.limit(), Some(clock.budget));
        assert_eq!(clock.overdue(clock.budget), Some(Overdue::Budget));
        let ended = began + IDLE * 4;
        clock.tool_runs(ended, false);
        assert_eq!(clock.overdue(ended + IDLE - Duration::from_millis(1)), None);
        assert_eq!(clock.overdue(ended + IDLE), Some(Overdue::Silence));
    }

    #[test]
    fn limits_are_paused_while_a_question_is_open() {
        let mut clock = clock();
        let (began, budget) = (clock.started, clock.budget);
        clock.open_ask(began, 1, None);
        assert_eq!((clock.overdue(budget + IDLE), clock.limit()), (None, None));
        let answered = began + IDLE * 9;
        assert!(clock.close_ask(answered, 1));
        assert_eq!((clock.overdue(answered), clock.budget), (None, budget + IDLE * 9));
        assert_eq!(clock.overdue(answered + IDLE), Some(Overdue::Silence));
    }
}
