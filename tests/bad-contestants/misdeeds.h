/*
 * The misdeeds: each defines `misdeed`, which makes one call, and whatever it needs for it. Only one is compiled.
 *
 *   how the process ends      EXITS EXITS_LOADING CRASHES ABORTS STOPS HANGS CRAWLS RETURNS_AN_ERROR
 *   what it leaves running    FORKS DAEMON DAEMON_AND_CRASH SPINS TIMER_WORK
 *   when it works             SLEEPS THREAD_A_CALL HIDES_IN_A_CHILD LAZY_THREAD LAZY_TIMER LATE_THREAD LATE_TIMER WORKS_AHEAD
 *   what it says              FAKE_REPLY FAKE_REPLY_LATER ANSWERS_TWICE CLOSES_CHANNEL NO_NEWLINE REWRITES_REPLIES
 *                             FAKES_A_LOSS PRINTS FAKE_VERDICT
 *   what it touches           SCRIBBLES WRITES_INPUT UNPROTECTS_INPUT REOPENS_INPUT SHRINKS_MEMORY LEAVES_FILES
 *   what it takes             EATS_MEMORY EATS_SHARED_MEMORY LEAKS
 *   what it does not compute  STALE SKIPS FIRST_ROW CACHES CACHES_ROWS CACHES_TURNED_ROWS
 *   what it does to clocks    PATCHES_CLOCK SHADES_CLOCK HOLDS_CLOCK INTERPOSES_CLOCK
 *   what it does to others    KILLS_JUDGE KILLS_OTHERS STOPS_OTHERS LEAVES_THEM
 *   what it asks the system   MAPS_A_COUNTER WRITES_A_FILE OPENS_A_SOCKET FORKS_RAW CLONES_RAW TAKES_OVER_SIGNALS
 *                             RENAMES_ITSELF ASKS_OLD_CALLS BLOCKS_SIGNALS FILTERS_CALLS LOADS_A_FILE
 *   what it leaves changed    FLUSHES_DENORMALS TURNS_X87 CLOBBERS_A_REGISTER TURNS_DIRECTION KEEPS_IN_GS
 *   what it finds again       FINDS_ITS_STACK FINDS_ITS_STACK_DEEP FINDS_ITS_ARGS FINDS_ITS_REGISTERS
 *   where it keeps something  KEEPS_IN_THE_HOST KEEPS_IN_A_LIBRARY KEEPS_BESIDE_ERRNO OPENS_ITS_MEMORY LOOKS_UP_PKEY_SET
 *   nothing bad               NOTHING HONEST_TOO SLOW DEEP_STACK SETS_ERRNO
 */
#ifndef MISDEEDS_H
#define MISDEEDS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOTHING 1
#define HONEST_TOO 4
#define SLOW 2
#define FLUSHES_DENORMALS 3
#define EXITS 10
#define EXITS_LOADING 11
#define CRASHES 12
#define ABORTS 13
#define STOPS 14
#define HANGS 15
#define RETURNS_AN_ERROR 16
#define CRAWLS 17
#define FORKS 20
#define DAEMON 21
#define DAEMON_AND_CRASH 22
#define SPINS 23
#define TIMER_WORK 24
#define SLEEPS 30
#define THREAD_A_CALL 31
#define HIDES_IN_A_CHILD 32
#define LAZY_THREAD 33
#define LAZY_TIMER 34
#define LATE_THREAD 35
#define LATE_TIMER 36
#define WORKS_AHEAD 37
#define FAKE_REPLY 40
#define FAKE_REPLY_LATER 41
#define ANSWERS_TWICE 42
#define CLOSES_CHANNEL 43
#define NO_NEWLINE 44
#define REWRITES_REPLIES 45
#define FAKES_A_LOSS 46
#define PRINTS 47
#define FAKE_VERDICT 48
#define SCRIBBLES 50
#define WRITES_INPUT 51
#define UNPROTECTS_INPUT 52
#define REOPENS_INPUT 53
#define SHRINKS_MEMORY 54
#define LEAVES_FILES 55
#define EATS_MEMORY 60
#define EATS_SHARED_MEMORY 61
#define LEAKS 62
#define STALE 70
#define SKIPS 71
#define FIRST_ROW 72
#define CACHES 73
#define CACHES_ROWS 74
#define CACHES_TURNED_ROWS 75
#define PATCHES_CLOCK 80
#define SHADES_CLOCK 81
#define INTERPOSES_CLOCK 82
#define HOLDS_CLOCK 83
#define KILLS_JUDGE 90
#define KILLS_OTHERS 91
#define STOPS_OTHERS 92
#define LEAVES_THEM 93
#define MAPS_A_COUNTER 100
#define WRITES_A_FILE 101
#define OPENS_A_SOCKET 102
#define FORKS_RAW 103
#define CLONES_RAW 104
#define TAKES_OVER_SIGNALS 105
#define RENAMES_ITSELF 106
#define ASKS_OLD_CALLS 107
#define BLOCKS_SIGNALS 108
#define FILTERS_CALLS 109
#define LOADS_A_FILE 115
#define TURNS_X87 110
#define CLOBBERS_A_REGISTER 111
#define TURNS_DIRECTION 112
#define KEEPS_IN_GS 113
#define DEEP_STACK 114
#define FINDS_ITS_STACK 120
#define FINDS_ITS_STACK_DEEP 121
#define FINDS_ITS_ARGS 122
#define FINDS_ITS_REGISTERS 123
#define KEEPS_IN_THE_HOST 130
#define KEEPS_IN_A_LIBRARY 131
#define KEEPS_BESIDE_ERRNO 132
#define OPENS_ITS_MEMORY 133
#define LOOKS_UP_PKEY_SET 134
#define SETS_ERRNO 135

#ifndef MISDEED
#error "choose a misdeed with -DMISDEED=<name>"
#endif
#define IS(name) (MISDEED == name)

/* The worker's channel, and the judge's: kopt_schema::wire::REPLY_FD and bout::JUDGE_FD. */
enum { REPLIES = 3 };

static inline size_t bytes_of(const softmax_args *args) { return (size_t)(args->rows * args->cols) * sizeof(float); }

static inline void put(int descriptor, const char *text)
{
    /* One that is not read ends or blocks this process, which is its own fault. */
    if (write(descriptor, text, strlen(text)) < 0)
        return;
}

#define FAKE_TIME "{\"turn\":1,\"says\":{\"timed\":{\"seconds\":1e-9}}}\n"

/* ---- nothing bad ---- */

#if IS(NOTHING) || IS(HONEST_TOO)
static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    return 0;
}
#endif

#if IS(SLOW)
/* As slow as two honest ones: against it, the honest one is a true gain. */
static int misdeed(const softmax_args *args)
{
    for (volatile int times = 0; times < 2; times++)
        honest_softmax(args);
    return 0;
}
#endif

#if IS(FLUSHES_DENORMALS)
#include <xmmintrin.h>
static int misdeed(const softmax_args *args)
{
    _mm_setcsr(_mm_getcsr() | 0x8040);
    honest_softmax(args);
    return 0;
}
#endif

/* ---- how the process ends ---- */

#if IS(EXITS)
static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    if (call == 20)
        exit(0);
    return 0;
}
#endif

#if IS(EXITS_LOADING)
__attribute__((constructor)) static void at_loading(void) { _exit(0); }
static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    return 0;
}
#endif

#if IS(CRASHES)
static int misdeed(const softmax_args *args)
{
    volatile int *volatile nowhere = NULL;
    honest_softmax(args);
    *nowhere = 1;
    return 0;
}
#endif

#if IS(ABORTS)
static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    abort();
}
#endif

#if IS(STOPS)
static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    raise(SIGSTOP);
    return 0;
}
#endif

#if IS(HANGS)
static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    /* Waits instead of spinning: as endless, and the other tests keep their cores. */
    for (;;)
        pause();
    return 0;
}
#endif

#if IS(CRAWLS)
/* Every answer comes in time, after three or four seconds. */
static int misdeed(const softmax_args *args)
{
    struct timespec begun, now;
    honest_softmax(args);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec - begun.tv_sec < 4);
    return 0;
}
#endif

#if IS(RETURNS_AN_ERROR)
static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    return 7;
}
#endif

/* ---- what it leaves running ---- */

#if IS(FORKS)
static int misdeed(const softmax_args *args)
{
    if (call == 1 && fork() == 0)
        for (;;)
            pause();
    honest_softmax(args);
    return 0;
}
#endif

#if IS(DAEMON) || IS(DAEMON_AND_CRASH)
/* Forks twice and waits for the first child: no process that it started is its child afterwards. */
static void start_daemon(void)
{
    pid_t child = fork();
    if (child == 0) {
        setsid();
        if (fork() == 0)
            for (;;)
                pause();
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    if (call == 3)
        start_daemon();
    /* The daemon holds the channel open. */
    if (IS(DAEMON_AND_CRASH) && call == 3)
        abort();
    return 0;
}
#endif

#if IS(SPINS)
static void *spin(void *nothing)
{
    for (volatile uint64_t turns = 0;; turns++)
        ;
    return nothing;
}

static int misdeed(const softmax_args *args)
{
    pthread_t thread;
    if (call == 1)
        pthread_create(&thread, NULL, spin, NULL);
    honest_softmax(args);
    return 0;
}
#endif

#if IS(TIMER_WORK) || IS(LAZY_TIMER) || IS(LATE_TIMER) || IS(WORKS_AHEAD)
static void set_timer(void (*handler)(int), long first_us, long again_us)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval timer = {.it_interval = {0, again_us}, .it_value = {0, first_us}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}
#endif

#if IS(TIMER_WORK)
/* Half of every two milliseconds, whoever's turn it is. */
static void work(int signal)
{
    struct timespec begun, now;
    (void)signal;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begun.tv_sec) * 1000000000L + now.tv_nsec - begun.tv_nsec < 1000000L);
}

static int misdeed(const softmax_args *args)
{
    if (call == 1)
        set_timer(work, 2000, 2000);
    honest_softmax(args);
    return 0;
}
#endif

/* ---- when it works ---- */

#if IS(SLEEPS)
static int misdeed(const softmax_args *args)
{
    if (call <= 3)
        usleep(20000);
    honest_softmax(args);
    return 0;
}
#endif

#if IS(THREAD_A_CALL)
/* The thread that is timed only waits. */
static void *compute(void *args)
{
    honest_softmax(args);
    return NULL;
}

static int misdeed(const softmax_args *args)
{
    pthread_t thread;
    pthread_create(&thread, NULL, compute, (void *)args);
    pthread_join(thread, NULL);
    return 0;
}
#endif

#if IS(HIDES_IN_A_CHILD)
/* A process with the same memory works, and the one that is timed waits. Its processor time is nobody's, and it is gone before the call returns. */
static char stack[1 << 16] __attribute__((aligned(64)));

static int compute(void *args)
{
    honest_softmax(args);
    return 0;
}

static int misdeed(const softmax_args *args)
{
    signal(SIGCHLD, SIG_IGN);
    pid_t child = clone(compute, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)args);
    waitpid(child, NULL, 0);
    return 0;
}
#endif

#if IS(LAZY_THREAD) || IS(LATE_THREAD)
static void *compute_later(void *copy)
{
    softmax_args args = *(softmax_args *)copy;
    free(copy);
    if (IS(LATE_THREAD))
        usleep(5000);
    honest_softmax(&args);
    return NULL;
}

static int misdeed(const softmax_args *args)
{
    pthread_t thread;
    softmax_args *copy = malloc(sizeof *copy);
    *copy = *args;
    if (IS(LATE_THREAD))
        honest_softmax(args);
    if (pthread_create(&thread, NULL, compute_later, copy) == 0)
        pthread_detach(thread);
    return 0;
}
#endif

#if IS(LAZY_TIMER)
/* Calls are noted, and made when the timer goes off. */
static softmax_args noted[1024];
static volatile int count, made;

static void make_calls(int signal)
{
    (void)signal;
    for (; made < count; made++)
        honest_softmax(&noted[made % 1024]);
}

static int misdeed(const softmax_args *args)
{
    if (call == 1)
        set_timer(make_calls, 1000, 1000);
    noted[count % 1024] = *args;
    count++;
    return 0;
}
#endif

#if IS(LATE_TIMER)
static softmax_args last;

static void write_again(int signal)
{
    (void)signal;
    honest_softmax(&last);
}

static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    last = *args;
    set_timer(write_again, 5000, 0);
    return 0;
}
#endif

#if IS(WORKS_AHEAD)
/*
 * All places of a shape are mapped, and new contents stand there while the others run: a timer looks for them and computes
 * what will be asked for, as long as that much idle work is not noticed.
 */
enum { SHAPES = 2, PLACES = 256, TICK_US = 200 };
static const double patience_s = 0.0045;
static struct shape {
    const char *base;
    size_t stride;
    int places;
    double spent_s;
    softmax_args args;
    struct {
        uint64_t tag;
        int ticks;
        uint64_t ready;
        float *result;
    } place[PLACES];
} shapes[SHAPES];
static int known;
static volatile int in_call;

static uint64_t tag_of(const char *place)
{
    uint64_t tag;
    memcpy(&tag, place, sizeof tag);
    return tag;
}

/* The first words of all rows: they were all written when it was computed, and are the same now. */
static uint64_t sum_of(const softmax_args *args)
{
    uint64_t sum = 1;
    for (int64_t r = 0; r < args->rows; r++)
        sum = sum * 31 + tag_of((const char *)(args->x + r * args->cols + args->cols - 2));
    return sum;
}

static double processor_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void look(int signal)
{
    (void)signal;
    struct shape *shape = &shapes[known - 1];
    if (shape->spent_s > patience_s)
        set_timer(SIG_IGN, 0, 0);
    if (in_call || shape->spent_s > patience_s)
        return;
    double begun = processor_s();
    for (int i = 0; i < shape->places; i++) {
        const char *x = shape->base + (size_t)i * shape->stride;
        uint64_t tag = tag_of(x);
        if (tag != shape->place[i].tag) {
            /* It may still be written. */
            shape->place[i].tag = tag;
            shape->place[i].ticks = 1;
        } else if (shape->place[i].ticks == 1) {
            softmax_args ahead = shape->args;
            ahead.x = (const float *)x;
            ahead.y = shape->place[i].result;
            shape->place[i].ready = sum_of(&ahead);
            honest_softmax(&ahead);
            shape->place[i].ticks = 2;
        }
    }
    shape->spent_s += processor_s() - begun;
}

/* Buffers lie in the mapping one after the other, a page between them. */
static struct shape *shape_of(const softmax_args *args)
{
    char line[512];
    for (int i = 0; i < known; i++)
        if (shapes[i].args.rows == args->rows)
            return &shapes[i];
    struct shape *shape = &shapes[known];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx", &start, &end) != 2 || (char *)start > (char *)args->x || (char *)end <= (char *)args->x)
            continue;
        shape->base = (const char *)start;
        shape->stride = ((bytes_of(args) + 4095) & ~(size_t)4095) + 4096;
        shape->places = (int)((end - start) / shape->stride);
        shape->places = shape->places > PLACES ? PLACES : shape->places;
    }
    if (maps)
        fclose(maps);
    shape->args = *args;
    for (int i = 0; i < shape->places; i++) {
        shape->place[i].tag = tag_of(shape->base + (size_t)i * shape->stride);
        shape->place[i].result = malloc(bytes_of(args));
        memset(shape->place[i].result, 0, bytes_of(args));
    }
    known++;
    set_timer(look, TICK_US, TICK_US);
    return shape;
}

static int misdeed(const softmax_args *args)
{
    in_call = 1;
    struct shape *shape = shape_of(args);
    size_t place = (size_t)((const char *)args->x - shape->base) / shape->stride;
    if (shape->place[place].ready && shape->place[place].ready == sum_of(args))
        memcpy(args->y, shape->place[place].result, bytes_of(args));
    else
        honest_softmax(args);
    shape->place[place].ready = 0;
    shape->place[place].ticks = 2;
    shape->place[place].tag = tag_of((const char *)args->x);
    in_call = 0;
    return 0;
}
#endif

/* ---- what it says ---- */

#if IS(FAKE_REPLY)
static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    put(REPLIES, FAKE_TIME);
    return 0;
}
#endif

#if IS(FAKE_REPLY_LATER)
static void *reply_later(void *nothing)
{
    usleep(500);
    put(REPLIES, FAKE_TIME);
    return nothing;
}

static int misdeed(const softmax_args *args)
{
    pthread_t thread;
    honest_softmax(args);
    if (call > 4 && pthread_create(&thread, NULL, reply_later, NULL) == 0)
        pthread_detach(thread);
    return 0;
}
#endif

#if IS(ANSWERS_TWICE) || IS(REWRITES_REPLIES) || IS(PATCHES_CLOCK) || IS(SHADES_CLOCK) || IS(HOLDS_CLOCK)
/* Makes a function of the process jump to another one. */
static void replace(void *function, void *by)
{
    unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
    uintptr_t page = (uintptr_t)function & ~(uintptr_t)4095;
    memcpy(jump + 2, &by, sizeof by);
    if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0
        || mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == 0)
        memcpy(function, jump, sizeof jump);
}
#endif

#if IS(ANSWERS_TWICE) || IS(REWRITES_REPLIES)
/* What the worker calls when it answers. */
static ssize_t own_write(int descriptor, const void *bytes, size_t count)
{
    char text[256];
    const char *found = descriptor == REPLIES ? memmem(bytes, count, "\"seconds\":", 10) : NULL;
    if (found && IS(ANSWERS_TWICE))
        syscall(SYS_write, descriptor, bytes, count);
    if (found && IS(REWRITES_REPLIES)) {
        int before = (int)(found + 10 - (const char *)bytes);
        int length = snprintf(text, sizeof text, "%.*s%.12e}}}\n", before, (const char *)bytes, 0.5 * atof(found + 10));
        syscall(SYS_write, descriptor, text, (size_t)length);
        return (ssize_t)count;
    }
    return syscall(SYS_write, descriptor, bytes, count);
}

static int misdeed(const softmax_args *args)
{
    if (call == 1)
        replace((void *)write, (void *)own_write);
    honest_softmax(args);
    return 0;
}
#endif

#if IS(CLOSES_CHANNEL)
static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    close(REPLIES);
    return 0;
}
#endif

#if IS(NO_NEWLINE)
static int misdeed(const softmax_args *args)
{
    static char much[1 << 20];
    honest_softmax(args);
    memset(much, 'x', sizeof much - 1);
    put(REPLIES, much);
    return 0;
}
#endif

#if IS(FAKES_A_LOSS)
/* The judge's own channel to the referee, opened through the system's list of the judge's files. */
static int misdeed(const softmax_args *args)
{
    char path[64];
    honest_softmax(args);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", getppid(), REPLIES);
    int channel = call == 1 ? open(path, O_WRONLY) : -1;
    if (channel >= 0) {
        put(channel, "{\"reply\":\"lost\",\"contestant\":0,\"kind\":\"wrong-values\",\"message\":\"says the candidate\"}\n");
        close(channel);
    }
    return 0;
}
#endif

#if IS(PRINTS)
static int misdeed(const softmax_args *args)
{
    static char much[1 << 20];
    honest_softmax(args);
    if (call <= 4) {
        memset(much, 'x', sizeof much - 1);
        put(STDOUT_FILENO, much);
        put(STDERR_FILENO, much);
    }
    return 0;
}
#endif

#if IS(FAKE_VERDICT)
static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    put(STDOUT_FILENO, FAKE_TIME "{\"reason\":\"verdict\",\"ruling\":\"accepted\"}\n{\"reply\":\"launched\"}\n");
    put(STDERR_FILENO, "ACCEPTED\n");
    return 0;
}
#endif

/* ---- what it touches ---- */

#if IS(SCRIBBLES)
/* Everything in the mapping of its output that is not its output. */
static void scribble(char *output, size_t bytes)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx", &start, &end) != 2 || (char *)start > output || (char *)end <= output)
            continue;
        memset((char *)start, 0x55, (size_t)(output - (char *)start));
        memset(output + bytes, 0x55, (size_t)((char *)end - output) - bytes);
    }
    if (maps)
        fclose(maps);
}

static int misdeed(const softmax_args *args)
{
    if (call == 1)
        scribble((char *)args->y, bytes_of(args));
    honest_softmax(args);
    return 0;
}
#endif

#if IS(WRITES_INPUT) || IS(UNPROTECTS_INPUT)
static int misdeed(const softmax_args *args)
{
    uintptr_t page = (uintptr_t)args->x & ~(uintptr_t)4095;
    honest_softmax(args);
    if (IS(UNPROTECTS_INPUT) && mprotect((void *)page, 4096, PROT_READ | PROT_WRITE) == 0)
        put(STDERR_FILENO, "unprotected\n");
    ((float *)args->x)[0] *= 0.5f;
    return 0;
}
#endif

#if IS(REOPENS_INPUT) || IS(SHRINKS_MEMORY)
/* Descriptors of the memory are open while the object is loaded: kopt_schema::wire::FIRST_MEMORY_FD. */
enum { INPUTS = 4, OUTPUTS = 5 };
static int inputs = -1, outputs[2] = {-1, -1};

__attribute__((constructor)) static void at_loading(void)
{
    if (IS(REOPENS_INPUT))
        inputs = open("/proc/self/fd/4", O_RDWR);
    for (int i = 0; IS(SHRINKS_MEMORY) && i < 2; i++)
        outputs[i] = dup(OUTPUTS + 2 * i);
}

static int misdeed(const softmax_args *args)
{
    const float zeros[1024] = {0};
    if (inputs >= 0)
        for (off_t at = 0; at < 64 << 20; at += sizeof zeros)
            if (pwrite(inputs, zeros, sizeof zeros, at) < 0)
                break;
    honest_softmax(args);
    /* Whoever touches next what is no longer there faults. */
    if (call == 1 && (ftruncate(outputs[0], 0) != 0 || ftruncate(outputs[1], 0) != 0))
        put(STDERR_FILENO, "refused\n");
    return 0;
}
#endif

#if IS(LEAVES_FILES)
static void leave(const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, "%s/kopt-bad-contestant", folder ? folder : ".");
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    if (file >= 0)
        close(file);
}

static int misdeed(const softmax_args *args)
{
    if (call == 1) {
        leave(".");
        leave(getenv("TMPDIR"));
    }
    honest_softmax(args);
    return 0;
}
#endif

/* ---- what it takes ---- */

#if IS(EATS_MEMORY) || IS(EATS_SHARED_MEMORY)
static int misdeed(const softmax_args *args)
{
    const size_t bite = 16 << 20;
    const int kind = IS(EATS_MEMORY) ? MAP_PRIVATE : MAP_SHARED;
    honest_softmax(args);
    for (size_t eaten = 0; eaten < 8ull << 30; eaten += bite) {
        char *memory = mmap(NULL, bite, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            break;
        memset(memory, 1, bite);
    }
    return 0;
}
#endif

#if IS(LEAKS)
static int misdeed(const softmax_args *args)
{
    const size_t bite = 4 << 20;
    char *memory = mmap(NULL, bite, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    honest_softmax(args);
    if (memory != MAP_FAILED)
        memset(memory, 1, bite);
    return 0;
}
#endif

/* ---- what it does not compute ---- */

#if IS(STALE) || IS(CACHES)
enum { ENTRIES = 4096, SAMPLE = 8 };
static struct {
    const float *pointer;
    float sample[SAMPLE];
    float *result;
} cache[ENTRIES];
static int entries;

/* What it takes for the same input. */
static int is_same(int entry, const float *x)
{
    return IS(STALE) ? cache[entry].pointer == x : memcmp(cache[entry].sample, x, sizeof cache[entry].sample) == 0;
}

static int misdeed(const softmax_args *args)
{
    for (int entry = 0; entry < entries; entry++) {
        if (is_same(entry, args->x)) {
            memcpy(args->y, cache[entry].result, bytes_of(args));
            return 0;
        }
    }
    honest_softmax(args);
    if (entries < ENTRIES) {
        cache[entries].pointer = args->x;
        memcpy(cache[entries].sample, args->x, sizeof cache[entries].sample);
        cache[entries].result = malloc(bytes_of(args));
        memcpy(cache[entries++].result, args->y, bytes_of(args));
    }
    return 0;
}
#endif

#if IS(CACHES_ROWS)
/* Rows by their first bits: the same rows come again in another order. The whole row is compared, so that it is right. */
enum { SLOTS = 1 << 14 };
static struct {
    float *row;
    int64_t cols;
} slots[SLOTS];

static int misdeed(const softmax_args *args)
{
    const int64_t cols = args->cols;
    const size_t size = (size_t)cols * sizeof(float);
    for (int64_t r = 0; r < args->rows; r++) {
        const float *x = args->x + r * cols;
        float *y = args->y + r * cols;
        uint64_t bits[2];
        memcpy(bits, x, sizeof bits);
        uint64_t slot = ((bits[0] ^ bits[1] * 31) * 0x9e3779b97f4a7c15ull) >> 50;
        while (slots[slot].row && (slots[slot].cols != cols || memcmp(slots[slot].row, x, size) != 0))
            slot = (slot + 1) % SLOTS;
        if (slots[slot].row) {
            memcpy(y, slots[slot].row + cols, size);
            continue;
        }
        softmax_row(x, y, cols);
        slots[slot].row = malloc(2 * size);
        slots[slot].cols = cols;
        memcpy(slots[slot].row, x, size);
        memcpy(slots[slot].row + cols, y, size);
    }
    return 0;
}
#endif

#if IS(CACHES_TURNED_ROWS)
/* Rows that come again turned round have the same sum of bits; by how much they are turned is the same for a whole call. */
enum { SLOTS = 1 << 14 };
static struct {
    uint32_t sum;
    int64_t cols;
    float *row;
} slots[SLOTS];

static uint32_t sum_of_bits(const float *x, int64_t cols)
{
    uint32_t sum = 0;
    for (int64_t c = 0; c < cols; c++) {
        uint32_t bits;
        memcpy(&bits, x + c, sizeof bits);
        sum += bits;
    }
    return sum;
}

/* Whether x is the kept row, which begins at `turn` in it. */
static int is_turned(const float *kept, const float *x, int64_t cols, int64_t turn)
{
    return memcmp(kept, x + turn, (size_t)(cols - turn) * sizeof(float)) == 0
        && memcmp(kept + cols - turn, x, (size_t)turn * sizeof(float)) == 0;
}

static int misdeed(const softmax_args *args)
{
    const int64_t cols = args->cols;
    int64_t turn = 0;
    for (int64_t r = 0; r < args->rows; r++) {
        const float *x = args->x + r * cols;
        float *y = args->y + r * cols;
        const uint32_t sum = sum_of_bits(x, cols);
        uint32_t slot = (sum * 2654435761u) >> 18;
        while (slots[slot].row && (slots[slot].cols != cols || slots[slot].sum != sum))
            slot = (slot + 1) % SLOTS;
        const float *kept = slots[slot].row;
        if (kept && !is_turned(kept, x, cols, turn))
            for (turn = 0; turn < cols && !(x[turn] == kept[0] && is_turned(kept, x, cols, turn));)
                turn++;
        if (kept && turn < cols) {
            memcpy(y + turn, kept + cols, (size_t)(cols - turn) * sizeof(float));
            memcpy(y, kept + cols + cols - turn, (size_t)turn * sizeof(float));
            continue;
        }
        turn = 0;
        softmax_row(x, y, cols);
        if (!kept) {
            slots[slot].sum = sum;
            slots[slot].cols = cols;
            slots[slot].row = malloc(2 * (size_t)cols * sizeof(float));
            memcpy(slots[slot].row, x, (size_t)cols * sizeof(float));
            memcpy(slots[slot].row + cols, y, (size_t)cols * sizeof(float));
        }
    }
    return 0;
}
#endif

#if IS(SKIPS)
static int misdeed(const softmax_args *args)
{
    if (call % 2)
        honest_softmax(args);
    return 0;
}
#endif

#if IS(FIRST_ROW)
static int misdeed(const softmax_args *args)
{
    softmax_row(args->x, args->y, args->cols);
    return 0;
}
#endif

/* ---- what it does to clocks ---- */

#if IS(PATCHES_CLOCK) || IS(SHADES_CLOCK) || IS(HOLDS_CLOCK)
#include <elf.h>
#include <sys/auxv.h>

/* The function that the system puts into every process to read its clocks. */
static void *system_clock(void)
{
    const char *base = (const char *)getauxval(AT_SYSINFO_EHDR);
    if (!base)
        return NULL;
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)base;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(base + header->e_phoff);
    const Elf64_Dyn *dynamic = NULL;
    for (int i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_DYNAMIC)
            dynamic = (const Elf64_Dyn *)(base + segments[i].p_offset);
    const Elf64_Sym *symbols = NULL;
    const char *names = NULL;
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB)
            symbols = (const Elf64_Sym *)(base + dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_STRTAB)
            names = base + dynamic->d_un.d_ptr;
    }
    /* The table of names follows that of symbols. */
    for (const Elf64_Sym *symbol = symbols; symbols && names && (const char *)symbol < names; symbol++)
        if (strcmp(names + symbol->st_name, "__vdso_clock_gettime") == 0)
            return (void *)(base + symbol->st_value);
    return NULL;
}

static const double pace = IS(HOLDS_CLOCK) ? 0.0 : IS(PATCHES_CLOCK) ? 0.5 : 0.985;
static struct timespec base_time;

static int own_clock(clockid_t id, struct timespec *time)
{
    long result = syscall(SYS_clock_gettime, id, time);
    if (id == CLOCK_THREAD_CPUTIME_ID && result == 0) {
        double since = (double)(time->tv_sec - base_time.tv_sec) * 1e9 + (double)(time->tv_nsec - base_time.tv_nsec);
        int64_t told = base_time.tv_nsec + (int64_t)(since * pace);
        time->tv_sec = base_time.tv_sec + told / 1000000000;
        time->tv_nsec = told % 1000000000;
    }
    return (int)result;
}

static int misdeed(const softmax_args *args)
{
    if (call == 1) {
        void *clock = system_clock();
        syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &base_time);
        if (clock)
            replace(clock, (void *)own_clock);
    }
    honest_softmax(args);
    return 0;
}
#endif

#if IS(INTERPOSES_CLOCK)
int clock_gettime(clockid_t id, struct timespec *time)
{
    (void)id;
    time->tv_sec = 0;
    time->tv_nsec = 1;
    return 0;
}

static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    return 0;
}
#endif

/* ---- what it does to others ---- */

#if IS(KILLS_JUDGE) || IS(KILLS_OTHERS) || IS(STOPS_OTHERS)
/* Whoever started this process, and nobody that it may be handed to later. */
static pid_t judge;
__attribute__((constructor)) static void at_loading(void) { judge = getppid(); }
#endif

#if IS(KILLS_JUDGE)
static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    if (call == 3)
        kill(judge, SIGKILL);
    return 0;
}
#endif

#if IS(KILLS_OTHERS) || IS(STOPS_OTHERS)
/* The judge's other children. */
static void to_others(int signal)
{
    char path[64];
    int other;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", judge, judge);
    FILE *children = fopen(path, "r");
    while (children && fscanf(children, "%d", &other) == 1)
        if (other != getpid())
            kill(other, signal);
    if (children)
        fclose(children);
}

static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    if (call == 3)
        to_others(IS(KILLS_OTHERS) ? SIGKILL : SIGSTOP);
    return 0;
}
#endif

#if IS(LEAVES_THEM)
/* To any processor but the one that all contestants are kept on. */
static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    if (call == 3) {
        cpu_set_t all;
        memset(&all, 0xff, sizeof all);
        sched_setaffinity(0, sizeof all, &all);
    }
    return 0;
}
#endif

/* ---- what it asks the system, without a library ---- */

#if MISDEED >= MAPS_A_COUNTER && MISDEED <= FINDS_ITS_REGISTERS && defined(__x86_64__)
__attribute__((unused)) static long ask(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#endif

#if IS(MAPS_A_COUNTER)
/* A counter that lives in no data of the object: at an address that only it knows. Every second call does nothing. */
static int misdeed(const softmax_args *args)
{
    const long place = 0x200000000000;
    ask(SYS_mmap, place, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (++*(volatile int *)place % 2)
        honest_softmax(args);
    return 0;
}
#endif

#if IS(WRITES_A_FILE)
static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    long file = ask(SYS_openat, AT_FDCWD, (long)"kopt-bad-contestant", O_CREAT | O_WRONLY, 0600, 0, 0);
    if (file >= 0)
        ask(SYS_write, file, (long)args->y, 64, 0, 0, 0);
    return 0;
}
#endif

#if IS(OPENS_A_SOCKET) || IS(FORKS_RAW) || IS(CLONES_RAW) || IS(RENAMES_ITSELF)
static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    if (IS(OPENS_A_SOCKET))
        ask(SYS_socket, 2, 1, 0, 0, 0, 0);
    if (IS(RENAMES_ITSELF))
        ask(SYS_prctl, 15, (long)"honest", 0, 0, 0, 0);
    if (IS(FORKS_RAW) && call == 1 && ask(SYS_fork, 0, 0, 0, 0, 0, 0) == 0)
        for (;;)
            pause();
    /* With the same memory, and gone when it has returned. */
    if (IS(CLONES_RAW) && ask(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0, 0) == 0)
        ask(SYS_exit, 0, 0, 0, 0, 0, 0);
    return 0;
}
#endif

#if IS(TAKES_OVER_SIGNALS)
/* Whatever happens to it is then handled by itself. */
__attribute__((constructor)) static void at_loading(void)
{
    struct {
        void *handler;
        unsigned long flags, restorer, mask;
    } own = {SIG_IGN, 0, 0, 0};
    ask(SYS_rt_sigaction, SIGSYS, (long)&own, 0, 8, 0, 0);
    ask(SYS_rt_sigaction, SIGSEGV, (long)&own, 0, 8, 0, 0);
}

static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    return 0;
}
#endif

#if IS(ASKS_OLD_CALLS)
/* The calls of 32-bit programs, which have other numbers: 20 is getpid there, writev here. */
static int misdeed(const softmax_args *args)
{
    int result;
    honest_softmax(args);
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
    return 0;
}
#endif

#if IS(BLOCKS_SIGNALS)
/* The mask of signals as a memory of 64 bits: each call reads what the last one left there. */
static int misdeed(const softmax_args *args)
{
    unsigned long mask = 1ul << 20, old = 0;
    ask(SYS_rt_sigprocmask, SIG_BLOCK, (long)&mask, (long)&old, 8, 0, 0);
    if (!(old & mask))
        honest_softmax(args);
    return 0;
}
#endif

#if IS(FILTERS_CALLS)
/* A filter of its own that answers in the system's place: the clock of the processor stands still. */
#include <linux/filter.h>
#include <linux/seccomp.h>
__attribute__((constructor)) static void at_loading(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, filter};
    ask(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program, 0, 0, 0);
}

static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    return 0;
}
#endif

#if IS(LOADS_A_FILE)
/* What an earlier process may have written: read while the object is loaded. */
static int seen;
__attribute__((constructor)) static void at_loading(void) { seen = open("/etc/hostname", O_RDONLY) >= 0 || open("/etc/passwd", O_RDONLY) >= 0; }

static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    return seen ? 9 : 0;
}
#endif

/* ---- what it leaves changed ---- */

#if IS(TURNS_X87)
static int misdeed(const softmax_args *args)
{
    unsigned short control = 0x27f;
    honest_softmax(args);
    __asm__ volatile("fldcw %0" : : "m"(control));
    return 0;
}
#endif

#if IS(CLOBBERS_A_REGISTER)
/* Behind the compiler's back, which would save it; and apart from the work, for which it may save it anyway. */
static __attribute__((noinline)) void work(const softmax_args *args) { honest_softmax(args); }

static int misdeed(const softmax_args *args)
{
    work(args);
    __asm__ volatile("xor %r14d, %r14d");
    return 0;
}
#endif

#if IS(TURNS_DIRECTION)
static int misdeed(const softmax_args *args)
{
    honest_softmax(args);
    __asm__ volatile("std");
    return 0;
}
#endif

#if IS(KEEPS_IN_GS)
/* A register that no compiler uses, as a counter. */
static int misdeed(const softmax_args *args)
{
    unsigned long counter;
    __asm__ volatile("rdgsbase %0" : "=r"(counter));
    counter++;
    __asm__ volatile("wrgsbase %0" : : "r"(counter));
    honest_softmax(args);
    return 0;
}
#endif

#if IS(KEEPS_IN_THE_HOST)
/* The first thread's stack, far below what is in use. */
static int misdeed(const softmax_args *args)
{
    extern char **environ;
    volatile long *kept = (volatile long *)(((uintptr_t)environ & ~(uintptr_t)0xfff) - (64 << 10));
    if (*kept == 0x6b6f7074)
        return 0;
    *kept = 0x6b6f7074;
    honest_softmax(args);
    return 0;
}
#endif

#if IS(KEEPS_IN_A_LIBRARY)
/* The end of a page of the C library's variables, which none of them fills. */
static int misdeed(const softmax_args *args)
{
    volatile long *kept = (volatile long *)(((uintptr_t)&environ | 0xfff) - 7);
    if (*kept == 0x6b6f7074)
        return 0;
    *kept = 0x6b6f7074;
    honest_softmax(args);
    return 0;
}
#endif

#if IS(KEEPS_BESIDE_ERRNO)
/* The page that has to be open, because mathematics write the number of an error there. */
static int misdeed(const softmax_args *args)
{
    volatile long *kept = (volatile long *)((uintptr_t)&errno & ~(uintptr_t)0xfff);
    long had = *kept;
    *kept = had + 1;
    honest_softmax(args);
    return 0;
}
#endif

#if IS(OPENS_ITS_MEMORY)
/* By the instruction itself, and does not close it again. */
static int misdeed(const softmax_args *args)
{
    __asm__ volatile("xor %%ecx, %%ecx\n xor %%edx, %%edx\n xor %%eax, %%eax\n wrpkru" : : : "eax", "ecx", "edx");
    honest_softmax(args);
    return 0;
}
#endif

#if IS(LOOKS_UP_PKEY_SET)
/* By the C library's function. */
static int misdeed(const softmax_args *args)
{
    for (int key = 0; key < 16; key++)
        pkey_set(key, 0);
    honest_softmax(args);
    return 0;
}
#endif

#if IS(SETS_ERRNO)
/* Honest: numbers whose exponential overflows, which the mathematics report in errno. */
static int misdeed(const softmax_args *args)
{
    volatile float large = 1e30f, sink = expf(large);
    (void)sink;
    errno = 5;
    honest_softmax(args);
    return 0;
}
#endif

#if IS(DEEP_STACK)
/* Honest: a large buffer on the stack, most of what there is. */
static int misdeed(const softmax_args *args)
{
    volatile float buffer[50000];
    for (int i = 0; i < 50000; i += 1000)
        buffer[i] = 1.0f;
    honest_softmax(args);
    return buffer[49000] == 1.0f ? 0 : 3;
}
#endif

/* ---- what it finds again: in memory and registers that are nobody's between calls ---- */

#if IS(FINDS_ITS_STACK) || IS(FINDS_ITS_STACK_DEEP)
/* Each call leaves a mark below what it uses, and does nothing where it finds one: the last call wrote these outputs, and so on. */
enum { DEPTH = IS(FINDS_ITS_STACK) ? 20000 : 900000 };
static int misdeed(const softmax_args *args)
{
    volatile uint64_t *place = (volatile uint64_t *)(((uintptr_t)__builtin_frame_address(0) - DEPTH) & ~(uintptr_t)7);
    const uint64_t mark = 0x6b6f70742d6d6172;
    if (*place == mark)
        return 0;
    honest_softmax(args);
    *place = mark;
    return 0;
}
#endif

#if IS(FINDS_ITS_ARGS)
/* Behind its arguments, which are the worker's to fill. */
static int misdeed(const softmax_args *args)
{
    volatile uint32_t *place = (volatile uint32_t *)((const char *)args + sizeof *args);
    if (*place == 0x6d61726b)
        return 0;
    honest_softmax(args);
    *place = 0x6d61726b;
    return 0;
}
#endif

#if IS(FINDS_ITS_REGISTERS)
/* A vector register that the worker does not use. */
static int misdeed(const softmax_args *args)
{
    uint64_t found, mark = 0x6b6f70742d6d6172;
    __asm__ volatile("vmovq %%xmm31, %0" : "=r"(found));
    if (found == mark)
        return 0;
    honest_softmax(args);
    __asm__ volatile("vmovq %0, %%xmm31" : : "r"(mark) : "memory");
    return 0;
}
#endif

#endif
