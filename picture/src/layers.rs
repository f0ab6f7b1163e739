//! Places of the elements of a graph, after Sugiyama: layers by the longest path, an order within each layer with few
//! crossings, and places near the neighbours. Edges that span layers get a narrow place in each.

/// Rounds of ordering and of placing; more of them change little.
const ROUNDS: usize = 24;
/// Width of the place of an edge that passes a layer.
const PASSAGE: f64 = 10.0;

/// An element or the passage of an edge, in a layer.
struct Cell {
    width: f64,
    layer: usize,
    /// Cells of the neighbouring layers.
    up: Vec<usize>,
    down: Vec<usize>,
    x: f64,
}

/// Places in a graph.
pub(crate) struct Layers {
    /// For each element: its layer, and the middle of it.
    pub places: Vec<(usize, f64)>,
    /// For each edge: the middles of its passages, from the layer below its beginning on.
    pub passages: Vec<Vec<f64>>,
    pub layers: usize,
    pub width: f64,
}

/// Places elements of these widths. Edges go from earlier to later elements in some order without cycles.
pub(crate) fn place(widths: &[f64], edges: &[(usize, usize)], gap: f64) -> Layers {
    let level = levels(widths.len(), edges);
    let layers = level.iter().max().map_or(0, |level| level + 1);
    let cell = |width: f64, layer: usize| Cell { width, layer, up: Vec::new(), down: Vec::new(), x: 0.0 };
    let mut cells: Vec<Cell> = widths.iter().zip(&level).map(|(width, layer)| cell(*width, *layer)).collect();
    let mut paths: Vec<Vec<usize>> = Vec::new();
    for (from, to) in edges {
        let mut path = Vec::new();
        let mut last = *from;
        for layer in level[*from] + 1..level[*to] {
            cells.push(cell(PASSAGE, layer));
            let passage = cells.len() - 1;
            cells[last].down.push(passage);
            cells[passage].up.push(last);
            path.push(passage);
            last = passage;
        }
        cells[last].down.push(*to);
        cells[*to].up.push(last);
        paths.push(path);
    }
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); layers];
    cells.iter().enumerate().for_each(|(number, cell)| rows[cell.layer].push(number));
    order(&mut rows, &cells);
    let width = spread(&rows, &mut cells, gap);
    Layers {
        places: (0..widths.len()).map(|element| (cells[element].layer, cells[element].x)).collect(),
        passages: paths.iter().map(|path| path.iter().map(|passage| cells[*passage].x).collect()).collect(),
        layers,
        width,
    }
}

fn levels(elements: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut level = vec![0; elements];
    let mut down = vec![Vec::new(); elements];
    let mut waits = vec![0; elements];
    for (from, to) in edges {
        down[*from].push(*to);
        waits[*to] += 1;
    }
    let mut ready: Vec<usize> = (0..elements).filter(|element| waits[*element] == 0).collect();
    while let Some(element) = ready.pop() {
        for to in &down[element] {
            level[*to] = level[*to].max(level[element] + 1);
            waits[*to] -= 1;
            if waits[*to] == 0 {
                ready.push(*to);
            }
        }
    }
    level
}

/// Orders each layer by the middle of the neighbours in the layer before, downwards and upwards in turn.
fn order(rows: &mut [Vec<usize>], cells: &[Cell]) {
    let mut position = vec![0.0; cells.len()];
    let remember = |row: &[usize], position: &mut Vec<f64>| {
        row.iter().enumerate().for_each(|(place, cell)| position[*cell] = place as f64 / row.len() as f64);
    };
    rows.iter().for_each(|row| remember(row, &mut position));
    for round in 0..ROUNDS {
        let downwards = round % 2 == 0;
        for step in 0..rows.len() {
            let row = if downwards { step } else { rows.len() - 1 - step };
            let middle = |cell: usize| {
                let neighbours = if downwards { &cells[cell].up } else { &cells[cell].down };
                let sum: f64 = neighbours.iter().map(|neighbour| position[*neighbour]).sum();
                if neighbours.is_empty() { position[cell] } else { sum / neighbours.len() as f64 }
            };
            let mut keyed: Vec<(f64, usize)> = rows[row].iter().map(|cell| (middle(*cell), *cell)).collect();
            keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
            rows[row] = keyed.into_iter().map(|(_, cell)| cell).collect();
            remember(&rows[row], &mut position);
        }
    }
}

/// Moves the cells of each layer near their neighbours without changing their order. Returns the width of all.
fn spread(rows: &[Vec<usize>], cells: &mut [Cell], gap: f64) -> f64 {
    for row in rows {
        let mut x = 0.0;
        for cell in row {
            cells[*cell].x = x + cells[*cell].width / 2.0;
            x += cells[*cell].width + gap;
        }
        let half = (x - gap) / 2.0;
        row.iter().for_each(|cell| cells[*cell].x -= half);
    }
    for round in 0..ROUNDS {
        for step in 0..rows.len() {
            let row = &rows[if round % 2 == 0 { step } else { rows.len() - 1 - step }];
            let wanted: Vec<f64> = row
                .iter()
                .map(|cell| {
                    let cell = &cells[*cell];
                    let neighbours = || cell.up.iter().chain(&cell.down);
                    let sum: f64 = neighbours().map(|neighbour| cells[*neighbour].x).sum();
                    match neighbours().count() {
                        0 => cell.x,
                        count => sum / count as f64,
                    }
                })
                .collect();
            settle(row, &wanted, cells, gap);
        }
    }
    let left = cells.iter().map(|cell| cell.x - cell.width / 2.0).fold(f64::INFINITY, f64::min);
    let right = cells.iter().map(|cell| cell.x + cell.width / 2.0).fold(f64::NEG_INFINITY, f64::max);
    if cells.is_empty() {
        return 0.0;
    }
    cells.iter_mut().for_each(|cell| cell.x -= left);
    right - left
}

/// Puts the cells of a row as near to their wanted places as their order and widths allow: neighbours that overlap move
/// together as one block around the mean of what they want.
fn settle(row: &[usize], wanted: &[f64], cells: &mut [Cell], gap: f64) {
    // Each block: its first cell, its number of cells, and the sum of the places that its first cell would want.
    let mut blocks: Vec<(usize, usize, f64)> = Vec::new();
    let mut offset = vec![0.0; row.len()];
    for place in 1..row.len() {
        let apart = (cells[row[place - 1]].width + cells[row[place]].width) / 2.0 + gap;
        offset[place] = offset[place - 1] + apart;
    }
    for place in 0..row.len() {
        blocks.push((place, 1, wanted[place] - offset[place]));
        while let [.., (_, before, earlier), (_, count, later)] = blocks[..]
            && earlier / before as f64 > later / count as f64
        {
            blocks.pop();
            if let Some(last) = blocks.last_mut() {
                last.1 += count;
                last.2 += later;
            }
        }
    }
    for (first, count, sum) in blocks {
        for place in first..first + count {
            cells[row[place]].x = sum / count as f64 + offset[place];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_a_layer_do_not_overlap_and_edges_go_down() {
        let widths = [40.0, 60.0, 80.0, 40.0, 100.0, 20.0];
        let edges = [(0, 2), (0, 3), (1, 3), (2, 4), (3, 4), (0, 5), (4, 5)];
        let layers = place(&widths, &edges, 10.0);
        for (from, to) in edges {
            assert!(layers.places[from].0 < layers.places[to].0);
        }
        for one in 0..widths.len() {
            for other in 0..one {
                let ((layer, x), (level, y)) = (layers.places[one], layers.places[other]);
                let apart = (widths[one] + widths[other]) / 2.0;
                assert!(layer != level || (x - y).abs() > apart, "{one} {other}");
            }
        }
        assert_eq!(layers.passages[5].len(), 2, "the long edge passes two layers");
        assert!(layers.places.iter().zip(widths).all(|((_, x), width)| x - width / 2.0 > -0.001));
    }

    #[test]
    fn a_diamond_is_symmetric() {
        let layers = place(&[50.0; 4], &[(0, 1), (0, 2), (1, 3), (2, 3)], 10.0);
        assert!((layers.places[0].1 - layers.places[3].1).abs() < 0.01);
        assert!((layers.places[0].1 - (layers.places[1].1 + layers.places[2].1) / 2.0).abs() < 0.01);
    }
}
