//! Throughput of the queue. The goal is at least 100,000 events per second.

use aetheel_model::choice::BusyPolicy;
use aetheel_model::event::{EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::id::{ChannelId, MessageId};
use aetheel_model::queue::{Queue, QueueLimits};
use divan::Bencher;
use divan::counter::ItemsCount;

const EVENTS: usize = 10_000;

/// Accepts, starts and completes every event, with this many lanes. At first all events wait.
#[divan::bench(args = [1, 10, 100, 10_000])]
fn turnover(bencher: Bencher<'_, '_>, lanes: u64) {
    let limits =
        QueueLimits { max_concurrent: 5, max_depth: EVENTS, busy_policy: BusyPolicy::Queue };
    bencher.counter(ItemsCount::new(EVENTS)).bench(|| {
        let mut queue = Queue::new(limits);
        for n in 0..EVENTS as u64 {
            let origin = EventOrigin::Message {
                channel: ChannelId::discord(n % lanes),
                message: MessageId::discord(n),
            };
            let event = NewEvent::new(
                EventKind::Message,
                Lane::Channel(ChannelId::discord(n % lanes)),
                origin,
                "a prompt of ordinary length",
            );
            queue.accept(event, n as i64).expect("the queue has space for all");
        }
        while let Some(event) = queue.next() {
            queue.finish(event.sequence);
        }
        queue
    });
}

/// The usual case: an event arrives while others run, starts at once and is completed.
#[divan::bench]
fn pass_through(bencher: Bencher<'_, '_>) {
    let limits = QueueLimits { max_concurrent: 5, max_depth: 100, busy_policy: BusyPolicy::Reject };
    bencher.counter(ItemsCount::new(EVENTS)).bench(|| {
        let mut queue = Queue::new(limits);
        for n in 0..EVENTS as u64 {
            let origin = EventOrigin::Message {
                channel: ChannelId::discord(n % 100),
                message: MessageId::discord(n),
            };
            let event = NewEvent::new(
                EventKind::Message,
                Lane::Channel(ChannelId::discord(n % 100)),
                origin,
                "",
            );
            queue.accept(event, n as i64).expect("a slot is free");
            let event = queue.next().expect("its lane is free");
            queue.finish(event.sequence);
        }
        queue
    });
}
