# Row softmax in f32: one program per row, three passes over the row (maximum, sum, result).
#
# Special values need no code of their own. A maximum may skip a NaN, but the NaN comes back through the sum, and a NaN sum
# turns the whole row to NaN. A maximum of +inf, or of -inf when the row holds nothing else, gives inf - inf = NaN in the
# sum and ends the same way.

import triton
import triton.language as tl


@triton.jit
def softmax_rows(x, y, cols, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    lanes = tl.arange(0, BLOCK)

    largest = tl.full([BLOCK], float("-inf"), tl.float32)
    for first in range(0, cols, BLOCK):
        here = first + lanes
        largest = tl.maximum(largest, tl.load(x + start + here, mask=here < cols, other=float("-inf")))
    row_max = tl.max(largest, axis=0)

    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, cols, BLOCK):
        here = first + lanes
        value = tl.load(x + start + here, mask=here < cols, other=float("-inf"))
        total += tl.where(here < cols, tl.exp(value - row_max), 0.0)
    row_sum = tl.sum(total, axis=0)

    for first in range(0, cols, BLOCK):
        here = first + lanes
        value = tl.load(x + start + here, mask=here < cols)
        tl.store(y + start + here, tl.exp(value - row_max) / row_sum, mask=here < cols)


# What is compiled, by the names that the launch plan uses.
KERNELS = {
    "softmax_rows": {
        "function": softmax_rows,
        "signature": {"x": "*fp32", "y": "*fp32", "cols": "i64"},
        "constants": {"BLOCK": 1024},
        "divisible": {"x": 16, "y": 16},
        "options": {"num_warps": 8},
    },
}
