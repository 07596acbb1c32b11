/* Row softmax: an honest plain kernel, and the mistakes of mistakes.h. */
#include "softmax.h"

#include "softmax_row.h"

int softmax(const softmax_args *args)
{
    for (int64_t r = 0; r < args->rows; r++)
        softmax_row(args->x + r * args->cols, args->y + r * args->cols, args->cols);
    spoil(args->y, args->rows, args->cols);
    spoil_input(args->x);
    return leave();
}
