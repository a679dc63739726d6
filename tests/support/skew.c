/* Shifts the wall clock of a program by SKEW_SECONDS; loaded before the C library by the tests of
   several machines. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    const char *seconds = getenv("SKEW_SECONDS");
    if (result == 0 && clock == CLOCK_REALTIME && seconds) now->tv_sec += atol(seconds);
    return result;
}
