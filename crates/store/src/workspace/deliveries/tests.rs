use super::*;

const NOW: i64 = 1_800_000_000_000;

async fn take(deliveries: &Deliveries, webhook: &str, id: &str, now_ms: i64) {
    match deliveries.claim(webhook, id, now_ms) {
        ClaimResult::New(claim) => claim.keep(now_ms).await.unwrap(),
        other => panic!("{id}: {other:?}"),
    }
}

fn is_taken(deliveries: &Deliveries, webhook: &str, id: &str, now_ms: i64) -> bool {
    matches!(deliveries.claim(webhook, id, now_ms), ClaimResult::Taken)
}

#[tokio::test]
async fn a_delivery_is_remembered_for_a_day_and_across_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("webhooks.md");
    let first = Deliveries::open_at(&path, NOW).unwrap();
    assert!(!path.exists(), "nothing is written before the first delivery");
    take(&first, "deploy", "msg.`1%", NOW).await;
    take(&first, "deploy", "msg-2", NOW + 1).await;
    assert!(!is_taken(&first, "other", "msg-2", NOW), "of another webhook");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("# Webhooks\n")
            && text.ends_with("\n- `deploy` `msg-2` at `2027-01-15T08:00:00.001Z`.\n"),
        "{text}"
    );

    let second = Deliveries::open_at(&path, NOW).unwrap();
    for id in ["msg.`1%", "msg-2"] {
        assert!(is_taken(&second, "deploy", id, NOW + KNOWN_MS - 1), "{id}");
    }
    assert!(!is_taken(&second, "deploy", "msg.`1%", NOW + KNOWN_MS), "a day later");
    Deliveries::open_at(&path, NOW + KNOWN_MS).unwrap();
    assert!(
        !std::fs::read_to_string(&path).unwrap().contains("%601"),
        "old deliveries leave the file"
    );
    let later = NOW + 2 * KNOWN_MS;
    take(&second, "deploy", "msg-2", later).await;
    assert!(
        is_taken(&Deliveries::open_at(&path, later).unwrap(), "deploy", "msg-2", later),
        "accepted again, remembered again"
    );
}

#[tokio::test]
async fn only_one_of_two_callers_gets_the_claim_and_a_dropped_claim_is_open_again() {
    let folder = tempfile::tempdir().unwrap();
    let deliveries = Deliveries::open_at(&folder.path().join("webhooks.md"), NOW).unwrap();
    let ClaimResult::New(claim) = deliveries.claim("a", "1", NOW) else { panic!("it is new") };
    assert!(matches!(deliveries.claim("a", "1", NOW), ClaimResult::Pending));
    drop(claim);
    take(&deliveries, "a", "1", NOW).await;
    assert!(is_taken(&deliveries, "a", "1", NOW));
}

#[tokio::test]
async fn many_concurrent_deliveries_are_all_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("webhooks.md");
    let deliveries = Deliveries::open_at(&path, NOW).unwrap();
    let tasks: Vec<_> = (0..200)
        .map(|n| {
            let deliveries = deliveries.clone();
            tokio::spawn(async move { take(&deliveries, "a", &n.to_string(), NOW).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let again = Deliveries::open_at(&path, NOW).unwrap();
    assert!((0..200).all(|n| is_taken(&again, "a", &n.to_string(), NOW)));
}

#[tokio::test]
async fn a_torn_line_affects_no_other_and_a_line_removed_by_hand_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("webhooks.md");
    let first = Deliveries::open_at(&path, NOW).unwrap();
    take(&first, "a", "1", NOW).await;
    take(&first, "a", "2", NOW).await;
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.trim_end().trim_end_matches("00:00Z`.")).unwrap();
    let second = Deliveries::open_at(&path, NOW).unwrap();
    assert!(is_taken(&second, "a", "1", NOW) && !is_taken(&second, "a", "2", NOW));
    take(&second, "a", "3", NOW).await;
    let third = Deliveries::open_at(&path, NOW).unwrap();
    assert!(
        is_taken(&third, "a", "1", NOW) && is_taken(&third, "a", "3", NOW),
        "after a torn line"
    );

    let text = std::fs::read_to_string(&path).unwrap();
    let without: Vec<&str> = text.lines().filter(|line| !line.contains("`1`")).collect();
    std::fs::write(&path, without.join("\n")).unwrap();
    take(&third, "a", "4", NOW).await;
    assert!(!is_taken(&third, "a", "1", NOW), "the file decides");
    assert!(is_taken(&third, "a", "3", NOW) && is_taken(&third, "a", "4", NOW));
}

#[tokio::test]
async fn the_oldest_of_too_many_are_forgotten_unless_their_signature_may_still_be_valid() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("webhooks.md");
    let line = |n: usize, at_ms: i64| {
        format!(
            "- {}\n",
            WebhookDelivery { webhook: "a".to_owned(), id: n.to_string(), at_ms }.write()
        )
    };
    let text: String = (0..MAX_DELIVERIES + 5).map(|n| line(n, NOW + n as i64)).collect();
    std::fs::write(&path, format!("# Mine\n{text}")).unwrap();
    let young = Deliveries::open_at(&path, NOW + MIN_KNOWN_MS - 1).unwrap();
    assert!(is_taken(&young, "a", "0", NOW + MIN_KNOWN_MS));
    let later = NOW + 2 * MIN_KNOWN_MS;
    let old = Deliveries::open_at(&path, later).unwrap();
    assert!((0..5).all(|n| !is_taken(&old, "a", &n.to_string(), later)));
    assert!((5..MAX_DELIVERIES + 5).all(|n| is_taken(&old, "a", &n.to_string(), later)));
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("# Mine\n"));
}

#[tokio::test]
async fn a_delivery_that_cannot_be_written_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gone/webhooks.md");
    let deliveries = Deliveries::open_at(&path, NOW).unwrap();
    let ClaimResult::New(claim) = deliveries.claim("a", "1", NOW) else { panic!("it is new") };
    claim.keep(NOW).await.unwrap_err();
    assert!(is_taken(&deliveries, "a", "1", NOW));
    std::fs::create_dir(folder.path().join("gone")).unwrap();
    take(&deliveries, "a", "2", NOW).await;
    assert!(
        is_taken(&Deliveries::open_at(&path, NOW).unwrap(), "a", "1", NOW),
        "written with the next one"
    );
}
