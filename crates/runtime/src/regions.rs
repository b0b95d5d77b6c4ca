//! The regions of a job: its tasks, divided so that no record goes from one region to another.

use std::collections::BTreeSet;

use crate::graph::JobGraph;

/// Which tasks are one region. What one of them loses can be made good only by all of them together; whatever happens in one
/// region, the others need not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regions {
    /// By task: the least index of a task of its region.
    of_task: Vec<u32>,
}

impl Regions {
    /// The regions of a job.
    pub fn of(graph: &JobGraph) -> Self {
        let edges: Vec<(usize, usize)> = graph.edges.iter().map(|edge| (edge.from, edge.to)).collect();
        Self::over(graph.tasks.len(), &edges)
    }

    fn over(tasks: usize, edges: &[(usize, usize)]) -> Self {
        let mut of_task: Vec<u32> = (0..tasks as u32).collect();
        for (from, to) in edges {
            let (one, other) = (of_task[*from], of_task[*to]);
            let (least, joined) = (one.min(other), one.max(other));
            of_task.iter_mut().filter(|region| **region == joined).for_each(|region| *region = least);
        }
        Self { of_task }
    }

    /// The tasks of the region of a task, itself included.
    pub(crate) fn tasks_with(&self, task: u32) -> BTreeSet<u32> {
        let region = self.of_task[task as usize];
        (0..).zip(&self.of_task).filter(|(_, of)| **of == region).map(|(task, _)| task).collect()
    }

    /// The tasks of all other regions.
    pub fn tasks_without(&self, tasks: &BTreeSet<u32>) -> BTreeSet<u32> {
        (0..self.of_task.len() as u32).filter(|task| !tasks.contains(task)).collect()
    }

    /// Whether all tasks are one region.
    pub(crate) fn is_one(&self) -> bool {
        self.of_task.iter().all(|region| *region == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_without_edges_are_regions_of_their_own() {
        let regions = Regions::over(3, &[]);
        assert_eq!(regions.tasks_with(1), BTreeSet::from([1]));
        assert_eq!(regions.tasks_without(&BTreeSet::from([1])), BTreeSet::from([0, 2]));
        assert!(!regions.is_one());
    }

    #[test]
    fn tasks_that_records_go_between_are_one_region_whatever_the_order_of_the_edges() {
        // 0 -> 3 -> 5 and 1 -> 5, so that all of these are one; 2 -> 4 is another.
        let mut edges = vec![(0, 3), (3, 5), (1, 5), (2, 4)];
        for _ in 0..edges.len() {
            edges.rotate_left(1);
            let regions = Regions::over(6, &edges);
            for task in [0, 1, 3, 5] {
                assert_eq!(regions.tasks_with(task), BTreeSet::from([0, 1, 3, 5]));
            }
            assert_eq!(regions.tasks_with(4), BTreeSet::from([2, 4]));
            assert_eq!(regions.tasks_with(2), BTreeSet::from([2, 4]));
        }
    }

    #[test]
    fn a_task_that_feeds_two_others_is_in_one_region_with_both() {
        let regions = Regions::over(3, &[(0, 1), (0, 2)]);
        assert_eq!(regions.tasks_with(2), BTreeSet::from([0, 1, 2]));
        assert!(regions.is_one());
        assert_eq!(regions.tasks_without(&regions.tasks_with(0)), BTreeSet::new());
    }
}
