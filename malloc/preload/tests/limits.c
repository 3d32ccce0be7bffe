// Limits of address space and of writable memory. The test runs under any malloc.
//
// Programs run under every limit from a few MiB to some GiB. Each must do its work, or get null and ENOMEM from a
// request, or end with a message. None may be terminated by a signal, unless it is also terminated without the malloc:
// the kernel kills a program that it cannot load.
//
// A malloc that reserved addresses ahead would leave little of a limit, would not be bound by a limit that is set later,
// and would make a program that locks its memory large.

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { BLOCKS_MAX = 1 << 14, NOT_LOADED = 127 };
static const size_t MIB = 1 << 20, EATEN_MAX = 24 << 20;
// Limit from which on a shell must work.
static const size_t SHELL_WORKS = 24 << 20;

static char *blocks[BLOCKS_MAX];

static void *do_nothing(void *nothing) { return nothing; }

// Allocates blocks until memory or the bound is reached, then replaces half of them.
static int eat(size_t size) {
    size_t count = 0;
    for (; count < BLOCKS_MAX && count * size < EATEN_MAX; count++) {
        errno = 0;
        blocks[count] = count % 2 ? calloc(1, size) : malloc(size);
        if (!blocks[count]) break;
        blocks[count][0] = blocks[count][size - 1] = (char)count;
    }
    if (count < BLOCKS_MAX && count * size < EATEN_MAX) CHECK(errno == ENOMEM, "%s", strerror(errno));
    pthread_t thread;
    if (pthread_create(&thread, NULL, do_nothing, NULL) == 0) pthread_join(thread, NULL);
    for (size_t n = 0; n < count; n += 2) {
        CHECK(blocks[n][0] == (char)n && blocks[n][size - 1] == (char)n, "block %zu was overwritten", n);
        free(blocks[n]);
        blocks[n] = NULL;
    }
    for (size_t n = 0; n < count; n++) {
        char *other = realloc(blocks[n], size / 2 + 1);
        if (other) other[size / 2] = 1;
        if (other || !blocks[n]) blocks[n] = other;
    }
    void *aligned = NULL;
    int error = posix_memalign(&aligned, 64 << 10, size);
    CHECK(error == 0 || error == ENOMEM, "posix_memalign: %s", strerror(error));
    free(aligned);
    for (size_t n = 0; n < count; n++) free(blocks[n]);
    return 0;
}

// Runs a program under a limit, and returns its wait status.
static int run(char *const words[], int resource, size_t limit, int is_plain) {
    pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        if (is_plain) unsetenv("LD_PRELOAD");
        // Messages about memory shortage are expected, and so is output of a shell.
        if (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout)) _exit(1);
        setrlimit(resource, &(struct rlimit){limit, limit});
        execvp(words[0], words);
        _exit(NOT_LOADED);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
    return status;
}

static void try_limit(char *self, int resource, size_t limit) {
    char *small[] = {self, "100", NULL}, *middle[] = {self, "20000", NULL}, *large[] = {self, "3000000", NULL};
    char *shell[] = {"sh", "-c", "x=$(echo one two | wc -w); test $x = 2", NULL};
    char **programs[] = {small, middle, large, shell};
    for (int n = 0; n < 4; n++) {
        char **words = programs[n];
        int status = run(words, resource, limit, 0);
        const char *name = resource == RLIMIT_AS ? "addresses" : "data";
        if (WIFSIGNALED(status)) {
            int plain = run(words, resource, limit, 1);
            CHECK(WIFSIGNALED(plain), "%s %s of %zu KiB of %s: signal %d", words[0], words[1], limit >> 10, name, WTERMSIG(status));
        } else if (words == shell) {
            CHECK(status == 0 || limit < SHELL_WORKS, "a shell of %zu KiB of %s: %x", limit >> 10, name, status);
        } else {
            int code = WEXITSTATUS(status);
            CHECK(code == 0 || code == NOT_LOADED, "%s of %zu KiB of %s: %d", words[1], limit >> 10, name, code);
        }
    }
}

// Fills memory up to a limit of addresses. Three quarters of the limit must be usable; checks of blocks take up to
// another quarter.
static int fill(void) {
    const size_t limit = 128 * MIB, size = 5000;
    setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit});
    size_t bytes = 0;
    for (char *block; (block = malloc(size)); bytes += size) block[0] = block[size - 1] = 1;
    CHECK(errno == ENOMEM, "%s", strerror(errno));
    CHECK(bytes > limit / 2, "%zu of %zu MiB are usable", bytes >> 20, limit >> 20);
    return 0;
}

// A limit that is set by a program that has already allocated.
static int limit_late(void) {
    free(malloc(1000));
    const size_t limit = 256 * MIB;
    setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit});
    pthread_t thread;
    int error = pthread_create(&thread, NULL, do_nothing, NULL);
    CHECK(error == 0, "a thread: %s", strerror(error));
    pthread_join(thread, NULL);
    void *mapped = mmap(NULL, 8 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED, "mmap: %s", strerror(errno));
    CHECK(!malloc(limit), "memory beyond the limit");
    char *block = malloc(100 * MIB);
    CHECK(block, "memory within the limit: %s", strerror(errno));
    memset(block, 1, 100 * MIB);
    free(block);
    return 0;
}

// Returns a number of KiB from the process's status.
static size_t status_kib(const char *key) {
    char line[256];
    size_t kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status, "status: %s", strerror(errno));
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, key, strlen(key))) sscanf(line + strlen(key), "%zu", &kib);
    fclose(status);
    return kib;
}

// Locks all mappings, which makes the kernel fill them. Freed memory must go back, and must read as zeros when it is used
// again.
static int lock(void) {
    free(malloc(1000));
    if (mlockall(MCL_CURRENT)) return 0;
    size_t locked = status_kib("VmLck:"), resident = status_kib("VmRSS:");
    CHECK(locked < 64 << 10 && resident < 16 << 10, "%zu KiB are locked, and %zu KiB are resident", locked, resident);
    enum { BLOCKS = 64 };
    char *kept[BLOCKS];
    for (int round = 0; round < 2; round++) {
        for (int n = 0; n < BLOCKS; n++) {
            kept[n] = calloc(1, MIB);
            for (size_t at = 0; at < MIB; at += 512) CHECK(!kept[n][at], "calloc returned old bytes");
            memset(kept[n], 1, MIB);
        }
        for (int n = 0; n < BLOCKS; n++) free(kept[n]);
    }
    return 0;
}

int main(int count, char **words) {
    CHECK(count == 2, "what?");
    if (!strcmp(words[1], "fill")) return fill();
    if (!strcmp(words[1], "late")) return limit_late();
    if (!strcmp(words[1], "locked")) return lock();
    if (strcmp(words[1], "all")) return eat(strtoul(words[1], NULL, 10));
    for (size_t limit = 2 * MIB; limit < 2048 * MIB; limit += limit < 16 * MIB ? MIB : limit / 5 / 4096 * 4096) {
        try_limit(words[0], RLIMIT_AS, limit);
        try_limit(words[0], RLIMIT_DATA, limit);
    }
    return 0;
}
