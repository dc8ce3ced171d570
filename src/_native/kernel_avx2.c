/* The kernel for AVX2 and FMA (Intel since Haswell, AMD since Zen). */
#if defined(__x86_64__)
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "approximations.h"
#include "model.h"

#pragma GCC target("avx2,fma")
#include "lanes_avx2.h"

#define KERNEL kernel_avx2
#define KERNEL_NAME "avx2"

static int supported(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

#include "kernel.h"
#endif
