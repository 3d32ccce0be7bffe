//! `freehold bench` as a program: its output formats, its pages and its refusals. The correctness of verdicts is tested
//! beside the code, on runs whose true difference is known. Here next to nothing is measured, and no time is judged.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{Sandbox, assert_refused, freehold, json, text};
use serde_json::Value;

/// Arguments of a run with as little work as possible.
const QUICK: [&str; 4] = ["bench", "--quick", "--runs", "1"];

fn quick<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&QUICK[..], more].concat()
}

/// Writes a program that prints this list, and gives these answers to a sample: the first one for loops with a single
/// figure.
fn program(sandbox: &Sandbox, listed: &str, [one, two]: [&str; 2]) -> String {
    let script = format!(
        "#!/bin/sh\n\
         if [ \"$1\" = --list ]; then\n\
         echo '{listed}'\n\
         exit\n\
         fi\n\
         while read word rest; do\n\
         case \"$word $rest\" in PIN*) echo OK;; *pair*) echo {one};; *) echo {two};; esac\n\
         done\n"
    );
    let path = sandbox.argument("program.sh");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Writes a program with the peers' protocol that gives these answers to a sample.
fn peers(sandbox: &Sandbox, answer: &str) -> String {
    let listed = r#"[{"peer":"shell","version":"1.2","cases":["order-0-pair","order-9-pair"],"about":"none"}]"#;
    program(sandbox, listed, [answer; 2])
}

/// Writes a program with the mallocs' protocol that has two equal mallocs.
fn mallocs(sandbox: &Sandbox, answers: [&str; 2]) -> String {
    program(sandbox, r#"[{"malloc":"freehold","version":"1"},{"malloc":"shell","version":"2"}]"#, answers)
}

#[test]
fn list_contains_every_benchmark_and_case() {
    let listed = json(&["bench", "--list", "--json", "-"]);
    let names: Vec<_> =
        listed["benches"].as_array().unwrap().iter().map(|bench| bench["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["flags", "contig", "pages", "compaction", "slab", "harness", "malloc", "corruption"]);
    let said = text(&["bench", "--list"]);
    for bench in listed["benches"].as_array().unwrap() {
        for case in bench["cases"].as_array().unwrap() {
            assert!(said.contains(case["name"].as_str().unwrap()), "{said}");
        }
    }
    let one = json(&["bench", "contig", "--list", "--json", "-"]);
    assert_eq!(one["benches"].as_array().unwrap().len(), 1);
}

#[test]
fn bench_json_has_the_documented_shape_and_recipe() {
    let found = json(&quick(&["flags", "contig", "pages", "slab", "--json", "-"]));
    let recipe = &found["recipe"];
    for member in ["command", "freehold", "build", "cpu_model", "kernel_release", "clock"] {
        assert!(!recipe[member].as_str().unwrap().is_empty(), "{member}: {recipe}");
    }
    assert_eq!((&recipe["runs_max"], &recipe["margin_percent"], &recipe["seed"]), (&1.into(), &2.0.into(), &1.into()));
    assert_eq!(recipe["effort"], "quick");
    assert!(recipe["policies"].as_array().unwrap().iter().any(|policy| policy["name"] == "linux-6.12,flags=plain"));
    for bench in found["benches"].as_array().unwrap() {
        let (method, clock, seconds) =
            if bench["bench"] == "slab" { ("contest", "time stamp", 80.0) } else { ("comparisons", "CPU time", 8.0) };
        assert_eq!((&bench["method"], &bench["seconds_max"]), (&method.into(), &seconds.into()), "{}", bench["bench"]);
        assert!(bench["clock"].as_str().unwrap().contains(clock), "{}", bench["clock"]);
        for row in bench["comparisons"].as_array().unwrap() {
            assert_row(row);
        }
    }
    let exact = found["benches"][1]["exact"].as_array().unwrap();
    assert_eq!((&exact[0]["b_count"], &exact[0]["verdict"]), (&512.into(), &"better".into()));
}

fn assert_row(row: &Value) {
    for member in
        ["case", "about", "operation", "a", "b", "bar", "bar_holds", "drift_of_a", "drift_of_ratio", "confidence"]
    {
        assert!(row.get(member).is_some(), "no {member} in {row}");
    }
    for number in ["a_ns", "b_ns", "b_ns_low", "b_ns_high", "ratio", "low", "high"] {
        assert!(row[number].as_f64().unwrap() > 0.0, "{number} of {row}");
    }
    assert!(row["low"].as_f64() <= row["ratio"].as_f64() && row["ratio"].as_f64() <= row["high"].as_f64(), "{row}");
    assert_eq!(row["each_run"].as_array().unwrap().len(), 1, "{row}");
    // One run is not judged.
    assert_eq!((&row["runs"], &row["pairs"], &row["verdict"]), (&1.into(), &2.into(), &"not judged".into()));
    assert!(row["runs_missing"].as_u64().unwrap() >= 9, "{row}");
}

#[test]
fn each_policy_b_has_a_table() {
    let rivals = ["--a", "freehold", "--b", "linux-6.12", "--b", "linux-6.12,flags=plain"];
    let said = text(&[&quick(&["flags"])[..], &rivals].concat());
    for part in ["A = freehold\nB = linux-6.12\n", "A = freehold\nB = linux-6.12,flags=plain\n", "convert-slow", "seed"]
    {
        assert!(said.contains(part), "no {part:?} in\n{said}");
    }
    assert!(said.contains("1 run or 8 s a comparison"), "{said}");
    let lines = said.lines().filter(|line| line.trim_start().starts_with("page_alloc_test: Completed. Time: "));
    assert_eq!(lines.count(), 8, "one line for each of two loops, two policies B and two sides:\n{said}");
}

#[test]
fn unwritable_output_is_refused_before_measuring() {
    let sandbox = Sandbox::new();
    // Measuring would be refused for another reason.
    let broken = peers(&sandbox, "ERR no memory");
    fs::write(sandbox.path("file"), "kept").unwrap();
    fs::create_dir_all(sandbox.path("folder/pages.md")).unwrap();
    let before = sandbox.listing();
    for (option, path) in [
        ("--json", sandbox.argument("no/such.json")),
        ("--json", sandbox.argument("folder")),
        ("--json", sandbox.argument("file/below.json")),
        ("--json", String::new()),
    ] {
        assert_refused(&freehold(&quick(&["pages", "--peers", &broken, option, &path])), "cannot write");
    }
    let kept = freehold(&quick(&["pages", "--peers", &broken, "--json", &sandbox.argument("file")]));
    assert_refused(&kept, "cannot be measured");
    assert_eq!(fs::read_to_string(sandbox.path("file")).unwrap(), "kept");
    assert_eq!(sandbox.listing(), before, "a refused call must leave no files");
}

#[test]
fn programs_with_an_invalid_list_are_refused_early() {
    let sandbox = Sandbox::new();
    let broken = peers(&sandbox, "ERR no memory");
    let arguments = quick(&["pages", "slab", "--peers", &broken, "--mallocs", "/bin/true"]);
    assert_refused(&freehold(&arguments), "its list is invalid");
}

#[test]
fn peers_are_compared_with_the_engine() {
    let sandbox = Sandbox::new();
    let program = peers(&sandbox, "OK 1000 10");
    let found = json(&quick(&["pages", "--json", "-", "--peers", &program]));
    let rows = found["benches"][0]["comparisons"].as_array().unwrap();
    let of_peer: Vec<_> = rows.iter().filter(|row| row["b"] == "shell 1.2").collect();
    let cases: Vec<_> = of_peer.iter().map(|row| row["case"].as_str().unwrap()).collect();
    assert_eq!(cases, ["order-0-pair", "order-9-pair"]);
    assert!(of_peer.iter().all(|row| row["a"] == "freehold" && row["b_ns"] == 100.0), "{of_peer:?}");
    let without = text(&quick(&["pages"]));
    assert!(without.contains("cargo build --release --manifest-path dev/peer-page-allocators/Cargo.toml"), "{without}");
}

#[test]
fn broken_peers_are_refused() {
    let sandbox = Sandbox::new();
    assert_refused(&freehold(&quick(&["pages", "--peers", &sandbox.argument("none")])), "there is no program");
    for answer in ["ERR no memory", "OK 0 0", "nonsense"] {
        let program = peers(&sandbox, answer);
        assert_refused(&freehold(&quick(&["pages", "--peers", &program])), "cannot be measured");
    }
}

#[test]
fn mallocs_are_compared_with_freehold() {
    let sandbox = Sandbox::new();
    let program = mallocs(&sandbox, ["OK 100 500", "OK 100 500 1000"]);
    let found = json(&quick(&["slab", "--json", "-", "--mallocs", &program]));
    let slab = &found["benches"][0];
    for member in ["method", "clock", "runs_max", "seconds_max"] {
        assert_eq!(found["recipe"][member], slab[member], "{member}");
    }
    let standings = slab["standings"].as_array().unwrap();
    let [rivals, mallocs, shell] = [("contest", "rivals"), ("contest", "mallocs"), ("contestant", "shell")]
        .map(|(member, value)| standings.iter().filter(|row| row[member] == value).count());
    assert!(rivals > mallocs && shell > 0, "{standings:?}");
    assert!(standings.iter().all(|row| row["ticks"].as_f64().unwrap() > 0.0), "{standings:?}");
    let duels = slab["duels"].as_array().unwrap();
    let mean = duels.iter().find(|row| row["a"] == "shell" && row["figure"] == "geometric mean").unwrap();
    assert_eq!(
        (&mean["ratio"], &mean["bar"], &mean["bar_holds"]),
        (&1.0.into(), &"B/A at most 0.9".into(), &"open".into())
    );
    let printed = text(&quick(&["slab", "--mallocs", &program, "--b", "linux-6.12,slab=sheaves-bitmap"]));
    let said = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["68 -> 41", "Summary", "Tagged lists against two words", "Hardening", "best other malloc", "rseq/lock"]
    {
        assert!(said.contains(part), "no {part:?} in\n{said}");
    }
}

#[test]
fn broken_mallocs_are_refused_and_missing_peers_hinted() {
    let sandbox = Sandbox::new();
    assert_refused(&freehold(&quick(&["slab", "--mallocs", &sandbox.argument("none")])), "there is no program");
    for answers in [["ERR no memory", "OK 1 1 1"], ["OK 100", "OK 100 5 5"], ["OK 100 5", "OK 100 5 0"]] {
        let program = mallocs(&sandbox, answers);
        assert_refused(&freehold(&quick(&["slab", "--mallocs", &program])), "cannot be measured");
    }
    let without = text(&quick(&["slab"]));
    assert!(without.contains("cargo build --release --manifest-path dev/peer-mallocs/Cargo.toml"), "{without}");
}

/// Tests are built with another profile than `dist`.
#[test]
fn bench_figures_require_the_dist_profile() {
    for arguments in [&["flags", "--runs", "1"][..], &["malloc", "--runs", "1"]] {
        let output = freehold(&[&["bench"], arguments].concat());
        assert_refused(&output, "cargo build --profile dist");
    }
}

#[test]
fn invalid_bench_options_are_refused() {
    for (arguments, part) in [
        (&["flgas"][..], "perhaps `flags` is meant"),
        (&["zebra"], "there are flags, contig, pages, compaction, slab, harness"),
        (&["--margin", "0"], "above 0"),
        (&["--margin", "NaN"], "above 0"),
        (&["--margin", "101"], "up to 100"),
        (&["--time", "0"], "above 0"),
        (&["--time", "-1"], "above 0"),
        (&["--cpu", "60000"], "cannot pin to CPU 60000"),
        (&["flags", "--a", "linux-6.21"], "`linux-6.12`"),
        (&["slab", "--peers", "/nope"], "--peers is for the benchmark `pages`"),
        (&["flags", "pages", "--mallocs", "/nope"], "--mallocs is for the benchmark `slab`"),
        (&["slab", "--b", "freehold,slab=bitmap"], "would ignore the value of `freehold,slab=bitmap`"),
        (&["slab", "--b", "linux-6.12"], "give B slab=sheaves-bitmap"),
        (&["slab", "--b", "freehold", "--b", "freehold,slab.sheaf=64"], "`slab` takes one --b"),
        (&["flags", "--b", "linux-6.12", "--b", "linux-6.12,flags=plian"], "`plain`"),
    ] {
        assert_refused(&freehold(&quick(arguments)), part);
    }
}
