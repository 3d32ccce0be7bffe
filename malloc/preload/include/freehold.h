/*
 * Freehold as a program's malloc: what libfreehold has beyond the C library's own names.
 *
 * A program that is linked with libfreehold (or has it preloaded) gets malloc, calloc, realloc, free, their aligned and
 * sized kin and C++'s operators new and delete from it; <stdlib.h> and <malloc.h> declare those.
 */
#ifndef FREEHOLD_H
#define FREEHOLD_H

#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* C23; older headers of the C library do not declare them. */
void free_sized(void *object, size_t size);
void free_aligned_sized(void *object, size_t align, size_t size);

/* Numbers of the process's memory, in bytes: as glibc's, where the field means something (see its malloc.h). */
int malloc_trim(size_t keep);
int malloc_info(int options, FILE *stream);
void malloc_stats(void);

/*
 * Writes a heap profile to this file, or, if it is NULL, to where the option `profile` says; sampled, as the text that
 * pprof and jeprof read. Returns 0, or -1 with errno: EOPNOTSUPP if the process is not profiled, EAGAIN in a handler of a
 * signal that has interrupted the allocator, or what the system says of the file.
 */
int freehold_profile_dump(const char *path);

/*
 * What a program's user may choose, in the environment before the program starts:
 *
 *   FREEHOLD_OPTIONS=return=frees|helper|never,keep=SIZE,age=MILLISECONDS,huge-pages=system|wanted,
 *                    cpus=NUMBER,sections=auto|locks,hardened=off|on,stats=off|exit|sizes,
 *                    profile=PATH,profile-rate=SIZE,profile-signal=NUMBER
 *
 * In PATH, %p stands for the number of the process, and %n for how many profiles it has written before.
 */

#ifdef __cplusplus
}
#endif
#endif
