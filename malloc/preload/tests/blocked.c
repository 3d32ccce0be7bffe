// Mappings of the program in the way of the malloc's ranges. The test runs under any malloc.
//
// The program maps inaccessible pages directly behind all mappings in the part of the address space where the malloc's
// ranges grow, and then needs more memory. Requests must succeed, no mapping may be replaced, and freed memory must be
// reused, in a child process too. A limit of addresses must work as without such mappings.

#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "consistency.h"

enum { OBJECTS = 1 << 19, OBJECT = 1000, RUNS = 300, RUN = 1 << 20, OBSTACLES_MAX = 1024, MAPPINGS_MAX = 4096 };
static const size_t MIB = 1 << 20, GIB = 1 << 30;

static uint64_t *objects[OBJECTS], *runs[RUNS];
static struct { char *start; size_t bytes; } obstacles[OBSTACLES_MAX];
static size_t obstacle_count;

// A variant of the test: how often obstacles are mapped during the growth, and their sizes.
struct variant {
    int times;
    // Bytes of an obstacle behind memory, and behind other mappings, which are tables.
    size_t memory, tables;
};

static int is_obstacle(const char *end) {
    for (size_t n = 0; n < obstacle_count; n++)
        if (obstacles[n].start + obstacles[n].bytes == end) return 1;
    return 0;
}

static void map_obstacle(char *start, size_t bytes) {
    CHECK(obstacle_count < OBSTACLES_MAX, "too many obstacles");
    void *mapped = mmap(start, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped == MAP_FAILED) return;
    CHECK(mapped == start, "the kernel chose %p", mapped);
    obstacles[obstacle_count].start = start;
    obstacles[obstacle_count++].bytes = bytes;
}

// Maps obstacles behind all mappings between one eighth and five eighths of the address space.
static void block(const struct variant *variant) {
    static struct { uintptr_t start, end; } mappings[MAPPINGS_MAX];
    uintptr_t size = 1;
    while (size <= (uintptr_t)&size) size *= 2;
    uintptr_t object = (uintptr_t)objects[0], run = (uintptr_t)runs[0];
    size_t count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps, "maps: %s", strerror(errno));
    for (char line[512]; count < MAPPINGS_MAX && fgets(line, sizeof line, maps);) {
        unsigned long start = 0, end = 0;
        sscanf(line, "%lx-%lx", &start, &end);
        if (start < size / 8 || end > size / 8 * 5) continue;
        // Adjacent mappings are parts of one.
        if (count > 0 && mappings[count - 1].end == start && !is_obstacle((char *)start)) count--;
        else mappings[count].start = start;
        mappings[count++].end = end;
    }
    fclose(maps);
    for (size_t n = 0; n < count; n++) {
        uintptr_t start = mappings[n].start, end = mappings[n].end;
        int is_memory = (object >= start && object < end) || (run >= start && run < end);
        if (!is_obstacle((char *)end)) map_obstacle((char *)end, is_memory ? variant->memory : variant->tables);
    }
}

// Returns whether all obstacles are still mapped, and inaccessible.
static int are_obstacles_whole(void) {
    size_t found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps, "maps: %s", strerror(errno));
    for (char line[512]; fgets(line, sizeof line, maps);) {
        unsigned long start = 0, end = 0;
        char access[8] = "";
        sscanf(line, "%lx-%lx %7s", &start, &end, access);
        for (size_t n = 0; n < obstacle_count; n++) {
            uintptr_t from = (uintptr_t)obstacles[n].start;
            found += !strcmp(access, "---p") && from >= start && from + obstacles[n].bytes <= end;
        }
    }
    fclose(maps);
    return found == obstacle_count;
}

static void write_block(uint64_t *block, size_t bytes, uint64_t number) {
    for (size_t at = 0; at < bytes; at += 4096) block[at / 8] = number;
    block[bytes / 8 - 1] = number;
}

static void check_block(const uint64_t *block, size_t bytes, uint64_t number) {
    for (size_t at = 0; at < bytes; at += 4096) CHECK(block[at / 8] == number, "block %zu was overwritten", (size_t)number);
    CHECK(block[bytes / 8 - 1] == number, "the end of block %zu was overwritten", (size_t)number);
}

// Allocates a share of all objects and runs, and writes to each.
static void allocate(int share, int shares) {
    for (size_t n = (size_t)OBJECTS * share / shares; n < (size_t)OBJECTS * (share + 1) / shares; n++) {
        objects[n] = malloc(OBJECT);
        CHECK(objects[n], "object %zu: %s", n, strerror(errno));
        write_block(objects[n], OBJECT, n);
    }
    for (size_t n = (size_t)RUNS * share / shares; n < (size_t)RUNS * (share + 1) / shares; n++) {
        size_t bytes = RUN + n * 4096;
        runs[n] = n % 2 ? calloc(1, bytes) : realloc(malloc(bytes / 2), bytes);
        CHECK(runs[n], "run %zu: %s", n, strerror(errno));
        write_block(runs[n], bytes, n);
    }
}

static void check_and_free(void) {
    for (size_t n = 0; n < OBJECTS; n++) {
        check_block(objects[n], OBJECT, n);
        free(objects[n]);
    }
    for (size_t n = 0; n < RUNS; n++) {
        check_block(runs[n], RUN + n * 4096, n);
        free(runs[n]);
    }
}

// Returns the bytes of addresses that the process uses.
static size_t addresses(void) {
    size_t pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    CHECK(statm && fscanf(statm, "%zu", &pages) == 1, "statm: %s", strerror(errno));
    fclose(statm);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

// Fills memory up to a limit that is set now.
static void fill_limit(const struct variant *variant) {
    const size_t more = 256 * MIB;
    size_t limit = addresses() + more, count = 0;
    setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit});
    for (int n = 0; n < 2; n++) {
        size_t size = n ? 300000 : OBJECT;
        for (count = 0; count < OBJECTS && (objects[count] = malloc(size)); count++) {
            write_block(objects[count], size, count);
            if (count % (more / 4 / size) == 0) block(variant);
        }
        if (count < OBJECTS) CHECK(errno == ENOMEM, "%s", strerror(errno));
        CHECK(count * size > more / 2, "%zu MiB of %zu", count * size / MIB, more / MIB);
        for (size_t at = 0; at < count; at++) {
            check_block(objects[at], size, at);
            free(objects[at]);
        }
    }
}

static void run(const struct variant *variant) {
    objects[0] = malloc(OBJECT);
    runs[0] = malloc(RUN);
    for (int n = 0; n < variant->times; n++) {
        block(variant);
        allocate(n, variant->times);
    }
    CHECK(are_obstacles_whole(), "an obstacle was replaced");
    CHECK(!getenv("FREEHOLD_OPTIONS") || obstacle_count > 2, "%zu mappings are in the way", obstacle_count);
    expect_consistency();
    check_and_free();
    size_t before = addresses();
    allocate(0, 1);
    check_and_free();
    // A hardened process holds freed memory for a while.
    size_t most = before + (has_option("hardened=on") ? before / 2 + GIB : 128 * MIB);
    CHECK(addresses() < most, "%zu MiB of addresses, then %zu", before / MIB, addresses() / MIB);
    pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        block(variant);
        allocate(0, 1);
        check_and_free();
        fill_limit(variant);
        CHECK(are_obstacles_whole(), "an obstacle was replaced");
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %x", status);
}

int main(int count, char **words) {
    CHECK(count == 2, "give once, far or often");
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct variant variant = {1, page, page};
    if (!strcmp(words[1], "far")) variant.memory = GIB;
    if (!strcmp(words[1], "often")) variant.times = 8;
    run(&variant);
    return 0;
}
