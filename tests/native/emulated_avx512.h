/* The AVX-512 intrinsics that lanes_avx512.h uses, lane by lane in plain C, under their own names.
 *
 * What each does is taken from Intel's Intrinsics Guide. The order of a reduction, which the guide leaves open, is that
 * of gcc and clang: the upper half onto the lower one until one lane is left.
 */
#ifndef RUNOFF_EMULATED_AVX512_H
#define RUNOFF_EMULATED_AVX512_H
#include <immintrin.h> /* the smaller vectors, which are real */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    float lane[16];
} floats16;
typedef struct {
    double lane[8];
} doubles8;
typedef struct {
    int32_t lane[16];
} ints16;

#define __m512 floats16
#define __m512i ints16

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ONCE static __attribute__((noinline, unused)) /* inlined, checks of every lane take minutes to compile */
#else
#define ONCE static inline
#endif

#define EMULATED(type, name, arguments, expression) \
    ONCE type emulated_##name arguments \
    { \
        type y; \
        for (int i = 0; i < (int)(sizeof y.lane / sizeof *y.lane); i++) \
            y.lane[i] = (expression); \
        return y; \
    }
#define LOADED(type, name) \
    ONCE type emulated_##name(const void *p) \
    { \
        type y; \
        memcpy(&y, p, sizeof y); \
        return y; \
    }
#define STORED(type, name) \
    ONCE void emulated_##name(void *p, type x) { memcpy(p, &x, sizeof x); }
#define REDUCED(type, scalar, name, expression) \
    ONCE scalar emulated_##name(type x) \
    { \
        for (int half = 8; half; half /= 2) \
            for (int i = 0; i < half; i++) { \
                scalar a = x.lane[i], b = x.lane[i + half]; \
                x.lane[i] = (expression); \
            } \
        return x.lane[0]; \
    }
#define RECAST(to, from, name) \
    ONCE to emulated_##name(from x) \
    { \
        to y; \
        memcpy(&y, &x, sizeof y); \
        return y; \
    }

LOADED(floats16, loadu_ps)
LOADED(ints16, loadu_si512)
STORED(floats16, storeu_ps)
STORED(ints16, storeu_si512)
RECAST(doubles8, floats16, castps_pd)
RECAST(floats16, doubles8, castpd_ps)
RECAST(ints16, floats16, castps_si512)
RECAST(floats16, ints16, castsi512_ps)

EMULATED(floats16, set1_ps, (float x), x)
EMULATED(floats16, add_ps, (floats16 a, floats16 b), a.lane[i] + b.lane[i])
EMULATED(floats16, sub_ps, (floats16 a, floats16 b), a.lane[i] - b.lane[i])
EMULATED(floats16, mul_ps, (floats16 a, floats16 b), a.lane[i] * b.lane[i])
EMULATED(floats16, div_ps, (floats16 a, floats16 b), a.lane[i] / b.lane[i])
EMULATED(floats16, fmadd_ps, (floats16 a, floats16 b, floats16 c), fmaf(a.lane[i], b.lane[i], c.lane[i]))
EMULATED(floats16, max_ps, (floats16 a, floats16 b), a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i])
EMULATED(floats16, min_ps, (floats16 a, floats16 b), a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i])
EMULATED(floats16, abs_ps, (floats16 a), fabsf(a.lane[i]))
EMULATED(floats16, cvtepi32_ps, (ints16 a), (float)a.lane[i])

EMULATED(ints16, set1_epi32, (int32_t x), x)
EMULATED(ints16, add_epi32, (ints16 a, ints16 b), (int32_t)((uint32_t)a.lane[i] + (uint32_t)b.lane[i]))
EMULATED(ints16, sub_epi32, (ints16 a, ints16 b), (int32_t)((uint32_t)a.lane[i] - (uint32_t)b.lane[i]))
EMULATED(ints16, min_epi32, (ints16 a, ints16 b), a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i])
EMULATED(ints16, max_epi32, (ints16 a, ints16 b), a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i])
EMULATED(ints16, xor_si512, (ints16 a, ints16 b), a.lane[i] ^ b.lane[i])
EMULATED(ints16, or_si512, (ints16 a, ints16 b), a.lane[i] | b.lane[i])
EMULATED(ints16, slli_epi32, (ints16 a, int bits), (int32_t)((uint32_t)a.lane[i] << bits))
EMULATED(ints16, cvtps_epi32, (floats16 a), _mm_cvtss_si32(_mm_set_ss(a.lane[i])))

REDUCED(floats16, float, reduce_add_ps, a + b)
REDUCED(floats16, float, reduce_max_ps, a > b ? a : b)
REDUCED(floats16, float, reduce_min_ps, a < b ? a : b)
REDUCED(ints16, int32_t, reduce_add_epi32, a + b)

ONCE floats16 emulated_or_ps(floats16 a, floats16 b)
{
    return emulated_castsi512_ps(emulated_or_si512(emulated_castps_si512(a), emulated_castps_si512(b)));
}

/* What rounding down takes away; zero for infinities. No other rounding is emulated. */
EMULATED(floats16, reduce_ps, (floats16 a, int control),
         control != 1 ? NAN : isinf(a.lane[i]) ? 0.0f : a.lane[i] - floorf(a.lane[i]))

/* a * 2^floor(b) */
EMULATED(floats16, scalef_ps, (floats16 a, floats16 b),
         ldexpf(a.lane[i], (int)floorf(b.lane[i] < -400.0f ? -400.0f : b.lane[i] > 400.0f ? 400.0f : b.lane[i])))

ONCE int32_t emulated_bytes_dot(int32_t sum, int32_t a, int32_t b)
{
    for (int k = 0; k < 4; k++)
        sum += (uint8_t)(a >> 8 * k) * (int8_t)(b >> 8 * k);
    return sum;
}
EMULATED(ints16, dpbusd_epi32, (ints16 sum, ints16 a, ints16 b), emulated_bytes_dot(sum.lane[i], a.lane[i], b.lane[i]))
EMULATED(ints16, dpwssd_epi32, (ints16 sum, ints16 a, ints16 b),
         sum.lane[i] + (int16_t)a.lane[i] * (int16_t)b.lane[i] + (a.lane[i] >> 16) * (b.lane[i] >> 16))

ONCE ints16 emulated_mask_mov_epi16(ints16 otherwise, uint32_t mask, ints16 x)
{
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1)
            memcpy((char *)&otherwise + 2 * i, (char *)&x + 2 * i, 2);
    return otherwise;
}

ONCE ints16 emulated_cvtepu8_epi32(__m128i x)
{
    uint8_t bytes[16];
    ints16 y;
    memcpy(bytes, &x, sizeof bytes);
    for (int i = 0; i < 16; i++)
        y.lane[i] = bytes[i];
    return y;
}

ONCE __m128i emulated_cvtepi32_epi8(ints16 x)
{
    uint8_t bytes[16];
    for (int i = 0; i < 16; i++)
        bytes[i] = (uint8_t)x.lane[i];
    return _mm_loadu_si128((const __m128i *)bytes);
}

/* Within each 128 bits, the lower or upper elements of a and b in turn. */
EMULATED(floats16, unpacklo_ps, (floats16 a, floats16 b), (i % 2 ? b : a).lane[i / 4 * 4 + i % 4 / 2])
EMULATED(floats16, unpackhi_ps, (floats16 a, floats16 b), (i % 2 ? b : a).lane[i / 4 * 4 + 2 + i % 4 / 2])
EMULATED(doubles8, unpacklo_pd, (doubles8 a, doubles8 b), (i % 2 ? b : a).lane[i / 2 * 2])
EMULATED(doubles8, unpackhi_pd, (doubles8 a, doubles8 b), (i % 2 ? b : a).lane[i / 2 * 2 + 1])

/* Blocks of 128 bits: two of a, then two of b, picked by two bits each. */
EMULATED(floats16, shuffle_f32x4, (floats16 a, floats16 b, int pick),
         (i < 8 ? a : b).lane[(pick >> i / 4 * 2 & 3) * 4 + i % 4])

#define _mm512_abs_ps emulated_abs_ps
#define _mm512_add_epi32 emulated_add_epi32
#define _mm512_add_ps emulated_add_ps
#define _mm512_castpd_ps emulated_castpd_ps
#define _mm512_castps_pd emulated_castps_pd
#define _mm512_castps_si512 emulated_castps_si512
#define _mm512_castsi512_ps emulated_castsi512_ps
#define _mm512_cvtepi32_epi8 emulated_cvtepi32_epi8
#define _mm512_cvtepi32_ps emulated_cvtepi32_ps
#define _mm512_cvtepu8_epi32 emulated_cvtepu8_epi32
#define _mm512_cvtps_epi32 emulated_cvtps_epi32
#define _mm512_div_ps emulated_div_ps
#define _mm512_dpbusd_epi32 emulated_dpbusd_epi32
#define _mm512_dpwssd_epi32 emulated_dpwssd_epi32
#define _mm512_fmadd_ps emulated_fmadd_ps
#define _mm512_loadu_ps emulated_loadu_ps
#define _mm512_loadu_si512 emulated_loadu_si512
#define _mm512_mask_mov_epi16 emulated_mask_mov_epi16
#define _mm512_max_epi32 emulated_max_epi32
#define _mm512_max_ps emulated_max_ps
#define _mm512_min_epi32 emulated_min_epi32
#define _mm512_min_ps emulated_min_ps
#define _mm512_mul_ps emulated_mul_ps
#define _mm512_or_ps emulated_or_ps
#define _mm512_or_si512 emulated_or_si512
#define _mm512_reduce_add_epi32 emulated_reduce_add_epi32
#define _mm512_reduce_add_ps emulated_reduce_add_ps
#define _mm512_reduce_max_ps emulated_reduce_max_ps
#define _mm512_reduce_min_ps emulated_reduce_min_ps
#define _mm512_reduce_ps emulated_reduce_ps
#define _mm512_scalef_ps emulated_scalef_ps
#define _mm512_set1_epi32 emulated_set1_epi32
#define _mm512_set1_ps emulated_set1_ps
#define _mm512_shuffle_f32x4 emulated_shuffle_f32x4
#define _mm512_slli_epi32 emulated_slli_epi32
#define _mm512_storeu_ps emulated_storeu_ps
#define _mm512_storeu_si512 emulated_storeu_si512
#define _mm512_sub_epi32 emulated_sub_epi32
#define _mm512_sub_ps emulated_sub_ps
#define _mm512_unpackhi_pd emulated_unpackhi_pd
#define _mm512_unpackhi_ps emulated_unpackhi_ps
#define _mm512_unpacklo_pd emulated_unpacklo_pd
#define _mm512_unpacklo_ps emulated_unpacklo_ps
#define _mm512_xor_si512 emulated_xor_si512
#endif
