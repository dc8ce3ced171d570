/* The AVX-512 kernel for CPUs without AVX-512: the same lanes and templates on emulated intrinsics.
 *
 * It stands in for kernel_avx512vnni.c where that cannot run, so that tests reach the code. It proves what the code
 * computes with sixteen lanes; it proves nothing about the instructions, nor about the lines of inline assembly.
 */
#if defined(__x86_64__)
#include <math.h>
#include <string.h>

#include "approximations.h"
#include "model.h"

#pragma GCC target("avx2,fma")
#include "emulated_avx512.h"

/* Inline assembly is left out, and the two functions that have it are written anew. */
#define __asm__(...)
#define dot4_same assembly_dot4_same
#define dot2_same assembly_dot2_same
#include "lanes_avx512.h"
#undef __asm__
#undef dot4_same
#undef dot2_same

static inline vi dot4_same(vi sum, bytes_u a, const int8_t *b)
{
    return _mm512_dpbusd_epi32(sum, a, vi_set(*(const int32_t *)b));
}

static inline vi dot2_same(vi sum, vi a, const int32_t *b) { return _mm512_dpwssd_epi32(sum, a, vi_set(*b)); }

#define KERNEL kernel_avx512vnni
#define KERNEL_NAME "avx512vnni"

static int supported(void) { return 1; }

#include "kernel.h"
#endif
