//! The cores and GPUs of one machine over time.

/// Whether a task may use a gap between two others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Tasks follow what their machine does already.
    Append,
    /// Tasks use the first gap that is long enough.
    Insert,
}

/// The cores and GPUs of one machine over time.
#[derive(Debug, Clone)]
pub(crate) struct Timeline {
    /// For each core: from when on it is free for ever.
    cores: Vec<f64>,
    /// For each core: when it is busy, in order.
    busy: Vec<Vec<(f64, f64)>>,
    /// For each GPU: from when on it is free for ever.
    gpus: Vec<f64>,
}

impl Timeline {
    pub(crate) fn new(cores: u32, gpus: u32, start_up: f64) -> Self {
        Self {
            cores: vec![start_up; cores as usize],
            busy: vec![Vec::new(); cores as usize],
            gpus: vec![start_up; gpus as usize],
        }
    }

    /// The earliest start. Gaps serve tasks with one core; a task that also needs one of several cores' GPU is
    /// appended.
    pub(crate) fn start(&self, ready: f64, duration: f64, cores: u32, gpu: bool, fill: Fill) -> f64 {
        if fill == Fill::Insert && cores == 1 && (!gpu || self.cores.len() == 1) {
            return self.busy.iter().map(|busy| gap(busy, ready, duration)).fold(f64::INFINITY, f64::min);
        }
        let free = match (self.cores.as_slice(), cores) {
            ([free], _) => *free,
            (all, 1) => all.iter().copied().fold(f64::INFINITY, f64::min),
            (all, cores) => {
                let mut all = all.to_vec();
                all.sort_by(f64::total_cmp);
                all[cores as usize - 1]
            }
        };
        let gpu_free = if gpu { self.gpus.iter().copied().fold(f64::INFINITY, f64::min) } else { 0.0 };
        ready.max(free).max(gpu_free)
    }

    /// Occupies cores (and a GPU) that are free from start to finish.
    pub(crate) fn occupy(&mut self, start: f64, finish: f64, cores: u32, gpu: bool) {
        for _ in 0..cores {
            // Among the free cores the one that became free last leaves the others for tasks that could start earlier.
            let free = |core: &usize| self.cores[*core] <= start || fits(&self.busy[*core], start, finish);
            let latest = (0..self.cores.len()).filter(free).max_by(|a, b| {
                let (a, b) = (self.cores[*a], self.cores[*b]);
                // A core with a fitting gap is better than one that is free for ever.
                (a > start).cmp(&(b > start)).then(a.total_cmp(&b))
            });
            let Some(core) = latest else {
                return;
            };
            let busy = &mut self.busy[core];
            // A task without duration comes before the one that starts with it, so that ends are in order, too.
            let place = busy.partition_point(|(from, to)| (*from, *to) < (start, finish));
            busy.insert(place, (start, finish));
            self.cores[core] = self.cores[core].max(finish);
        }
        if gpu {
            let free = self.gpus.iter_mut().filter(|free| **free <= start).max_by(|a, b| a.total_cmp(b));
            if let Some(free) = free {
                *free = finish;
            }
        }
    }
}

/// The first start at or after `ready` at which nothing is busy for `duration`.
fn gap(busy: &[(f64, f64)], ready: f64, duration: f64) -> f64 {
    let mut start = ready;
    let first = busy.partition_point(|(_, to)| *to <= ready);
    for (from, to) in &busy[first..] {
        if start + duration <= *from {
            break;
        }
        start = start.max(*to);
    }
    start
}

fn fits(busy: &[(f64, f64)], start: f64, finish: f64) -> bool {
    let next = busy.partition_point(|(_, to)| *to <= start);
    busy.get(next).is_none_or(|(from, _)| finish <= *from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insertion_uses_the_first_gap_that_is_long_enough() {
        let mut line = Timeline::new(1, 0, 0.0);
        line.occupy(2.0, 4.0, 1, false);
        line.occupy(7.0, 9.0, 1, false);
        assert_eq!(line.start(0.0, 2.0, 1, false, Fill::Insert), 0.0);
        assert_eq!(line.start(1.0, 2.0, 1, false, Fill::Insert), 4.0);
        assert_eq!(line.start(1.0, 4.0, 1, false, Fill::Insert), 9.0);
        assert_eq!(line.start(1.0, 2.0, 1, false, Fill::Append), 9.0);
        line.occupy(4.0, 6.0, 1, false);
        assert_eq!(line.start(0.0, 2.5, 1, false, Fill::Insert), 9.0);
    }

    #[test]
    fn tasks_without_duration_do_not_hide_others() {
        let mut line = Timeline::new(1, 0, 0.0);
        for finish in [5.0, 5.0, 9.0, 5.0] {
            line.occupy(5.0, finish, 1, false);
        }
        assert_eq!(line.start(5.0, 1.0, 1, false, Fill::Insert), 9.0);
        assert_eq!(line.start(5.0, 0.0, 1, false, Fill::Insert), 5.0);
        assert!(!fits(&line.busy[0], 5.0, 6.0));
    }

    #[test]
    fn tasks_with_several_cores_wait_for_all_of_them() {
        let mut line = Timeline::new(3, 1, 1.0);
        assert_eq!(line.start(0.0, 5.0, 3, false, Fill::Append), 1.0);
        line.occupy(1.0, 6.0, 2, false);
        line.occupy(1.0, 4.0, 1, true);
        assert_eq!(line.start(0.0, 1.0, 1, false, Fill::Append), 4.0);
        assert_eq!(line.start(0.0, 1.0, 2, false, Fill::Append), 6.0);
        line.occupy(4.0, 5.0, 1, false);
        assert_eq!(line.start(0.0, 1.0, 1, true, Fill::Append), 5.0);
    }
}
