// System calls of the malloc that fail at random. A process runs the program under a filter of system calls, gets a
// notice of each call that the malloc makes, and answers a share of them with an error. Calls marked
// LIBRARY fail if their instruction is in the library. The malloc makes those marked ANY by the C library; they fail for
// the whole program.
//
// The program switches the faults on and off by a signal to its parent. Threads and children of the program inherit the
// filter. linux: Documentation/userspace-api/seccomp_filter.rst

#ifndef FAULTS_H
#define FAULTS_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum caller { LIBRARY, ANY };

// System calls that can fail, and the errors that the kernel documents for them.
static struct faulty_call {
    int number;
    const char *name;
    int errors[2];
    enum caller caller;
    // One of this many calls fails. Most of the frequent calls succeed, so that the program makes progress.
    int share;
    long failed, seen;
} faulty_calls[] = {
    {SYS_mmap, "mmap", {ENOMEM, ENOMEM}, LIBRARY, 4, 0, 0},
    {SYS_munmap, "munmap", {ENOMEM, ENOMEM}, LIBRARY, 4, 0, 0},
    {SYS_madvise, "madvise", {ENOMEM, EAGAIN}, LIBRARY, 8, 0, 0},
    {SYS_mprotect, "mprotect", {ENOMEM, ENOMEM}, LIBRARY, 8, 0, 0},
    {SYS_mremap, "mremap", {ENOMEM, EAGAIN}, LIBRARY, 2, 0, 0},
    {SYS_membarrier, "membarrier", {ENOMEM, ENOMEM}, LIBRARY, 16, 0, 0},
    {SYS_sched_getaffinity, "sched_getaffinity", {ENOMEM, EPERM}, ANY, 4, 0, 0},
    {SYS_sysinfo, "sysinfo", {EFAULT, EPERM}, ANY, 4, 0, 0},
    {SYS_getrandom, "getrandom", {EINTR, EAGAIN}, LIBRARY, 4, 0, 0},
    {SYS_read, "read", {EINTR, EIO}, LIBRARY, 8, 0, 0},
    {SYS_newfstatat, "newfstatat", {ENOMEM, ENOMEM}, LIBRARY, 4, 0, 0},
    {SYS_close_range, "close_range", {ENOMEM, EMFILE}, ANY, 2, 0, 0},
    {SYS_openat, "openat", {EMFILE, EINTR}, LIBRARY, 4, 0, 0},
#ifdef SYS_open
    {SYS_open, "open", {EMFILE, EINTR}, LIBRARY, 4, 0, 0},
#endif
    {SYS_clone, "clone", {EAGAIN, ENOMEM}, ANY, 8, 0, 0},
    {SYS_clone3, "clone3", {EAGAIN, ENOMEM}, ANY, 16, 0, 0},
};
enum { FAULTY_CALLS = sizeof faulty_calls / sizeof *faulty_calls };

static volatile sig_atomic_t faults_are_on;
static void switch_faults(int signal) { (void)signal, faults_are_on = !faults_are_on; }

// Installs a filter that asks for each of the calls, and returns the descriptor of the notices.
static int install_filter(void) {
    struct sock_filter code[FAULTY_CALLS + 3] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    for (int n = 0; n < FAULTY_CALLS; n++)
        code[1 + n] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)faulty_calls[n].number,
                                                   (unsigned char)(FAULTY_CALLS - n), 0);
    code[1 + FAULTY_CALLS] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[2 + FAULTY_CALLS] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    struct sock_fprog filter = {FAULTY_CALLS + 3, code};
    // The malloc does not see raw calls, so it does not restrict itself.
    if (syscall(SYS_prctl, 38 /* PR_SET_NO_NEW_PRIVS */, 1, 0, 0, 0)) return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
}

// Returns whether an instruction of a process is in the library. The library is at one address in the program and its
// children.
static int is_in_library(unsigned process, unsigned long instruction, unsigned long library[2]) {
    if (library[1]) return instruction >= library[0] && instruction < library[1];
    char line[512];
    snprintf(line, sizeof line, "/proc/%u/maps", process);
    FILE *maps = fopen(line, "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long start = 0, end = 0;
        char is_code = 0;
        sscanf(line, "%lx-%lx %*c%*c%c", &start, &end, &is_code);
        if (is_code == 'x' && strstr(line, "libfreehold")) library[0] = start, library[1] = end;
    }
    if (maps) fclose(maps);
    return library[1] && is_in_library(process, instruction, library);
}

// Returns the error for a call, or 0 if the kernel is to execute the call.
static int choose_error(const struct seccomp_notif *notice, unsigned long library[2]) {
    struct faulty_call *call = faulty_calls;
    while (call->number != notice->data.nr) call++;
    if (call->caller == LIBRARY && !is_in_library(notice->pid, notice->data.instruction_pointer, library)) return 0;
    call->seen++;
    if (!faults_are_on || random() % call->share) return 0;
    call->failed++;
    return call->errors[random() % 2];
}

// Answers one notice.
static void answer(int notices, unsigned long library[2]) {
    struct seccomp_notif notice = {0};
    if (ioctl(notices, SECCOMP_IOCTL_NOTIF_RECV, &notice)) return;
    int error = choose_error(&notice, library);
    struct seccomp_notif_resp response = {
        .id = notice.id, .error = -error, .flags = error ? 0 : SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    while (ioctl(notices, SECCOMP_IOCTL_NOTIF_SEND, &response) && errno == EINTR) {
    }
}

// Runs a program under the filter, and returns its wait status, or -1 if the kernel has no such filters.
static int run_with_faults(char **words, int is_on) {
    int ready[2], notices = -1, status = 0;
    unsigned long library[2] = {0};
    struct sigaction on_signal = {.sa_handler = switch_faults, .sa_flags = SA_RESTART};
    CHECK(pipe(ready) == 0 && sigaction(SIGUSR1, &on_signal, NULL) == 0, "%s", strerror(errno));
    faults_are_on = is_on;
    // The child shares the files of this process until it executes the program, so this process has the descriptor too.
    pid_t child = (pid_t)syscall(SYS_clone, 0x400 /* CLONE_FILES */ | SIGCHLD, 0, 0, 0, 0);
    CHECK(child >= 0, "clone: %s", strerror(errno));
    if (child == 0) {
        notices = install_filter();
        if (write(ready[1], &notices, sizeof notices) == sizeof notices && notices >= 0) execv("/proc/self/exe", words);
        _exit(1);
    }
    CHECK(read(ready[0], &notices, sizeof notices) == sizeof notices, "%s", strerror(errno));
    close(ready[0]);
    close(ready[1]);
    while (notices >= 0 && waitpid(child, &status, WNOHANG) == 0) {
        struct pollfd waiting = {notices, POLLIN, 0};
        if (poll(&waiting, 1, 100) == 1 && waiting.revents & POLLIN) answer(notices, library);
    }
    if (notices < 0) return waitpid(child, &status, 0), -1;
    close(notices);
    return status;
}

// Prints the numbers of calls, and returns the number of those that failed.
static long report_faults(void) {
    long failed = 0;
    for (struct faulty_call *call = faulty_calls; call < faulty_calls + FAULTY_CALLS; call++) {
        failed += call->failed;
        if (call->seen) printf("%s %ld of %ld, ", call->name, call->failed, call->seen);
    }
    printf("%ld calls failed\n", failed);
    return failed;
}

#endif
