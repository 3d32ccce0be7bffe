//! Bad input: each kind yields one sentence, exit status 2, and no output that could be taken for a complete one.

use std::fs;

use crate::common::{Sandbox, assert_refused, facts, freehold, raw, rows, stderr};
use freehold_trace::Facts;
use freehold_trace::kernel::Release;

/// Asserts that every command that reads a recording refuses the file `name` of the sandbox.
fn assert_every_reader_refuses(sandbox: &Sandbox, name: &str, part: &str) {
    let (bad, good) = (sandbox.argument(name), sandbox.recording("good.parquet"));
    let json = sandbox.argument("out.json");
    for arguments in [
        vec!["inspect", &bad, "--json", "-"],
        vec!["inspect", &bad, "--json", &json],
        vec!["diff", &bad, &good],
        vec!["diff", &good, &bad, "--json", &json],
        vec!["replay", &bad, "--policy", "linux-6.12"],
        vec!["compare", &good, &bad, "--json", &json],
    ] {
        assert_refused(&freehold(&arguments), part);
    }
    assert!(!sandbox.listing().contains(&"out.json".to_owned()), "{:?}", sandbox.listing());
}

#[test]
fn existing_recordings_are_replaced_only_with_force() {
    let sandbox = Sandbox::new();
    let file = sandbox.argument("r.parquet");
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../convert/tests/samples/perf.data");
    for command in [
        &["record", "--out", &file, "--", "true"][..],
        &["snapshot", "-o", &file],
        &["age", "--memory", "64MiB", "-o", &file],
        &["import", trace, "-o", &file],
        &["boot", "--kernel", "no-such-kernel", "-o", &file],
    ] {
        fs::write(&file, "precious").unwrap();
        assert_refused(&freehold(command), "r.parquet exists; give --force to replace it");
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious", "{command:?}");
    }
    assert!(freehold(&["age", "--memory", "64MiB", "-o", &file, "--force"]).status.success());
    assert!(freehold(&["inspect", &file]).status.success());
}

#[test]
fn missing_file_is_refused() {
    assert_every_reader_refuses(&Sandbox::new(), "nowhere.parquet", "nowhere.parquet");
}

#[test]
fn foreign_file_is_refused() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("notes.txt"), "not a recording, and long enough to be a footer\n").unwrap();
    assert_every_reader_refuses(&sandbox, "notes.txt", "not a Parquet file");
    fs::write(sandbox.path("empty"), "").unwrap();
    assert_every_reader_refuses(&sandbox, "empty", "empty");
}

#[test]
fn folder_is_refused() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("folder")).unwrap();
    assert_every_reader_refuses(&sandbox, "folder", "folder");
}

#[test]
fn truncated_file_is_refused() {
    let sandbox = Sandbox::new();
    let whole = fs::read(sandbox.recording("whole.parquet")).unwrap();
    for kept in [whole.len() - 1, whole.len() / 2, 16] {
        fs::write(sandbox.path("cut.parquet"), &whole[..kept]).unwrap();
        assert_every_reader_refuses(&sandbox, "cut.parquet", "cut.parquet");
    }
}

#[test]
fn corrupt_file_is_refused() {
    let sandbox = Sandbox::new();
    let mut bytes = fs::read(sandbox.recording("whole.parquet")).unwrap();
    for byte in &mut bytes[200..240] {
        *byte ^= 0x55;
    }
    fs::write(sandbox.path("bent.parquet"), &bytes).unwrap();
    assert_every_reader_refuses(&sandbox, "bent.parquet", "bent.parquet");
}

#[test]
fn unknown_kernel_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.recording_with("bsd.parquet", &Facts { kernel_release: "14.1-RELEASE".to_owned(), ..facts() });
    assert_every_reader_refuses(&sandbox, "bsd.parquet", "14.1-RELEASE");
}

#[test]
fn unsupported_zones_are_refused() {
    let sandbox = Sandbox::new();
    let mut far = facts();
    far.zones_start[0].start_pfn = 1 << 40;
    let mut remote = facts();
    remote.zones_start[0].node = u16::MAX;
    for (name, facts, part) in [("far.parquet", far, "above 16 TiB"), ("remote.parquet", remote, "on node 65535")] {
        let file = sandbox.recording_with(name, &facts);
        assert_refused(&freehold(&["replay", &file, "--policy", "linux-6.12"]), part);
    }
}

#[test]
fn events_out_of_order_are_refused() {
    let sandbox = Sandbox::new();
    let mut rows = rows();
    raw::write_unchecked(&sandbox.path("sorted.parquet"), &rows, &facts());
    let sorted = freehold(&["inspect", &sandbox.argument("sorted.parquet")]);
    assert!(sorted.status.success(), "the unchecked writer itself is at fault: {}", stderr(&sorted));
    let last = rows.len() - 1;
    rows.swap(last - 700, last);
    raw::write_unchecked(&sandbox.path("swapped.parquet"), &rows, &facts());
    assert_every_reader_refuses(&sandbox, "swapped.parquet", "out of order");
}

#[test]
fn unknown_kernel_error_names_the_kernel_of_the_nearest_rules() {
    for version in ["5.10", "6.15", "6.16", "6.19", "7.0", "7.2.1", "7.9"] {
        let rules = Release::parse(version).unwrap().rules();
        let output = freehold(&["sim", "steady", "--b", &format!("linux-{version}")]);
        assert_refused(&output, &format!("the nearest kernel is `{rules}`"));
    }
    assert_refused(&freehold(&["sim", "steady", "--b", "pcp.batch=31"]), "perhaps `linux-6.12,pcp.batch=31` is meant");
}

#[test]
fn misspelled_policy_error_suggests_the_nearest_name() {
    let sandbox = Sandbox::new();
    let good = sandbox.recording("good.parquet");
    for (policy, near) in [
        ("linux-6.21", "`linux-6.12`"),
        ("linux-6.12,pcp=merg", "`merge`"),
        ("linux-6.12,pcp.bacth=31", "`pcp.batch`"),
        ("linux-6.12,pcp.batch=0", "from 1 to 4096"),
    ] {
        assert_refused(&freehold(&["replay", &good, "--policy", policy]), near);
        assert_refused(&freehold(&["compare", &good, "--a", policy]), near);
        assert_refused(&freehold(&["compare", &good, "--b", "freehold", "--b", policy]), near);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_an_error_on_stdout_and_in_the_json_file() {
    let sandbox = Sandbox::new();
    let good = sandbox.recording("good.parquet");
    assert_refused(&freehold(&["inspect", &good, "--json", "/dev/full"]), "/dev/full");
    let full = fs::File::create("/dev/full").unwrap();
    let output = std::process::Command::new(assert_cmd::cargo::cargo_bin("freehold"))
        .args(["inspect", &good])
        .stdout(full)
        .output()
        .unwrap();
    assert_refused(&output, "stdout");
}

#[test]
fn unwritable_json_file_leaves_nothing() {
    let sandbox = Sandbox::new();
    let good = sandbox.recording("good.parquet");
    assert_refused(&freehold(&["inspect", &good, "--json", &sandbox.argument("no/such/out.json")]), "out.json");
    assert_eq!(sandbox.listing(), ["good.parquet"]);
}

#[test]
fn wrong_usage_exits_with_2_and_suggests_a_command() {
    let output = freehold(&["comapre"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("'compare'"), "{}", stderr(&output));
    for cpus in ["0", "513", "many"] {
        let output = freehold(&["compare", "--cpus", cpus]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("from 1 to 512"), "{}", stderr(&output));
    }
}

/// Recording needs root. If this process is root, the command runs as another user; otherwise it runs unchanged.
#[cfg(target_os = "linux")]
#[test]
fn recording_without_root_is_refused() {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;

    let sandbox = Sandbox::new();
    let binary = assert_cmd::cargo::cargo_bin("freehold");
    let mut command = std::process::Command::new(&binary);
    command.args(["record", "--out", &sandbox.argument("r.parquet"), "--", "true"]).current_dir("/");
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(65_534).gid(65_534);
    }
    match command.output() {
        Ok(output) => assert_refused(&output, "root"),
        Err(error) => println!("skipped: {} cannot be run by another user: {error}", binary.display()),
    }
    assert!(sandbox.listing().is_empty());
}

#[test]
fn unwritable_or_duplicate_outputs_are_refused_early() {
    let sandbox = Sandbox::new();
    let good = sandbox.recording("good.parquet");
    let nowhere = sandbox.argument("nowhere/out");
    for format in ["--json", "--csv", "--markdown", "--mmtests"] {
        assert_refused(&freehold(&["compare", &good, format, &nowhere]), "cannot write");
    }
    assert_refused(&freehold(&["compare", &good, "--csv", "-", "--markdown", "-"]), "two formats have the same target");
    assert_refused(&freehold(&["compare", &good, "--format", "csv", "--json", "-"]), "both print to stdout");
    assert_refused(&freehold(&["compare", &good, "--format", "text", "--mmtests", "-"]), "both print to stdout");
    for no_format in [["compare", "--format", "xml"], ["inspect", "--format", "mmtests"]] {
        let output = freehold(&[&no_format[..], &[&good]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("possible values: text, json, csv, markdown"), "{}", stderr(&output));
    }
    assert_refused(&freehold(&["compare", &good, &good]), "given twice");
    assert_refused(&freehold(&["compare", &good, "--b", "freehold", "--b", "freehold"]), "given twice");
    for margin in ["-1", "100", "NaN"] {
        assert_refused(&freehold(&["compare", &good, &format!("--margin={margin}")]), "the margin cannot be");
    }
}

#[test]
fn report_never_overwrites_its_recording() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("r.parquet");
    std::os::unix::fs::symlink(&recording, sandbox.path("link")).unwrap();
    let before = fs::read(&recording).unwrap();
    for line in [["compare", "--json"], ["inspect", "--markdown"], ["replay", "--csv"], ["compare", "--mmtests"]] {
        for target in [recording.clone(), sandbox.argument("link")] {
            assert_refused(&freehold(&[line[0], &recording, line[1], &target]), "is an input");
        }
    }
    assert_refused(&freehold(&["diff", &recording, &recording, "--csv", &recording]), "is an input");
    assert_eq!(fs::read(&recording).unwrap(), before);
}
