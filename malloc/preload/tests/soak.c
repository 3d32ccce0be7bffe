// A soak of the malloc: threads, storms of threads and of forks, limits, and system calls that fail. The content of
// each block is verified, and `freehold_check` verifies the malloc's tables.
//
// usage: soak SECONDS [soak | small-group | faults | starts | PLANTED]
//
// Workers allocate, resize and free blocks of changing sizes, and pass some to each other. The main thread makes rounds,
// each with one event. At the end all blocks are freed, and memory must be back at what it was in the beginning. With
// `faults`, a share of the malloc's system calls fails meanwhile; with `starts`, in each of many brief programs, from
// their first call on. Requests may then get no memory. PLANTED is a mistake that the soak must notice.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>

#include "check.h"
#include "consistency.h"
#include "faults.h"

enum { SLOTS = 96, WORKERS = 4, MAIL = 64, STORM = 24, LIFE = 20000, ROUNDS_LEAST = 14, POLLS = 80, POLLS_BRIEF = 16 };
static const size_t KIB = 1 << 10, MIB = 1 << 20;
// Most bytes in use by the blocks of all threads. A small control group has 72 MiB.
static size_t live_max = 16 << 20;
static const size_t LIVE_MAX_SMALL = 5 << 20;
// Memory by which a process may be larger in the end than in the beginning.
static const size_t SLACK = 16 << 20;

// Start of each block. The rest is filled with a pattern.
struct block {
    size_t size;
    unsigned seed;
    unsigned sum;
};

struct set {
    struct block *blocks[SLOTS];
    unsigned state;
};

static atomic_int is_over;
// Number of causes for which a request may get no memory.
static atomic_int is_scarce;
static _Atomic size_t live;
static _Atomic(struct block *) mail[MAIL];
// Mode of the run, which may be a planted mistake.
static const char *mode = "";

// Defined by the preloaded library.

static unsigned next(unsigned *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

// Step between the bytes of a block that carry the pattern: large blocks are verified in part.
static size_t stride(size_t at) { return at < 4 * KIB ? 1 : 509; }
static unsigned char pattern(unsigned seed, size_t at) { return (unsigned char)(seed + at * 37 + (at >> 8)); }

// Describes a block in its first bytes, and writes the pattern from a position on.
static void fill(struct block *block, size_t size, unsigned seed, size_t from) {
    *block = (struct block){size, seed, (unsigned)size ^ seed ^ 0x5eed};
    for (size_t at = sizeof *block; at < size; at += stride(at))
        if (at >= from) ((unsigned char *)block)[at] = pattern(seed, at);
}

static void verify(const struct block *block, size_t size) {
    CHECK(block->sum == ((unsigned)block->size ^ block->seed ^ 0x5eed), "the start of a block was overwritten");
    for (size_t at = sizeof *block; at < size; at += stride(at))
        CHECK(((unsigned char *)block)[at] == pattern(block->seed, at), "byte %zu of %zu was overwritten", at, size);
}

// Draws a size. The kind of load, which changes over time, decides about the largest sizes.
static size_t random_size(unsigned *state, unsigned load) {
    static const size_t most[] = {200, 3000, 40000, 500000, 6000000};
    unsigned kind = next(state) % 100 < 85 ? load % 3 : load % 5;
    return sizeof(struct block) + next(state) % most[kind];
}

static void expect_memory(const void *block, int was_scarce, size_t size) {
    CHECK(block || was_scarce || atomic_load(&is_scarce), "%zu bytes: %s", size, strerror(errno));
    CHECK(block || errno == ENOMEM, "errno is %d without memory", errno);
}

// Allocates a block in one of the possible ways. Returns NULL if memory is scarce.
static struct block *make(size_t size, unsigned *state) {
    static const size_t aligns[] = {16, 64, 512, 4096, 65536};
    size_t align = 8;
    int was_scarce = atomic_load(&is_scarce);
    struct block *block = NULL;
    errno = ENOMEM;
    switch (next(state) % 6) {
    case 0:
        block = calloc(1, size);
        for (size_t at = 0; block && at < size; at += stride(at)) CHECK(!((char *)block)[at], "calloc of %zu", size);
        break;
    case 1:
        align = aligns[next(state) % 5];
        block = aligned_alloc(align, size);
        break;
    case 2:
        align = aligns[next(state) % 5];
        if (posix_memalign((void **)&block, align, size)) block = NULL;
        break;
    default: block = malloc(size);
    }
    expect_memory(block, was_scarce, size);
    if (!block) return NULL;
    CHECK((uintptr_t)block % align == 0 && malloc_usable_size(block) >= size, "%zu bytes at %p", size, (void *)block);
    atomic_fetch_add(&live, size);
    fill(block, size, next(state), 0);
    return block;
}

static void drop(struct block *block) {
    if (!block) return;
    verify(block, block->size);
    atomic_fetch_sub(&live, block->size);
    next(&block->seed);
    free(block);
}

// Resizes a block. Its content must stay, also if there is no memory.
static struct block *resize(struct block *block, size_t size) {
    size_t old = block->size, kept = old < size ? old : size;
    unsigned seed = block->seed;
    int was_scarce = atomic_load(&is_scarce);
    struct block *resized = realloc(block, size);
    expect_memory(resized, was_scarce, size);
    if (!resized) return verify(block, old), block;
    verify(resized, kept);
    fill(resized, size, seed, kept);
    atomic_fetch_add(&live, size - old);
    return resized;
}

static void step(struct set *set, unsigned load) {
    struct block **slot = &set->blocks[next(&set->state) % SLOTS];
    unsigned kind = next(&set->state) % 16;
    size_t size = random_size(&set->state, load);
    // The number of blocks grows and shrinks in turns.
    int shrinks = load / 5 % 2, is_full = atomic_load(&live) + size > live_max;
    if (kind == 0) {
        *slot = atomic_exchange(&mail[next(&set->state) % MAIL], *slot);
    } else if (*slot && kind < 5 && !is_full) {
        *slot = resize(*slot, size);
    } else if (*slot || (shrinks && kind < 12) || is_full) {
        drop(*slot);
        *slot = NULL;
    } else {
        *slot = make(size, &set->state);
    }
}

static void steps(struct set *set, int count) {
    for (int n = 0; n < count; n++) step(set, (unsigned)n / 2000 + set->state % 10);
}

static void drop_all(struct set *set) {
    for (int slot = 0; slot < SLOTS; slot++) drop(set->blocks[slot]), set->blocks[slot] = NULL;
}

static void *live_briefly(void *count) {
    struct set set = {.state = (unsigned)(uintptr_t)&set >> 4 | 1};
    for (int n = 0; n < (int)(intptr_t)count && !atomic_load(&is_over); n += 100) steps(&set, 100);
    drop_all(&set);
    return NULL;
}

// Starts a thread, and returns whether there was memory for it.
static int start(pthread_t *thread, int count) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * KIB);
    int error = pthread_create(thread, &attributes, live_briefly, (void *)(intptr_t)count);
    pthread_attr_destroy(&attributes);
    CHECK(error == 0 || atomic_load(&is_scarce), "a thread: %s", strerror(error));
    return error == 0;
}

static void storm_of_threads(void) {
    pthread_t threads[STORM];
    int count = 0;
    while (count < STORM && start(&threads[count], 300)) count++;
    while (count > 0) pthread_join(threads[--count], NULL);
}


// Runs in a child process of a process whose threads allocate.
static void be_child(struct set *inherited, int number) {
    alarm(60);
    expect_consistency();
    drop_all(inherited);
    steps(inherited, 500);
    pthread_t thread;
    if (number % 4 == 0 && start(&thread, 300)) pthread_join(thread, NULL);
    drop_all(inherited);
    expect_consistency();
    _exit(0);
}

// Forks children, in a small control group one after the other.
static void storm_of_forks(struct set *set) {
    int count = strcmp(mode, "small-group") ? 8 : 1;
    pid_t children[8];
    for (int n = 0; n < count; n++) {
        children[n] = fork();
        CHECK(children[n] >= 0 || atomic_load(&is_scarce), "fork: %s", strerror(errno));
        if (children[n] == 0) be_child(set, n);
    }
    for (int n = 0; n < count; n++) {
        int status = 0;
        if (children[n] < 0) continue;
        CHECK(waitpid(children[n], &status, 0) == children[n] && status == 0, "a child ended with %x", status);
    }
}

// Returns a number of bytes from the process's memory: 0 for addresses, 1 for resident memory, 5 for data.
static size_t memory(int field) {
    char text[256] = {0}, *at = text;
    int file = open("/proc/self/statm", O_RDONLY);
    CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0, "statm: %s", strerror(errno));
    close(file);
    for (int n = 0; n < field; n++) strtoul(at, &at, 10);
    return strtoul(at, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

// Lowers a limit of the process, takes memory until a request fails or much is taken, and raises the limit again.
static void reach_limit(int resource, unsigned *state) {
    struct rlimit before, lowered;
    struct block *blocks[256] = {0};
    atomic_fetch_add(&is_scarce, 1);
    CHECK(getrlimit(resource, &before) == 0, "getrlimit");
    lowered = before;
    lowered.rlim_cur = memory(resource == RLIMIT_AS ? 0 : 5) + 4 * MIB;
    CHECK(setrlimit(resource, &lowered) == 0, "setrlimit: %s", strerror(errno));
    size_t size = sizeof(struct block) + (64 * KIB << next(state) % 3), count = 0;
    while (count < 256 && count * size < live_max && (blocks[count] = make(size, state))) count++;
    for (size_t n = 0; n < count; n++) drop(blocks[n]);
    // Requests of other sizes may fail, since the other threads use the freed memory as well.
    size_t other = size / 3 * 2;
    for (size_t n = 0; n < count / 2; n++) blocks[n] = make(other, state);
    for (size_t n = 0; n < count / 2; n++) drop(blocks[n]);
    CHECK(setrlimit(resource, &before) == 0, "setrlimit: %s", strerror(errno));
    atomic_fetch_sub(&is_scarce, 1);
}

// Exhausts the limit of the malloc's own memory. Freed memory must be usable again.
static void reach_own_limit(unsigned *state) {
    struct block *last = NULL, *block;
    atomic_fetch_add(&is_scarce, 1);
    size_t size = random_size(state, 3) + 1000;
    while ((block = malloc(size))) {
        *(struct block **)block = last;
        last = block;
    }
    CHECK(errno == ENOMEM, "errno is %d", errno);
    for (; last; last = block) block = *(struct block **)last, free(last);
    atomic_fetch_sub(&is_scarce, 1);
}

// Resizes a block whose pages are moved and not copied.
static void move_pages(unsigned *state) {
    struct block *block = make(5 * MIB, state);
    if (block) drop(resize(block, 9 * MIB));
}

static void make_round(struct set *set, unsigned round) {
    steps(set, 200);
    switch (round % 7) {
    case 0: return storm_of_threads();
    case 1: return storm_of_forks(set);
    case 2: return reach_limit(RLIMIT_AS, &set->state);
    case 3: return reach_limit(RLIMIT_DATA, &set->state);
    case 4: return move_pages(&set->state);
    case 5: return has_option("limit=") ? reach_own_limit(&set->state) : drop_all(set);
    default: malloc_trim(0);
    }
}

// Makes a mistake that one of the checks must notice.
static void plant(struct set *set) {
    if (!strcmp(mode, "overwrite")) {
        while (!set->blocks[0]) step(set, 0);
        ((unsigned char *)set->blocks[0])[sizeof(struct block)] ^= 1;
    }
    if (!strcmp(mode, "leak")) {
        for (int n = 0; n < 1000; n++) CHECK(malloc(1000), "no memory");
    }
    // The option return=never keeps these blocks.
    if (!strcmp(mode, "keep")) {
        void *blocks[10];
        for (int n = 0; n < 10; n++) CHECK((blocks[n] = calloc(4, MIB)) && memset(blocks[n], 1, 4 * MIB), "no memory");
        for (int n = 0; n < 10; n++) free(blocks[n]);
    }
    if (!strcmp(mode, "double-free")) {
        void *volatile twice = malloc(1000);
        free(twice);
        free(twice);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// Makes rounds until the time is over. A worker that ends is replaced by another.
static void make_rounds(double seconds, struct set *set) {
    pthread_t workers[WORKERS];
    int is_running[WORKERS] = {0};
    double end = now() + seconds;
    for (unsigned round = 0; round < ROUNDS_LEAST || now() < end; round++) {
        unsigned worker = round % WORKERS;
        if (is_running[worker]) pthread_join(workers[worker], NULL);
        is_running[worker] = start(&workers[worker], (int)(next(&set->state) % LIFE));
        make_round(set, round);
    }
    atomic_store(&is_over, 1);
    for (int worker = 0; worker < WORKERS; worker++)
        if (is_running[worker]) pthread_join(workers[worker], NULL);
    atomic_store(&is_over, 0);
}

// Frees more blocks than a hardened process holds. Blocks that it held before leave, among them some whose memory the
// system did not take.
static void replace_held_blocks(void) {
    for (int n = 0; n < 4000; n++) free(malloc(n % 2 ? 40000 : 500));
}

// Waits until resident memory is near what it was in the beginning. Without a helper, `malloc_trim` returns it.
static void expect_little_memory(size_t resident, size_t in_use, int polls) {
    const struct timespec pause = {0, 250 * 1000 * 1000};
    int is_returned = 0;
    if (has_option("hardened=on")) replace_held_blocks();
    for (int n = 0; n < polls && !is_returned; n++) {
        if (!has_option("return=helper") && !has_option("return=never")) malloc_trim(0);
        is_returned = memory(1) < resident + SLACK;
        if (!is_returned) nanosleep(&pause, NULL);
    }
    CHECK(is_returned, "%zu KiB are resident, after %zu in the beginning", memory(1) / KIB, resident / KIB);
    // A hardened process counts the blocks that it holds.
    size_t late = mallinfo2().uordblks, most = in_use + (has_option("hardened=on") ? 64 * MIB : MIB / 2);
    CHECK(late < most, "%zu KiB are in use, after %zu", late / KIB, in_use / KIB);
}

static void soak(double seconds, int has_faults) {
    struct set set = {.state = 2463534242u};
    size_t resident = memory(1), in_use = mallinfo2().uordblks;
    if (has_faults) atomic_fetch_add(&is_scarce, 1), kill(getppid(), SIGUSR1);
    make_rounds(seconds, &set);
    if (has_faults) kill(getppid(), SIGUSR1), atomic_fetch_sub(&is_scarce, 1);
    // All works again after faults and limits.
    make_rounds(0, &set);
    plant(&set);
    drop_all(&set);
    for (int n = 0; n < MAIL; n++) drop(atomic_exchange(&mail[n], NULL));
    CHECK(atomic_load(&live) == 0, "%zu bytes are not accounted for", atomic_load(&live));
    expect_consistency();
    // Runs with a mode mistake poll for less time.
    expect_little_memory(resident, in_use, seconds > 0 ? POLLS : POLLS_BRIEF);
    expect_consistency();
}

// Runs the soak, or brief programs, with faults. Without a fault the run has no meaning.
static int supervise(char **words, double seconds, char *program_kind) {
    int is_brief = !strcmp(program_kind, "brief"), status = 0;
    char *program[] = {words[0], words[1], program_kind, NULL};
    double end = now() + seconds;
    do {
        status = run_with_faults(program, is_brief);
        if (status == -1) return puts("left out: the kernel has no filters that ask a process"), 0;
        CHECK(status == 0, "a program with faults ended with %x", status);
    } while (is_brief && now() < end);
    CHECK(report_faults() > 0, "no call has failed");
    return 0;
}

// Runs in a program whose first requests may get no memory.
static void be_brief(void) {
    struct set set = {.state = (unsigned)getpid() * 2654435761u | 1};
    atomic_store(&is_scarce, 1);
    steps(&set, 300);
    storm_of_forks(&set);
    drop_all(&set);
    expect_consistency();
}

int main(int count, char **words) {
    CHECK(count > 1, "give seconds, and a mode or nothing");
    double seconds = atof(words[1]);
    if (count > 2) mode = words[2];
    if (!strcmp(mode, "small-group")) live_max = LIVE_MAX_SMALL;
    if (!strcmp(mode, "faults")) return supervise(words, seconds, "under-faults");
    if (!strcmp(mode, "starts")) return supervise(words, seconds, "brief");
    if (!strcmp(mode, "no-faults")) return supervise(words, seconds, "without-faults");
    if (!strcmp(mode, "brief")) return be_brief(), 0;
    soak(seconds, !strcmp(mode, "under-faults"));
    return 0;
}
