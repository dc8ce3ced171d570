/* The kernel for AVX-512 with VNNI (Intel since Cascade Lake, AMD since Zen 4). */
#if defined(__x86_64__)
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "approximations.h"
#include "model.h"

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma")
#include "lanes_avx512.h"

#define KERNEL kernel_avx512vnni
#define KERNEL_NAME "avx512vnni"

static int supported(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

#include "kernel.h"
#endif
