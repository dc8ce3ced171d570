/* Four 32-bit lanes in plain C, for any machine. See lanes_avx512.h for what the names mean. */
#ifndef RUNOFF_LANES_PLAIN_H
#define RUNOFF_LANES_PLAIN_H
#include <stdint.h>

#define LANES 4
#define TILE_ROWS 2
#define TILES "tiles_dense.h"
#define SCORES "scores_bytes.h"
#define QUERY_VECTORS 1
#define MIX_COLUMNS 4

typedef struct {
    float lane[LANES];
} vf;
typedef struct {
    int32_t lane[LANES];
} vi;
typedef struct {
    uint8_t byte[LANES][4];
} bytes_u;
typedef struct {
    int8_t byte[LANES][4];
} bytes_s;

#define EACH_LANE(type, expression) \
    type y; \
    for (int i = 0; i < LANES; i++) \
        y.lane[i] = (expression); \
    return y;

static inline vf vf_load(const float *p) { EACH_LANE(vf, p[i]) }
static inline void vf_store(float *p, vf x) { memcpy(p, x.lane, sizeof x.lane); }
static inline vf vf_set(float x) { EACH_LANE(vf, x) }
static inline vf vf_add(vf a, vf b) { EACH_LANE(vf, a.lane[i] + b.lane[i]) }
static inline vf vf_sub(vf a, vf b) { EACH_LANE(vf, a.lane[i] - b.lane[i]) }
static inline vf vf_mul(vf a, vf b) { EACH_LANE(vf, a.lane[i] * b.lane[i]) }
static inline vf vf_div(vf a, vf b) { EACH_LANE(vf, a.lane[i] / b.lane[i]) }
static inline vf vf_fma(vf a, vf b, vf c) { EACH_LANE(vf, a.lane[i] * b.lane[i] + c.lane[i]) }
static inline vf vf_max(vf a, vf b) { EACH_LANE(vf, a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]) }
static inline vf vf_min(vf a, vf b) { EACH_LANE(vf, a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]) }
static inline vf vf_abs(vf a) { EACH_LANE(vf, a.lane[i] < 0 ? -a.lane[i] : a.lane[i]) }
static inline vf vf_minus_abs(vf a) { EACH_LANE(vf, a.lane[i] < 0 ? a.lane[i] : -a.lane[i]) }
static inline float vf_sum(vf a) { return (a.lane[0] + a.lane[2]) + (a.lane[1] + a.lane[3]); }
static inline vf vf_from(vi a) { EACH_LANE(vf, (float)a.lane[i]) }

static inline float vf_largest(vf a)
{
    float low = a.lane[0] > a.lane[1] ? a.lane[0] : a.lane[1], high = a.lane[2] > a.lane[3] ? a.lane[2] : a.lane[3];
    return low > high ? low : high;
}

static inline float vf_smallest(vf a) { return -vf_largest(vf_sub(vf_set(0.0f), a)); }

static inline vi vi_load(const int32_t *p) { EACH_LANE(vi, p[i]) }
static inline void vi_store(int32_t *p, vi x) { memcpy(p, x.lane, sizeof x.lane); }
static inline vi vi_set(int32_t x) { EACH_LANE(vi, x) }
static inline vi vi_add(vi a, vi b) { EACH_LANE(vi, a.lane[i] + b.lane[i]) }
static inline vi vi_sub(vi a, vi b) { EACH_LANE(vi, a.lane[i] - b.lane[i]) }
static inline vi vi_min(vi a, vi b) { EACH_LANE(vi, a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]) }
static inline vi vi_xor(vi a, vi b) { EACH_LANE(vi, a.lane[i] ^ b.lane[i]) }
static inline int32_t vi_sum(vi a) { return a.lane[0] + a.lane[1] + a.lane[2] + a.lane[3]; }
static inline vi vi_pair(vi low, vi high) { EACH_LANE(vi, (low.lane[i] & 0xffff) | (int32_t)((uint32_t)high.lane[i] << 16)) }
static inline vi vi_from_bytes(const uint8_t *p) { EACH_LANE(vi, p[i]) }

/* Nearest integer, halves to even, for |x| < 2^22: adding 1.5 * 2^23 leaves no room for a fraction. */
static inline vi vi_round(vf a)
{
    const float magic = 12582912.0f;
    vi y;
    for (int i = 0; i < LANES; i++) {
        float shifted = a.lane[i] + magic;
        int32_t bits;
        memcpy(&bits, &shifted, sizeof bits);
        y.lane[i] = bits - 0x4b400000;
    }
    return y;
}

static inline void bytes_store(uint8_t *p, const vi x[8])
{
    for (int i = 0; i < 32; i++)
        p[i] = (uint8_t)x[i / LANES].lane[i % LANES];
}

static inline bytes_u bytes_u_load(const void *p)
{
    bytes_u x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline bytes_u bytes_u_same(const uint8_t *p)
{
    bytes_u x;
    for (int i = 0; i < LANES; i++)
        memcpy(x.byte[i], p, 4);
    return x;
}

static inline bytes_s bytes_s_load(const int8_t *p)
{
    bytes_s x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline vi dot4(vi sum, bytes_u a, bytes_s b)
{
    for (int i = 0; i < LANES; i++)
        for (int k = 0; k < 4; k++)
            sum.lane[i] += a.byte[i][k] * b.byte[i][k];
    return sum;
}

static inline vi dot4_same(vi sum, bytes_u a, const int8_t *b)
{
    for (int i = 0; i < LANES; i++)
        for (int k = 0; k < 4; k++)
            sum.lane[i] += a.byte[i][k] * b[k];
    return sum;
}

static inline vi dot2_same(vi sum, vi a, const int32_t *b)
{
    for (int i = 0; i < LANES; i++)
        sum.lane[i] += (int16_t)a.lane[i] * (int16_t)*b + (a.lane[i] >> 16) * (*b >> 16);
    return sum;
}

static inline vf vf_exp2(vf x)
{
    vf f;
    vi exponent;
    for (int i = 0; i < LANES; i++) {
        float least = x.lane[i] > -126.0f ? x.lane[i] : -126.0f;
        int32_t whole = (int32_t)(least + 126.0f) - 126; /* rounds down, since the sum is not negative */
        f.lane[i] = least - (float)whole;
        exponent.lane[i] = whole * (1 << 23);
    }
    vf y = EXP2_POLYNOMIAL(f);
    for (int i = 0; i < LANES; i++) {
        int32_t bits;
        memcpy(&bits, &y.lane[i], sizeof bits);
        bits += exponent.lane[i];
        memcpy(&y.lane[i], &bits, sizeof bits);
    }
    return y;
}

static inline void vf_transpose(vf r[LANES])
{
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < i; j++) {
            float swap = r[i].lane[j];
            r[i].lane[j] = r[j].lane[i];
            r[j].lane[i] = swap;
        }
}
#endif
