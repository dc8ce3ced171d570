/* Sixteen 32-bit lanes: AVX-512 with VNNI. The same names are defined by lanes_avx2.h and lanes_plain.h. */
#ifndef RUNOFF_LANES_AVX512_H
#define RUNOFF_LANES_AVX512_H
#include <immintrin.h>
#include <stdint.h>

#define LANES 16
#define TILE_ROWS 12 /* 12 rows x 2 vectors of accumulators + 2 of weights + 1 activation = 27 of 32 registers */
#define TILES "tiles_dense.h"
#define SCORES "scores_bytes.h"
#define QUERY_VECTORS 1
#define MIX_COLUMNS 16 /* accumulators of one pass over probabilities */

typedef __m512 vf;
typedef __m512i vi;
typedef __m512i bytes_u, bytes_s; /* four bytes a lane, ready to be multiplied */

static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vf_store(float *p, vf x) { _mm512_storeu_ps(p, x); }
static inline vf vf_set(float x) { return _mm512_set1_ps(x); }
static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf vf_abs(vf a) { return _mm512_abs_ps(a); }
static inline vf vf_minus_abs(vf a) { return _mm512_or_ps(a, vf_set(-0.0f)); }
static inline float vf_sum(vf a) { return _mm512_reduce_add_ps(a); }
static inline float vf_largest(vf a) { return _mm512_reduce_max_ps(a); }
static inline float vf_smallest(vf a) { return _mm512_reduce_min_ps(a); }
static inline vf vf_from(vi a) { return _mm512_cvtepi32_ps(a); }

static inline vi vi_load(const int32_t *p) { return _mm512_loadu_si512(p); }
static inline void vi_store(int32_t *p, vi x) { _mm512_storeu_si512(p, x); }
static inline vi vi_set(int32_t x) { return _mm512_set1_epi32(x); }
static inline vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
static inline vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
static inline vi vi_min(vi a, vi b) { return _mm512_min_epi32(a, b); }
static inline vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
static inline int32_t vi_sum(vi a) { return _mm512_reduce_add_epi32(a); }
static inline vi vi_round(vf a) { return _mm512_cvtps_epi32(a); }
static inline vi vi_from_bytes(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)); }
/* The low bytes of 32 numbers from -128 to 255. */
static inline void bytes_store(uint8_t *p, const vi x[2])
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(x[0]));
    _mm_storeu_si128((__m128i *)(p + LANES), _mm512_cvtepi32_epi8(x[1]));
}

/* Low halves of two vectors side by side: low | high << 16. */
static inline vi vi_pair(vi low, vi high) { return _mm512_mask_mov_epi16(low, 0xAAAAAAAA, _mm512_slli_epi32(high, 16)); }

/* Products of four unsigned and four signed bytes a lane, added to 32 bits: exact. */
static inline bytes_u bytes_u_load(const void *p) { return _mm512_loadu_si512(p); }
static inline bytes_u bytes_u_same(const uint8_t *p) { return _mm512_set1_epi32(*(const int32_t *)p); }
static inline bytes_s bytes_s_load(const int8_t *p) { return _mm512_loadu_si512(p); }
static inline vi dot4(vi sum, bytes_u a, bytes_s b) { return _mm512_dpbusd_epi32(sum, a, b); }

/* The same with one operand for all lanes: asm, since gcc 12 neither broadcasts within the instruction nor keeps the
 * sums of a long row of these in place. */
static inline vi dot4_same(vi sum, bytes_u a, const int8_t *b)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(a), "m"(*(const int32_t *)b));
    return sum;
}

/* Products of two signed 16-bit numbers a lane. */
static inline vi dot2_same(vi sum, vi a, const int32_t *b)
{
    __asm__("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(a), "m"(*b));
    return sum;
}

/* 2^x for x <= 14, relative error 4e-6; vreduceps takes x - floor(x), vscalefps multiplies by 2^floor(x). */
static inline vf vf_exp2(vf x)
{
    vf f = _mm512_reduce_ps(x, 1);
    return _mm512_scalef_ps(EXP2_POLYNOMIAL(f), x);
}

static inline void vf_transpose(vf r[LANES])
{
    vf t[LANES];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
        r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
        r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
        r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
}
#endif
