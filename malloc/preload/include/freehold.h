/*
 * Freehold as a program's malloc: functions of libfreehold that the C library's headers may not declare.
 *
 * A program that is linked with libfreehold, or runs with it preloaded, gets the following functions from it: malloc,
 * calloc, realloc and free, their aligned and sized variants, and C++'s operators new and delete. <stdlib.h> and
 * <malloc.h> declare those of C.
 */
#ifndef FREEHOLD_H
#define FREEHOLD_H

#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Functions of C23, which older headers of the C library do not declare. */
void free_sized(void *object, size_t size);
void free_aligned_sized(void *object, size_t align, size_t size);

/* Control and statistics of the process's memory, in bytes, as glibc's functions of these names (see its malloc.h). */
int malloc_trim(size_t keep);
int malloc_info(int options, FILE *stream);
void malloc_stats(void);

/*
 * Writes a sampled heap profile to the file `path`, or if `path` is NULL, to the file that the option `profile` names.
 * The profile is text in the format that pprof and jeprof read. Returns 0, or -1 with errno: EOPNOTSUPP if the process
 * is not profiled, EAGAIN in a signal handler that has interrupted the allocator, or the system's error for the file.
 */
int freehold_profile_dump(const char *path);

/*
 * Checks the tables of the malloc: pages, slabs, lists and runs. Returns 0, or -1 after it has written the first
 * violation to standard error. No other thread of the program may allocate or free meanwhile.
 */
int freehold_check(void);

/*
 * Options, which are set in the environment before the program starts:
 *
 *   FREEHOLD_OPTIONS=return=frees|helper|never,keep=SIZE,age=MILLISECONDS,huge-pages=system|wanted,
 *                    cpus=NUMBER,sections=auto|locks,system-calls=all|few,hardened=off|on,
 *                    stats=off|exit|sizes,profile=PATH,profile-rate=SIZE,profile-signal=NUMBER
 *
 * In PATH, %p is replaced by the process ID, and %n by the number of profiles that the process has written before.
 */

#ifdef __cplusplus
}
#endif
#endif
