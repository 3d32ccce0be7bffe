// Conformance: every function of malloc.h behaves as C, POSIX and glibc specify. The test runs under any malloc.
//
// A failed check prints its line, and the exit code is 1. Compile with -fno-builtin: otherwise the compiler knows what
// malloc does, and removes the calls under test. C++'s operators are in conformance.cc; forks, signals, threads and
// limits are in storms.c.

#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

// Functions of C23, which the headers and some mallocs lack.
extern void free_sized(void *object, size_t size) __attribute__((weak));
extern void free_aligned_sized(void *object, size_t align, size_t size) __attribute__((weak));

static const size_t MIB = 1 << 20;
// Sizes larger than any address space, in volatile variables so that a compiler cannot know their values.
static volatile size_t absurd = SIZE_MAX / 4;
static volatile size_t beyond = (size_t)PTRDIFF_MAX + 1;
static volatile size_t all = SIZE_MAX;

static int is_aligned(const void *object, size_t align) { return (uintptr_t)object % align == 0; }

static size_t natural(size_t size) { return size > 8 ? 16 : size > 4 ? 8 : size > 2 ? 4 : size > 1 ? 2 : 1; }

static void fill(unsigned char *object, size_t size, unsigned seed) {
    for (size_t at = 0; at < size; at++) object[at] = (unsigned char)(at * 7 + seed);
}

// Returns the offset of the first byte that `fill` did not write; `size` if all bytes are intact.
static size_t intact(const unsigned char *object, size_t size, unsigned seed) {
    for (size_t at = 0; at < size; at++)
        if (object[at] != (unsigned char)(at * 7 + seed)) return at;
    return size;
}

static size_t first_nonzero(const unsigned char *object, size_t size) {
    for (size_t at = 0; at < size; at++)
        if (object[at] != 0) return at;
    return size;
}

// Returns the next size to test: around each power of two and at steps of an eighth of it, so that both ends of every
// size class are tested.
static size_t next_size(size_t size) {
    if (size < 64) return size + 1;
    size_t power = (size_t)1 << (63 - __builtin_clzl(size));
    size_t step = power / 8, offset = size % step;
    return offset == 0 ? size + 1 : offset == 1 ? size - 1 + step - 1 : size + 1;
}

static void check_usable(unsigned char *object, size_t size) {
    size_t usable = malloc_usable_size(object);
    CHECK(usable >= size, "%zu usable of %zu", usable, size);
    fill(object, usable, (unsigned)size);
}

static void sizes_and_alignments(void) {
    enum { PAIR = 2 };
    for (size_t size = 0; size <= MIB; size = next_size(size)) {
        unsigned char *objects[PAIR];
        for (int i = 0; i < PAIR; i++) {
            objects[i] = malloc(size);
            CHECK(objects[i], "malloc(%zu)", size);
            CHECK(is_aligned(objects[i], natural(size)), "malloc(%zu) is %p", size, (void *)objects[i]);
            check_usable(objects[i], size);
        }
        CHECK(objects[0] != objects[1], "malloc(%zu) gave %p twice", size, (void *)objects[0]);
        for (int i = 0; i < PAIR; i++) {
            size_t usable = malloc_usable_size(objects[i]), end = intact(objects[i], usable, (unsigned)size);
            CHECK(end == usable, "malloc(%zu): byte %zu was overwritten", size, end);
        }
        if (free_sized) free_sized(objects[0], size);
        else free(objects[0]);
        free(objects[1]);
    }
    CHECK(malloc_usable_size(NULL) == 0, "the usable size of null is not 0");
}

// Allocates aligned memory by one of three functions.
static void *aligned(int way, size_t align, size_t size) {
    void *object = NULL;
    if (way == 0) return aligned_alloc(align, size);
    if (way == 1) return memalign(align, size);
    if (align < sizeof(void *)) return aligned_alloc(align, size);
    errno = 77;
    int error = posix_memalign(&object, align, size);
    CHECK(error == 0 && errno == 77, "posix_memalign(%zu, %zu) is %d, errno %d", align, size, error, errno);
    return object;
}

static void aligned_requests(void) {
    for (int way = 0; way < 3; way++) {
        for (size_t align = 1; align <= MIB; align *= 2) {
            for (size_t size = 0; size <= MIB; size = size < 4 ? size + 1 : size * 3 - 1) {
                unsigned char *one = aligned(way, align, size), *other = aligned(way, align, size);
                CHECK(one && other && one != other, "way %d, alignment %zu, size %zu", way, align, size);
                CHECK(is_aligned(one, align) && is_aligned(other, align), "way %d of %zu: %p, %p", way, align,
                      (void *)one, (void *)other);
                check_usable(one, size);
                check_usable(other, size);
                CHECK(intact(one, size, (unsigned)size) == size, "way %d, alignment %zu, size %zu", way, align, size);
                if (free_aligned_sized && way == 0) free_aligned_sized(one, align, size);
                else free(one);
                // A block of any alignment can be resized, and keeps its contents.
                unsigned char *more = realloc(other, size + 100);
                CHECK(more && intact(more, size, (unsigned)size) == size, "realloc of alignment %zu, %zu", align, size);
                free(more);
            }
        }
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t size = 1; size < 5 * page; size += 1000) {
        void *whole = pvalloc(size), *part = valloc(size);
        CHECK(whole && is_aligned(whole, page), "pvalloc(%zu) is %p", size, whole);
        CHECK(part && is_aligned(part, page), "valloc(%zu) is %p", size, part);
        size_t pages = malloc_usable_size(whole);
        CHECK(pages >= (size + page - 1) / page * page, "pvalloc(%zu) has %zu", size, pages);
        free(whole);
        free(part);
    }
    void *odd = memalign(48, 100);
    CHECK(odd && is_aligned(odd, 64), "memalign(48) is %p", odd);
    free(odd);
}

// Checks that a call returns null and sets this errno.
#define REFUSED(call, error)                                                               \
    do {                                                                                   \
        errno = 0;                                                                         \
        void *object = (call);                                                             \
        CHECK(object == NULL && errno == (error), "%p, errno %d of " #call, object, errno); \
    } while (0)

static void refusals(void) {
    volatile size_t half = (size_t)1 << 33;
    void *kept = malloc(100);
    fill(kept, 100, 1);
    for (int i = 0; i < 2; i++) {
        size_t size = i ? beyond : absurd;
        REFUSED(malloc(size), ENOMEM);
        REFUSED(calloc(1, size), ENOMEM);
        REFUSED(calloc(size, 1), ENOMEM);
        REFUSED(realloc(NULL, size), ENOMEM);
        REFUSED(realloc(kept, size), ENOMEM);
        REFUSED(reallocarray(kept, size, 1), ENOMEM);
        REFUSED(aligned_alloc(64, size), ENOMEM);
        REFUSED(memalign(64, size), ENOMEM);
        REFUSED(valloc(size), ENOMEM);
        REFUSED(pvalloc(size), ENOMEM);
    }
    REFUSED(malloc(all), ENOMEM);
    REFUSED(pvalloc(all), ENOMEM);
    REFUSED(pvalloc(all - 4095), ENOMEM);
    REFUSED(aligned_alloc(1 << 20, all), ENOMEM);
    REFUSED(aligned_alloc(beyond, 100), ENOMEM);
    // Products that overflow: to a small number, to zero, and barely.
    REFUSED(calloc(half, half), ENOMEM);
    REFUSED(calloc(half + 1, half), ENOMEM);
    REFUSED(calloc(all, 2), ENOMEM);
    REFUSED(calloc(2, all / 2 + 1), ENOMEM);
    REFUSED(reallocarray(kept, half, half), ENOMEM);
    REFUSED(reallocarray(NULL, half, half), ENOMEM);
    REFUSED(reallocarray(kept, all / 2 + 1, 2), ENOMEM);
    CHECK(intact(kept, 100, 1) == 100, "a failed realloc changed the block");
    free(kept);

    void *untouched = &untouched;
    errno = 77;
    CHECK(posix_memalign(&untouched, 0, 8) == EINVAL, "alignment 0");
    CHECK(posix_memalign(&untouched, 4, 8) == EINVAL, "alignment 4");
    CHECK(posix_memalign(&untouched, 24, 8) == EINVAL, "alignment 24");
    CHECK(posix_memalign(&untouched, 64, absurd) == ENOMEM, "an absurd size");
    CHECK(untouched == &untouched, "%p was written", untouched);
}

// Cases in which some versions of glibc differ: they accept such alignments, or set errno in addition to the result.
static void refusals_in_full(void) {
    void *object = NULL;
    errno = 77;
    CHECK(posix_memalign(&object, 64, absurd) == ENOMEM && errno == 77, "errno %d", errno);
    REFUSED(aligned_alloc(0, 100), EINVAL);
    REFUSED(aligned_alloc(24, 48), EINVAL);
    REFUSED(memalign(beyond + 1, 100), EINVAL);
}

static void zeroed(void) {
    enum { COUNT = 64 };
    static const size_t sizes[] = {1, 8, 24, 100, 1000, 4096, 5000, 32768, 32769, 100000, MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *objects[COUNT];
        for (int round = 0; round < 3; round++) {
            for (int n = 0; n < COUNT; n++) {
                objects[n] = calloc(n % 2 ? 1 : sizes[i], n % 2 ? sizes[i] : 1);
                CHECK(objects[n], "calloc of %zu", sizes[i]);
                size_t end = first_nonzero(objects[n], sizes[i]);
                CHECK(end == sizes[i], "calloc of %zu, round %d: byte %zu", sizes[i], round, end);
            }
            for (int n = 0; n < COUNT; n++) {
                memset(objects[n], 0xa5, malloc_usable_size(objects[n]));
                free(objects[n]);
            }
            if (round == 1) malloc_trim(0);
        }
    }
}

static void nothing(void) {
    void *a = malloc(0), *b = malloc(0), *c = calloc(0, 8), *d = calloc(8, 0), *e = realloc(NULL, 0);
    CHECK(a && b && c && d && e, "%p %p %p %p %p", a, b, c, d, e);
    CHECK(a != b && b != c && c != d && d != e && a != c && a != d && a != e && b != d && b != e && c != e, "twice");
    CHECK(realloc(a, 0) == NULL, "realloc to no bytes did not free, as glibc does");
    CHECK(reallocarray(b, 0, 8) == NULL, "realloc to no bytes did not free, as glibc does");
    free(c);
    free(d);
    free(e);
    free(NULL);
    if (free_sized) free_sized(NULL, 0);
}

// Resizes a block from 1 byte to 64 MiB and back, to sizes that are not multiples of size classes or pages.
static void resized(void) {
    size_t size = 1, most = 64 * MIB;
    unsigned char *object = realloc(NULL, size);
    CHECK(object, "realloc(NULL, 1)");
    fill(object, size, 3);
    for (int is_growing = 1; size > 1 || is_growing;) {
        size_t next = is_growing ? size + size / 2 + 1 : size - size / 2 + size / 8;
        if (is_growing && next >= most) next = most;
        if (!is_growing && next >= size) next = size - 1;
        unsigned char *new = size % 3 ? realloc(object, next) : reallocarray(object, next, 1);
        CHECK(new, "realloc from %zu to %zu", size, next);
        CHECK(is_aligned(new, natural(next)), "realloc to %zu is %p", next, (void *)new);
        CHECK(malloc_usable_size(new) >= next, "realloc to %zu has %zu", next, malloc_usable_size(new));
        size_t both = size < next ? size : next, end = intact(new, both, 3);
        CHECK(end == both, "realloc from %zu to %zu lost byte %zu", size, next, end);
        fill(new, next, 3);
        object = new;
        size = next;
        if (size == most) is_growing = 0;
    }
    free(object);
}

// Checks that free preserves errno, whatever it does internally.
static void errno_is_kept(void) {
    enum { COUNT = 2000 };
    static void *objects[COUNT];
    for (size_t size = 1; size <= 4 * MIB; size *= 4) {
        int count = size > 65536 ? 40 : COUNT;
        for (int n = 0; n < count; n++) {
            CHECK(objects[n] = malloc(size), "malloc(%zu)", size);
            memset(objects[n], 1, size);
        }
        for (int n = 0; n < count; n++) {
            errno = 77;
            free(objects[n]);
            CHECK(errno == 77, "free of %zu set errno to %d", size, errno);
        }
    }
}

static size_t resident(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    size_t all = 0, pages = 0;
    CHECK(file && fscanf(file, "%zu %zu", &all, &pages) == 2, "cannot read statm");
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void asked_about(void) {
    enum { LARGE = 64 };
    struct mallinfo2 before = mallinfo2();
    void *objects[LARGE];
    for (int n = 0; n < LARGE; n++) {
        CHECK(objects[n] = malloc(MIB), "malloc(1 MiB)");
        memset(objects[n], 1, MIB);
    }
    struct mallinfo2 within = mallinfo2();
    CHECK(within.uordblks + within.hblkhd >= before.uordblks + LARGE * MIB, "%zu, then %zu", before.uordblks,
          within.uordblks);
    size_t most = resident();
    for (int n = 0; n < LARGE; n++) free(objects[n]);
    int trimmed = malloc_trim(0);
    CHECK(trimmed == 0 || trimmed == 1, "malloc_trim is %d", trimmed);
    CHECK(resident() + LARGE / 2 * MIB < most, "%zu bytes, of %zu before malloc_trim", resident(), most);

    FILE *file = tmpfile();
    char text[16] = "";
    CHECK(file && malloc_info(0, file) == 0, "malloc_info");
    rewind(file);
    CHECK(fgets(text, sizeof text, file) && strncmp(text, "<malloc", 7) == 0, "malloc_info wrote %s", text);
    CHECK(malloc_info(1, file) == EINVAL, "malloc_info of options that do not exist");
    fclose(file);
    CHECK(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1 && mallopt(M_TRIM_THRESHOLD, 1 << 20) == 1, "mallopt");
}

int main(int count, char **words) {
    sizes_and_alignments();
    aligned_requests();
    refusals();
    if (count < 2 || strcmp(words[1], "glibc") != 0) refusals_in_full();
    zeroed();
    nothing();
    resized();
    errno_is_kept();
    asked_about();
    puts("conformance.c: passed");
    return 0;
}
