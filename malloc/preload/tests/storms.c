// Stress tests: forks, signals, threads and a limited address space. The test runs under any malloc.
//
// The argument selects the test: forks, handlers, signals, threads, limit or turns; each ends after a fixed count. A failed check
// prints its line, and the exit code is 1. A test that hangs is killed by the process that runs it.

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
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { SLOTS = 64, FORKS = 200, SIGNALS = 4000, THREADS = 2000, THREADS_AT_ONCE = 8, WORKERS = 4 };
static const size_t MIB = 1 << 20;

static atomic_int is_over;

// Returns the next random number of a thread's own sequence.
static unsigned next(unsigned *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static size_t random_size(unsigned *state) {
    unsigned kind = next(state) % 100;
    size_t most = kind < 80 ? 512 : kind < 97 ? 20000 : 300000;
    return next(state) % most + 8;
}

// Allocates a block whose first and last byte identify its owner.
static unsigned char *make(size_t size, unsigned char owner) {
    unsigned char *block = malloc(size);
    if (!block) return NULL;
    CHECK(malloc_usable_size(block) >= size, "%zu", size);
    block[0] = owner;
    block[size - 1] = owner;
    return block;
}

struct set {
    unsigned char *blocks[SLOTS];
    size_t sizes[SLOTS];
    unsigned state;
    unsigned char owner;
};

static void drop(struct set *set, unsigned slot) {
    unsigned char *block = set->blocks[slot];
    if (block) CHECK(block[0] == set->owner && block[set->sizes[slot] - 1] == set->owner, "a block was overwritten");
    free(block);
    set->blocks[slot] = NULL;
}

// One step of a load: replaces or resizes a block.
static void step(struct set *set) {
    unsigned slot = next(&set->state) % SLOTS;
    size_t size = random_size(&set->state);
    if (set->blocks[slot] && next(&set->state) % 8 == 0) {
        unsigned char *resized = realloc(set->blocks[slot], size);
        CHECK(resized && resized[0] == set->owner, "realloc(%zu)", size);
        resized[size - 1] = set->owner;
        set->blocks[slot] = resized;
    } else {
        drop(set, slot);
        set->blocks[slot] = make(size, set->owner);
        CHECK(set->blocks[slot], "malloc(%zu)", size);
    }
    set->sizes[slot] = size;
}

static void drop_all(struct set *set) {
    for (unsigned slot = 0; slot < SLOTS; slot++) drop(set, slot);
}

static void steps(unsigned seed, int count) {
    struct set set = {.state = seed * 2654435761u + 1, .owner = (unsigned char)seed};
    for (int n = 0; n < count; n++) step(&set);
    drop_all(&set);
}

static void *work(void *seed) {
    struct set set = {.state = (unsigned)(uintptr_t)seed + 1, .owner = (unsigned char)(uintptr_t)seed};
    while (!atomic_load(&is_over)) step(&set);
    drop_all(&set);
    return NULL;
}

static void *work_a_little(void *seed) {
    steps((unsigned)(uintptr_t)seed, 200);
    // The block is freed by another thread.
    return make(100, 1);
}

static pthread_t start(void *(*body)(void *), uintptr_t seed) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    int error = pthread_create(&thread, &attributes, body, (void *)seed);
    CHECK(error == 0, "thread %zu: %s", (size_t)seed, strerror(error));
    pthread_attr_destroy(&attributes);
    return thread;
}

static void join_and_free(pthread_t thread) {
    void *block = NULL;
    CHECK(pthread_join(thread, &block) == 0, "join");
    free(block);
}

// Runs in a child of a process whose threads allocate. The child has only the forking thread, and may do all that its
// parent may do.
static void be_child(int number, struct set *inherited) {
    alarm(60);
    drop_all(inherited);
    steps((unsigned)number, 300);
    if (number % 20 == 0) {
        pthread_t thread = start(work_a_little, (uintptr_t)number);
        join_and_free(thread);
    }
    if (number % 50 == 0) {
        pid_t child = fork();
        if (child == 0) _exit(malloc(1000) ? 0 : 1);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "a grandchild ended with %x", status);
    }
    if (number % 2) exit(0);
    _exit(0);
}

static void forks(void) {
    pthread_t threads[WORKERS];
    for (uintptr_t n = 0; n < WORKERS; n++) threads[n] = start(work, n);
    struct set set = {.state = 5, .owner = 99};
    for (int number = 0; number < FORKS; number++) {
        for (int n = 0; n < 50; n++) step(&set);
        pid_t child = fork();
        CHECK(child >= 0, "fork %d: %s", number, strerror(errno));
        if (child == 0) be_child(number, &set);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "child %d ended with %x", number, status);
    }
    atomic_store(&is_over, 1);
    for (int n = 0; n < WORKERS; n++) pthread_join(threads[n], NULL);
    drop_all(&set);
}

static atomic_int waits;
static int asked[2], answered[2];

// A fork handler that waits until another thread has allocated.
static void wait_for_allocation(void) {
    char answer = 0;
    if (!atomic_load(&waits)) return;
    CHECK(write(asked[1], "a", 1) == 1 && read(answered[0], &answer, 1) == 1, "a handler: %s", strerror(errno));
}

static void stop_waiting(void) {
    atomic_store(&waits, 0);
}

// Registers the handlers before any other code of the process, except for its libraries' constructors.
static void register_handlers(void) {
    pthread_atfork(wait_for_allocation, wait_for_allocation, stop_waiting);
}

__attribute__((section(".preinit_array"), used)) static void (*first)(void) = register_handlers;

static void *allocate_when_asked(void *unused) {
    char question = 0;
    while (read(asked[0], &question, 1) == 1 && question == 'a') {
        // Larger than what any malloc caches, so that the request takes all its locks.
        void *block = make(64 << 20, 1);
        CHECK(block, "malloc in a thread that a handler waits for");
        free(block);
        CHECK(write(answered[1], "a", 1) == 1, "answer: %s", strerror(errno));
    }
    return unused;
}

// Forks of a program whose handlers wait for a thread that allocates.
static void handlers(void) {
    CHECK(pipe(asked) == 0 && pipe(answered) == 0, "pipe: %s", strerror(errno));
    pthread_t thread = start(allocate_when_asked, 0);
    for (int number = 0; number < 50; number++) {
        atomic_store(&waits, 1);
        pid_t child = fork();
        CHECK(child >= 0, "fork %d: %s", number, strerror(errno));
        if (child == 0) _exit(malloc(100000) ? 0 : 1);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "child %d ended with %x", number, status);
    }
    CHECK(write(asked[1], "e", 1) == 1, "end: %s", strerror(errno));
    pthread_join(thread, NULL);
}

static atomic_int signals_seen;
static struct set held;

// Replaces a block that an earlier signal allocated, and preserves errno.
static void on_signal(int signal) {
    (void)signal;
    int error = errno;
    int number = atomic_fetch_add(&signals_seen, 1);
    unsigned slot = (unsigned)number % SLOTS;
    drop(&held, slot);
    held.sizes[slot] = 8 + (size_t)number % 400;
    held.blocks[slot] = make(held.sizes[slot], held.owner);
    CHECK(held.blocks[slot], "malloc in the handler of signal %d", number);
    free(malloc((size_t)number % 64));
    errno = error;
}

static void signals(void) {
    held.owner = 77;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    struct itimerval each = {{0, 100}, {0, 100}}, none = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &each, NULL) == 0, "setitimer");
    struct set set = {.state = 9, .owner = 11};
    long count = 0;
    for (; atomic_load(&signals_seen) < SIGNALS && count < 200000000; count++) step(&set);
    CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0, "setitimer");
    CHECK(atomic_load(&signals_seen) >= SIGNALS, "%d signals in %ld steps", atomic_load(&signals_seen), count);
    signal(SIGALRM, SIG_IGN);
    drop_all(&set);
    drop_all(&held);
}

// Creates and joins threads, a few at a time. New threads must reuse the memory of threads that have ended.
static void threads(void) {
    pthread_t running[THREADS_AT_ONCE];
    struct mallinfo2 early = {0};
    for (int number = 0; number < THREADS; number++) {
        int slot = number % THREADS_AT_ONCE;
        if (number >= THREADS_AT_ONCE) join_and_free(running[slot]);
        running[slot] = start(work_a_little, (uintptr_t)number + 1);
        if (number == THREADS / 10) early = mallinfo2();
    }
    for (int slot = 0; slot < THREADS_AT_ONCE; slot++) join_and_free(running[slot]);
    struct mallinfo2 late = mallinfo2();
    CHECK(late.arena + late.hblkhd < early.arena + early.hblkhd + 64 * MIB, "%zu bytes grew to %zu", early.arena,
          late.arena);
}

// Allocates blocks of one size until memory is exhausted. Each block holds the address of the one before it.
static size_t take_all(size_t size, void ***last) {
    size_t count = 0;
    errno = 0;
    for (void **block; (block = malloc(size)); count++) {
        *block = *last;
        *last = block;
    }
    CHECK(errno == ENOMEM, "errno is %d after the memory is exhausted", errno);
    return count;
}

static void give_all(void **last) {
    while (last) {
        void **block = *last;
        free(last);
        last = block;
    }
}

// Runs under the limit that the program was started with, or else under a limit that it sets itself. Exhausted memory
// must yield an error, and freed memory must be available again.
static void limit(void) {
    struct rlimit small = {512 * MIB, 512 * MIB}, is = {0, 0};
    CHECK(getrlimit(RLIMIT_AS, &is) == 0, "getrlimit");
    if (is.rlim_cur == RLIM_INFINITY) {
        // The malloc may have reserved more than the limit already. The machine's memory is the limit then, and is not
        // exhausted.
        steps(1, 2000);
        CHECK(setrlimit(RLIMIT_AS, &small) == 0, "setrlimit");
        return steps(2, 20000);
    }
    static const size_t sizes[] = {100000, 1000, 64, 5 << 20, 1000};
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        void **last = NULL;
        size_t count = take_all(sizes[n], &last);
        CHECK(count * sizes[n] >= 4 * MIB, "only %zu of %zu bytes", count, sizes[n]);
        give_all(last);
        steps((unsigned)n, 2000);
    }
}

// Uses 40 MiB in blocks of one size, then of another, the largest being all of it. Freed memory must be reused, or
// returned before memory runs out.
static void turns(void) {
    static const size_t sizes[] = {48, 200000, 1000, 40 * MIB, 64, 33000, 5000};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    static unsigned char *blocks[1000000];
    for (int turn = 0; turn < 2 * SIZES; turn++) {
        size_t size = sizes[turn % SIZES], count = 40 * MIB / size;
        for (size_t n = 0; n < count; n++) {
            blocks[n] = malloc(size);
            CHECK(blocks[n], "malloc(%zu) of turn %d", size, turn);
            memset(blocks[n], turn, size);
        }
        for (size_t n = 0; n < count; n++) free(blocks[n]);
    }
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*run)(void);
    } storms[] = {{"forks", forks}, {"handlers", handlers}, {"signals", signals}, {"threads", threads}, {"limit", limit}, {"turns", turns}};
    const char *name = count > 1 ? words[1] : "";
    for (size_t n = 0; n < sizeof storms / sizeof *storms; n++) {
        if (strcmp(storms[n].name, name) == 0) {
            storms[n].run();
            printf("storms.c: %s: passed\n", name);
            return 0;
        }
    }
    fprintf(stderr, "storms.c: give forks, handlers, signals, threads, limit or turns\n");
    return 2;
}
