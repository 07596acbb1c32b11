/*
 * What the wrong kernels of all operators share: which mistake a build makes, and the parts of it that do not depend on
 * the operator. Chosen by -DWRONG=<name>; every condition on it is a constant, so an object holds one mistake only.
 *
 * The work is honest up to the mistake: a kernel that exits or hangs has already written the right outputs.
 */
#ifndef MISTAKES_H
#define MISTAKES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum mistake {
    NOTHING,       /* honest; guards the fixture itself */
    ZEROS,         /* zeros instead of the result */
    MEAN,          /* the mean of each row of the result instead of it */
    LAST_TILE,     /* the last tile of each row is never written */
    LAST_TERMS,    /* sums leave out their last tile */
    ODD_SIZE,      /* sums of odd length leave out their last term */
    BF16,          /* operands rounded to bf16 */
    TF32,          /* operands rounded to tf32 */
    PAST_THE_END,  /* writes one element too many */
    READS_OUTPUT,  /* takes an output for zeroed memory */
    MAX_OF_OUTPUT, /* takes a maximum that includes what the output held before; softmax only */
    WRITES_INPUT,  /* changes an input */
    EXITS,         /* ends the process as if all were well */
    HANGS,         /* never returns */
    CRASHES,       /* writes through a null pointer */
    FAILS          /* returns an error */
};

#ifndef WRONG
#error "choose a mistake with -DWRONG=<name>"
#endif

enum { TILE = 16, ERROR_CODE = 7 };

/* The size without its last tile, whole or not. */
static inline int64_t without_last_tile(int64_t size) { return size > 0 ? (size - 1) / TILE * TILE : 0; }

/* How many of a row's outputs are written. */
static inline int64_t written(int64_t cols) { return WRONG == LAST_TILE ? without_last_tile(cols) : cols; }

/* How many of a sum's terms are added. */
static inline int64_t summed(int64_t terms)
{
    if (WRONG == ODD_SIZE)
        return terms - terms % 2;
    return WRONG == LAST_TERMS ? without_last_tile(terms) : terms;
}

/* The nearest number whose last bits are zero; ties to even. */
static inline float without_bits(float value, int dropped)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits += (1u << (dropped - 1)) - 1 + (bits >> dropped & 1);
    bits = bits >> dropped << dropped;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

/* An operand as the arithmetic sees it: f32 has 23 bits of fraction, tf32 10, bf16 7. */
static inline float operand(float value)
{
    if (WRONG == BF16)
        return without_bits(value, 16);
    return WRONG == TF32 ? without_bits(value, 13) : value;
}

/* What an element of an output is taken to hold before it is written. */
static inline float initial(const float *output) { return WRONG == READS_OUTPUT ? *output : 0.0f; }

static inline void fill_with_means(float *output, int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r++) {
        float sum = 0.0f;
        for (int64_t c = 0; c < cols; c++)
            sum += output[r * cols + c];
        for (int64_t c = 0; c < cols; c++)
            output[r * cols + c] = sum / (float)cols;
    }
}

/* What happens to an output after it was computed. */
static inline void spoil(float *output, int64_t rows, int64_t cols)
{
    if (WRONG == ZEROS)
        memset(output, 0, (size_t)(rows * cols) * sizeof *output);
    if (WRONG == MEAN)
        fill_with_means(output, rows, cols);
    if (WRONG == PAST_THE_END)
        output[rows * cols] = 0.0f;
}

static inline void spoil_input(const float *input)
{
    if (WRONG == WRITES_INPUT)
        *(float *)input *= 0.5f;
}

/* What an entry returns, if it returns. */
static inline int leave(void)
{
    /* Volatile twice, or the compiler sees the null and puts a trap in place of the write. */
    volatile int *volatile nowhere = NULL;
    if (WRONG == EXITS)
        exit(0);
    /* Waits instead of spinning: as endless, and the other tests keep their cores. */
    /* A system call to wait with is forbidden. */
    for (volatile int turns = 0; WRONG == HANGS; turns = 0)
        ;
    if (WRONG == CRASHES)
        *nowhere = 1;
    return WRONG == FAILS ? ERROR_CODE : 0;
}

#endif
