/* Scores of keys as products of pairs of 16-bit numbers, with DOTS: AVX2, which has no exact product of bytes.
 *
 * Queries and keys are widened once for a sequence. Two vectors of queries by KEY_TILE keys share what they load.
 */

#define QUERY_NUMBERS (HEAD / 2) /* 32-bit numbers of a query: pairs */
#define KEY_NUMBERS (HEAD / 2)   /* of a copy of the keys */
#define KEY_TILE 4
#include "dots_pairs.h"

/* [keys][HEAD / 2] pairs, with zeros up to a whole tile. */
static void turn_keys(const struct head *head, int32_t *to)
{
    int numbers = head->keys * HEAD, all = (head->keys + KEY_TILE - 1) / KEY_TILE * KEY_TILE * HEAD;
    int16_t *wide = (int16_t *)to;
    for (int i = 0; i < numbers; i++)
        wide[i] = head->key[i];
    memset(wide + numbers, 0, sizeof(int16_t) * (all - numbers));
}

/* Queries transposed, so that a lane holds a pair of its query, without its offset of 128: [HEAD / 2][QUERIES][2]. */
static void turn_queries(const uint8_t *query, int count, int32_t *to)
{
    for (int lane = 0; lane < count; lane += LANES)
        for (int k = 0; k < HEAD; k += 2 * LANES) {
            vf block[LANES];
            for (int i = 0; i < LANES; i++) {
                const uint8_t *row = query + (lane + i < count ? lane + i : count - 1) * HEAD + k;
                __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)row));
                block[i] = _mm256_castsi256_ps(_mm256_sub_epi16(wide, _mm256_set1_epi16(128)));
            }
            vf_transpose(block);
            for (int i = 0; i < LANES; i++)
                vi_store(to + (k / 2 + i) * QUERIES + lane, _mm256_castps_si256(block[i]));
        }
}

#define KEY_ZERO(j) vi a##j = vi_set(0), b##j = vi_set(0);
#define KEY_STORE(j) \
    if (first + j < head->keys) { \
        vf factor = vf_set(head->key_scale[first + j]); \
        vf a = vf_mul(vf_from(a##j), vf_mul(scale_a, factor)), b = vf_mul(vf_from(b##j), vf_mul(scale_b, factor)); \
        vf_store(scores + (first + j) * QUERIES, a); \
        vf_store(scores + (first + j) * QUERIES + LANES, b); \
        most_a = vf_max(most_a, a); \
        most_b = vf_max(most_b, b); \
    }

/* Scores as exponents of two, [keys][QUERIES], and the largest of each lane. */
static OWN_REGISTERS void score_keys(const struct head *head, const int32_t *keys, const int32_t *query, const float *query_scale,
                       float *scores, vf most[QUERY_VECTORS])
{
    vf scale_a = vf_load(query_scale), scale_b = vf_load(query_scale + LANES);
    vf most_a = vf_set(NO_SCORE), most_b = most_a;
    for (int first = 0; first < head->keys; first += KEY_TILE) {
        const int32_t *key = keys + first * KEY_NUMBERS;
        ROWS_4(KEY_ZERO)
        DOTS(query, key, KEY_NUMBERS, 64, 4)
        ROWS_4(KEY_STORE)
    }
    most[0] = most_a;
    most[1] = most_b;
}
