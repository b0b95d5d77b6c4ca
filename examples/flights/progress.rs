//! Live progress on a terminal, and a summary at the end.

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use highwater::prelude::*;
use highwater::runtime::JobStatus;
use indicatif::{ProgressBar, ProgressStyle};

const REFRESH: Duration = Duration::from_millis(100);

/// Waits for the job and meanwhile shows how it stands, if somebody can see it.
pub(crate) fn watch(handle: JobHandle) -> anyhow::Result<JobResult> {
    if !std::io::stderr().is_terminal() {
        return Ok(handle.wait()?);
    }
    let style = ProgressStyle::with_template("{spinner} [{elapsed_precise}] {human_pos} flights ({per_sec}) {msg}")?;
    let bar = ProgressBar::new_spinner().with_style(style);
    let monitor = handle.monitor();
    let waiting = std::thread::spawn(move || handle.wait());
    while !waiting.is_finished() {
        let status = monitor.status();
        bar.set_position(status.records_read);
        bar.set_message(describe(&status));
        std::thread::sleep(REFRESH);
    }
    bar.finish_and_clear();
    let result = waiting.join().map_err(|_| anyhow::anyhow!("the thread that waits for the job was lost"))?;
    Ok(result?)
}

fn describe(status: &JobStatus) -> String {
    match status.last_checkpoint {
        Some(checkpoint) => format!("checkpoint {checkpoint} complete, {} restarts", status.restarts),
        None => "no checkpoint yet".to_owned(),
    }
}

/// Says what was done.
pub(crate) fn print_summary(status: &JobStatus, output: &Path) {
    let from = match status.restored_from {
        Some(checkpoint) => format!("resumed from checkpoint {checkpoint}"),
        None => "started from nothing".to_owned(),
    };
    println!("Finished; {from}. The results are in {}.", output.display());
    println!("  flights read by this process   {}", status.records_read);
    println!("    of them read again           {}", status.records_replayed);
    println!("    of them too late             {}", status.late_records);
    println!("  checkpoints completed          {}", status.checkpoints_completed);
    println!("  checkpoints failed             {}", status.checkpoints_failed);
    println!("  restarts                       {}", status.restarts);
    for subtask in &status.subtasks {
        println!("  {:<31}{}", format!("{} {}", subtask.operator, subtask.subtask), subtask.records_in);
    }
}
