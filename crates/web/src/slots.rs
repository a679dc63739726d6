//! A limited number of slots for clients, such that idle clients cannot lock out others.
//!
//! A new client always gets a slot unless all clients are being served. If no slot is free, the
//! oldest waiting client of the address with the most slots is evicted. So many idle clients of one
//! address do not affect other addresses. Behind a proxy, where all clients have the same address,
//! an active client takes the slot of an idle one. Pure, except for the lock.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A limited number of slots. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct CallerSlots {
    most: usize,
    inside: Arc<Mutex<SlotTable>>,
    left: Arc<Notify>,
}

#[derive(Debug, Default)]
struct SlotTable {
    last: u64,
    /// The clients, in the order in which they connected.
    guests: BTreeMap<u64, SlotHolder>,
}

#[derive(Debug)]
struct SlotHolder {
    address: IpAddr,
    leave: CancellationToken,
    /// Whether the client is being served, and cannot be evicted.
    served: bool,
}

/// The slot of one client. Dropping it frees the slot.
#[derive(Debug)]
pub(super) struct CallerSlot {
    crowd: CallerSlots,
    number: u64,
    leave: CancellationToken,
}

impl CallerSlots {
    /// Creates `most` free slots.
    pub(super) fn new(most: usize) -> Self {
        Self { most, inside: Arc::default(), left: Arc::default() }
    }

    fn inside(&self) -> MutexGuard<'_, SlotTable> {
        self.inside.lock()
    }

    /// Takes a slot, if necessary by evicting another client. Returns `None` if all clients are
    /// being served.
    pub(super) fn try_acquire(&self, address: IpAddr) -> Option<CallerSlot> {
        let mut inside = self.inside();
        if inside.guests.len() >= self.most {
            let number = inside.next_evicted()?;
            inside.guests.remove(&number)?.leave.cancel();
        }
        inside.last += 1;
        let (number, leave) = (inside.last, CancellationToken::new());
        inside.guests.insert(
            number,
            SlotHolder { address: address_group(address), leave: leave.clone(), served: false },
        );
        Some(CallerSlot { crowd: self.clone(), number, leave })
    }

    /// Takes a slot. Waits while all clients are being served.
    pub(super) async fn acquire(&self, address: IpAddr) -> CallerSlot {
        loop {
            let left = self.left.notified();
            if let Some(place) = self.try_acquire(address) {
                return place;
            }
            left.await;
        }
    }
}

impl SlotTable {
    fn next_evicted(&self) -> Option<u64> {
        let waiting = || self.guests.iter().filter(|(_, guest)| !guest.served);
        let mut places = HashMap::<IpAddr, usize>::new();
        self.guests.values().for_each(|guest| *places.entry(guest.address).or_default() += 1);
        let most = waiting().map(|(_, guest)| places[&guest.address]).max()?;
        waiting().find(|(_, guest)| places[&guest.address] == most).map(|(number, _)| *number)
    }
}

impl CallerSlot {
    /// Protects this client from eviction. Has no effect if it was already evicted.
    pub(super) fn protect(&self) {
        if let Some(guest) = self.crowd.inside().guests.get_mut(&self.number) {
            guest.served = true;
        }
    }

    /// Returns a token that is cancelled when this client is evicted.
    pub(super) fn evicted(&self) -> &CancellationToken {
        &self.leave
    }
}

impl Drop for CallerSlot {
    fn drop(&mut self) {
        self.crowd.inside().guests.remove(&self.number);
        self.crowd.left.notify_waiters();
    }
}

/// Returns the address by which a client is counted. For IPv6, this is the /64 network of a
/// customer.
pub(super) fn address_group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(long) => IpAddr::V6(Ipv6Addr::from_bits(long.to_bits() & !u128::from(u64::MAX))),
        short @ IpAddr::V4(_) => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_oldest_waiting_client_of_the_address_with_the_most_slots_is_evicted() {
        let crowd = CallerSlots::new(4);
        let one = crowd.try_acquire(ip("192.0.2.1")).unwrap();
        let many: Vec<CallerSlot> =
            (0..3).map(|_| crowd.try_acquire(ip("198.51.100.7")).unwrap()).collect();
        let new = crowd.try_acquire(ip("203.0.113.5")).unwrap();
        let taken = |places: &[&CallerSlot]| {
            places.iter().map(|place| place.evicted().is_cancelled()).collect::<Vec<_>>()
        };
        assert_eq!(
            taken(&[&one, &many[0], &many[1], &many[2], &new]),
            [false, true, false, false, false]
        );
        many[1].protect();
        let newer = crowd.try_acquire(ip("203.0.113.6")).unwrap();
        assert_eq!(
            taken(&[&one, &many[1], &many[2], &new, &newer]),
            [false, false, true, false, false]
        );
    }

    #[test]
    fn with_one_address_a_new_client_evicts_the_oldest_unless_all_are_served() {
        let crowd = CallerSlots::new(2);
        let address = ip("127.0.0.1");
        let (first, second) =
            (crowd.try_acquire(address).unwrap(), crowd.try_acquire(address).unwrap());
        let third = crowd.try_acquire(address).unwrap();
        assert!(first.evicted().is_cancelled() && !second.evicted().is_cancelled());
        [&second, &third].iter().for_each(|place| place.protect());
        assert!(crowd.try_acquire(address).is_none());
        drop(second);
        assert!(crowd.try_acquire(address).is_some());
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address_and_mapped_addresses_as_ipv4() {
        assert_eq!(address_group(ip("2001:db8:1:2:3:4:5:6")), address_group(ip("2001:db8:1:2::1")));
        assert_ne!(address_group(ip("2001:db8:1:2::1")), address_group(ip("2001:db8:1:3::1")));
        assert_eq!(address_group(ip("::ffff:192.0.2.1")), ip("192.0.2.1"));
    }
}
