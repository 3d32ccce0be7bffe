//! Refusals of `boot` and `diff --kernels` before anything is booted. Boots themselves are a stage of the gate.

use std::fs;
use std::process::{Command, Output};

use crate::common::{Sandbox, assert_refused, freehold, stderr};

#[test]
fn invalid_kernel_images_are_refused() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("bzImage"), "no kernel at all, but long enough to have a header".repeat(40)).unwrap();
    let out = sandbox.argument("out.parquet");
    let file = sandbox.argument("bzImage");
    for (kernel, part) in
        [(file.as_str(), "not a bootable kernel image"), ("linux", "nor a version"), ("6", "nor a version")]
    {
        assert_refused(&freehold(&["boot", "--kernel", kernel, "--out", &out]), part);
        assert_refused(&freehold(&["diff", "--kernels", kernel, kernel, "--out", &sandbox.argument("runs")]), part);
    }
    assert_refused(&freehold(&["boot", "--kernel", "linux", "--fetch"]), "is not a version");
    assert_eq!(sandbox.listing(), ["bzImage"]);
}

#[test]
fn invalid_guest_options_are_refused() {
    for (options, part) in [
        (["--memory", "12M"], "at least"),
        (["--memory", "1T"], "512M or 1G"),
        (["--cpus", "0"], "0"),
        (["--setting", "swappiness=3"], "vm.min_free_kbytes=65536"),
        (["--setting", "vm.swappiness"], "vm.min_free_kbytes=65536"),
        (["--timeout", "0"], "0"),
        (["--accel", "magic"], "magic"),
    ] {
        let output = freehold(&[["boot", "--kernel", "6.12"].as_slice(), &options].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(stderr(&output).contains(part), "{options:?}: {}", stderr(&output));
    }
}

#[test]
fn missing_folders_are_refused_before_a_kernel_is_fetched() {
    let sandbox = Sandbox::new();
    let (nowhere, folder) = (sandbox.argument("nowhere/out.parquet"), sandbox.argument(""));
    for (options, part) in [
        (["--out", nowhere.as_str()], "make its folder first"),
        (["--out", folder.as_str()], "is a folder"),
        (["--workload", "clam"], "one of"),
        (["--root", nowhere.as_str()], "is not a folder"),
    ] {
        assert_refused(&freehold(&[["boot", "--kernel", "9.99"].as_slice(), &options].concat()), part);
    }
}

/// Runs `freehold` where PATH has no programs, and no kernel is stored.
fn without_programs(empty: &Sandbox, arguments: &[&str]) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("freehold"));
    command.args(arguments).env("PATH", empty.path("")).env("XDG_CACHE_HOME", empty.path(""));
    command.output().expect("the binary runs")
}

#[test]
fn all_missing_programs_are_named_before_a_kernel_is_fetched() {
    let sandbox = Sandbox::new();
    let all = "`qemu-system-x86_64`, `busybox`, `setpriv`, `ldd`, `apt-get`, `apt-cache`, `dpkg-deb`, `xzcat`; install \
               the Debian packages qemu-system-x86, busybox-static, util-linux, libc-bin, apt, dpkg, xz-utils";
    let out = sandbox.argument("out.parquet");
    assert_refused(&without_programs(&sandbox, &["boot", "--kernel", "6.12", "--out", &out]), all);
    assert_refused(&without_programs(&sandbox, &["diff", "--kernels", "6.12", "7.3", "--out", &out]), all);
    let build = ["boot", "--kernel", "6.12", "--out", &out, "--workload", "build"];
    assert_refused(&without_programs(&sandbox, &build), "`cc1`, `as`, `apt-get`");
    assert!(sandbox.listing().is_empty(), "{:?}", sandbox.listing());
}

#[test]
fn options_of_a_bootable_kernel_are_printed_and_checked() {
    let output = freehold(&["boot", "--config-fragment"]);
    let fragment = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && fragment.contains("\nCONFIG_VIRTIO_BLK=y\n"), "{fragment}");
    let sandbox = Sandbox::new();
    let mut image = vec![0; 0x400];
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
    image[0x300..0x306].copy_from_slice(b"6.12.9");
    fs::write(sandbox.path("bzImage"), image).unwrap();
    fs::write(sandbox.path(".config"), fragment.replace("CONFIG_EXT4_FS=y", "CONFIG_EXT4_FS=m")).unwrap();
    let output =
        freehold(&["boot", "--quiet", "--kernel", &sandbox.argument("bzImage"), "--out", &sandbox.argument("none")]);
    match stderr(&output).contains("install the Debian package") {
        true => eprintln!("left out: this machine lacks programs for boots"),
        false => assert_refused(&output, "lacks CONFIG_EXT4_FS (the scratch disk)"),
    }
}

#[test]
fn kernel_diff_requires_two_kernels() {
    for arguments in [
        vec!["diff"],
        vec!["diff", "--kernels", "6.12"],
        vec!["diff", "a.parquet"],
        vec!["diff", "a.parquet", "b.parquet", "--kernels", "6.12", "7.3"],
        vec!["diff", "--kernels", "6.12", "7.3", "--margin", "lots"],
        vec!["diff", "--kernels", "6.12", "7.3", "--runs", "0"],
    ] {
        assert_eq!(freehold(&arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn workloads_are_listed() {
    let output = freehold(&["boot", "--list"]);
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success());
    for name in ["calm", "pressure", "huge-pages", "file-copy", "fork-storm", "slab-churn", "build", "small"] {
        assert!(listed.lines().any(|line| line.starts_with(&format!("{name} "))), "{name}: {listed}");
    }
}
