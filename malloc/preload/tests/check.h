// A failed check prints its location and a message, and ends the program with exit code 1.

#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(that, ...)                                                        \
    do {                                                                        \
        if (!(that)) {                                                          \
            fprintf(stderr, "%s:%d: not %s: ", __FILE__, __LINE__, #that);      \
            fprintf(stderr, __VA_ARGS__);                                       \
            fprintf(stderr, "\n");                                              \
            _exit(1);                                                           \
        }                                                                       \
    } while (0)

// Returns whether the malloc has an option.
static inline int has_option(const char *option) {
    const char *options = getenv("FREEHOLD_OPTIONS");
    return options && strstr(options, option);
}

#endif
