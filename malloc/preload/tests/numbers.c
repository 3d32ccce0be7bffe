// The numbers of mallinfo2 and malloc_info: their sums agree, and they follow the program's requests. Free memory of
// large blocks makes room for small ones, and the reverse.

#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { OBJECTS = 20000, OBJECT = 1024, RUNS = 32, RUN = 1 << 20 };
static const size_t ALL = (size_t)OBJECTS * OBJECT + (size_t)RUNS * RUN;

static void *objects[OBJECTS], *runs[RUNS];

static struct mallinfo2 info(void) {
    struct mallinfo2 now = mallinfo2();
    CHECK(now.uordblks + now.fordblks == now.arena + now.hblkhd, "%zu + %zu, %zu + %zu", now.uordblks, now.fordblks,
          now.arena, now.hblkhd);
    CHECK(now.fsmblks + now.keepcost <= now.fordblks, "%zu + %zu of %zu", now.fsmblks, now.keepcost, now.fordblks);
    CHECK(now.usmblks >= now.arena + now.hblkhd, "%zu, %zu + %zu", now.usmblks, now.arena, now.hblkhd);
    return now;
}

static void allocate(void) {
    for (int n = 0; n < OBJECTS; n++) CHECK(objects[n] = malloc(OBJECT), "malloc(%d)", OBJECT);
    for (int n = 0; n < RUNS; n++) CHECK(runs[n] = malloc(RUN), "malloc(%d)", RUN);
}

static void free_all(void) {
    for (int n = 0; n < OBJECTS; n++) free(objects[n]);
    for (int n = 0; n < RUNS; n++) free(runs[n]);
}

// Live memory grows by what is allocated and falls by what is freed. A part of the latter is cached, and the rest is
// kept or returned.
static void follow(void) {
    struct mallinfo2 before = info();
    allocate();
    struct mallinfo2 within = info();
    CHECK(within.uordblks >= before.uordblks + ALL && within.uordblks < before.uordblks + ALL + ALL / 4,
          "%zu live bytes, then %zu", before.uordblks, within.uordblks);
    CHECK(within.hblkhd >= before.hblkhd + RUNS * RUN, "%zu bytes of runs, then %zu", before.hblkhd, within.hblkhd);
    free_all();
    struct mallinfo2 after = info();
    // A hardened process holds freed blocks.
    if (has_option("hardened=on")) return;
    CHECK(after.uordblks < before.uordblks + 4096, "%zu live bytes, then %zu", before.uordblks, after.uordblks);
    CHECK(after.fsmblks >= 16 * OBJECT, "%zu cached bytes", after.fsmblks);
    malloc_trim(0);
    struct mallinfo2 trimmed = info();
    size_t returned = trimmed.usmblks - trimmed.arena - trimmed.hblkhd;
    CHECK(returned > ALL / 2, "%zu bytes are returned", returned);
    CHECK(trimmed.fordblks < ALL / 4, "%zu bytes are free", trimmed.fordblks);
}

static size_t memory(void) {
    struct mallinfo2 now = info();
    return now.arena + now.hblkhd;
}

// Memory that is free in one kind of blocks is returned when the other kind needs memory: the memory of the process
// grows by little.
static void exchange(void) {
    static const size_t LITTLE = 6 << 20;
    static void *held[RUNS / 4];
    malloc_trim(0);
    for (int n = 0; n < RUNS / 4; n++) CHECK(held[n] = malloc(RUN), "malloc(%d)", RUN);
    for (int n = 0; n < RUNS; n++) CHECK(runs[n] = malloc(RUN), "malloc(%d)", RUN);
    for (int n = 0; n < RUNS; n++) free(runs[n]);
    size_t of_runs = memory();
    for (int n = 0; n < OBJECTS; n++) CHECK(objects[n] = malloc(OBJECT), "malloc(%d)", OBJECT);
    size_t of_objects = memory();
    CHECK(of_objects < of_runs + LITTLE, "%zu bytes with free runs, then %zu", of_runs, of_objects);
    for (int n = 0; n < OBJECTS; n++) free(objects[n]);
    for (int n = 0; n < RUNS / 2; n++) CHECK(runs[n] = malloc(RUN), "malloc(%d)", RUN);
    size_t of_both = memory();
    CHECK(of_both < of_objects + LITTLE, "%zu bytes with free objects, then %zu", of_objects, of_both);
    for (int n = 0; n < RUNS / 2; n++) free(runs[n]);
    for (int n = 0; n < RUNS / 4; n++) free(held[n]);
}

// Returns the value of an attribute in a line, or 0 if the line has no such attribute.
static size_t attribute(const char *line, const char *name) {
    char pattern[32];
    snprintf(pattern, sizeof pattern, " %s=\"", name);
    const char *at = strstr(line, pattern);
    return at ? strtoul(at + strlen(pattern), NULL, 10) : 0;
}

static void sums_of_document(void) {
    enum { KINDS = 4 };
    static const char *const kinds[KINDS] = {"live", "cached", "kept", "returned"};
    size_t sums[KINDS] = {0}, totals[KINDS] = {0}, of_size = 0;
    allocate();
    FILE *file = tmpfile();
    CHECK(file && malloc_info(0, file) == 0, "malloc_info");
    rewind(file);
    char line[256];
    while (fgets(line, sizeof line, file)) {
        for (int kind = 0; kind < KINDS; kind++) {
            char total[32];
            snprintf(total, sizeof total, "<total type=\"%s\"", kinds[kind]);
            if (!strncmp(line, total, strlen(total)))
                totals[kind] = attribute(line, "size");
            else
                sums[kind] += attribute(line, kinds[kind]);
        }
        size_t bytes = attribute(line, "bytes");
        if (bytes >= OBJECT && bytes <= OBJECT + OBJECT / 4) of_size += attribute(line, "live");
    }
    fclose(file);
    for (int kind = 0; kind < KINDS; kind++)
        CHECK(sums[kind] == totals[kind], "%zu bytes are %s, and the sum is %zu", totals[kind], kinds[kind], sums[kind]);
    CHECK(of_size >= (size_t)OBJECTS * OBJECT, "%zu bytes of objects", of_size);
    free_all();
}

int main(void) {
    follow();
    sums_of_document();
    // A hardened process holds freed blocks.
    if (!has_option("hardened=on")) exchange();
    puts("numbers.c: passed");
    return 0;
}
