// A library for LD_PRELOAD that lets the n-th call of a kind fail, on files below one folder.
//
// It counts the calls of every kind, also those that it lets pass. `failing_io_arm` sets it up from
// within a process; FAILING_IO="FOLDER:KIND:N:ERRNO:MODE" does so as a process starts. Calls that
// libc makes inside itself, as those of `fwrite`, do not come by here; Python and C++ make none.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE, FSYNC, RENAME, OPEN, READ, MKDIR, LOOK, NUM_KINDS };  // LOOK: open for reading
enum { ONCE, FROM_THEN_ON, HALF };  // HALF: half of the bytes are written, and from then on none

static char folder[PATH_MAX];  // without a last slash; "": nothing counts
static char failed[PATH_MAX];  // the path of the first call that failed
static atomic_int counts[NUM_KINDS], armed = -1, target, code, mode, num_failed;

static int is_below(const char *path) {
    size_t length = strlen(folder);
    return length && !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    return length >= 0;
}

static void locate(int at, const char *name, char *path) {
    char base[PATH_MAX] = "";
    if (name[0] != '/' && (at == AT_FDCWD ? !getcwd(base, sizeof base) : !path_of(at, base)))
        base[0] = 0;
    snprintf(path, PATH_MAX, "%.2000s%s%.2000s", base, base[0] ? "/" : "", name);
}

// Returns 1 if this call must fail, and sets errno; 2 if it must write half.
static int trips(int kind, const char *path) {
    if (!is_below(path)) return 0;
    int number = atomic_fetch_add(&counts[kind], 1) + 1;
    if (armed != kind) return 0;
    if (mode == ONCE ? number != target : number < target) return 0;
    if (mode == HALF && number == target) return 2;
    if (!atomic_fetch_add(&num_failed, 1)) snprintf(failed, sizeof failed, "%.4000s", path);
    errno = code;
    return 1;
}

static int trips_fd(int kind, int fd) {
    char path[PATH_MAX];
    return folder[0] && fd > 2 && path_of(fd, path) ? trips(kind, path) : 0;
}

static int trips_at(int kind, int at, const char *name) {
    char path[PATH_MAX];
    if (!folder[0] || !name) return 0;
    locate(at, name, path);
    return trips(kind, path);
}

void failing_io_arm(const char *below, int kind, int n, int error, int how) {
    armed = -1;
    for (int i = 0; i < NUM_KINDS; i++) counts[i] = 0;
    num_failed = 0;
    failed[0] = 0;
    snprintf(folder, sizeof folder, "%s", below);
    target = n;
    code = error;
    mode = how;
    armed = kind;
}

int failing_io_count(int kind) { return counts[kind]; }
const char *failing_io_path(void) { return failed; }

__attribute__((constructor)) static void arm_from_environment(void) {
    char *settings = getenv("FAILING_IO"), below[PATH_MAX];
    int kind, n, error, how;
    if (settings && sscanf(settings, "%4095[^:]:%d:%d:%d:%d", below, &kind, &n, &error, &how) == 5)
        failing_io_arm(below, kind, n, error, how);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define HALF_OF(size) ((size) > 1 ? (size) / 2 : (size))

#define WRITES(name, parameters, call, half) \
    ssize_t name parameters {                 \
        int how = trips_fd(WRITE, fd);        \
        if (how == 1) return -1;              \
        return how == 2 ? half : call;        \
    }
WRITES(write, (int fd, const void *data, size_t size), NEXT(write)(fd, data, size),
       NEXT(write)(fd, data, HALF_OF(size)))
WRITES(pwrite, (int fd, const void *data, size_t size, off_t at),
       NEXT(pwrite)(fd, data, size, at), NEXT(pwrite)(fd, data, HALF_OF(size), at))
WRITES(pwrite64, (int fd, const void *data, size_t size, off64_t at),
       NEXT(pwrite64)(fd, data, size, at), NEXT(pwrite64)(fd, data, HALF_OF(size), at))
WRITES(writev, (int fd, const struct iovec *parts, int count), NEXT(writev)(fd, parts, count),
       NEXT(write)(fd, parts[0].iov_base, HALF_OF(parts[0].iov_len)))
WRITES(pwritev, (int fd, const struct iovec *parts, int count, off_t at),
       NEXT(pwritev)(fd, parts, count, at),
       NEXT(pwrite)(fd, parts[0].iov_base, HALF_OF(parts[0].iov_len), at))
WRITES(pwritev64, (int fd, const struct iovec *parts, int count, off64_t at),
       NEXT(pwritev64)(fd, parts, count, at),
       NEXT(pwrite64)(fd, parts[0].iov_base, HALF_OF(parts[0].iov_len), at))
WRITES(sendfile, (int fd, int from, off_t *at, size_t size), NEXT(sendfile)(fd, from, at, size),
       NEXT(sendfile)(fd, from, at, HALF_OF(size)))
WRITES(sendfile64, (int fd, int from, off64_t *at, size_t size),
       NEXT(sendfile64)(fd, from, at, size), NEXT(sendfile64)(fd, from, at, HALF_OF(size)))
WRITES(copy_file_range,
       (int from, off64_t *at, int fd, off64_t *to, size_t size, unsigned int flags),
       NEXT(copy_file_range)(from, at, fd, to, size, flags),
       NEXT(copy_file_range)(from, at, fd, to, HALF_OF(size), flags))

#define READS(name, parameters, ...) \
    ssize_t name parameters { return trips_fd(READ, fd) ? -1 : NEXT(name)(__VA_ARGS__); }
READS(read, (int fd, void *data, size_t size), fd, data, size)
READS(pread, (int fd, void *data, size_t size, off_t at), fd, data, size, at)
READS(pread64, (int fd, void *data, size_t size, off64_t at), fd, data, size, at)
READS(readv, (int fd, const struct iovec *parts, int count), fd, parts, count)
READS(preadv, (int fd, const struct iovec *parts, int count, off_t at), fd, parts, count, at)
READS(preadv64, (int fd, const struct iovec *parts, int count, off64_t at), fd, parts, count, at)

int fsync(int fd) { return trips_fd(FSYNC, fd) ? -1 : NEXT(fsync)(fd); }
int fdatasync(int fd) { return trips_fd(FSYNC, fd) ? -1 : NEXT(fdatasync)(fd); }

int rename(const char *from, const char *to) {
    return trips_at(RENAME, AT_FDCWD, to) ? -1 : NEXT(rename)(from, to);
}
int renameat(int at, const char *from, int there, const char *to) {
    return trips_at(RENAME, there, to) ? -1 : NEXT(renameat)(at, from, there, to);
}
int renameat2(int at, const char *from, int there, const char *to, unsigned int flags) {
    return trips_at(RENAME, there, to) ? -1 : NEXT(renameat2)(at, from, there, to, flags);
}
int mkdir(const char *name, mode_t bits) {
    return trips_at(MKDIR, AT_FDCWD, name) ? -1 : NEXT(mkdir)(name, bits);
}
int mkdirat(int at, const char *name, mode_t bits) {
    return trips_at(MKDIR, at, name) ? -1 : NEXT(mkdirat)(at, name, bits);
}

#define OPENS(name, parameters, at, ...)                              \
    int name parameters {                                             \
        va_list rest;                                                 \
        va_start(rest, flags);                                        \
        mode_t bits = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                 \
        int kind = flags & (O_WRONLY | O_RDWR | O_CREAT) ? OPEN : LOOK; \
        if (trips_at(kind, at, path)) return -1;                      \
        return NEXT(name)(__VA_ARGS__, flags, bits);                  \
    }
OPENS(open, (const char *path, int flags, ...), AT_FDCWD, path)
OPENS(open64, (const char *path, int flags, ...), AT_FDCWD, path)
OPENS(openat, (int at, const char *path, int flags, ...), at, at, path)
OPENS(openat64, (int at, const char *path, int flags, ...), at, at, path)

#define FOPENS(name)                                                                  \
    FILE *name(const char *path, const char *how) {                                   \
        int kind = how[0] == 'r' && !strchr(how, '+') ? LOOK : OPEN;                   \
        return trips_at(kind, AT_FDCWD, path) ? NULL : NEXT(name)(path, how);         \
    }
FOPENS(fopen)
FOPENS(fopen64)
