/* Everything that is compiled once for each instruction set; the including file chose the lanes and KERNEL. */
#include "quantise.h"
#include "gemm.h"
#include "attention.h"

const struct kernel KERNEL = {
    KERNEL_NAME, supported, pack_panel, products, quantise, embed, normalise, linear_plain, linear_add, linear_gelu,
    project_query, project_key, project_value, attend, mean,
};
