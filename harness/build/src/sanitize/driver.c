/* Calls a kernel's entries as a file says, on memory of its own: every buffer is a heap allocation of exactly its size, so
 * that a sanitizer sees the first byte beyond it. Results are nobody's concern here.
 *
 * The file, in 64-bit words of this machine's order: a mark, the number of calls; for each call the length of the entry's
 * name, the name, the bytes of its args struct, the struct, the number of buffers; for each buffer the offset of its pointer in the struct, its bytes,
 * its alignment, whether it is written, and, where it is not, its contents. Bytes are padded to whole words. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK UINT64_C(0x31657372746f706b)
#define MOST_BUFFERS 64
#define LONGEST_NAME 255

#define ENTRY(name) extern int name(const void *args);
#include "entries.inc"
#undef ENTRY

static const struct {
    const char *name;
    int (*call)(const void *);
} entries[] = {
#define ENTRY(name) {#name, name},
#include "entries.inc"
#undef ENTRY
};

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
        char *args;
        padded(name, length <= LONGEST_NAME ? length : 0);
        while (entry < sizeof entries / sizeof *entries && strcmp(entries[entry].name, name) != 0)
            entry++;
        size = word();
        args = memory(64, size);
        padded(args, size);
        count = word();
        if (entry == sizeof entries / sizeof *entries || count > MOST_BUFFERS) {
            fputs("the file of calls makes no sense\n", stderr);
            return 2;
        }
        for (uint64_t index = 0; index < count; index++) {
            uint64_t offset = word(), bytes_of = word(), alignment = word(), written = word();
            buffers[index] = memory(alignment, bytes_of);
            if (written)
                memset(buffers[index], 0xff, bytes_of);
            else
                padded(buffers[index], bytes_of);
            memcpy(args + offset, &buffers[index], sizeof buffers[index]);
        }
        if (entries[entry].call(args) != 0) {
            fputs("an entry returned an error\n", stderr);
            return 3;
        }
        for (uint64_t index = 0; index < count; index++)
            free(buffers[index]);
        free(args);
    }
    fclose(file);
    return 0;
}
