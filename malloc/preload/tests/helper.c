// Start of the malloc's helper thread. The test runs under any malloc.
//
// Built with -DPLUGIN as a shared object, this file is a library with 4 MiB of thread-local data. The loader allocates
// that data with malloc when a thread first touches it, and the C library frees it when it frees the thread's stack. At
// that point the C library holds the lock of its stack cache, which pthread_create takes. So a free that creates a
// thread would deadlock.
//
// The argument selects the case. `stacks`: threads have stacks that the program allocates, so their thread-local data
// is freed under the lock whenever a thread ends. `cache`: the cache of stacks is filled until the C library frees some
// of them. `alone`: the program creates no thread until it has freed memory. `exit`: the main thread exits before the
// other one. `children`: child processes of vfork and of a raw clone set PR_SET_NO_NEW_PRIVS.

#ifdef PLUGIN

#include <string.h>

static __thread char data[4 << 20] __attribute__((tls_model("global-dynamic")));

char *touch(int n) { return memset(data, n + 1, sizeof data); }

#else

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 10, ROUNDS = 4, BLOCKS = 16 };
static const size_t STACK = 4 << 20, CACHED_STACK = 8 << 20, BLOCK = 4 << 20;

// Static thread-local data, which the C library places on each thread's stack.
static __thread char on_stack[1 << 20];

static char *(*touch)(int);
static pthread_barrier_t all_here;

// Waits longer than a tick of the malloc's clock.
static void wait_a_moment(void) { nanosleep(&(struct timespec){0, 400 * 1000 * 1000}, NULL); }

static void *touch_and_meet(void *number) {
    touch((int)(long)number);
    on_stack[(long)number] = 1;
    pthread_barrier_wait(&all_here);
    return NULL;
}

static void start_and_join(int has_own_stacks) {
    pthread_t threads[THREADS];
    void *stacks[THREADS] = {0};
    pthread_barrier_init(&all_here, NULL, THREADS);
    for (long n = 0; n < THREADS; n++) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        if (has_own_stacks) {
            stacks[n] = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
            pthread_attr_setstack(&attributes, stacks[n], STACK);
        } else {
            pthread_attr_setstacksize(&attributes, CACHED_STACK);
        }
        CHECK(pthread_create(&threads[n], &attributes, touch_and_meet, (void *)n) == 0, "thread %ld", n);
        pthread_attr_destroy(&attributes);
    }
    for (int n = 0; n < THREADS; n++) {
        pthread_join(threads[n], NULL);
        if (stacks[n]) munmap(stacks[n], STACK);
    }
    pthread_barrier_destroy(&all_here);
}

static int count_threads(void) {
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder, "cannot list the threads");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

// Returns the number of threads, after a wait for threads that have been joined and that the kernel still lists.
static int count_threads_down_to(int wanted) {
    for (int wait = 0; wait < 100 && count_threads() > wanted; wait++) wait_a_moment();
    return count_threads();
}

static void allocate_and_free(void) {
    char *blocks[BLOCKS];
    for (int n = 0; n < BLOCKS; n++) memset(blocks[n] = malloc(BLOCK), 1, BLOCK);
    for (int n = 0; n < BLOCKS; n++) free(blocks[n]);
}

static void *do_nothing(void *nothing) {
    on_stack[0] = 1;
    return nothing;
}

static int return_nothing(void *nothing) { return nothing != NULL; }

static void create_no_thread_alone(int is_c11) {
    const char *options = getenv("FREEHOLD_OPTIONS");
    int has_helper = options && strstr(options, "return=helper");
    for (int round = 0; round < 3; round++) {
        allocate_and_free();
        CHECK(count_threads() == 1, "a free created a thread");
        wait_a_moment();
    }
    if (is_c11) {
        thrd_t thread;
        CHECK(thrd_create(&thread, return_nothing, NULL) == thrd_success, "thrd_create");
        thrd_join(thread, NULL);
    } else {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, do_nothing, NULL) == 0, "pthread_create");
        pthread_join(thread, NULL);
    }
    int threads = count_threads_down_to(1 + has_helper);
    CHECK(threads == 1 + has_helper, "%d threads", threads);
    // The program has one thread again, so the helper ends after ten seconds.
    CHECK(is_c11 || count_threads_down_to(1) == 1, "the helper does not end");
}

// Runs in the last thread of the program, which has the program's files.
static void check_files(void) {
    if (fcntl(STDOUT_FILENO, F_GETFD) < 0) _exit(3);
}

static void *outlive_main(void *main_thread) {
    pthread_join(*(pthread_t *)main_thread, NULL);
    return NULL;
}

static void exit_main_first(void) {
    static pthread_t self;
    self = pthread_self();
    pthread_t thread;
    atexit(check_files);
    CHECK(pthread_create(&thread, NULL, outlive_main, &self) == 0, "pthread_create");
    alarm(8);
    pthread_exit(NULL);
}

static void restrict_and_exit(void) {
    alarm(8);
    _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? 4 : 0);
}

static void expect_success(pid_t child) {
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "child ended with %x", status);
}

// A child process that shares the memory of the program must not change the malloc, and one for which no fork handler
// ran must not wait for the helper.
static void restrict_children(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, do_nothing, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
    wait_a_moment();
    int threads = count_threads();
    pid_t child = vfork();
    if (child == 0) restrict_and_exit();
    expect_success(child);
    CHECK(count_threads() == threads, "%d of %d threads are left", count_threads(), threads);
    child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) restrict_and_exit();
    expect_success(child);
}

int main(int count, char **words) {
    CHECK(count == 2, "which?");
    if (!strcmp(words[1], "exit")) exit_main_first();
    if (!strcmp(words[1], "children")) return restrict_children(), 0;
    if (!strncmp(words[1], "alone", 5)) {
        create_no_thread_alone(!strcmp(words[1], "alone-c11"));
    } else {
        void *plugin = dlopen("./helper-c.so", RTLD_NOW);
        CHECK(plugin, "%s", dlerror());
        touch = (char *(*)(int))dlsym(plugin, "touch");
        for (int round = 0; round < ROUNDS; round++) {
            start_and_join(!strcmp(words[1], "stacks"));
            wait_a_moment();
        }
    }
    return 0;
}

#endif
