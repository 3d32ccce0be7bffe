// A filter of system calls that kills a program for any call that glibc's malloc does not make. The test runs under any
// malloc.
//
// The program uses more memory than the size from which on the control group's limit is checked, and frees it. Its
// helper thread, if it has one, must not make another call than these either.

#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

enum { BLOCKS = 200, ROUNDS = 20, SIZE = 1000 };

static struct sock_filter code[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(brk),
    ALLOW(exit_group),
    ALLOW(futex),
    ALLOW(getrandom),
    ALLOW(madvise),
    ALLOW(mmap),
    ALLOW(mprotect),
    ALLOW(mremap),
    ALLOW(munmap),
    ALLOW(rt_sigreturn),
    ALLOW(sched_yield),
    ALLOW(write),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static struct sock_fprog filter = {sizeof code / sizeof code[0], code};

// Installs the filter as programs do themselves, as libseccomp does, and in a way that no library sees.
static int by_prctl(void) { return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter); }
static int by_seccomp(void) {
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
}
static int unseen(void) {
    if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return (int)syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static void *do_nothing(void *nothing) { return nothing; }

static void work(void) {
    for (int round = 0; round < ROUNDS; round++) {
        char *blocks[BLOCKS];
        for (size_t n = 0; n < BLOCKS; n++) {
            size_t size = SIZE * (n + 1);
            blocks[n] = malloc(size);
            CHECK(blocks[n], "no memory");
            memset(blocks[n], 1, size);
        }
        for (size_t n = 0; n < BLOCKS; n++) free(blocks[n * 7 % BLOCKS]);
    }
}

static void expect_survival(const char *way, int (*install)(void)) {
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, do_nothing, NULL) == 0) pthread_join(thread, NULL);
        if (install != unseen) CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "%s", strerror(errno));
        CHECK(install() == 0, "%s: %s", way, strerror(errno));
        work();
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK(!WIFSIGNALED(status), "%s: killed by signal %d; a forbidden call is %d", way, WTERMSIG(status), SIGSYS);
    CHECK(status == 0, "%s: exit code %d", way, WEXITSTATUS(status));
}

int main(int count, char **words) {
    CHECK(count == 2, "what?");
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) return puts("skipped: the kernel has no filters"), 0;
    if (!strcmp(words[1], "seen")) {
        expect_survival("prctl", by_prctl);
        expect_survival("seccomp", by_seccomp);
        return 0;
    }
    if (!strcmp(words[1], "unseen")) {
        setenv("FREEHOLD_OPTIONS", "system-calls=few,return=helper", 1);
        execv("/proc/self/exe", (char *[]){words[0], "restricted", NULL});
        CHECK(0, "%s", strerror(errno));
    }
    expect_survival("unseen", unseen);
    return 0;
}
