//! The stable hash of a key is the same in every process, build and version: a file says what it is.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fmt::Write;
use std::process::Command;

use highwater_state_api::{KEY_HASH_ID, KeyHasher, MaxParallelism, encode_canonical};
use serde::Serialize;

#[derive(Serialize)]
enum Event {
    Start,
    Amount(u64),
    Move { from: String, to: i16 },
}

#[derive(Default)]
struct Table {
    text: String,
    hasher: KeyHasher,
}

impl Table {
    fn add<K: Serialize + ?Sized>(&mut self, name: &str, key: &K) {
        let groups = MaxParallelism::new(128).unwrap();
        let mut encoding = Vec::new();
        encode_canonical(key, &mut encoding).unwrap();
        let mut bytes: String = encoding.iter().map(|byte| format!("{byte:02x}")).collect();
        if bytes.is_empty() {
            bytes.push('-');
        }
        let hash = self.hasher.hash(key).unwrap();
        writeln!(self.text, "{name} | {bytes} | {:08x} | {}", hash.0, groups.group_of(hash)).unwrap();
    }
}

/// Field case: R79.
#[test]
fn keys_hash_as_the_file_says() {
    let mut table = Table::default();
    table.add("0u64", &0u64);
    table.add("-1i32", &-1i32);
    table.add("\"a\"", "a");
    table.add("String \"a\"", &String::from("a"));
    table.add("(\"a\", 1i32)", &("a", 1i32));
    table.add("Event::Start", &Event::Start);
    table.add("Event::Amount(7u64)", &Event::Amount(7));
    table.add("Event::Move { from: \"x\", to: -2i16 }", &Event::Move { from: "x".into(), to: -2 });
    table.add("[1u8, 2]", &[1u8, 2]);
    table.add("vec![1u8, 2]", &vec![1u8, 2]);
    table.add("true", &true);
    table.add("'ä'", &'ä');
    table.add("Some(5u8)", &Some(5u8));
    table.add("None::<u8>", &None::<u8>);
    table.add("()", &());
    let long = "a text of more than sixteen bytes, so that the hash goes through its stripes";
    table.add(&format!("{long:?}"), long);

    let golden = include_str!("data/key_hash_golden.txt");
    let golden: Vec<&str> = golden.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(table.text.lines().collect::<Vec<_>>(), golden);
}

/// Field case: R79.
#[test]
fn keys_hash_as_the_file_says_in_every_process() {
    for _ in 0..2 {
        let test = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "keys_hash_as_the_file_says"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&test.stdout);
        assert!(test.status.success() && text.contains("1 passed"), "{text}");
    }
}

#[test]
fn the_hash_has_the_name_that_checkpoints_record() {
    assert_eq!(KEY_HASH_ID, "xxh32-canonical-1");
}
