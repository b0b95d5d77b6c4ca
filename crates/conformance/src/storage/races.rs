//! Cases: many threads at once.

use bytes::Bytes;

use super::{Factory, assert_already_exists, block_on, content_of, create, list, object};
use crate::threads::race;

const THREADS: usize = 16;

/// Of any number of racing calls of `create_if_absent` one wins, and its content stays.
pub fn of_racing_creations_exactly_one_wins(factory: Factory<'_>) {
    let test = factory();
    let storage = &*test.storage;
    for sequence in 1..=20u64 {
        let path = object("job/log").join(&format!("{sequence:020}"));
        let results = race(THREADS, |number| {
            block_on(storage.create_if_absent(&path, Bytes::from(format!("claim of {number}"))))
        });
        let winners: Vec<usize> = (0..THREADS).filter(|number| results[*number].is_ok()).collect();
        assert_eq!(winners.len(), 1, "{winners:?} have won");
        for result in results.into_iter().filter(Result::is_err) {
            assert_already_exists(&path, result);
        }
        assert_eq!(test.read(&path).unwrap(), format!("claim of {}", winners[0]));
    }
    assert_eq!(test.list("job").len(), 20);
}

/// The same of uploads.
pub fn of_racing_uploads_exactly_one_wins(factory: Factory<'_>) {
    let test = factory();
    let storage = &*test.storage;
    for round in 0..5 {
        let path = object("job/chk-1").join(&format!("metadata-{round}"));
        let results = race(THREADS, |number| create(storage, &path, format!("from {number}")));
        let winners: Vec<usize> = (0..THREADS).filter(|number| results[*number].is_ok()).collect();
        assert_eq!(winners.len(), 1, "{winners:?} have won");
        for result in results.into_iter().filter(Result::is_err) {
            assert_already_exists(&path, result);
        }
        assert_eq!(test.read(&path).unwrap(), format!("from {}", winners[0]));
    }
    assert_eq!(test.list("job").len(), 5);
}

/// Writers to one folder and to new folders of their own do not disturb each other.
pub fn many_writers_do_not_disturb_each_other(factory: Factory<'_>) {
    let test = factory();
    let storage = &*test.storage;
    let path = |thread: usize, number: usize| match number % 2 {
        0 => object("job/shared").join(&format!("{thread}-{number}")),
        _ => object("job").join(&format!("own-{thread}")).join("deep").join(&number.to_string()),
    };
    race(THREADS, |thread| {
        for number in 0..10 {
            let path = path(thread, number);
            create(storage, &path, content_of(&path)).unwrap();
        }
    });
    for thread in 0..THREADS {
        for number in 0..10 {
            let path = path(thread, number);
            assert_eq!(test.read(&path).unwrap(), content_of(&path));
        }
    }
    assert_eq!(test.list("job").len(), THREADS * 10);
}

/// Who finds an object finds all of it.
pub fn a_reader_never_sees_half_an_object(factory: Factory<'_>) {
    const OBJECTS: usize = 20;
    let test = factory();
    let storage = &*test.storage;
    let path = |number: usize| object("job/chk-1").join(&number.to_string());
    let content = Bytes::from(vec![7; 100_000]);
    race(2, |role| {
        for number in 0..OBJECTS {
            if role == 0 {
                let pieces = async {
                    let mut upload = storage.create(&path(number)).await?;
                    for start in (0..content.len()).step_by(10_000) {
                        upload.write(content.slice(start..start + 10_000)).await?;
                    }
                    upload.finish().await
                };
                block_on(pieces).unwrap();
            } else {
                for listed in list(storage, "job") {
                    let read = block_on(storage.read(&object(&listed))).expect("what is listed can be read");
                    assert_eq!(read.len(), content.len(), "{listed}");
                }
            }
        }
    });
    assert_eq!(test.list("job").len(), OBJECTS);
}

/// Old checkpoints are listed and deleted while new ones are written.
pub fn listings_and_deletes_go_on_beside_writers(factory: Factory<'_>) {
    const CHECKPOINTS: usize = 20;
    let test = factory();
    let storage = &*test.storage;
    let folder = |number: usize| object("job").join(&format!("chk-{number}"));
    for number in 0..CHECKPOINTS {
        create(storage, &folder(number).join("state"), "old").unwrap();
    }
    race(3, |role| {
        for number in 0..CHECKPOINTS {
            match role {
                0 => drop(create(storage, &folder(CHECKPOINTS + number).join("state"), "new").unwrap()),
                1 => block_on(storage.delete_folder(&folder(number))).unwrap(),
                _ => assert!(list(storage, "job").len() <= 2 * CHECKPOINTS),
            }
        }
    });
    let mut expected: Vec<String> =
        (0..CHECKPOINTS).map(|number| folder(CHECKPOINTS + number).join("state").to_string()).collect();
    expected.sort_unstable();
    assert_eq!(test.list("job"), expected);
}
