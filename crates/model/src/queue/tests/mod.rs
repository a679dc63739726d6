mod holds;

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::event::EventOrigin;
use crate::id::ChannelId;

fn event(kind: EventKind, lane: u64) -> NewEvent {
    NewEvent::new(
        kind,
        Lane::Channel(ChannelId::discord(lane)),
        EventOrigin::Internal { channel: None },
        "",
    )
}

pub(super) fn message(lane: u64) -> NewEvent {
    event(EventKind::Message, lane)
}

pub(super) fn queue(max_concurrent: usize, max_depth: usize, busy_policy: BusyPolicy) -> Queue {
    Queue::new(QueueLimits { max_concurrent, max_depth, busy_policy })
}

pub(super) fn accept(queue: &mut Queue, event: NewEvent) -> Sequence {
    queue.accept(event, 0).unwrap().sequence
}

#[test]
fn a_prompt_waits_in_a_busy_lane_and_is_refused_in_a_new_one() {
    let mut queue = queue(1, 10, BusyPolicy::Reject);
    let first = accept(&mut queue, message(1));
    assert_eq!(queue.next().unwrap().sequence, first);
    let second = accept(&mut queue, message(1));
    assert_eq!(queue.lanes().position(second), Some(1));
    assert_eq!(queue.accept(message(2), 0), Err(Rejection::Busy { slots: 1 }));
    assert!(queue.next().is_none(), "the lane is busy");
    assert!(queue.finish(first));
    assert_eq!(queue.next().unwrap().sequence, second);
}

#[test]
fn a_rejection_names_one_and_several_in_correct_english() {
    for (rejection, text) in [
        (Rejection::Busy { slots: 1 }, "no slot is free: 1 slot in use"),
        (Rejection::Busy { slots: 2 }, "no slot is free: 2 slots in use"),
        (Rejection::Full { depth: 1 }, "the queue is full: 1 event waiting"),
        (Rejection::Full { depth: 2 }, "the queue is full: 2 events waiting"),
    ] {
        assert_eq!(rejection.to_string(), text);
    }
}

#[test]
fn a_restored_event_keeps_its_number_and_place_regardless_of_the_limits() {
    let mut queue = queue(1, 1, BusyPolicy::Reject);
    queue.numbers.count_from(0, 10);
    let younger = accept(&mut queue, message(1));
    assert_eq!(younger, 11);
    queue.close();
    for (sequence, lane) in [(4, 2), (3, 1), (2, 1)] {
        queue.restore(message(lane).accepted(sequence, 0));
    }
    assert_eq!(
        (queue.lanes().waiting().len(), queue.lanes().position(3), queue.lanes().position(younger)),
        (4, Some(1), Some(2))
    );
    let mut order = Vec::new();
    while let Some(event) = queue.next() {
        order.push(event.sequence);
        // It is restored while its lane is busy: it waits before younger events.
        if event.sequence == 3 {
            queue.restore(message(1).accepted(2, 0));
            assert!(queue.next().is_none(), "no lane has two turns at once");
        }
        assert!(queue.finish(event.sequence));
    }
    assert_eq!(order, [2, 3, 2, 4, younger]);
    assert!(queue.is_idle());
}

#[test]
fn timers_wait_where_messages_are_refused() {
    let mut queue = queue(1, 2, BusyPolicy::Reject);
    accept(&mut queue, message(1));
    queue.next().unwrap();
    for (lane, kind) in [(2, EventKind::Heartbeat), (3, EventKind::Webhook)] {
        accept(&mut queue, event(kind, lane));
    }
    assert_eq!(queue.accept(event(EventKind::Cron, 4), 0), Err(Rejection::Full { depth: 2 }));
    assert_eq!(
        queue.accept(message(4), 0),
        Err(Rejection::Busy { slots: 1 }),
        "busy comes before full"
    );
}

#[test]
fn with_one_slot_and_waiting_allowed_it_is_a_fifo() {
    let mut queue = queue(1, 100, BusyPolicy::Queue);
    let accepted: Vec<Sequence> = (0..20).map(|n| accept(&mut queue, message(n * 7 % 5))).collect();
    let mut seen = Vec::new();
    while let Some(event) = queue.next() {
        assert!(queue.next().is_none(), "two at once");
        seen.push(event.sequence);
        assert!(queue.finish(event.sequence));
    }
    assert_eq!(seen, accepted);
    assert!(queue.is_idle());
}

#[test]
fn decisions_do_not_depend_on_how_soon_events_start() {
    for prompt in [true, false] {
        let mut queue = queue(2, 1, BusyPolicy::Reject);
        let mut answers = Vec::new();
        for lane in [1, 2, 3, 1, 2] {
            answers.push(queue.accept(message(lane), 0).map(|event| event.sequence));
            while prompt && queue.next().is_some() {}
        }
        assert_eq!(
            answers,
            [
                Ok(1),
                Ok(2),
                Err(Rejection::Busy { slots: 2 }),
                Ok(3),
                Err(Rejection::Full { depth: 1 })
            ]
        );
    }
}

#[test]
fn a_closed_queue_accepts_nothing_and_starts_its_events() {
    let mut queue = queue(2, 10, BusyPolicy::Queue);
    for _ in 0..3 {
        accept(&mut queue, message(1));
    }
    queue.close();
    assert_eq!(queue.accept(message(1), 0), Err(Rejection::ShuttingDown));
    assert_eq!(queue.next().unwrap().sequence, 1);
    assert_eq!(
        queue.drain_waiting().iter().map(|event| event.sequence).collect::<Vec<_>>(),
        [2, 3]
    );
    assert_eq!((queue.lanes().waiting().len(), queue.lanes().running()), (0, 1));
    assert!(
        queue.finish(1)
            && queue.is_idle()
            && !queue.lanes().is_busy(&Lane::Channel(ChannelId::discord(1)))
    );
}

#[test]
fn time_and_sequence_are_assigned_at_acceptance() {
    let mut queue = queue(1, 10, BusyPolicy::Queue);
    let event = queue.accept(message(1), 1_234).unwrap();
    assert_eq!((event.sequence, event.accepted_ms), (1, 1_234));
    assert!(!queue.finish(1), "it is not running yet");
    assert!(queue.cancel(1).is_some() && queue.cancel(1).is_none());
    assert_eq!(queue.accept(message(1), 1).unwrap().sequence, 2, "numbers are never used again");
}

#[test]
fn a_held_event_counts_as_waiting_and_starts_only_after_its_release_in_its_new_lane() {
    let mut queue = queue(1, 2, BusyPolicy::Queue);
    let held = queue.hold(message(1), 0).unwrap();
    assert!(
        queue.next().is_none()
            && !queue.is_idle()
            && !queue.lanes().is_busy(&Lane::Channel(ChannelId::discord(1)))
    );
    let first = accept(&mut queue, message(2));
    assert_eq!(queue.next().unwrap().sequence, first);
    let second = accept(&mut queue, message(2));
    assert_eq!(queue.hold(message(3), 0), Err(Rejection::Full { depth: 2 }));
    let mut moved = held.clone();
    moved.request.lane = Lane::Channel(ChannelId::discord(2));
    assert!(queue.release(moved) && !queue.release(held.clone()));
    assert_eq!(
        (queue.lanes().position(held.sequence), queue.lanes().position(second)),
        (Some(1), Some(2)),
        "in its new lane, by its number"
    );
    assert!(
        queue.finish(first)
            && queue.cancel(held.sequence).is_some()
            && queue.cancel(second).is_some()
    );
    queue.hold_again(held.clone());
    queue.close();
    assert_eq!(queue.drain_waiting(), std::slice::from_ref(&held));
    assert!(!queue.release(held) && queue.is_idle(), "it waits for the next process");
}

#[test]
fn a_waiting_event_is_found_by_its_key_and_a_running_one_is_not() {
    let mut queue = queue(1, 10, BusyPolicy::Queue);
    let keyed = |key: &str| NewEvent { key: Some(key.to_owned()), ..message(1) };
    let (first, second) = (accept(&mut queue, keyed("a")), accept(&mut queue, keyed("b")));
    assert_eq!(queue.next().unwrap().sequence, first);
    assert_eq!(
        (queue.lanes().find("a"), queue.lanes().find("b"), queue.lanes().find("c")),
        (None, Some(second), None)
    );
}

/// The dispatcher must handle more events than Discord can send. The number for a release build is
/// in `benches/pure/queue.rs`.
#[test]
fn even_an_unoptimised_build_processes_ten_thousand_events_a_second() {
    let mut queue = queue(5, 1_000, BusyPolicy::Queue);
    let started = Instant::now();
    let rounds = 50;
    for _ in 0..rounds {
        for lane in 0..1_000 {
            accept(&mut queue, message(lane % 100));
        }
        while let Some(event) = queue.next() {
            queue.finish(event.sequence);
        }
    }
    let rate = f64::from(rounds) * 1_000.0 / started.elapsed().as_secs_f64();
    println!("{rate:.0} events/s");
    assert!(rate > 10_000.0, "{rate:.0} events/s");
}

/// The queue's behaviour in its simplest form: lists and linear searches.
mod model {
    use super::*;

    /// Sequence and lane of events, in order.
    pub(super) type List = Vec<(Sequence, u64)>;

    pub(super) struct Model {
        pub limits: QueueLimits,
        pub closed: bool,
        pub last: Sequence,
        pub waiting: List,
        pub running: List,
    }

    impl Model {
        /// Returns what would run if everything that can start were started now.
        fn settled(&self) -> (List, List) {
            let (mut running, mut waiting) = (self.running.clone(), Vec::new());
            for &(sequence, lane) in &self.waiting {
                if running.len() < self.limits.max_concurrent
                    && running.iter().all(|other| other.1 != lane)
                {
                    running.push((sequence, lane));
                } else {
                    waiting.push((sequence, lane));
                }
            }
            (running, waiting)
        }

        pub(super) fn accept(&mut self, kind: EventKind, lane: u64) -> Result<Sequence, Rejection> {
            if self.closed {
                return Err(Rejection::ShuttingDown);
            }
            let (running, waiting) = self.settled();
            let idle = running.iter().chain(&waiting).all(|other| other.1 != lane);
            let slots = self.limits.max_concurrent;
            if !(idle && running.len() < slots) {
                if idle
                    && kind == EventKind::Message
                    && self.limits.busy_policy == BusyPolicy::Reject
                {
                    return Err(Rejection::Busy { slots });
                }
                if waiting.len() >= self.limits.max_depth {
                    return Err(Rejection::Full { depth: waiting.len() });
                }
            }
            self.last += 1;
            self.waiting.push((self.last, lane));
            Ok(self.last)
        }

        pub(super) fn next(&mut self) -> Option<Sequence> {
            if self.running.len() >= self.limits.max_concurrent {
                return None;
            }
            let at = self
                .waiting
                .iter()
                .position(|&(_, lane)| self.running.iter().all(|other| other.1 != lane))?;
            let event = self.waiting.remove(at);
            self.running.push(event);
            Some(event.0)
        }

        pub(super) fn remove(list: &mut List, sequence: Sequence) -> bool {
            let before = list.len();
            list.retain(|entry| entry.0 != sequence);
            list.len() < before
        }
    }
}

#[test]
fn a_paused_lane_keeps_its_events_in_order_and_takes_no_slot() {
    let mut queue = queue(1, 10, BusyPolicy::Queue);
    let first = accept(&mut queue, message(1));
    let second = accept(&mut queue, message(1));
    let handed_out = queue.next().unwrap();
    queue.pause(handed_out, LaneHold::Everybody);
    queue.finish(first);
    assert_eq!(
        (queue.next(), queue.lanes().waiting().len(), queue.lanes().running()),
        (None, 2, 0)
    );

    // Other lanes continue, and newly accepted events wait after the paused one.
    let other = accept(&mut queue, message(2));
    let third = accept(&mut queue, message(1));
    assert_eq!(queue.next().map(|event| event.sequence), Some(other));
    queue.finish(other);
    assert_eq!(queue.next(), None);

    queue.resume(&Lane::Channel(ChannelId::discord(1)), LaneHold::Everybody);
    for sequence in [first, second, third] {
        assert_eq!(queue.next().map(|event| event.sequence), Some(sequence));
        queue.finish(sequence);
    }
    assert!(queue.is_idle());
}

#[test]
fn draining_the_paused_lanes_leaves_the_others_alone() {
    let mut queue = queue(2, 10, BusyPolicy::Queue);
    let paused = accept(&mut queue, message(1));
    let behind = accept(&mut queue, message(1));
    let handed_out = queue.next().unwrap();
    queue.pause(handed_out, LaneHold::Everybody);
    queue.finish(paused);
    let running = accept(&mut queue, message(2));
    let waiting = accept(&mut queue, message(2));
    assert_eq!(queue.next().map(|event| event.sequence), Some(running));

    let drained: Vec<_> = queue.drain_paused().iter().map(|event| event.sequence).collect();
    assert_eq!(drained, [paused, behind]);
    assert_eq!((queue.lanes().waiting().len(), queue.lanes().running()), (1, 1));
    queue.finish(running);
    assert_eq!(queue.next().map(|event| event.sequence), Some(waiting));
    queue.finish(waiting);
    assert!(queue.is_idle());
    let next = accept(&mut queue, message(1));
    assert_eq!(queue.next().map(|event| event.sequence), Some(next));
}

#[test]
fn a_paused_lane_that_loses_its_events_takes_new_ones() {
    let mut queue = queue(1, 10, BusyPolicy::Queue);
    let first = accept(&mut queue, message(1));
    let handed_out = queue.next().unwrap();
    queue.pause(handed_out, LaneHold::Everybody);
    queue.finish(first);
    assert!(queue.cancel(first).is_some());
    let second = accept(&mut queue, message(1));
    assert_eq!(queue.next().map(|event| event.sequence), Some(second));
}

#[derive(Clone, Debug)]
enum QueueStep {
    Accept(EventKind, u64),
    Next,
    Finish(Sequence),
    Cancel(Sequence),
    Amend(Sequence, u8),
    CancelLane(u64),
    Drain,
    Close,
}

fn step() -> impl Strategy<Value = QueueStep> {
    let kind = prop_oneof![4 => Just(EventKind::Message), 1 => Just(EventKind::Heartbeat), 1 => Just(EventKind::Hook)];
    prop_oneof![
        40 => (kind, 0..6_u64).prop_map(|(kind, lane)| QueueStep::Accept(kind, lane)),
        30 => Just(QueueStep::Next),
        25 => (1..60_u64).prop_map(QueueStep::Finish),
        5 => (1..60_u64).prop_map(QueueStep::Cancel),
        5 => ((1..60_u64), any::<u8>()).prop_map(|(sequence, words)| QueueStep::Amend(sequence, words)),
        2 => (0..6_u64).prop_map(QueueStep::CancelLane),
        1 => Just(QueueStep::Drain),
        1 => Just(QueueStep::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_answer_is_that_of_the_naive_model(
        max_concurrent in 1..5_usize,
        max_depth in 0..6_usize,
        reject: bool,
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let busy_policy = if reject { BusyPolicy::Reject } else { BusyPolicy::Queue };
        let limits = QueueLimits { max_concurrent, max_depth, busy_policy };
        let mut queue = Queue::new(limits);
        let mut model = model::Model { limits, closed: false, last: 0, waiting: Vec::new(), running: Vec::new() };
        let (mut accepted, mut gone) = (HashSet::new(), HashSet::new());
        let mut last_in_lane = HashMap::new();
        let mut amended = HashMap::new();
        for step in steps {
            match step {
                QueueStep::Accept(kind, lane) => {
                    let answer = queue.accept(event(kind, lane), 0).map(|event| event.sequence);
                    prop_assert_eq!(answer, model.accept(kind, lane));
                    if let Ok(sequence) = answer {
                        prop_assert!(accepted.iter().all(|earlier| *earlier < sequence), "not increasing");
                        accepted.insert(sequence);
                    }
                }
                QueueStep::Next => {
                    let event = queue.next();
                    prop_assert_eq!(event.as_ref().map(|event| event.sequence), model.next());
                    if let Some(event) = event {
                        prop_assert!(gone.insert(event.sequence), "handed out twice");
                        let before = last_in_lane.insert(event.lane.clone(), event.sequence);
                        prop_assert!(before < Some(event.sequence), "lane order broken");
                        prop_assert_eq!(queue.lanes().running_in(&event.lane), Some(event.sequence));
                        prop_assert_eq!(event.request.prompt, amended.remove(&event.sequence).unwrap_or_default(), "the last change is used");
                    }
                }
                QueueStep::Finish(sequence) => {
                    prop_assert_eq!(queue.finish(sequence), model::Model::remove(&mut model.running, sequence));
                }
                QueueStep::Cancel(sequence) => {
                    let was = model::Model::remove(&mut model.waiting, sequence);
                    prop_assert_eq!(queue.cancel(sequence).is_some(), was);
                    if was { prop_assert!(gone.insert(sequence)); }
                }
                QueueStep::Amend(sequence, words) => {
                    let (waits, words) = (model.waiting.iter().any(|entry| entry.0 == sequence), words.to_string());
                    prop_assert_eq!(queue.amend(sequence, &words).map(|event| event.prompt.clone()), waits.then(|| words.clone()));
                    if waits { amended.insert(sequence, words); }
                }
                QueueStep::CancelLane(lane) => {
                    for event in queue.cancel_waiting(&Lane::Channel(ChannelId::discord(lane))) {
                        prop_assert!(model::Model::remove(&mut model.waiting, event.sequence) && gone.insert(event.sequence));
                    }
                    prop_assert!(model.waiting.iter().all(|entry| entry.1 != lane));
                }
                QueueStep::Drain => {
                    let drained: Vec<Sequence> = queue.drain_waiting().into_iter().map(|event| event.sequence).collect();
                    let expected: Vec<Sequence> = model.waiting.drain(..).map(|entry| entry.0).collect();
                    prop_assert_eq!(&drained, &expected);
                    for sequence in drained { prop_assert!(gone.insert(sequence)); }
                }
                QueueStep::Close => { queue.close(); model.closed = true; }
            }
            prop_assert_eq!((queue.lanes().waiting().len(), queue.lanes().running()), (model.waiting.len(), model.running.len()));
            prop_assert!(queue.lanes().running() <= max_concurrent, "more than the slots");
            for lane in 0..6 {
                let known = model.running.iter().chain(&model.waiting).any(|entry| entry.1 == lane);
                prop_assert_eq!(queue.lanes().is_busy(&Lane::Channel(ChannelId::discord(lane))), known);
                prop_assert!(model.running.iter().filter(|entry| entry.1 == lane).count() <= 1, "two turns in a lane");
            }
            for &(sequence, lane) in &model.waiting {
                let before = model.running.iter().chain(&model.waiting).filter(|other| other.1 == lane && other.0 < sequence).count();
                prop_assert_eq!(queue.lanes().position(sequence), Some(before));
            }
        }
        // Whatever happened before, each remaining event starts once.
        while !queue.is_idle() {
            while let Some(event) = queue.next() { prop_assert!(gone.insert(event.sequence)); }
            let running: Vec<Sequence> = (0..6).filter_map(|lane| queue.lanes().running_in(&Lane::Channel(ChannelId::discord(lane)))).collect();
            prop_assert!(!running.is_empty(), "stuck");
            for sequence in running { queue.finish(sequence); }
        }
        prop_assert_eq!(gone, accepted);
    }
}
