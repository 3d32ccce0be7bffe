//! Names and texts that an anonymized recording keeps, because they are the same on every Linux machine.
//!
//! The lists contain parts of the kernel that are built in everywhere. Threads and caches of file systems, drivers and
//! protocols that only some kernels have are left out, because they show the hardware and the use of a machine.

use crate::gfp::GFP_BITS;

/// Prefixes by which a replay recognizes the kernel's background tasks. Digits after them are the number of a node.
const BACKGROUND: [&str; 3] = ["kcompactd", "kswapd", "kworker"];

/// Names of tasks without a program: the recorder, tasks whose names were not recorded, and no task.
const NEUTRAL: [&str; 3] = ["", "freehold", "other"];

/// Kernel threads, without the part after `/`, `:` or `-` and without digits at the end.
const THREADS: [&str; 32] = [
    "cpuhp",
    "idle_inject",
    "irq",
    "kauditd",
    "kblockd",
    "kdevtmpfs",
    "khugepaged",
    "khungtaskd",
    "kintegrityd",
    "ksmd",
    "ksoftirqd",
    "kthreadd",
    "kthrotld",
    "migration",
    "mm_percpu_wq",
    "netns",
    "oom_reaper",
    "pool_workqueue_release",
    "rcu_exp_gp_kthread_worker",
    "rcu_exp_par_gp_kthread_worker",
    "rcu_gp",
    "rcu_par_gp",
    "rcu_preempt",
    "rcu_sched",
    "rcu_tasks_kthread",
    "rcu_tasks_rude_kthread",
    "rcu_tasks_trace_kthread",
    "slub_flushwq",
    "swapper",
    "watchdog",
    "watchdogd",
    "writeback",
];

/// Longest name of a task in the kernel's events. Longer names are cut.
const TASK_NAME_MAX: usize = 15;

/// Slab caches of the kernel's core.
const CACHES: [&str; 96] = [
    "PING",
    "PINGv6",
    "RAW",
    "RAWv6",
    "TCP",
    "TCPv6",
    "UDP",
    "UDPv6",
    "UNIX",
    "anon_vma",
    "anon_vma_chain",
    "bdev_cache",
    "biovec-128",
    "biovec-16",
    "biovec-64",
    "biovec-max",
    "blkdev_ioc",
    "buffer_head",
    "cred",
    "cred_jar",
    "debugfs_inode_cache",
    "dentry",
    "ep_head",
    "eventpoll_epi",
    "eventpoll_pwq",
    "fasync_cache",
    "file_lease_cache",
    "file_lock_cache",
    "file_lock_ctx",
    "files_cache",
    "filp",
    "fs_cache",
    "fsnotify_mark",
    "fsnotify_mark_connector",
    "ftrace_event_field",
    "hugetlbfs_inode_cache",
    "inode_cache",
    "inotify_inode_mark",
    "io_kiocb",
    "kernfs_iattrs_cache",
    "kernfs_node_cache",
    "key_jar",
    "khugepaged_mm_slot",
    "kioctx",
    "kmem_cache",
    "kmem_cache_node",
    "lsm_file_cache",
    "lsm_inode_cache",
    "maple_node",
    "mem_cgroup",
    "mm_slot",
    "mm_struct",
    "mnt_cache",
    "mqueue_inode_cache",
    "names_cache",
    "net_namespace",
    "nsproxy",
    "numa_policy",
    "pde_opener",
    "perf_event",
    "pid",
    "pid_namespace",
    "pool_workqueue",
    "posix_timers_cache",
    "proc_dir_entry",
    "proc_inode_cache",
    "radix_tree_node",
    "request_queue",
    "request_sock_TCP",
    "request_sock_TCPv6",
    "seq_file",
    "shared_policy_node",
    "shmem_inode_cache",
    "sighand_cache",
    "signal_cache",
    "sigqueue",
    "skbuff_ext_cache",
    "skbuff_fclone_cache",
    "skbuff_head_cache",
    "skbuff_small_head",
    "sock_inode_cache",
    "task_delay_info",
    "task_group",
    "task_struct",
    "taskstats",
    "trace_event_file",
    "tracefs_inode_cache",
    "tw_sock_TCP",
    "tw_sock_TCPv6",
    "uid_cache",
    "user_namespace",
    "userfaultfd_ctx_cache",
    "uts_namespace",
    "vm_area_struct",
    "vma_lock",
    "vmap_area",
];

/// Beginnings of the general caches' names, before their size.
const SIZED_CACHES: [&str; 6] = ["dma-kmalloc-", "kmalloc-", "kmalloc-cg-", "kmalloc-rcl-", "memdup_user-", "msg_msg-"];

/// Beginnings of the notes of recorders and importers that contain only numbers and names of the kernel's events. A
/// number before them is permitted.
const NOTES: [&str; 31] = [
    "CPU time of the ",
    "a snapshot: ",
    "allocations of pages in use",
    "damaged pages of the ring buffers",
    "drawn at random",
    "end state: ",
    "events after a later one",
    "events of the last second are missing",
    "events older than the previous",
    "events on frames that the machine does not have",
    "events that could not be used",
    "events that the kernel counted",
    "events that this kernel does not have: ",
    "flight recorder: trigger ",
    "free blocks at the start",
    "free pages without flags",
    "frees of free pages",
    "gaps in the events",
    "imported from a ",
    "lines before the first event",
    "lines that are neither events nor headings",
    "pageblock types",
    "pages of memory were ",
    "pages that are offline or in a balloon",
    "pages that compaction isolated",
    "pages without flags at the start",
    "start state",
    "the file begins or ends in the middle",
    "the kernel allocated a ring buffer of ",
    "the recorder itself used ",
    "this kernel has no ",
];

/// Beginnings of the guesses of importers that contain only numbers.
const GUESSES: [&str; 10] = [
    "Memory is assumed to be ",
    "Migratetype 4 is assumed to be CMA",
    "Pageblocks are assumed to have order ",
    "Pages are assumed to have ",
    "Pages that the copy of page_owner does not name",
    "The event kmem:mm_page_alloc_zone_locked was not recorded",
    "The kernel is assumed to be Linux ",
    "The machine is assumed to have ",
    "The processor is assumed to be ",
    "The state of memory at the start is unknown",
];

/// Returns the name that the task `name` keeps; `None` if its name must be replaced.
pub(super) fn task(name: &str) -> Option<String> {
    if NEUTRAL.contains(&name) {
        return Some(name.to_owned());
    }
    // A replay recognizes these by their beginning alone, so every task with such a name keeps the beginning.
    if let Some(prefix) = BACKGROUND.iter().find(|prefix| name.starts_with(**prefix)) {
        let digits = name[prefix.len()..].bytes().take_while(u8::is_ascii_digit).count();
        return Some(name[..prefix.len() + digits].to_owned());
    }
    let stem =
        name.split(['/', ':', '-']).next().unwrap_or(name).trim_end_matches(|letter: char| letter.is_ascii_digit());
    let is_cut = stem.len() == TASK_NAME_MAX;
    let is_thread = THREADS.iter().any(|thread| *thread == stem || is_cut && thread.starts_with(stem));
    is_thread.then(|| stem.to_owned())
}

/// Returns whether a slab cache of this name exists on every machine.
pub(super) fn is_cache(name: &str) -> bool {
    CACHES.contains(&name) || SIZED_CACHES.iter().filter_map(|kind| name.strip_prefix(kind)).any(is_size)
}

/// Returns whether `text` is a size in the name of a cache: `96`, `4k`, `2M`.
fn is_size(text: &str) -> bool {
    let digits = text.strip_suffix(['k', 'M']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// Returns whether this is a GFP flag of the format, as the kernel's events name it.
pub(super) fn is_gfp_flag(name: &str) -> bool {
    GFP_BITS.iter().any(|(flag, _)| *flag == name || flag.trim_start_matches('_') == name)
}

/// Returns whether a note contains no names but those of the kernel's events.
pub(super) fn is_plain_note(note: &str) -> bool {
    let text = note.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ',').trim_start();
    begins_with_any(text, &NOTES)
}

/// Returns whether a guess contains no names.
pub(super) fn is_plain_guess(guess: &str) -> bool {
    begins_with_any(guess, &GUESSES)
}

fn begins_with_any(text: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|beginning| text.starts_with(beginning))
}
