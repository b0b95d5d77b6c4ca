//! Whole jobs in one process: each file is a scenario.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod a_backend_is_chosen_by_name;
mod a_cancelled_job_goes_on_at_another_parallelism;
mod a_changed_job_gives_nothing_to_the_wrong_operator;
mod a_checkpoint_can_be_declined;
mod a_checkpoint_is_durable_before_it_counts;
mod a_commit_that_fails_is_not_forgotten;
mod a_crash_in_the_first_checkpoint_leaves_nothing;
mod a_damaged_or_failing_storage_is_an_error;
mod a_failing_task_is_restarted;
mod a_held_snapshot_does_not_stop_the_records;
mod a_job_fences_the_one_before;
mod a_job_goes_on_in_every_directory;
mod a_job_that_cannot_run_is_refused;
mod a_restore_reads_what_it_needs;
mod a_restored_job_keeps_its_event_time;
mod checkpoint_ids_never_restart;
mod each_operator_is_rescaled_on_its_own;
mod jobs_run_where_they_are_started;
mod left_overs_block_no_checkpoint;
mod support;
mod user_code_that_panics_does_no_harm_to_the_rest;
