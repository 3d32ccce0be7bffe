// A program with a known heap profile: the test knows which functions hold how much. The argument selects the way in
// which the profile is written.
//
//   exit     at the program's end
//   dump     by a call, to FILE.dump, while more is held than at the end; and to paths that cannot be written
//   signal   by a signal, repeatedly while the program allocates, and once while it waits
//   fork     by a child, which holds the memory of its parent and more
//   storm    by all of these at once, in threads that allocate, resize and free

#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "../include/freehold.h"
#include "check.h"

// The function exists if the library is preloaded.
#pragma weak freehold_profile_dump

#define HELD 20000
#define BYTES 200
#define LARGE 100
#define LARGE_BYTES 100000

static void *held[HELD];
static void *more[HELD];
static void *large[LARGE];

__attribute__((noinline)) static void hold_small(void) {
    for (int i = 0; i < HELD; i++) held[i] = malloc(BYTES);
}

__attribute__((noinline)) static void hold_more(void) {
    for (int i = 0; i < HELD; i++) more[i] = malloc(BYTES);
}

// Uses the other allocation functions, with resizes from small to large blocks, in place and by moves.
__attribute__((noinline)) static void hold_large(void) {
    for (int i = 0; i < LARGE; i++) {
        large[i] = realloc(realloc(calloc(1, 100), 50000), LARGE_BYTES);
    }
}

// Allocates, checks and frees blocks; holds none at the end.
__attribute__((noinline)) static void hold_nothing(void) {
    for (int i = 0; i < 20000; i++) {
        size_t size = (size_t)(i * 37 % 3000) + 1, align = (size_t)16 << i % 10;
        unsigned char *zero = calloc(size, 1);
        CHECK(zero != NULL && zero[0] == 0 && zero[size - 1] == 0, "calloc(%zu)", size);
        memset(zero, i, size);
        zero = realloc(zero, size * 3);
        CHECK(zero[0] == (unsigned char)i && zero[size - 1] == (unsigned char)i, "realloc(%zu)", size);
        CHECK(malloc_usable_size(zero) >= size * 3, "%zu of %zu", malloc_usable_size(zero), size * 3);
        memset(zero, 1, malloc_usable_size(zero));
        void *aligned = aligned_alloc(align, size);
        CHECK((size_t)aligned % align == 0, "aligned_alloc(%zu, %zu)", align, size);
        memset(aligned, 2, malloc_usable_size(aligned));
        free(aligned);
        free(zero);
    }
}

static void drop(void **blocks) {
    for (int i = 0; i < HELD; i++) free(blocks[i]);
}

static int exists(const char *name) { return access(name, R_OK) == 0; }

static void dump(const char *file) {
    char name[4096];
    snprintf(name, sizeof name, "%s.dump", file);
    hold_more();
    CHECK(freehold_profile_dump(name) == 0, "%s: %s", name, strerror(errno));
    drop(more);
    CHECK(freehold_profile_dump("/nowhere/at/all") == -1 && errno == ENOENT, "%s", strerror(errno));
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = 0;
    CHECK(freehold_profile_dump(name) == -1 && errno == ENAMETOOLONG, "%s", strerror(errno));
}

static void signals(const char *file) {
    sigset_t users, before;
    raise(SIGUSR2);
    CHECK(exists(file), "%s was not written by a signal", file);
    unlink(file);
    // A waiting thread writes the profile as well: the handler has run when the wait ends.
    sigemptyset(&users);
    sigaddset(&users, SIGUSR2);
    sigprocmask(SIG_BLOCK, &users, &before);
    raise(SIGUSR2);
    CHECK(sigsuspend(&before) == -1 && errno == EINTR, "%s", strerror(errno));
    CHECK(exists(file), "%s was not written while waiting", file);
    sigprocmask(SIG_SETMASK, &before, NULL);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 200; i++) kill(getppid(), SIGUSR2);
        _exit(0);
    }
    int status;
    while (waitpid(child, &status, WNOHANG) == 0) hold_nothing();
    unlink(file);
}

static void forks(void) {
    pid_t child = fork();
    if (child == 0) {
        hold_more();
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "a child ended with %d", status);
}

static void *storm(void *file) {
    char name[4096];
    snprintf(name, sizeof name, "%s.dump", (const char *)file);
    for (int i = 0; i < 5; i++) {
        hold_nothing();
        CHECK(freehold_profile_dump(name) == 0, "%s", strerror(errno));
        raise(SIGUSR2);
        pid_t child = fork();
        if (child == 0) {
            hold_nothing();
            CHECK(freehold_profile_dump(NULL) == 0, "%s", strerror(errno));
            exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "a child ended with %d", status);
    }
    return NULL;
}

static void storms(const char *file) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, storm, (void *)file);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

int main(int count, char **words) {
    CHECK(count == 3, "usage: profile WAY FILE");
    const char *way = words[1], *file = words[2];
    hold_small();
    hold_large();
    hold_nothing();
    if (strcmp(way, "dump") == 0) dump(file);
    if (strcmp(way, "signal") == 0) signals(file);
    if (strcmp(way, "fork") == 0) forks();
    if (strcmp(way, "storm") == 0) storms(file);
    return 0;
}
