use super::{accept, message, queue};
use crate::choice::BusyPolicy;
use crate::event::{Lane, NewEvent, Sequence};
use crate::id::{ChannelId, UserId};
use crate::queue::{LaneHold, Queue};

fn asked(person: u64) -> NewEvent {
    NewEvent { asker: Some(UserId::discord(person)), ..message(1) }
}

/// Starts all events of lane 1 that can start, one after the other.
fn run_all(queue: &mut Queue) -> Vec<Sequence> {
    let mut order = Vec::new();
    while let Some(event) = queue.next() {
        order.push(event.sequence);
        queue.finish(event.sequence);
    }
    order
}

#[test]
fn a_continuation_takes_the_place_of_its_event_also_when_it_is_restored() {
    for is_restored in [false, true] {
        let mut queue = queue(1, 10, BusyPolicy::Queue);
        let first = accept(&mut queue, message(1));
        let running = queue.next().unwrap();
        let others = [accept(&mut queue, message(1)), accept(&mut queue, message(1))];
        let continuation = NewEvent { continues: Some(running.sequence), ..message(1) };
        let continuation = queue.accept_beyond_limits(continuation, 0);
        assert_eq!(queue.lanes().position(continuation.sequence), Some(1));
        if is_restored {
            let waiting = queue.drain_waiting();
            waiting.into_iter().rev().for_each(|event| queue.restore(event));
        }
        queue.finish(first);
        assert_eq!(run_all(&mut queue), [continuation.sequence, others[0], others[1]]);
    }
}

#[test]
fn events_of_other_people_pass_those_of_a_held_person_who_keeps_their_order() {
    let mut queue = queue(1, 10, BusyPolicy::Reject);
    let held = LaneHold::Person(UserId::discord(4));
    let (first, other) = (accept(&mut queue, asked(4)), accept(&mut queue, asked(5)));
    let handed_out = queue.next().unwrap();
    queue.pause(handed_out, held);
    queue.finish(first);
    let later = accept(&mut queue, asked(4));
    assert_eq!((queue.lanes().position(other), queue.lanes().position(later)), (Some(0), Some(2)));
    assert_eq!(run_all(&mut queue), [other]);
    // The lane counts as idle for others, and keeps the held person's events together.
    let another = accept(&mut queue, asked(6));
    assert_eq!(run_all(&mut queue), [another]);
    assert_eq!(queue.lanes().paused().map(|event| event.sequence).collect::<Vec<_>>(), [first]);
    let lane = Lane::Channel(ChannelId::discord(1));
    assert_eq!(queue.lanes().first_held(&lane, LaneHold::Everybody), None);
    queue.resume(&lane, held);
    assert_eq!(run_all(&mut queue), [first, later]);
    assert!(queue.is_idle());
}

#[test]
fn draining_held_events_leaves_those_of_others() {
    let mut queue = queue(1, 10, BusyPolicy::Queue);
    let (first, other) = (accept(&mut queue, asked(4)), accept(&mut queue, asked(5)));
    let handed_out = queue.next().unwrap();
    queue.pause(handed_out, LaneHold::Person(UserId::discord(4)));
    queue.finish(first);
    let drained: Vec<_> = queue.drain_paused().iter().map(|event| event.sequence).collect();
    assert_eq!((drained, run_all(&mut queue)), (vec![first], vec![other]));
    assert!(queue.is_idle());
}
