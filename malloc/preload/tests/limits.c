// Limits of address space and of writable memory. The test runs under any malloc.
//
// Programs run under every limit from a few MiB to some GiB. Each must do its work, or get null and ENOMEM from a
// request, or end with a message. None may be terminated by a signal, unless it is also terminated without the malloc:
// the kernel kills a program that it cannot load.

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

int main(int count, char **words) {
    CHECK(count == 2, "what?");
    if (strcmp(words[1], "all")) return eat(strtoul(words[1], NULL, 10));
    for (size_t limit = 2 * MIB; limit < 2048 * MIB; limit += limit < 16 * MIB ? MIB : limit / 5 / 4096 * 4096) {
        try_limit(words[0], RLIMIT_AS, limit);
        try_limit(words[0], RLIMIT_DATA, limit);
    }
    return 0;
}
