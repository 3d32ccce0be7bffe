// The option limit=64M: a limit of the malloc's own memory. Requests beyond it get null and ENOMEM. Freed memory of one
// size can be used for another size, because cached and free memory is returned to the system before a request fails.

#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 3 };
static const size_t KIB = 1 << 10, LIMIT = 64 << 20;
// Sizes of which a slab or a run has no remainder.
static const size_t SIZES[] = {4096, 32, 100 << 10, 1024, 3 << 20, 32 << 10, 256};
enum { COUNT = sizeof SIZES / sizeof *SIZES };

// Least bytes that must be usable. A hardened process needs seals, guards and held blocks.
static size_t least(void) { return strstr(getenv("FREEHOLD_OPTIONS"), "hardened=on") ? LIMIT / 4 : LIMIT / 10 * 9; }

// Allocates and writes blocks until a request fails. Each block holds the address of the one before it. Returns the
// bytes of all blocks.
static size_t take_all(size_t size, void ***last) {
    size_t bytes = 0;
    *last = NULL;
    errno = 0;
    for (void **block; (block = malloc(size)); bytes += size) {
        memset(block, 1, size);
        *block = *last;
        *last = block;
    }
    CHECK(errno == ENOMEM, "%s", strerror(errno));
    return bytes;
}

static void give_all(void **last) {
    while (last) {
        void **block = *last;
        free(last);
        last = block;
    }
}

static void sizes(void) {
    for (int n = 0; n < ROUNDS * COUNT; n++) {
        size_t size = SIZES[n % COUNT];
        void **last;
        size_t bytes = take_all(size, &last);
        CHECK(bytes <= LIMIT && bytes >= least(), "%zu KiB are usable in blocks of %zu", bytes / KIB, size);
        give_all(last);
    }
}

// The other functions fail alike. Memory of small freed blocks can be used for one large block.
static void others(void) {
    errno = 0;
    CHECK(!malloc(LIMIT + 1) && errno == ENOMEM, "malloc: %s", strerror(errno));
    errno = 0;
    CHECK(!calloc(2, LIMIT) && errno == ENOMEM, "calloc: %s", strerror(errno));
    void *block = NULL;
    CHECK(posix_memalign(&block, 4096, LIMIT + 1) == ENOMEM, "posix_memalign");
    errno = 0;
    CHECK(!aligned_alloc(64 * KIB, 2 * LIMIT) && errno == ENOMEM, "aligned_alloc: %s", strerror(errno));
    for (int round = 0; round < ROUNDS; round++) {
        void **last;
        take_all(1000, &last);
        give_all(last);
        char *large = calloc(1, LIMIT / 2);
        CHECK(large, "half of the limit: %s", strerror(errno));
        for (size_t at = 0; at < LIMIT / 2; at += 512) CHECK(!large[at], "calloc returned old bytes");
        large[0] = 7;
        errno = 0;
        CHECK(!realloc(large, 2 * LIMIT) && errno == ENOMEM, "realloc: %s", strerror(errno));
        CHECK(large[0] == 7, "a failed realloc changed the block");
        free(large);
    }
}

static void *fill(void *size) {
    void **last;
    take_all((uintptr_t)size, &last);
    return last;
}

static size_t sum(void **last, size_t size) {
    size_t bytes = 0;
    for (; last; last = *last) bytes += size;
    return bytes;
}

// All threads together get no more than the limit.
static void threads(void) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t running[THREADS];
        void *last[THREADS];
        size_t bytes = 0;
        for (int n = 0; n < THREADS; n++)
            CHECK(!pthread_create(&running[n], NULL, fill, (void *)(uintptr_t)SIZES[n]), "pthread_create");
        for (int n = 0; n < THREADS; n++) {
            pthread_join(running[n], &last[n]);
            bytes += sum(last[n], SIZES[n]);
        }
        CHECK(bytes <= LIMIT && bytes >= least(), "%zu KiB are usable by threads", bytes / KIB);
        for (int n = 0; n < THREADS; n++) give_all(last[n]);
    }
}

static atomic_int signals_seen;

// Takes memory in the middle of any code. A request within a slow path is served from a separate piece.
static void on_signal(int number) {
    (void)number;
    int before = errno;
    free(malloc(100));
    errno = before;
    atomic_fetch_add(&signals_seen, 1);
}

static void signals(void) {
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, on_signal);
    CHECK(!setitimer(ITIMER_REAL, &often, NULL), "setitimer");
    for (int n = 0; n < COUNT; n++) {
        void **last;
        size_t bytes = take_all(SIZES[n], &last);
        CHECK(bytes <= LIMIT, "%zu KiB are usable", bytes / KIB);
        give_all(last);
    }
    CHECK(!setitimer(ITIMER_REAL, &never, NULL), "setitimer");
}

int main(int count, char **words) {
    CHECK(count == 2, "what?");
    if (!strcmp(words[1], "sizes")) sizes();
    if (!strcmp(words[1], "others")) others();
    if (!strcmp(words[1], "threads")) threads();
    if (!strcmp(words[1], "signals")) signals();
    return 0;
}
