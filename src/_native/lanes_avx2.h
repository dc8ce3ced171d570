/* Eight 32-bit lanes: AVX2 with FMA. See lanes_avx512.h for what the names mean. */
#ifndef RUNOFF_LANES_AVX2_H
#define RUNOFF_LANES_AVX2_H
#include <immintrin.h>
#include <stdint.h>

#define LANES 8
#define TILE_ROWS 6 /* 6 rows x 2 vectors of sums + 2 of weights + 1 activation + 1 product: all of 16 registers */
#define TILES "tiles_grouped.h"
#define SCORES "scores_pairs.h"
#define QUERY_VECTORS 2
#define MIX_COLUMNS 4 /* by two vectors of queries: 8 sums */

typedef __m256 vf;
typedef __m256i vi;

static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vf_store(float *p, vf x) { _mm256_storeu_ps(p, x); }
static inline vf vf_set(float x) { return _mm256_set1_ps(x); }
static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf vf_abs(vf a) { return _mm256_andnot_ps(vf_set(-0.0f), a); }
static inline vf vf_minus_abs(vf a) { return _mm256_or_ps(a, vf_set(-0.0f)); }
static inline vf vf_from(vi a) { return _mm256_cvtepi32_ps(a); }

static inline float vf_sum(vf a)
{
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

static inline float vf_largest(vf a)
{
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

static inline float vf_smallest(vf a) { return -vf_largest(vf_sub(vf_set(0.0f), a)); }

static inline vi vi_load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void vi_store(int32_t *p, vi x) { _mm256_storeu_si256((__m256i *)p, x); }
static inline vi vi_set(int32_t x) { return _mm256_set1_epi32(x); }
static inline vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
static inline vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
static inline vi vi_min(vi a, vi b) { return _mm256_min_epi32(a, b); }
static inline vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
static inline vi vi_round(vf a) { return _mm256_cvtps_epi32(a); }
static inline vi vi_pair(vi low, vi high) { return _mm256_blend_epi16(low, _mm256_slli_epi32(high, 16), 0xAA); }
static inline vi vi_from_bytes(const uint8_t *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)); }

static inline int32_t vi_sum(vi a)
{
    __m128i b = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    b = _mm_add_epi32(b, _mm_shuffle_epi32(b, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(b, _mm_shuffle_epi32(b, 0xb1)));
}

static inline void bytes_store(uint8_t *p, const vi x[4])
{
    vi low = _mm256_set1_epi16(255), order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    vi a = _mm256_and_si256(_mm256_packs_epi32(x[0], x[1]), low), b = _mm256_and_si256(_mm256_packs_epi32(x[2], x[3]), low);
    _mm256_storeu_si256((__m256i *)p, _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, b), order));
}

static inline vi dot2_same(vi sum, vi a, const int32_t *b)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, _mm256_set1_epi32(*b)));
}

static inline vf vf_exp2(vf x)
{
    x = _mm256_max_ps(x, vf_set(-126.0f));
    vf whole = _mm256_floor_ps(x), f = vf_sub(x, whole);
    vi exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(whole), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(EXP2_POLYNOMIAL(f)), exponent));
}

static inline void vf_transpose(vf r[LANES])
{
    vf t[LANES];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    for (int i = 0; i < 8; i++)
        r[i] = t[i];
}
#endif
