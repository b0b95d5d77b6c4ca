//! Whole jobs in one process: each file is a scenario.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod a_cancelled_job_goes_on_at_another_parallelism;
mod a_changed_job_gives_nothing_to_the_wrong_operator;
mod a_checkpoint_can_be_declined;
mod a_commit_that_fails_is_not_forgotten;
mod a_damaged_or_failing_storage_is_an_error;
mod a_failing_task_is_restarted;
mod a_function_keeps_its_whole_state_as_a_list;
mod a_function_without_a_key_keeps_a_list;
mod a_job_fences_the_one_before;
mod a_job_that_cannot_run_is_refused;
mod a_restored_job_keeps_its_event_time;
mod a_state_may_be_registered_late;
mod a_union_list_goes_to_everyone;
mod broadcast_state_is_the_same_everywhere;
mod functions_hear_what_became_of_checkpoints;
mod jobs_run_where_they_are_started;
mod raw_state_goes_where_its_share_goes;
mod state_above_the_limit_is_declined;
mod support;
mod user_code_that_panics_does_no_harm_to_the_rest;
