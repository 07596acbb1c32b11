#ifndef DECODE_ATTENTION_H
#define DECODE_ATTENTION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Attention of the last s positions to all t of them: out = softmax(scale * q k^T) v for each head.
 *
 * Each h / h_kv neighbouring heads of q share a head of k and v. Query i is position t - s + i and sees the keys up to
 * its own: 0 to t - s + i. h is a multiple of h_kv, and t >= s.
 *
 * The pointers are device pointers; a uint16_t holds the bits of a bfloat16. All buffers start on a 256-byte
 * boundary; rows of d elements follow each other without padding. Arithmetic, weights included, is in float, and every
 * result is rounded once.
 *
 * A query with an infinity or a NaN comes out all NaN. Weights below FLT_MIN may be flushed to 0.
 */
typedef struct decode_attention_args {
    const uint16_t *q; /* [b * h * s * d] */
    const uint16_t *k; /* [b * h_kv * t * d] */
    const uint16_t *v; /* [b * h_kv * t * d] */
    uint16_t *out;     /* [b * h * s * d], every element is written */
    int64_t b;
    int64_t h;
    int64_t h_kv;
    int64_t s;
    int64_t t;
    int64_t d;
    float scale; /* 1 / sqrt(d) */
} decode_attention_args;

#ifdef __cplusplus
}
#endif

#endif
