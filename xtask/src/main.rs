//! The project's chores behind `cargo xtask`.
fn main() {}
