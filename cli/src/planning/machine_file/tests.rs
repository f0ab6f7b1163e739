//! Machine files: what they mean, and what is wrong with them.

use super::*;

const SMALL: &str = r#"
[network]
bandwidth = "100 MB/s"
latency = "5 ms"

[[machine]]
name = "small"
count = 2
price = "0.36/h"
billing = "started 10 min"
start-up = "30 s"

[[machine]]
name = "large"
speed = 4
cores = 8
memory = "64 GiB"
gpus = 1
gpu-speed = 2.5
storage = "1 TB"
bandwidth = "1 Gbit/s"
tags = ["fast"]

[[link]]
between = ["small-2", "large"]
bandwidth = "10 MB/s"

[[file]]
name = "in*.dat"
size = "3 GB"
machines = ["small"]
"#;

#[test]
fn a_file_says_what_machines_there_are() {
    let machines = read(SMALL).unwrap();
    let names: Vec<_> = machines.platform.machines.iter().map(|machine| machine.name.as_str()).collect();
    assert_eq!(names, ["small-1", "small-2", "large"]);
    let [small, _, large] = &machines.platform.machines[..] else { panic!() };
    assert_eq!((small.price, small.billing), (0.36 / 3600.0, Billing::Period { seconds: 600.0 }));
    assert_eq!((small.start_up, large.slowdown, large.cores, large.gpus), (30.0, 0.25, 8, 1));
    assert_eq!((machines.memory[2], machines.tags[2].clone()), (64.0 * 1_073_741_824.0, vec!["fast".to_owned()]));
    let rate = |from: u32, to: u32| machines.platform.network.rate(MachineId(from), MachineId(to));
    assert_eq!((rate(0, 1), rate(0, 2), rate(2, 1)), (100e6, 100e6, 10e6));
    assert_eq!(machines.platform.network.latency(), 0.005);
    let placed = machines.input("in7.dat").unwrap();
    assert_eq!((placed.bytes, placed.machines), (Some(3e9), vec![MachineId(0), MachineId(1)]));
    assert_eq!(machines.input("out.dat"), None);
}

#[test]
fn every_mistake_has_its_place_and_what_is_allowed() {
    let cases = [
        ("[[machine]]\nname = \"a\"\nspeed = \"fast\"", 3, "speed is a number above 0"),
        ("[[machine]]\nname = \"a\"\nspeed = 0", 3, "speed is a number above 0"),
        ("[[machine]]\nname = \"a\"\ncores = 0", 3, "cores is a whole number from 1 to 1000000"),
        ("[[machine]]\nname = \"a\"\nmemory = \"8 XB\"", 3, "memory: a size is a number with one of B, kB, MB"),
        ("[[machine]]\nname = \"a\"\nmemory = 8", 3, "memory is a text in quotes"),
        ("[[machine]]\nname = \"a\"\nprice = \"0.1\"", 3, "price: a price is a number per s, min, h or d"),
        ("[[machine]]\nname = \"a\"\nbilling = \"never\"", 3, "billing is busy, rental, rental-from-start"),
        ("[[machine]]\nname = \"a\"\nspped = 2", 3, "a machine has no key \"spped\""),
        ("[[machine]]\nspeed = 2", 1, "a machine needs a name"),
        ("[[machine]]\nname = \"a\"\n[[machine]]\nname = \"a\"", 4, "another machine has the name \"a\""),
        ("[machine]\nname = \"a\"", 1, "machine is a list of tables: [[machine]]"),
        ("[[machine]]\nname = \"a\"\ncount = 99999", 3, "count is a whole number from 1 to 10000"),
        ("[[machine]]\nname = \"a\"\n[network]\nbandwidth = \"0 MB/s\"", 4, "a bandwidth is above 0"),
        (
            "[[machine]]\nname = \"a\"\n[[link]]\nbetween = [\"a\", \"b\"]\nbandwidth = \"1 MB/s\"",
            4,
            "there is no machine \"b\"",
        ),
        ("[[machine]]\nname = \"a\"\n[[file]]\nsize = \"1 GB\"", 3, "a file needs a name"),
        ("", 1, "the file has no machine"),
        ("[[machine]\n", 1, ""),
    ];
    for (text, line, message) in cases {
        let problems = read(text).unwrap_err();
        let found = 1 + text[..problems[0].span.bytes.start].matches('\n').count();
        assert!(problems[0].message.starts_with(message), "{text}: {problems:?}");
        assert_eq!(found, line, "{text}: {problems:?}");
    }
}

#[test]
fn all_mistakes_are_found_at_once() {
    let problems = read("[[machine]]\nname = \"a\"\nspeed = -1\ncoers = 2\nprice = \"x\"\n").unwrap_err();
    let codes: Vec<_> = problems.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, ["wrong-number", "unknown-key", "wrong-quantity"]);
    assert_eq!(problems[1].help.as_deref(), Some("did you mean \"cores\"?"));
}

#[test]
fn patterns_have_stars_for_any_text() {
    for (pattern, name, expected) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("*", "", true),
        ("a*", "ab", true),
        ("a*c", "abc", true),
        ("a*c", "ac", true),
        ("ab*ba", "aba", false),
        ("*b*", "abc", true),
        ("*b*b*", "abc", false),
    ] {
        assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
    }
}
