//! Whose directory it is: refusals at the start, and what is cleared away.

use std::fs;
use std::path::Path;

use highwater_state_api::{Attempt, CheckpointId, JobName, OperatorUid};
use highwater_stream_api::{Sink, SinkStart};

use super::FileSinkError;
use super::directory::OWNER_FILE;
use super::support_test::{Fixture, names, sink_error};

#[test]
fn the_directory_is_created_with_those_above_it() {
    let fixture = Fixture::new();
    let below = fixture.out.join("a/b");
    let sink = super::FileSink::lines::<String>(&below);
    let job = highwater_state_api::JobName::new("job").unwrap();
    for restored in [None, Some(highwater_state_api::CheckpointId(1))] {
        let operator = &highwater_state_api::OperatorUid::new("sink").unwrap();
        sink.start(&highwater_stream_api::SinkStart { job: &job, operator, attempt: Attempt(1), restored }).unwrap();
    }
    assert!(super::support_test::names(&below).is_empty(), "the check for writing leaves nothing behind");
}

#[test]
fn a_fresh_start_refuses_the_output_of_another_run_and_says_what_to_do() {
    let fixture = Fixture::new();
    let prepared = fixture.prepared(1, &["a"]);
    fixture.prepared(2, &["b"]);
    fixture.sink.commit(&prepared).unwrap();
    let error = sink_error(fixture.start(2, None).unwrap_err());
    assert_eq!(
        error.to_string().replace(fixture.out.to_str().unwrap(), "OUT"),
        "\"OUT\" holds 1 committed and 1 uncommitted part files of another run, \"part-00000001-00000-00000000\" \
         among them, and this job starts from nothing, so that their rows would be mixed: restore the job from its \
         checkpoint, choose another directory, or remove these files"
    );
    assert!(
        matches!(error, FileSinkError::OtherRun { directory, committed: 1, uncommitted: 1, .. } if directory == fixture.out)
    );
    fixture.start(2, Some(1)).unwrap();
}

#[test]
fn uncommitted_files_are_of_another_run_when_this_one_cannot_have_written_them() {
    let fixture = Fixture::new();
    fixture.prepared(3, &["a"]);
    for attempt in [1, 3] {
        // Attempts that are counted anew: the checkpoints of the other run are gone, or were only in memory.
        let error = sink_error(fixture.start(attempt, None).unwrap_err());
        assert!(matches!(error, FileSinkError::OtherRun { committed: 0, uncommitted: 1, .. }), "{error}");
    }
    fixture.start(4, None).unwrap();
}

#[test]
fn files_that_are_not_the_sinks_are_left_alone() {
    let fixture = Fixture::new();
    fs::create_dir_all(&fixture.out).unwrap();
    let foreign = [
        ".hidden",
        ".part-00000001-00000-00000000",
        ".part-1-0-0.inprogress",
        "_SUCCESS",
        "part-00000.csv",
        "part-00000001-00000-00000000.csv",
    ];
    for name in foreign {
        fs::write(fixture.out.join(name), "x").unwrap();
    }
    fixture.start(1, None).unwrap();
    fixture.sink.abort_earlier_attempts(Attempt(u64::MAX)).unwrap();
    assert_eq!(fixture.names(), foreign);
}

#[test]
fn only_uncommitted_files_of_earlier_attempts_are_removed() {
    let fixture = Fixture::new();
    fixture.start(1, None).unwrap();
    for name in [
        ".part-00000001-00003-00000007.inprogress",
        ".part-00000002-00000-00000000.inprogress",
        ".part-00000010-00000-00000000.inprogress",
        "part-00000001-00000-00000000",
        "part-00000002-00000-00000000",
    ] {
        fs::write(fixture.out.join(name), "x").unwrap();
    }
    for _ in 0..2 {
        fixture.sink.abort_earlier_attempts(Attempt(2)).unwrap();
        assert_eq!(
            fixture.names(),
            [
                ".part-00000002-00000-00000000.inprogress",
                ".part-00000010-00000-00000000.inprogress",
                "part-00000001-00000-00000000",
                "part-00000002-00000-00000000",
            ]
        );
    }
}

#[test]
fn a_left_over_of_the_write_check_does_not_get_in_the_way() {
    let fixture = Fixture::new();
    fs::create_dir_all(&fixture.out).unwrap();
    fs::write(fixture.out.join(super::directory::WRITE_CHECK), "from a process that was killed").unwrap();
    fixture.start(1, None).unwrap();
    assert!(fixture.names().is_empty());
}

#[test]
fn a_place_that_cannot_be_a_directory_is_named() {
    let fixture = Fixture::new();
    fs::write(&fixture.out, "a file").unwrap();
    let error = sink_error(fixture.start(1, None).unwrap_err());
    assert!(matches!(error, FileSinkError::NotWritable { directory, .. } if directory == fixture.out));
}

#[cfg(target_os = "linux")]
#[test]
fn a_read_only_directory_is_named() {
    // Permissions do not bind every user; nobody can create files in this directory.
    let directory = Path::new("/proc/self");
    let error = super::directory::check_writable(directory).unwrap_err();
    assert!(matches!(error, FileSinkError::NotWritable { directory: named, .. } if named == directory));
    let error = super::directory::create(&directory.join("out")).unwrap_err();
    assert!(matches!(error, FileSinkError::NotWritable { directory: named, .. } if named == directory.join("out")));
}

#[cfg(unix)]
#[test]
fn a_directory_without_permission_to_write_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new();
    fs::create_dir(&fixture.out).unwrap();
    fs::set_permissions(&fixture.out, fs::Permissions::from_mode(0o555)).unwrap();
    let binds = fs::write(fixture.out.join("probe"), "").is_err(); // it does not bind the superuser
    let result = fixture.start(1, None);
    fs::set_permissions(&fixture.out, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(result.is_err(), binds, "{result:?}");
    if let Err(error) = result {
        assert!(matches!(sink_error(error), FileSinkError::NotWritable { directory, .. } if directory == fixture.out));
    }
}

#[test]
fn a_directory_belongs_to_one_sink_of_one_job() {
    let fixture = Fixture::new();
    fixture.start(1, None).unwrap();
    let start = |job: &str, operator: &str, restored: Option<u64>| {
        fixture.sink.start(&SinkStart {
            job: &JobName::new(job).unwrap(),
            operator: &OperatorUid::new(operator).unwrap(),
            attempt: Attempt(2),
            restored: restored.map(CheckpointId),
        })
    };
    start("job", "sink", None).unwrap();
    start("job", "sink", Some(1)).unwrap();
    for (job, operator) in [("other", "sink"), ("job", "other")] {
        for restored in [None, Some(1)] {
            let error = sink_error(start(job, operator, restored).unwrap_err());
            let FileSinkError::OtherOwner { directory, owner, sink, .. } = error else { panic!("{error}") };
            assert_eq!((directory, owner.to_string()), (fixture.out.clone(), r#"sink "sink" of job "job""#.to_owned()));
            assert_eq!((sink.job.as_str(), sink.uid.as_str()), (job, operator));
        }
    }
}

#[test]
fn a_job_that_goes_on_must_find_its_directory() {
    let fixture = Fixture::new();
    fixture.start(1, None).unwrap();
    fs::remove_dir_all(&fixture.out).unwrap();
    for directory_is_there in [false, true] {
        let error = sink_error(fixture.start(2, Some(1)).unwrap_err());
        assert!(matches!(error, FileSinkError::NotOurs { directory, .. } if directory == fixture.out));
        assert_eq!(fixture.out.exists(), directory_is_there, "nothing is made up for what is missing");
        fs::create_dir_all(&fixture.out).unwrap();
    }
}

#[test]
fn a_start_that_was_killed_while_it_took_the_directory_leaves_nothing_that_stays() {
    for (attempt, owner_is_linked) in [(1, false), (1, true), (2, false), (2, true)] {
        let fixture = Fixture::new();
        fs::create_dir(&fixture.out).unwrap();
        let (draft, owner) = (fixture.out.join(".highwater-sink-job-sink-1"), fixture.out.join(OWNER_FILE));
        fs::write(&draft, "job\nsi").unwrap();
        if owner_is_linked {
            fs::write(&draft, "job\nsink\n").unwrap();
            fs::hard_link(&draft, &owner).unwrap();
        }
        fs::write(fixture.out.join(".highwater-sink-job-other-1"), "job\noth").unwrap();
        fixture.start(attempt, None).unwrap();
        assert_eq!(fs::read_to_string(&owner).unwrap(), "job\nsink\n");
        assert_eq!(names(&fixture.out), [".highwater-sink-job-other-1"], "another sink's may be at work");
    }
}

/// Each removes the drafts of those before it.
#[test]
fn starts_at_the_same_time_take_the_directory_all_the_same() {
    for _ in 0..100 {
        let fixture = Fixture::new();
        std::thread::scope(|scope| {
            let start = |attempt| fixture.start(attempt, None).unwrap();
            (1..=4).for_each(|attempt| drop(scope.spawn(move || start(attempt))));
        });
    }
}
