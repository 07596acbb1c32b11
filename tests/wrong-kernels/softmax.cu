// Row softmax on a device, and the mistakes of mistakes.h: one thread of each block computes the block's row.
#include "softmax.h"

#include "softmax_row.h"

extern "C" __global__ void softmax_rows(softmax_args args)
{
    if (threadIdx.x != 0)
        return;
    const int64_t row = blockIdx.x;
    float *out = args.y + row * args.cols;
    softmax_row(args.x + row * args.cols, out, args.cols);
    spoil_row(out, args.cols);
    if (row == args.rows - 1)
        spoil_end(args.y, args.rows, args.cols);
    if (row != 0)
        return;
    spoil_input(args.x);
    hang();
    crash();
}
