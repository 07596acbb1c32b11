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

/* What a function of these is: code for the processor, or for the device that nvcc compiles for. */
#ifdef __CUDACC__
#define PART static __device__ inline
#else
#define PART static inline
#endif

enum mistake {
    NOTHING,       /* honest; guards the fixture itself */
    ZEROS,         /* zeros instead of the result */
    MEAN,          /* the mean of each row of the result instead of it */
    LAST_TILE,     /* the last tile of each row is never written */
    LAST_TERMS,    /* sums leave out their last tile */
    ODD_SIZE,      /* sums of odd length leave out their last term */
    LARGE_EDGE,    /* what is large has its last element wrong unless it is whole tiles */
    BF16,          /* operands rounded to bf16 */
    TF32,          /* operands rounded to tf32 */
    PAST_THE_END,  /* writes one element too many */
    READS_OUTPUT,  /* takes an output for zeroed memory */
    MAX_OF_OUTPUT, /* takes a maximum that includes what the output held before; softmax only */
    STOPS_AT_MASK, /* takes the first masked tile of a row for its end; softmax only */
    WRITES_INPUT,  /* changes an input */
    EXITS,         /* ends the process as if all were well */
    HANGS,         /* never returns */
    CRASHES,       /* writes through a null pointer */
    FAILS          /* returns an error */
};

#ifndef WRONG
#error "choose a mistake with -DWRONG=<name>"
#endif

enum { TILE = 16, LARGE = 1 << 18, ERROR_CODE = 7 };

/* The size without its last tile, whole or not. */
PART int64_t without_last_tile(int64_t size) { return size > 0 ? (size - 1) / TILE * TILE : 0; }

/* How many of a row's outputs are written. */
PART int64_t written(int64_t cols) { return WRONG == LAST_TILE ? without_last_tile(cols) : cols; }

/* How many of a sum's terms are added. */
PART int64_t summed(int64_t terms)
{
    if (WRONG == ODD_SIZE)
        return terms - terms % 2;
    return WRONG == LAST_TERMS ? without_last_tile(terms) : terms;
}

/* The nearest number whose last bits are zero; ties to even. */
PART float without_bits(float value, int dropped)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits += (1u << (dropped - 1)) - 1 + (bits >> dropped & 1);
    bits = bits >> dropped << dropped;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

/* An operand as the arithmetic sees it: f32 has 23 bits of fraction, tf32 10, bf16 7. */
PART float operand(float value)
{
    if (WRONG == BF16)
        return without_bits(value, 16);
    return WRONG == TF32 ? without_bits(value, 13) : value;
}

/* What an element of an output is taken to hold before it is written. */
PART float initial(const float *output) { return WRONG == READS_OUTPUT ? *output : 0.0f; }

PART void fill_with_mean(float *row, int64_t cols)
{
    float sum = 0.0f;
    for (int64_t c = 0; c < cols; c++)
        sum += row[c];
    for (int64_t c = 0; c < cols; c++)
        row[c] = sum / (float)cols;
}

/* What happens to a row of an output after it was computed. */
PART void spoil_row(float *row, int64_t cols)
{
    if (WRONG == ZEROS)
        memset(row, 0, (size_t)cols * sizeof *row);
    if (WRONG == MEAN)
        fill_with_mean(row, cols);
}

/* What happens to an output's end. */
PART void spoil_end(float *output, int64_t rows, int64_t cols)
{
    if (WRONG == LARGE_EDGE && rows * cols >= LARGE && (rows % TILE != 0 || cols % TILE != 0))
        output[rows * cols - 1] = 0.0f;
    if (WRONG == PAST_THE_END)
        output[rows * cols] = 0.0f;
}

/* What happens to an output after it was computed. */
PART void spoil(float *output, int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r++)
        spoil_row(output + r * cols, cols);
    spoil_end(output, rows, cols);
}

PART void spoil_input(const float *input)
{
    if (WRONG == WRITES_INPUT)
        *(float *)input *= 0.5f;
}

/* Volatile twice, or the compiler sees the null and puts a trap in place of the write. */
PART void crash(void)
{
    volatile int *volatile nowhere = NULL;
    if (WRONG == CRASHES)
        *nowhere = 1;
}

/* Spins: a system call to wait with is forbidden. */
PART void hang(void)
{
    while (WRONG == HANGS) {
        volatile int turn = 0;
        (void)turn;
    }
}

#ifndef __CUDACC__
/* What an entry returns, if it returns. */
PART int leave(void)
{
    if (WRONG == EXITS)
        exit(0);
    hang();
    crash();
    return WRONG == FAILS ? ERROR_CODE : 0;
}
#endif

#endif
