//! Delta debugging: finds a small part of a list that still passes a test.

/// Returns a part of `items` from which no single item can be removed without failing the test
/// (Zeller's `ddmin`). The test gets the indexes of the items to keep. The whole list must pass.
pub(super) async fn ddmin(count: usize, mut test: impl AsyncFnMut(&[usize]) -> bool) -> Vec<usize> {
    if count == 0 || test(&[]).await {
        return Vec::new();
    }
    let mut items: Vec<usize> = (0..count).collect();
    let mut parts = 2;
    while items.len() > 1 {
        let size = items.len().div_ceil(parts);
        let mut reduced = None;
        // With two parts, each is the complement of the other.
        if parts > 2 {
            for part in items.chunks(size) {
                if test(part).await {
                    reduced = Some((part.to_vec(), 2));
                    break;
                }
            }
        }
        for at in (0..items.len()).step_by(size) {
            if reduced.is_some() {
                break;
            }
            let end = (at + size).min(items.len());
            let rest: Vec<usize> = items[..at].iter().chain(&items[end..]).copied().collect();
            if test(&rest).await {
                reduced = Some((rest, (parts - 1).max(2)));
            }
        }
        match reduced {
            Some((smaller, next)) => (items, parts) = (smaller, next),
            None if parts >= items.len() => break,
            None => parts = (parts * 2).min(items.len()),
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::ddmin;

    #[tokio::test]
    async fn only_needed_items_remain() {
        for needed in [vec![], vec![3], vec![0, 99], vec![5, 6, 50, 77]] {
            let mut tests = 0;
            let found = ddmin(100, async |keep: &[usize]| {
                tests += 1;
                needed.iter().all(|item| keep.contains(item))
            })
            .await;
            assert_eq!(found, needed);
            assert!(tests < 150, "{tests} tests for {needed:?}");
        }
        assert_eq!(ddmin(1, async |keep: &[usize]| !keep.is_empty()).await, [0]);
        assert!(ddmin(0, async |_: &[usize]| true).await.is_empty());
    }
}
