// A stand-in for AMD's `libamdhip64`, on host memory, for machines without an AMD device: all of them so far. It has the
// functions that the HIP backend calls, with the signatures of the headers of HIP 6.0 and later, and answers as these document
// it. It cannot run device code: what stands for a code object is a shared object of the host, and a kernel is a function
// of that name in it,
//
//     void kernel(void **parameters, const unsigned *grid, const unsigned *block);
//
// called once a launch. Work is done when it is queued; a kernel that touches memory that it may not is found at the next
// wait, and from then on everything fails, as on a device. The `standin_` functions are for tests: they make calls fail,
// count them, and say what device there is.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    COOPERATIVE_LAUNCH_TOO_LARGE = 720,
    NOT_SUPPORTED = 801,
};
enum { PINNED = 1, FILE_DESCRIPTOR = 1, ON_DEVICE = 1, READ = 1, READ_WRITE = 3 };

// Pages come in these.
static const size_t UNIT = 1 << 16;
// What is longer is only overwritten or copied for the time that it takes, never read: a part of it is enough.
static const size_t LONGEST = 256 << 20, PART = 16 << 20;

static int devices = 1, version = 70100000;
static size_t limit = SIZE_MAX, used;
static const char *table;
// What a kernel did wrong: it stays.
static int sticky;
static int live;

// Calls by name: how many there were, and the one that fails.
static struct {
    const char *name;
    int calls, code;
} known[64];

static int *slot(const char *name, int want_code)
{
    for (unsigned index = 0; index < 64; index++) {
        if (!known[index].name)
            known[index].name = strdup(name);
        if (!strcmp(known[index].name, name))
            return want_code ? &known[index].code : &known[index].calls;
    }
    abort();
}

static int enter(const char *name)
{
    *slot(name, 0) += 1;
    return *slot(name, 1);
}

#define CALL                                                                                                           \
    do {                                                                                                               \
        const int code = enter(__func__);                                                                              \
        if (code)                                                                                                      \
            return code;                                                                                               \
    } while (0)

// Every call of a function fails from now on.
void standin_fail(const char *name, int code) { *slot(name, 1) = code; }
int standin_calls(const char *name) { return *slot(name, 0); }
void standin_devices(int number) { devices = number; }
void standin_version(int number) { version = number; }
void standin_memory(size_t bytes) { limit = bytes; }
// The shared object that the compiler makes of any source.
void standin_table(const char *path) { table = strdup(path); }
// Allocations, handles, ranges and mappings that were not given back.
int standin_live(void) { return live; }

const char *hipGetErrorName(int code)
{
    switch (code) {
    case SUCCESS: return "hipSuccess";
    case INVALID_VALUE: return "hipErrorInvalidValue";
    case OUT_OF_MEMORY: return "hipErrorOutOfMemory";
    case NO_DEVICE: return "hipErrorNoDevice";
    case INVALID_DEVICE: return "hipErrorInvalidDevice";
    case INVALID_IMAGE: return "hipErrorInvalidImage";
    case INVALID_HANDLE: return "hipErrorInvalidHandle";
    case NOT_FOUND: return "hipErrorNotFound";
    case ILLEGAL_ADDRESS: return "hipErrorIllegalAddress";
    case COOPERATIVE_LAUNCH_TOO_LARGE: return "hipErrorCooperativeLaunchTooLarge";
    case NOT_SUPPORTED: return "hipErrorNotSupported";
    default: return "hipErrorUnknown";
    }
}

const char *hipGetErrorString(int code) { return code == OUT_OF_MEMORY ? "out of memory" : "as the stand-in has it"; }

int hipInit(unsigned flags)
{
    CALL;
    return flags ? INVALID_VALUE : SUCCESS;
}

int hipRuntimeGetVersion(int *number)
{
    CALL;
    *number = version;
    return SUCCESS;
}

int hipGetDeviceCount(int *count)
{
    CALL;
    *count = devices;
    return devices ? SUCCESS : NO_DEVICE;
}

int hipDeviceGet(int *device, int ordinal)
{
    CALL;
    *device = ordinal;
    return ordinal < devices ? SUCCESS : INVALID_DEVICE;
}

int hipSetDevice(int device)
{
    CALL;
    return device >= 0 && device < devices ? SUCCESS : INVALID_DEVICE;
}

int hipDeviceGetName(char *name, int len, int device)
{
    CALL;
    snprintf(name, (size_t)len, "stand-in %d", device);
    return SUCCESS;
}

int hipDeviceGetAttribute(int *value, int attribute, int device)
{
    CALL;
    *value = 4 << 20;
    return attribute == 19 && device < devices ? SUCCESS : INVALID_VALUE;
}

int hipStreamCreateWithFlags(void **stream, unsigned flags)
{
    CALL;
    *stream = malloc(1);
    return flags <= 1 ? SUCCESS : INVALID_VALUE;
}

int hipStreamSynchronize(void *stream)
{
    CALL;
    return stream ? sticky : INVALID_HANDLE;
}

int hipEventCreateWithFlags(void **event, unsigned flags)
{
    CALL;
    *event = calloc(1, sizeof(struct timespec));
    return flags ? INVALID_VALUE : SUCCESS;
}

int hipEventRecord(void *event, void *stream)
{
    CALL;
    if (!event || !stream)
        return INVALID_HANDLE;
    clock_gettime(CLOCK_MONOTONIC, event);
    return sticky;
}

int hipEventElapsedTime(float *milliseconds, void *start, void *end)
{
    CALL;
    const struct timespec *a = start, *b = end;
    *milliseconds = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) / 1e6);
    return sticky;
}

int hipModuleLoadData(void **module, const void *image)
{
    CALL;
    const Elf64_Ehdr *header = image;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) || header->e_machine == 224 /* AMD's */)
        return INVALID_IMAGE;
    const size_t len = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
    // It stays open: a library is known by its path.
    const int file = memfd_create("code object", MFD_CLOEXEC);
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (file < 0 || write(file, image, len) != (ssize_t)len)
        return OUT_OF_MEMORY;
    *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return *module ? SUCCESS : INVALID_IMAGE;
}

int hipModuleGetFunction(void **function, void *module, const char *name)
{
    CALL;
    *function = dlsym(module, name);
    return *function ? SUCCESS : NOT_FOUND;
}

static _Thread_local sigjmp_buf back;
static _Thread_local volatile sig_atomic_t in_kernel;
static struct sigaction before;

static void fault(int number, siginfo_t *info, void *context)
{
    if (in_kernel)
        siglongjmp(back, 1);
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else
        signal(number, SIG_DFL);
}

typedef void kernel(void **parameters, const unsigned *grid, const unsigned *block);

static int launch(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                  unsigned shared, void *stream, void **parameters)
{
    if (!function || !stream)
        return INVALID_HANDLE;
    if (!(gx && gy && gz && bx && by && bz) || bx * by * bz > 1024 || shared > 64 << 10)
        return INVALID_VALUE;
    if (sticky)
        return sticky;
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    struct sigaction catch = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    struct sigaction found;
    sigaction(SIGSEGV, NULL, &found);
    if (found.sa_sigaction != fault) {
        before = found;
        sigaction(SIGSEGV, &catch, NULL);
    }
    in_kernel = 1;
    if (sigsetjmp(back, 1))
        sticky = ILLEGAL_ADDRESS;
    else
        ((kernel *)function)(parameters, grid, block);
    in_kernel = 0;
    return SUCCESS;
}

int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **parameters, void **extra)
{
    CALL;
    return extra ? INVALID_HANDLE : launch(function, gx, gy, gz, bx, by, bz, shared, stream, parameters);
}

// A kernel is one call, whose blocks are all there.
int hipModuleLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                     unsigned bz, unsigned shared, void *stream, void **parameters)
{
    CALL;
    return launch(function, gx, gy, gz, bx, by, bz, shared, stream, parameters);
}

int hipMalloc(void **address, size_t len)
{
    CALL;
    if (len > limit - used)
        return OUT_OF_MEMORY;
    // In front of what is given stands its length.
    char *whole = mmap(NULL, len + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (whole == MAP_FAILED)
        return OUT_OF_MEMORY;
    *(size_t *)whole = len;
    *address = whole + 4096;
    used += len;
    live++;
    return SUCCESS;
}

int hipFree(void *address)
{
    CALL;
    char *whole = (char *)address - 4096;
    used -= *(size_t *)whole;
    live--;
    return munmap(whole, *(size_t *)whole + 4096) ? INVALID_VALUE : SUCCESS;
}

static size_t shorter(size_t len) { return len <= LONGEST ? len : PART; }

int hipMemsetD8Async(void *to, unsigned char value, size_t len, void *stream)
{
    CALL;
    memset(to, value, shorter(len));
    return stream ? sticky : INVALID_HANDLE;
}

static int copy(void *to, const void *from, size_t len, void *stream)
{
    memcpy(to, from, shorter(len));
    return stream ? sticky : INVALID_HANDLE;
}

int hipMemcpyDtoDAsync(void *to, void *from, size_t len, void *stream)
{
    CALL;
    return copy(to, from, len, stream);
}

int hipMemcpyHtoDAsync(void *to, void *from, size_t len, void *stream)
{
    CALL;
    return copy(to, from, len, stream);
}

int hipMemcpyDtoHAsync(void *to, void *from, size_t len, void *stream)
{
    CALL;
    return copy(to, from, len, stream);
}

struct location {
    int type, id;
};

struct property {
    int type, handle;
    struct location location;
    void *windows;
    unsigned char compression, remote;
    unsigned short usage;
};

struct rights {
    struct location location;
    int flags;
};

// Pages: a file.
struct pages {
    int file;
    size_t len;
};

static int is_right(const struct property *property)
{
    return property->type == PINNED && property->handle == FILE_DESCRIPTOR && property->location.type == ON_DEVICE &&
           property->location.id < devices && !property->windows;
}

int hipMemGetAllocationGranularity(size_t *unit, const struct property *property, int option)
{
    CALL;
    *unit = UNIT;
    return is_right(property) && option == 1 ? SUCCESS : INVALID_VALUE;
}

static void *pages(int file, size_t len)
{
    struct pages *pages = malloc(sizeof *pages);
    *pages = (struct pages){file, len};
    live++;
    return pages;
}

int hipMemCreate(void **handle, size_t len, const struct property *property, unsigned long long flags)
{
    CALL;
    if (!is_right(property) || len % UNIT || flags)
        return INVALID_VALUE;
    const int file = len > limit - used ? -1 : memfd_create("pages", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)len))
        return OUT_OF_MEMORY;
    *handle = pages(file, len);
    return SUCCESS;
}

int hipMemExportToShareableHandle(void *exported, void *handle, int type, unsigned long long flags)
{
    CALL;
    *(int *)exported = dup(((struct pages *)handle)->file);
    return type == FILE_DESCRIPTOR && !flags ? SUCCESS : INVALID_VALUE;
}

int hipMemImportFromShareableHandle(void **handle, void *exported, int type)
{
    CALL;
    // By its value since 7.1, by its address before.
    const int file = version >= 70100000 ? (int)(intptr_t)exported : *(int *)exported;
    struct stat found;
    if (type != FILE_DESCRIPTOR || fstat(file, &found))
        return INVALID_VALUE;
    *handle = pages(fcntl(file, F_DUPFD_CLOEXEC, 0), (size_t)found.st_size);
    return SUCCESS;
}

int hipMemRelease(void *handle)
{
    CALL;
    close(((struct pages *)handle)->file);
    free(handle);
    live--;
    return SUCCESS;
}

int hipMemAddressReserve(void **address, size_t len, size_t alignment, void *wished, unsigned long long flags)
{
    CALL;
    if (alignment || wished || flags)
        return INVALID_VALUE;
    *address = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    live++;
    return *address == MAP_FAILED ? OUT_OF_MEMORY : SUCCESS;
}

int hipMemAddressFree(void *address, size_t len)
{
    CALL;
    live--;
    return munmap(address, len) ? INVALID_VALUE : SUCCESS;
}

int hipMemMap(void *address, size_t len, size_t offset, void *handle, unsigned long long flags)
{
    CALL;
    const struct pages *pages = handle;
    if (offset || flags || len > pages->len)
        return INVALID_VALUE;
    live++;
    // No access until it is allowed.
    void *mapped = mmap(address, len, PROT_NONE, MAP_SHARED | MAP_FIXED, pages->file, 0);
    return mapped == MAP_FAILED ? INVALID_VALUE : SUCCESS;
}

int hipMemSetAccess(void *address, size_t len, const struct rights *rights, size_t count)
{
    CALL;
    if (count != 1 || rights->location.type != ON_DEVICE || (rights->flags != READ && rights->flags != READ_WRITE))
        return INVALID_VALUE;
    const int access = rights->flags == READ ? PROT_READ : PROT_READ | PROT_WRITE;
    return mprotect(address, len, access) ? INVALID_VALUE : SUCCESS;
}

int hipMemUnmap(void *address, size_t len)
{
    CALL;
    live--;
    void *mapped = mmap(address, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return mapped == MAP_FAILED ? INVALID_VALUE : SUCCESS;
}

// The run-time compiler: whatever the source, its object is the one that was named.

const char *hiprtcGetErrorString(int code) { return code ? "HIPRTC_ERROR_COMPILATION" : "HIPRTC_SUCCESS"; }

int hiprtcCreateProgram(void **program, const char *source, const char *name, int headers, const char **texts,
                        const char **names)
{
    CALL;
    *program = malloc(1);
    return strstr(source, "__global__") && name && !headers && !texts && !names ? SUCCESS : INVALID_VALUE;
}

int hiprtcCompileProgram(void *program, int count, const char **options)
{
    CALL;
    return program && table && count == 1 && !strcmp(options[0], "-ffp-contract=off") ? SUCCESS : 6;
}

static const char LOG[] = "table.cu: what the compiler says";

int hiprtcGetProgramLogSize(void *program, size_t *len)
{
    CALL;
    *len = program ? sizeof LOG : 0;
    return SUCCESS;
}

int hiprtcGetProgramLog(void *program, char *log)
{
    CALL;
    memcpy(log, LOG, program ? sizeof LOG : 0);
    return SUCCESS;
}

int hiprtcGetCodeSize(void *program, size_t *len)
{
    CALL;
    struct stat found;
    if (!program || stat(table, &found))
        return INVALID_VALUE;
    *len = (size_t)found.st_size;
    return SUCCESS;
}

int hiprtcGetCode(void *program, char *code)
{
    CALL;
    const int file = open(table, O_RDONLY | O_CLOEXEC);
    struct stat found;
    const int read_all = program && file >= 0 && !fstat(file, &found) && read(file, code, (size_t)found.st_size) > 0;
    close(file);
    return read_all ? SUCCESS : INVALID_VALUE;
}

int hiprtcDestroyProgram(void **program)
{
    CALL;
    free(*program);
    return SUCCESS;
}
