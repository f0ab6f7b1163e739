//! Neighbours that know more groups than there are.

use xavantes_hostile::fake_manager::{FakeNeighbour, many_summaries};
use xavantes_hostile::{block_on, connect};
use xavantes_tests::{Grid, until};

#[test]
fn a_flood_of_summaries_does_not_cut_groups_apart() {
    let mut grid = Grid::new();
    let a = grid.group("a", &[1], &[]);
    let b = grid.group("b", &[1], &["--adjacent", &a]);
    let knows = |grid: &Grid, from: &str, other: &str| {
        let groups = grid.cli(from, &["groups"]);
        let groups = if groups.code == 0 { groups.json() } else { return None };
        groups["groups"].as_array()?.iter().find(|group| group["group"] == other).cloned()
    };
    until("the groups know each other", 20, || knows(&grid, &a, "b").and(knows(&grid, &b, "a")));
    block_on(async {
        let channel = connect(&a).await;
        let mut neighbours = Vec::new();
        for number in 0..30 {
            let name = format!("evil{number}");
            let first = many_summaries(&name, &name, 30_000, 1);
            neighbours.push(FakeNeighbour::connect(&channel, first).await.expect("it is accepted"));
        }
        for round in 2..5 {
            for (number, neighbour) in neighbours.iter().enumerate() {
                let name = format!("evil{number}");
                neighbour.send(many_summaries(&name, &name, 30_000, round)).await;
            }
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        }
        assert!(knows(&grid, &a, "b").is_some_and(|group| group["age_seconds"].as_f64().is_none_or(|age| age < 9.0)));
        assert!(knows(&grid, &b, "a").is_some(), "b still hears of a");
        let groups = grid.cli(&a, &["groups"]).ok().json();
        assert!(
            groups["groups"].as_array().is_some_and(|groups| groups.len() <= 1100),
            "the number of groups is bounded"
        );
    });
    assert!(grid.log("a/main").contains("ignored summaries of a neighbour"));
}
