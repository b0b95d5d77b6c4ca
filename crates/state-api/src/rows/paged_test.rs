//! Freezing copies nothing, a first write copies one page, and finished snapshots leave nothing behind.

use super::*;

const PAGE: u32 = PAGE_CELLS as u32;

fn filled(cells: u32) -> Paged<u64> {
    let mut paged = Paged::new();
    for cell in 0..cells {
        *paged.write(cell) = u64::from(cell);
    }
    paged
}

fn fold_all<T: Clone + Default>(paged: &mut Paged<T>) {
    for _ in 0..1000 {
        paged.fold();
    }
}

#[test]
fn what_was_never_written_is_not_there() {
    let mut paged = Paged::new();
    assert_eq!(paged.read(0), None);
    *paged.write(PAGE * 3) = 7u64;
    assert_eq!(paged.read(PAGE), None);
    assert_eq!((paged.read(PAGE * 3), paged.read(PAGE * 3 + 1)), (Some(&7), Some(&0)));
}

/// Contract: B49, B50.
#[test]
fn a_freeze_copies_no_page_and_a_first_write_copies_one() {
    let mut paged = filled(PAGE * 100);
    let addresses: Vec<*const u64> = (0..100).map(|page| paged.read(page * PAGE).unwrap() as *const u64).collect();
    let frozen = paged.freeze();
    assert_eq!(paged.pages_copied, 0);
    for (page, address) in (0..).zip(&addresses) {
        assert_eq!(frozen.read(page * PAGE).unwrap() as *const u64, *address);
        assert_eq!(paged.read(page * PAGE).unwrap() as *const u64, *address);
    }
    *paged.write(5) = 500;
    *paged.write(6) = 600;
    assert_eq!(paged.pages_copied, 1);
    assert_eq!(
        (frozen.read(5), frozen.read(6), paged.read(5), paged.read(7)),
        (Some(&5), Some(&6), Some(&500), Some(&7))
    );
}

#[test]
fn several_snapshots_see_each_their_own_time_in_any_order_of_dropping() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut paged = filled(PAGE * 10);
        let mut frozen = Vec::new();
        for time in 1..=3u64 {
            *paged.write(1) = time * 1000;
            *paged.write(PAGE * time as u32) = time * 1000;
            // New pages too.
            *paged.write(PAGE * (10 + time as u32)) = time;
            frozen.push(Some((paged.freeze(), time)));
        }
        *paged.write(1) = 4000;
        for drop in order {
            frozen[drop] = None;
            for _ in 0..3 {
                paged.fold();
            }
            for (frozen, time) in frozen.iter().flatten() {
                assert_eq!(frozen.read(1), Some(&(time * 1000)));
                assert_eq!(frozen.read(2), Some(&2));
                assert_eq!(frozen.read(PAGE * 3), Some(&if *time == 3 { 3000 } else { u64::from(PAGE) * 3 }));
                assert_eq!(frozen.read(PAGE * 12).copied(), (*time >= 2).then_some(2));
            }
            assert_eq!(
                (paged.read(1), paged.read(PAGE * 2), paged.read(PAGE * 13)),
                (Some(&4000), Some(&2000), Some(&3))
            );
        }
        fold_all(&mut paged);
        assert!(paged.layers.is_empty() && paged.trash.is_empty());
    }
}

/// Contract: B51.
#[test]
fn a_snapshot_that_is_dropped_gives_back_what_it_shared() {
    let shared = Arc::new(());
    for drops in [[0, 1], [1, 0]] {
        let mut paged: Paged<Option<Arc<()>>> = Paged::new();
        *paged.write(1) = Some(shared.clone());
        let mut frozen = [Some(paged.freeze()), Some(paged.freeze())];
        assert_eq!(Arc::strong_count(&shared), 2, "a snapshot holds no copy");
        *paged.write(1) = None;
        fold_all(&mut paged);
        assert_eq!(Arc::strong_count(&shared), 2, "what is gone from the state is in the snapshots only");
        frozen[drops[0]] = None;
        fold_all(&mut paged);
        let left = frozen[drops[1]].take().unwrap();
        assert!(left.read(1).unwrap().is_some());
        drop(left);
        fold_all(&mut paged);
        assert_eq!(Arc::strong_count(&shared), 1);
        assert!(paged.layers.is_empty() && paged.trash.is_empty());
    }
}

#[test]
fn folding_back_copies_nothing_and_frees_a_bounded_number_of_pages_a_call() {
    let mut paged = filled(PAGE * 1000);
    let frozen = paged.freeze();
    for page in 0..500 {
        *paged.write(page * PAGE) += 1;
    }
    drop(frozen);
    paged.fold();
    assert_eq!((paged.layers.len(), paged.trash.len()), (0, 500));
    paged.fold();
    assert_eq!(paged.trash.len(), 500 - PAGES_FREED);
    fold_all(&mut paged);
    assert_eq!((paged.trash.len(), paged.pages_copied), (0, 500));
    assert_eq!((paged.read(0), paged.read(999 * PAGE)), (Some(&1), Some(&(999 * u64::from(PAGE)))));
}

#[test]
fn a_fold_that_a_freeze_interrupts_loses_nothing() {
    let slots = SLOTS_FOLDED as u32 * 2;
    let mut paged: Paged<u64> = Paged::new();
    for page in 0..slots {
        *paged.write(page * PAGE) = u64::from(page);
    }
    drop(paged.freeze());
    paged.fold();
    assert!(paged.folded > 0 && paged.layers.len() == 1, "only a part has been moved");
    *paged.write(0) = 77;
    let frozen = paged.freeze();
    *paged.write(1) = 78;
    for round in 0..3 {
        for page in 1..slots {
            assert_eq!(paged.read(page * PAGE), Some(&u64::from(page)));
            assert_eq!(frozen.read(page * PAGE), Some(&u64::from(page)), "in round {round}");
        }
        assert_eq!(
            (paged.read(0), frozen.read(0), paged.read(1), frozen.read(1)),
            (Some(&77), Some(&77), Some(&78), Some(&0))
        );
        fold_all(&mut paged);
    }
    drop(frozen);
    fold_all(&mut paged);
    assert!(paged.layers.is_empty() && paged.trash.is_empty());
    assert!((1..slots).all(|page| paged.read(page * PAGE) == Some(&u64::from(page))));
    assert_eq!((paged.read(0), paged.read(1)), (Some(&77), Some(&78)));
}

#[test]
fn snapshots_that_always_overlap_do_not_pile_up() {
    let pages = 200;
    let mut paged = filled(PAGE * pages);
    let mut open = paged.freeze();
    for time in 1..=50u64 {
        *paged.write((time % u64::from(pages)) as u32 * PAGE) = time * 1_000_000;
        let next = paged.freeze();
        for _ in 0..=pages as usize / PAGES_LIFTED {
            paged.fold();
        }
        let cell = (time % u64::from(pages)) as u32 * PAGE;
        assert_eq!(open.read(cell), Some(&u64::from(cell)));
        assert_eq!(next.read(cell), Some(&(time * 1_000_000)));
        open = next;
        assert!(paged.layers.len() <= 3, "{} layers", paged.layers.len());
    }
    drop(open);
    fold_all(&mut paged);
    assert!(paged.layers.is_empty() && paged.trash.is_empty());
    for time in 1..=50u64 {
        assert_eq!(paged.read(time as u32 * PAGE), Some(&(time * 1_000_000)));
    }
    assert_eq!(paged.read(PAGE * 150), Some(&(u64::from(PAGE) * 150)));
}

#[test]
fn a_snapshot_is_read_on_another_thread_while_cells_change() {
    let mut paged = filled(PAGE * 50);
    let frozen = paged.freeze();
    let reader = std::thread::spawn(move || (0..PAGE * 50).map(|cell| *frozen.read(cell).unwrap()).sum::<u64>());
    for cell in 0..PAGE * 50 {
        *paged.write(cell) = 0;
        paged.fold();
    }
    let cells = u64::from(PAGE) * 50;
    assert_eq!(reader.join().unwrap(), cells * (cells - 1) / 2);
}
