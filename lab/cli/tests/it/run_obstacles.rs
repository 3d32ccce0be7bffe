//! Programs that keep their own malloc under `freehold run`: each runs, with its exit status, after one sentence that
//! gives the reason.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Sandbox, freehold, stderr};

/// Program that ends with status 7, also under a malloc that is not Freehold's.
const SOURCE: &str = "#include <stdlib.h>\nint main(void) { free(malloc(100)); return 7; }\n";
/// Program with a malloc of its own.
const OWN_MALLOC: &str = "#include <stddef.h>\nstatic char memory[1 << 20];\nstatic size_t used;\n\
                          void *malloc(size_t size) { return memory + (used += size + 15 & ~15) - size; }\n\
                          void free(void *block) {}\nint main(void) { free(malloc(100)); return 7; }\n";
/// Plugin that returns a block, and program that frees it. Opened with `RTLD_DEEPBIND`, the plugin has the C library's
/// malloc.
const PLUGIN: &str = "#include <stdlib.h>\nchar *give(void) { return malloc(100); }\n";
const HOST: &str = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdlib.h>\nint main(int count, char **words) {\n\
                    void *plugin = dlopen(words[1], RTLD_NOW | RTLD_DEEPBIND);\n\
                    free(((char *(*)(void))dlsym(plugin, \"give\"))());\n}\n";
/// Program that is killed for a forbidden system call of its own.
const FORBIDDEN: &str = "#include <signal.h>\nint main(void) { raise(SIGSYS); }\n";

/// Compiles a program; returns `None`, with a message, if this machine cannot.
fn compile(sandbox: &Sandbox, source: &str, flags: &[&str]) -> Option<String> {
    let (file, program) = (sandbox.path("source.c"), sandbox.argument("program"));
    fs::write(&file, source).unwrap();
    let output = Command::new("gcc").args(flags).arg("-o").arg(&program).arg(&file).output();
    let is_compiled = output.is_ok_and(|output| output.status.success());
    if !is_compiled {
        leave_out(&format!("gcc {flags:?}"));
    }
    is_compiled.then_some(program)
}

/// Writes a message that the test's harness does not hide.
fn leave_out(what: &str) {
    let mut errors = std::io::stderr();
    writeln!(errors, "left out: {what}").unwrap();
}

/// Asserts that a program ran with its status, after one sentence.
fn assert_reported(output: &Output, part: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.lines().count() == 1 && said.starts_with("freehold: `") && said.contains(part), "{said}");
}

#[test]
fn program_that_keeps_its_malloc_is_reported_once_and_runs() {
    for (source, flags, part) in [
        (SOURCE, &["-static"][..], "is linked statically"),
        (SOURCE, &["-static-pie"], "is linked statically"),
        (SOURCE, &["-m32"], "another word size"),
        (SOURCE, &["-fsanitize=address"], "is built with a sanitizer"),
        (SOURCE, &["-fsanitize=thread"], "is built with a sanitizer"),
        (OWN_MALLOC, &["-rdynamic", "-fno-builtin"], "a malloc of its own"),
    ] {
        let sandbox = Sandbox::new();
        if let Some(program) = compile(&sandbox, source, flags) {
            assert_reported(&freehold(&["run", "--", &program]), part);
        }
    }
}

#[test]
fn script_is_reported_for_its_interpreter() {
    let sandbox = Sandbox::new();
    let Some(program) = compile(&sandbox, SOURCE, &["-static"]) else { return };
    let script = sandbox.path("script");
    fs::write(&script, format!("#!{program} -x\n")).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    assert_reported(&freehold(&["run", "--", script.to_str().unwrap()]), "is linked statically");
}

/// Change of a program's file.
type Change = fn(&mut [u8]);

/// Replaces bytes of a program, which cannot run any more on most machines.
fn alter(program: &str, replace: Change) {
    let mut bytes = fs::read(program).unwrap();
    replace(&mut bytes);
    fs::write(program, bytes).unwrap();
}

#[test]
fn program_for_another_system_is_reported_before_it_fails() {
    let cases: [(Change, &str); 3] = [
        (|bytes| bytes[4] = 1, "another word size"),
        (|bytes| bytes[18..20].copy_from_slice(&[0x50, 0]), "is for another processor"),
        (name_musl, "uses musl"),
    ];
    for (change, part) in cases {
        let sandbox = Sandbox::new();
        let Some(program) = compile(&sandbox, SOURCE, &[]) else { return };
        alter(&program, change);
        let output = freehold(&["run", "--", &program]);
        let said = stderr(&output);
        assert!(!output.status.success() && said.lines().next().is_some_and(|line| line.contains(part)), "{said}");
    }
}

/// Replaces the name of glibc's loader by the name of musl's.
fn name_musl(bytes: &mut [u8]) {
    let loader: &[u8] = b"/ld-linux-";
    let at = bytes.windows(loader.len()).position(|part| part == loader).expect("a program names its loader");
    bytes[at..at + 9].copy_from_slice(b"/ld-musl-");
}

#[test]
fn program_with_more_rights_than_its_user_is_reported() {
    let sandbox = Sandbox::new();
    let Some(program) = compile(&sandbox, SOURCE, &[]) else { return };
    if chown(&program, Some(65534), None).is_err() {
        return leave_out("a program of another user, because this user cannot create it");
    }
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    let folder = Path::new(&program).parent().unwrap();
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    assert_reported(&freehold(&["run", "--", &program]), "rights that its user does not have");
}

#[test]
fn forbidden_system_call_is_reported_when_the_command_waits() {
    let sandbox = Sandbox::new();
    let Some(program) = compile(&sandbox, FORBIDDEN, &[]) else { return };
    let output = freehold(&["run", "--stats", "--", &program]);
    assert_eq!(output.status.code(), Some(128 + 31));
    assert!(stderr(&output).contains("--set system-calls=few"), "{}", stderr(&output));
}

#[test]
fn free_of_a_plugins_block_names_deepbind() {
    let (of_plugin, of_host) = (Sandbox::new(), Sandbox::new());
    let Some(plugin) = compile(&of_plugin, PLUGIN, &["-fPIC", "-shared"]) else { return };
    let Some(host) = compile(&of_host, HOST, &[]) else { return };
    for option in ["hardened=off", "hardened=on"] {
        let output = freehold(&["run", "--set", option, "--", &host, &plugin]);
        assert!(!output.status.success() && stderr(&output).contains("RTLD_DEEPBIND"), "{}", stderr(&output));
    }
}

#[test]
fn program_that_uses_the_malloc_is_not_reported() {
    for words in [&["sh", "-c", "exit 7"][..], &["/bin/sh", "-c", "exit 7"]] {
        let output = freehold(&[&["run", "--"], words].concat());
        assert!(output.status.code() == Some(7) && output.stderr.is_empty(), "{}", stderr(&output));
    }
}
