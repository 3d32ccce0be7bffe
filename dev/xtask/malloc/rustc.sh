#!/bin/sh
# rustc beside the malloc: it may bring one of its own, which comes first; the linker that it starts does not, and
# neither does the program that it makes, which is run.
set -eu

cat >program.rs <<'END'
use std::collections::{BTreeMap, HashMap};
use std::thread;

fn work(seed: u64) -> u64 {
    let mut lists: HashMap<String, Vec<u64>> = HashMap::new();
    for n in 0..50_000u64 {
        lists.entry(format!("key {}", n * seed % 997)).or_default().push(n);
    }
    lists.iter().map(|(key, list)| key.len() as u64 * list.iter().sum::<u64>()).fold(0, u64::wrapping_add)
}

fn main() {
    let is_under = std::env::var_os("LD_PRELOAD").is_some();
    assert_eq!(std::fs::read_to_string("/proc/self/maps").unwrap().contains("libfreehold"), is_under);
    let threads: Vec<_> = (1..=6).map(|seed| thread::spawn(move || work(seed))).collect();
    let sums: BTreeMap<_, _> = threads.into_iter().enumerate().map(|(n, t)| (n, t.join().unwrap())).collect();
    println!("{sums:?}");
}
END
rustc --edition 2021 -O program.rs
./program
