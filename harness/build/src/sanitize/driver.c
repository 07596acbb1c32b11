/* Calls a kernel's entries as a file says, on memory of its own: every buffer is a heap allocation of exactly its size, so
 * that a sanitizer sees the first byte beyond it. Results are nobody's concern here.
 *
 * The file, in 64-bit words of this machine's order: a mark, the number of calls; for each call the length of the entry's
 * name, the name, the bytes of its args struct, the struct, the number of buffers; for each buffer the offset of its pointer in the struct, its bytes,
 * its alignment, its kind (0 read, 1 written, 2 what was prepared), and, where it is read, its contents. Bytes are padded to
 * whole words. A call of `<op>_prepare` is made where the kernel has one; what it makes is given to the calls after it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK UINT64_C(0x31657372746f706b)
#define MOST_BUFFERS 64
#define LONGEST_NAME 255

enum { READ, WRITTEN, PREPARED };

#define ENTRY(name) extern int name(const void *args);
#define PREPARES(op) \
    extern int64_t op##_prepare_size(const void *args) __attribute__((weak)); \
    extern int op##_prepare(const void *args, void *prepared) __attribute__((weak));
#include "entries.inc"
#undef ENTRY
#undef PREPARES

static const struct {
    const char *name;
    int (*call)(const void *);
} entries[] = {
#define ENTRY(name) {#name, name},
#define PREPARES(op)
#include "entries.inc"
#undef ENTRY
#undef PREPARES
};

#define ENTRY(name)
#define PREPARES(op) \
    static const char preparation[] = #op "_prepare"; \
    static int64_t (*const prepare_size)(const void *) = op##_prepare_size; \
    static int (*const prepare)(const void *, void *) = op##_prepare;
#include "entries.inc"
#undef ENTRY
#undef PREPARES

static void *prepared;

static FILE *file;

static void bytes(void *into, uint64_t count)
{
    if (count > 0 && fread(into, 1, count, file) != count) {
        fputs("the file of calls ends too early\n", stderr);
        exit(2);
    }
}

static uint64_t word(void)
{
    uint64_t value;
    bytes(&value, sizeof value);
    return value;
}

static void *memory(uint64_t alignment, uint64_t count)
{
    void *got = NULL;
    if (posix_memalign(&got, alignment < sizeof(void *) ? sizeof(void *) : alignment, count) != 0) {
        fputs("no memory\n", stderr);
        exit(2);
    }
    return got;
}

static void padded(void *into, uint64_t count)
{
    char rest[8];
    bytes(into, count);
    bytes(rest, (8 - count % 8) % 8);
}

/* What the kernel makes of its weights, in memory of exactly the size that it asks for. */
static int made(const void *args)
{
    int64_t size;
    free(prepared);
    prepared = NULL;
    if (prepare_size == NULL || prepare == NULL)
        return 0;
    size = prepare_size(args);
    if (size < 0 || size > INT64_C(1) << 30)
        return 1;
    prepared = memory(256, (uint64_t)size);
    memset(prepared, 0xff, (uint64_t)size);
    return prepare(args, prepared);
}

int main(int argc, char **argv)
{
    uint64_t calls;
    file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (file == NULL || word() != MARK) {
        fputs("no file of calls\n", stderr);
        return 2;
    }
    calls = word();
    for (uint64_t call = 0; call < calls; call++) {
        void *buffers[MOST_BUFFERS];
        char name[LONGEST_NAME + 1] = "";
        uint64_t length = word(), entry = 0, size, count;
        int status;
        char *args;
        padded(name, length <= LONGEST_NAME ? length : 0);
        while (entry < sizeof entries / sizeof *entries && strcmp(entries[entry].name, name) != 0)
            entry++;
        size = word();
        args = memory(64, size);
        padded(args, size);
        count = word();
        if ((entry == sizeof entries / sizeof *entries && strcmp(name, preparation) != 0) || count > MOST_BUFFERS) {
            fputs("the file of calls makes no sense\n", stderr);
            return 2;
        }
        for (uint64_t index = 0; index < count; index++) {
            uint64_t offset = word(), bytes_of = word(), alignment = word(), kind = word();
            void *pointer = prepared;
            buffers[index] = NULL;
            if (kind != PREPARED) {
                pointer = buffers[index] = memory(alignment, bytes_of);
                if (kind == WRITTEN)
                    memset(pointer, 0xff, bytes_of);
                else
                    padded(pointer, bytes_of);
            }
            memcpy(args + offset, &pointer, sizeof pointer);
        }
        status = entry < sizeof entries / sizeof *entries ? entries[entry].call(args) : made(args);
        if (status != 0) {
            fputs("an entry returned an error\n", stderr);
            return 3;
        }
        for (uint64_t index = 0; index < count; index++)
            free(buffers[index]);
        free(args);
    }
    free(prepared);
    fclose(file);
    return 0;
}
