// The check of the malloc's own tables.

#ifndef CONSISTENCY_H
#define CONSISTENCY_H

#include "check.h"

int freehold_check(void) __attribute__((weak));

// No other thread allocates or frees meanwhile. Another malloc has no check.
static void expect_consistency(void) { CHECK(!freehold_check || freehold_check() == 0, "the malloc is inconsistent"); }

#endif
