/* Loaded with LD_PRELOAD: counts the operations that change files below a folder, and makes the k-th one fail or kills the
   process there.  Armed from Python by `faults.injection`; inactive until then. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN = 1, WRITE = 2, SYNC = 4, RENAME = 8, MKDIR = 16, LOCK = 32, UNLINK = 64 };

static char below[PATH_MAX];
static long at, count;
static int active, failure, lasting, kinds;

/* error: an errno, or 0 to kill the process; lasts: whether all later operations fail too; which: kinds that count. */
void faults_arm(const char *folder, long k, int error, int lasts, int which) {
    strncpy(below, folder, sizeof below - 1);
    at = k; failure = error; lasting = lasts; kinds = which; count = 0; active = 1;
}
long faults_count(void) { return count; }
void faults_disarm(void) { active = 0; }

static int concerns(const char *path) {
    char full[PATH_MAX];
    if (!path) return 0;
    if (path[0] != '/') {
        if (!getcwd(full, sizeof full)) return 0;
        if (strlen(full) + strlen(path) + 2 > sizeof full) return 0;
        strcat(strcat(full, "/"), path);
        path = full;
    }
    return strncmp(path, below, strlen(below)) == 0;
}

static int concerns_handle(int handle) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return concerns(path);
}

/* Whether this operation must fail; does not return if it kills. */
static int fails(int kind) {
    if (!(kinds & kind)) return 0;
    long k = __sync_add_and_fetch(&count, 1);
    if (k != at && !(lasting && k > at)) return 0;
    if (!failure) kill(getpid(), SIGKILL);
    errno = failure;
    return 1;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define OPENS(function, name) \
    int function(const char *path, int flags, ...) { \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); } \
        REAL(int, name, const char *, int, ...); \
        if (active && (flags & (O_CREAT | O_WRONLY | O_RDWR)) && concerns(path) && fails(OPEN)) return -1; \
        return real(path, flags, mode); \
    }
OPENS(open, "open")
OPENS(open64, "open64")

ssize_t write(int handle, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    if (active && handle > 2 && concerns_handle(handle)) {
        if ((kinds & WRITE) && !failure && count + 1 == at && size > 1) real(handle, data, size / 2); /* killed amid a write */
        if (fails(WRITE)) return -1;
    }
    return real(handle, data, size);
}

int fsync(int handle) {
    REAL(int, "fsync", int);
    if (active && concerns_handle(handle) && fails(SYNC)) return -1;
    return real(handle);
}

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    if (active && concerns(to) && fails(RENAME)) return -1;
    return real(from, to);
}

int link(const char *from, const char *to) {
    REAL(int, "link", const char *, const char *);
    if (active && concerns(to) && fails(RENAME)) return -1;
    return real(from, to);
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    if (active && concerns(path) && fails(MKDIR)) return -1;
    return real(path, mode);
}

int flock(int handle, int operation) {
    REAL(int, "flock", int, int);
    if (active && concerns_handle(handle) && fails(LOCK)) return -1;
    return real(handle, operation);
}

int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    if (active && concerns(path) && fails(UNLINK)) return -1;
    return real(path);
}
