//! The devices that wait for pushes: how many there may be, and how a page knows them. Pure.

use sha2::{Digest as _, Sha256};

use crate::workspace::Subscription;

/// Devices of a person; the oldest goes.
const OF_ONE: usize = 5;
/// Devices of all people.
const ALL: usize = 500;

/// Takes a device in, which may have been somebody else's before; false: there are too many.
pub(super) fn add(all: &mut Vec<Subscription>, new: Subscription) -> bool {
    all.retain(|one| one.endpoint != new.endpoint);
    let of_one = |one: &Subscription| one.user == new.user;
    while all.iter().filter(|one| of_one(one)).count() >= OF_ONE {
        let oldest = all.iter().position(of_one);
        oldest.map(|at| all.remove(at));
    }
    let fits = all.len() < ALL;
    if fits {
        all.push(new);
    }
    fits
}

/// Forgets a device of a person, or with none named all of them; returns how many.
pub(super) fn forget(all: &mut Vec<Subscription>, user: u64, endpoint: Option<&str>) -> usize {
    let before = all.len();
    all.retain(|one| one.user != user || endpoint.is_some_and(|named| named != one.endpoint));
    before - all.len()
}

/// Tells a device apart from a person's others on a page, which must not hold its address: the
/// first eight bytes of its SHA-256, as digits.
pub(super) fn mark(endpoint: &str) -> String {
    Sha256::digest(endpoint).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn device(user: u64, endpoint: &str) -> Subscription {
        let endpoint = endpoint.to_owned();
        Subscription { endpoint, user, channel: 9, since: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn ten_thousand_devices_are_five_of_a_person_and_five_hundred_of_all() {
        let mut all = vec![device(1, "ann's")];
        for number in 0..10_000 {
            assert!(add(&mut all, device(2, &number.to_string())));
        }
        let of = |all: &[Subscription], user| all.iter().filter(|one| one.user == user).count();
        assert_eq!((of(&all, 1), of(&all, 2)), (1, OF_ONE));
        assert!(all.iter().any(|one| one.endpoint == "9999"), "the newest stay");
        for user in 3..10_003 {
            add(&mut all, device(user, &format!("of {user}")));
        }
        assert!(all.len() == ALL && of(&all, 1) == 1 && of(&all, 9_999) == 0);
        assert!(add(&mut all, device(2, "one more")), "a person's own make room for each other");
        assert!(!add(&mut all, device(1, "another")) && of(&all, 1) == 1);
    }

    #[test]
    fn a_device_is_of_whoever_switched_it_on_last() {
        let mut all = Vec::new();
        for user in [1, 2, 2] {
            assert!(add(&mut all, device(user, "shared")));
        }
        assert!(all == [device(2, "shared")]);
        assert_eq!(forget(&mut all, 1, Some("shared")), 0, "not hers any more");
        assert!(add(&mut all, device(2, "other")) && add(&mut all, device(1, "hers")));
        assert_eq!(forget(&mut all, 2, Some("shared")), 1);
        assert_eq!((forget(&mut all, 2, None), all.len()), (1, 1));
    }
}
