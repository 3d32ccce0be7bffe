//! Tests of the removal of names: each kind of name, kept names, and repeated removal.

use crate::facts::{HeapMoment, StackCount};

use super::*;

fn tasks_named(names: &[&str]) -> Vec<Task> {
    (0..).zip(names).map(|(index, name)| Task { pid: index * 100, name: (*name).to_owned() }).collect()
}

fn caches_named(names: &[&str]) -> Vec<CacheFacts> {
    names.iter().map(|name| CacheFacts { name: (*name).to_owned(), ..CacheFacts::default() }).collect()
}

fn names(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.name.as_str()).collect()
}

fn cache_names(caches: &[CacheFacts]) -> Vec<&str> {
    caches.iter().map(|cache| cache.name.as_str()).collect()
}

#[test]
fn equal_names_and_ids_get_equal_numbers() {
    let heap = HeapFacts {
        pid: 200,
        name: "billing".to_owned(),
        threads: vec![200, 7000, 100],
        moments: vec![HeapMoment::default()],
    };
    let mut tasks = tasks_named(&["", "nginx", "billing", "nginx"]);
    tasks[3].pid = 100;
    let facts = anonymize(Facts { tasks, heaps: vec![heap], ..Facts::default() });
    assert_eq!(names(&facts.tasks), ["", "task-1", "task-2", "task-1"]);
    assert_eq!(facts.tasks.iter().map(|task| task.pid).collect::<Vec<_>>(), [0, 1, 2, 1]);
    let HeapFacts { pid, name, threads, moments } = &facts.heaps[0];
    assert_eq!((*pid, name.as_str(), &threads[..], moments.len()), (2, "task-2", &[2, 3, 1][..], 1));
}

#[test]
fn kernel_threads_keep_their_names_without_suffixes() {
    for (name, kept) in [
        ("other", "other"),
        ("freehold", "freehold"),
        ("swapper/1", "swapper"),
        ("kswapd0", "kswapd0"),
        ("kcompactd12", "kcompactd12"),
        ("kworker/u8:3-flush-253:0", "kworker"),
        ("kworkersecret", "kworker"),
        ("kswapd0-secret", "kswapd0"),
        ("irq/24-nvme0q1", "irq"),
        ("rcu_tasks_trace_kthread", "rcu_tasks_trace_kthread"),
        ("rcu_tasks_trace", "rcu_tasks_trace"),
    ] {
        assert_eq!(known::task(name).as_deref(), Some(kept));
    }
    for secret in ["jbd2/sda1-8", "xfsaild/dm-0", "ksmd_of_mine", "others", "rcu", "0"] {
        assert_eq!(known::task(secret), None, "{secret}");
    }
}

#[test]
fn caches_of_every_machine_keep_their_names() {
    let start = caches_named(&["dentry", "kmalloc-rcl-8k", "xfs_inode", "kmalloc-secret", "kmalloc-"]);
    let end = caches_named(&["nf_conntrack", "xfs_inode", "dma-kmalloc-96"]);
    let facts = anonymize(Facts { caches_start: start, caches_end: end, ..Facts::default() });
    assert_eq!(cache_names(&facts.caches_start), ["dentry", "kmalloc-rcl-8k", "cache-1", "cache-2", "cache-3"]);
    assert_eq!(cache_names(&facts.caches_end), ["cache-4", "cache-1", "dma-kmalloc-96"]);
}

#[test]
fn functions_command_and_release_lose_their_names() {
    let stack = StackCount { frames: vec![1, 0], task: 1, order: 0, samples: 3 };
    let symbols = vec!["alloc_pages".to_owned(), "read_secret [secretfs]".to_owned()];
    let facts = anonymize(Facts {
        kernel_release: "6.12.117+deb12-cloud-amd64".to_owned(),
        command: Some("secret.sh".to_owned()),
        writer: "secret 1".to_owned(),
        gfp_names: [("__GFP_IO".to_owned(), 64), ("GFP_DMA32".to_owned(), 4), ("__GFP_SECRET".to_owned(), 8)].into(),
        stacks: Some(StackFacts { period: 256, symbols, stacks: vec![stack.clone()] }),
        ..Facts::default()
    });
    assert_eq!((facts.kernel_release.as_str(), facts.command.as_deref()), ("6.12.117", Some("command")));
    assert_eq!(facts.writer, WRITER);
    assert_eq!(facts.gfp_names.into_keys().collect::<Vec<_>>(), ["GFP_DMA32", "__GFP_IO"]);
    let stacks = facts.stacks.unwrap();
    assert_eq!((stacks.symbols, stacks.stacks), (vec!["function-1".to_owned(), "function-2".to_owned()], vec![stack]));
    assert_eq!(["7.2-secret", "6.18.", "5.4_secret.9"].map(version_of), ["7.2", "6.18", "5.4"]);
    assert_eq!(anonymize(Facts::default()).command, None);
}

#[test]
fn texts_that_may_contain_names_are_removed() {
    let notes = ["recorded by perf 6.12-secret", "1,204 events that could not be used", "end state: scanned in 1 ms"];
    let guesses = ["The kernel is assumed to be Linux 6.12; --kernel gives it.", "Only the task secret was traced."];
    let facts = anonymize(Facts {
        notes: notes.map(str::to_owned).to_vec(),
        guesses: guesses.map(str::to_owned).to_vec(),
        ..Facts::default()
    });
    assert_eq!(facts.notes, [notes[1], notes[2], NOTE]);
    assert_eq!(facts.guesses, [guesses[0], GUESS], "the number of guesses stays");
}

#[test]
fn anonymized_facts_stay_as_they_are() {
    let tasks = tasks_named(&["", "b", "a", "kworker/0:1", "b"]);
    let caches_start = caches_named(&["xfs_inode", "dentry"]);
    let once = anonymize(Facts { tasks, caches_start, kernel_release: "6.12.1-x".to_owned(), ..Facts::default() });
    assert_eq!(anonymize(once.clone()), once);
    assert_eq!(Identity::Removed.apply(once.clone()), once);
    let named = Facts { command: Some("secret".to_owned()), ..Facts::default() };
    assert_eq!(Identity::Kept.apply(named.clone()), named);
}
