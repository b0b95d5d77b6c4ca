//! The contract of a state backend, one function a behaviour.
//!
//! Most cases go through [`KeyedState`](highwater_state_api::KeyedState), the way a task does, each with a write-back
//! cache that is off, small and large. Those of the byte tables look at the backend itself and pass by when it keeps no
//! bytes; those of outages pass by when nobody has said how to make the backend fail.

#![expect(clippy::unwrap_used, reason = "a case is a test: it panics where the contract is broken")]

mod accumulating;
mod all_keys;
mod byte_tables;
mod harness;
mod lists;
mod maps;
mod model;
mod moves;
mod namespaces;
mod outages;
mod refusals;
mod restores;
mod snapshots;
mod values;
mod written_alike;

pub use accumulating::*;
pub use all_keys::*;
pub use byte_tables::*;
pub use harness::{BackendFactory, BackendUnderTest, KeyedCase};
pub use lists::*;
pub use maps::*;
pub use model::check_against_plain_maps;
pub use moves::*;
pub use namespaces::*;
pub use outages::*;
pub use refusals::*;
pub use restores::*;
pub use snapshots::*;
pub use values::*;
pub use written_alike::*;

use crate::trial::{self, Trial};

/// Runs every case on a state backend, one after the other, and tells how each ended: for tables and tools. Tests are
/// made by [`backend_conformance!`](crate::backend_conformance).
pub fn run_all(factory: BackendFactory<'_>) -> Vec<Trial> {
    run(factory, |_| true)
}

/// Runs the cases of which the names are wanted.
pub(crate) fn run(factory: BackendFactory<'_>, wanted: impl Fn(&str) -> bool) -> Vec<Trial> {
    let cases = CASES.iter().filter(|(name, _)| wanted(name));
    cases.map(|(name, case)| trial::run(name, || case(factory))).collect()
}

/// The one list of the suite: from it come [`CASES`] and [`backend_conformance!`](crate::backend_conformance).
macro_rules! suite {
    ($d:tt $($case:ident),* $(,)?) => {
        /// Every case with its name, in the order of the suite.
        pub const CASES: &[(&str, KeyedCase)] = &[$((stringify!($case), $case)),*];

        /// Makes one `#[test]` for each case of the keyed backend suite.
        ///
        /// Takes a factory that makes a new state backend at each call: a closure or a function without arguments
        /// that returns a type that is a `StateBackend`, or a
        /// [`BackendUnderTest`]($crate::keyed::BackendUnderTest), which can say how to make the backend fail.
        #[macro_export]
        macro_rules! backend_conformance {
            ($d factory:expr $d(,)?) => {
                $(
                    #[test]
                    fn $case() {
                        $d crate::keyed::$case(&|| $d crate::keyed::BackendUnderTest::from(($d factory)()));
                    }
                )*
            };
        }
    };
}

suite! { $
    a_value_is_absent_until_it_is_set,
    zero_false_empty_and_unit_are_values,
    a_value_is_replaced_changed_and_cleared,
    keys_do_not_share_values,
    keys_that_look_alike_are_different,
    states_do_not_share_values,
    a_batch_is_like_its_keys_one_by_one,
    values_of_any_shape_and_size_are_kept,
    a_default_stands_for_an_absent_value,
    a_value_that_is_gone_has_no_entry,
    a_value_that_was_read_is_a_copy,
    a_value_that_cannot_be_written_leaves_the_state,
    a_map_entry_is_absent_until_it_is_put,
    empty_map_keys_and_values_are_entries,
    a_map_without_entries_is_empty,
    every_entry_is_visited_once,
    maps_of_keys_that_look_alike_do_not_mix,
    clearing_a_map_leaves_its_neighbours,
    the_entries_of_all_keys_are_visited_once,
    a_map_key_whose_value_is_none_is_an_entry,
    entries_are_removed_while_they_are_visited,
    values_are_changed_while_they_are_visited,
    an_entry_that_cannot_be_written_leaves_the_map,
    a_list_is_empty_until_something_is_added,
    elements_of_any_shape_are_kept,
    a_list_without_elements_has_no_entry,
    an_element_that_cannot_be_written_leaves_the_list,
    a_list_keeps_its_order_over_batches_and_restores,
    a_snapshot_does_not_see_later_elements,
    values_are_reduced,
    values_are_aggregated,
    values_are_folded,
    a_function_that_fails_leaves_the_state,
    an_accumulator_that_cannot_be_written_leaves_the_state,
    an_aggregate_that_cannot_be_written_leaves_the_state,
    a_restored_accumulator_goes_on,
    namespaces_do_not_share_state,
    state_in_no_namespace_is_apart_from_namespaces,
    without_a_current_namespace_there_is_no_state_in_one,
    a_name_has_one_type_of_namespaces,
    namespaces_that_look_alike_are_different,
    bytes_that_run_together_are_different,
    state_in_namespaces_is_restored,
    lists_of_namespaces_are_merged,
    accumulators_of_namespaces_are_merged,
    a_merge_whose_function_fails_changes_nothing,
    what_cannot_be_merged_is_refused,
    the_keys_of_a_state_are_those_that_have_some,
    the_pairs_of_key_and_namespace_are_those_that_have_state,
    a_call_for_all_keys_leaves_the_current_key,
    a_call_for_all_keys_leaves_the_batch,
    a_key_listener_hears_of_every_key,
    without_a_current_key_there_is_no_state,
    a_handle_of_no_store_or_another_store_is_refused,
    a_key_of_a_foreign_key_group_is_refused,
    a_key_of_another_type_is_refused,
    keys_that_are_written_alike_are_in_no_snapshot,
    namespaces_that_are_written_alike_are_in_no_snapshot,
    map_keys_that_are_written_alike_are_in_no_snapshot,
    a_name_has_one_kind_and_one_schema,
    a_blank_name_is_refused,
    a_snapshot_does_not_see_later_changes,
    several_snapshots_can_be_open_at_once,
    an_unchanged_state_has_a_whole_snapshot_again,
    a_snapshot_can_be_written_on_another_thread,
    a_key_group_can_be_written_in_any_order_and_again,
    a_snapshot_has_every_entry_once,
    the_error_of_a_visitor_ends_the_visit_and_is_returned,
    a_snapshot_does_not_have_what_was_removed,
    an_empty_state_has_a_snapshot,
    the_fate_of_a_checkpoint_changes_no_state,
    a_snapshot_that_is_given_up_leaves_the_state,
    a_snapshot_outlives_its_state,
    a_snapshot_that_waits_has_what_it_had,
    a_snapshot_taken_while_the_state_grows_is_whole,
    a_restored_state_goes_on,
    keys_are_in_the_key_groups_that_they_always_have,
    state_moves_with_its_key_groups,
    state_of_every_kind_moves_with_its_key_groups,
    a_state_that_one_subtask_registered_is_restored_by_all,
    a_state_that_nobody_registers_goes_on_unchanged,
    the_order_of_registration_does_not_matter,
    a_table_without_entries_goes_on,
    a_restored_state_is_not_taken_for_another_kind_or_schema,
    a_restored_state_keeps_its_type_of_keys,
    snapshots_that_do_not_agree_are_refused,
    a_key_group_of_another_subtask_is_not_restored,
    a_damaged_stream_is_an_error,
    a_damaged_value_is_an_error,
    a_damaged_list_is_an_error,
    bytes_are_kept_under_their_whole_address,
    an_empty_value_is_a_value,
    reading_appends_to_what_is_there,
    removing_what_is_not_there_succeeds,
    a_scan_visits_exactly_its_prefix,
    a_scan_of_many_entries_visits_them_all,
    a_scan_ends_when_the_visitor_breaks,
    long_parts_and_values_are_kept,
    a_prefetch_changes_nothing,
    backends_of_one_factory_are_independent,
    an_outage_of_the_backend_is_felt,
    a_failed_read_is_not_an_absent_entry,
    a_failed_read_is_not_the_end_of_a_scan,
    a_failed_read_is_not_the_end_of_a_snapshot,
    a_write_that_failed_is_reported,
}
