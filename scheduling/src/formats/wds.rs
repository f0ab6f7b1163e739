//! `.wds` files: the toys of Stockinger 2020 without GPUs and prices. The same as [`super::gpu`] without these columns;
//! machines are numbered from 1, and local access takes a second.

use super::ReadError;
use super::gpu::{Dialect, read_dialect};
use crate::problem::{CostModel, Problem};

/// Reads a problem.
pub fn read(document: &str) -> Result<Problem, ReadError> {
    read_dialect(
        document,
        &Dialect { gpu: false, first_machine: 1, model: CostModel::inline_gpu(), first_writers_only: false },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileId, MachineId};

    #[test]
    fn a_small_problem_is_read() {
        let text = "1 2 2\nt0 60 1 d0 1 d1\nd0 30 1 1 1\nd1 50 0\n0.2 0.05\n1000 1000\n0 15\n15 0";
        let problem = read(text).unwrap();
        assert_eq!(problem.workflow().copies(FileId(0)), [MachineId(0)]);
        assert_eq!(problem.placed_access_seconds(FileId(0), MachineId(0)), 1.0);
        let error = read(&text.replace("1 1 1", "1 1 0")).unwrap_err();
        assert_eq!(error.to_string(), "line 3: there is no machine 0");
    }
}
