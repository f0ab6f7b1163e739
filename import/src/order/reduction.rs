//! Transitive reduction: removes edges that a longer path implies.

/// Tasks per block of columns: bounds memory to 128 bytes per task.
const BLOCK: usize = 1024;
const WORDS: usize = BLOCK / 64;

/// Returns the children of each task without those that are also reached through another child. `order` has every task
/// after its parents.
pub(crate) fn reduce(children: &[Vec<usize>], order: &[usize]) -> Vec<Vec<usize>> {
    let tasks = children.len();
    let mut kept: Vec<Vec<usize>> = vec![Vec::new(); tasks];
    // One bit for each task of the block: whether the row's task reaches it.
    let mut reaches = vec![[0u64; WORDS]; tasks];
    for first in (0..tasks).step_by(BLOCK) {
        let block = first..(first + BLOCK).min(tasks);
        for task in order.iter().rev().copied() {
            let mut through = [0u64; WORDS];
            for child in &children[task] {
                through.iter_mut().zip(&reaches[*child]).for_each(|(through, reached)| *through |= reached);
            }
            let mut all = through;
            for child in children[task].iter().filter(|child| block.contains(*child)) {
                let (word, bit) = ((child - first) / 64, 1u64 << ((child - first) % 64));
                if through[word] & bit == 0 {
                    kept[task].push(*child);
                }
                all[word] |= bit;
            }
            reaches[task] = all;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_that_a_path_implies_is_removed() {
        let children = vec![vec![1, 2, 3], vec![2], vec![3], vec![]];
        assert_eq!(reduce(&children, &[0, 1, 2, 3]), [vec![1], vec![2], vec![3], vec![]]);
    }

    #[test]
    fn blocks_see_paths_through_tasks_of_other_blocks() {
        // A chain over several blocks, and an edge from its first task to each other one.
        let tasks = 3 * BLOCK + 7;
        let mut children: Vec<Vec<usize>> = (0..tasks).map(|task| vec![task + 1]).collect();
        children[tasks - 1].clear();
        let expected = children.clone();
        children[0] = (1..tasks).collect();
        let order: Vec<usize> = (0..tasks).collect();
        assert_eq!(reduce(&children, &order), expected);
    }
}
