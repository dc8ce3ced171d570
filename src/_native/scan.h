/* Inner products of a query with many half-precision vectors: the exact scan of a vector index.
 *
 * Sixteen partial sums run over the dimensions and are added in one order at the end, whatever the instruction set and
 * whichever rows are asked for, so that a row's value never depends on its neighbours. One thread reads memory as fast as
 * it comes; a second one would only wait for the same memory. */
#ifndef RUNOFF_SCAN_H
#define RUNOFF_SCAN_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define SCAN_LANES 16

/* IEEE 754 binary16 to binary32, exactly; vectors hold neither infinities nor NaN, which come out as large numbers. */
static inline float scan_half(uint16_t half)
{
    const uint32_t bits = (uint32_t)(half & 0x7fff) << 13;
    float value, scale;
    const uint32_t scale_bits = (254 - 15) << 23; /* 2^112: moves the exponent from a bias of 15 to one of 127 */
    memcpy(&value, &bits, sizeof value);
    memcpy(&scale, &scale_bits, sizeof scale);
    value *= scale;
    return half & 0x8000 ? -value : value;
}

/* Adds the sixteen partial sums pairwise, in the order of the halves that a vector register folds into. */
static inline float scan_fold(const float *lanes)
{
    float eight[8], four[4];
    for (int i = 0; i < 8; i++)
        eight[i] = lanes[i] + lanes[i + 8];
    for (int i = 0; i < 4; i++)
        four[i] = eight[i] + eight[i + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

static inline void scan_tail(float *lanes, const uint16_t *vector, const float *query, int64_t from, int64_t dimensions)
{
    for (int64_t i = from; i < dimensions; i++)
        lanes[i % SCAN_LANES] += scan_half(vector[i]) * query[i];
}

static inline float scan_portable(const uint16_t *vector, const float *query, int64_t dimensions)
{
    float lanes[SCAN_LANES] = {0};
    scan_tail(lanes, vector, query, 0, dimensions);
    return scan_fold(lanes);
}

#if defined(__x86_64__)
__attribute__((target("avx2,f16c"))) static inline float scan_avx2(const uint16_t *vector, const float *query,
                                                                  int64_t dimensions)
{
    const int64_t whole = dimensions - dimensions % SCAN_LANES;
    __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
    float lanes[SCAN_LANES];
    for (int64_t i = 0; i < whole; i += SCAN_LANES) {
        const __m256 a = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(vector + i)));
        const __m256 b = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(vector + i + 8)));
        low = _mm256_add_ps(low, _mm256_mul_ps(a, _mm256_loadu_ps(query + i)));
        high = _mm256_add_ps(high, _mm256_mul_ps(b, _mm256_loadu_ps(query + i + 8)));
    }
    _mm256_storeu_ps(lanes, low);
    _mm256_storeu_ps(lanes + 8, high);
    scan_tail(lanes, vector, query, whole, dimensions);
    return scan_fold(lanes);
}

__attribute__((target("avx512f"))) static inline float scan_avx512(const uint16_t *vector, const float *query,
                                                                  int64_t dimensions)
{
    const int64_t whole = dimensions - dimensions % SCAN_LANES;
    __m512 sum = _mm512_setzero_ps();
    float lanes[SCAN_LANES];
    for (int64_t i = 0; i < whole; i += SCAN_LANES) {
        const __m512 part = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(vector + i)));
        sum = _mm512_add_ps(sum, _mm512_mul_ps(part, _mm512_loadu_ps(query + i)));
    }
    _mm512_storeu_ps(lanes, sum);
    scan_tail(lanes, vector, query, whole, dimensions);
    return scan_fold(lanes);
}
#endif

typedef float (*scan_kernel)(const uint16_t *, const float *, int64_t);

/* 0 plain C, 1 AVX2 with F16C, 2 AVX-512: the best that this machine has. */
static inline int scan_best(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"))
        return 1;
#endif
    return 0;
}

static inline scan_kernel scan_choose(int number)
{
#if defined(__x86_64__)
    if (number == 2)
        return scan_avx512;
    if (number == 1)
        return scan_avx2;
#endif
    return scan_portable;
}

/* out[i] = vectors[rows[i]] . query; rows of NULL are first, first + 1 and so on. */
static inline void scan_rows(int number, const uint16_t *vectors, int64_t dimensions, const float *query,
                             const int64_t *rows, int64_t first, int64_t count, float *out)
{
    const scan_kernel kernel = scan_choose(number);
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = rows ? rows[i] : first + i;
        out[i] = kernel(vectors + row * dimensions, query, dimensions);
    }
}

#endif
