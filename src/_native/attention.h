/* Attention of one head over one sequence.
 *
 * A lane is a query: QUERIES of them go through scores, softmax and mixing together, and no step crosses lanes. Scores are
 * exact products of bytes; probabilities keep 12 bits and values 11 (mixing 8-bit probabilities drops the many small
 * ones and shifted logits by 0.04), and 512 * 4095 * 1023 still fits in 31 bits. The key's bias is left out: it adds the same
 * amount to all scores of a query, which softmax does not see.
 */
#define PROBABILITY_MAX 4095
#define VALUE_MAX 1023
#define LOG2_PROBABILITY_MAX 11.99964774f
#define NO_SCORE (-3e38f) /* below all scores */
#define SCORE_FACTOR (1.44269504089f * 0.17677669530f) /* log2(e) / sqrt(HEAD) */

/* Symmetric bytes of one head's HEAD numbers in a tile row; returns the scale. */
static inline float head_bytes(const struct tile *tile, int r, vi q[HEAD / LANES])
{
    struct row row = row_of(tile, r);
    vf x[HEAD / LANES], most = vf_set(0.0f);
    for (int i = 0; i < HEAD / LANES; i++) {
        x[i] = dequantise(&row, i * LANES);
        most = vf_max(most, vf_abs(x[i]));
    }
    float largest = vf_largest(most);
    vf factor = vf_set(largest > NOTHING ? 127.0f / largest : 0.0f);
    for (int i = 0; i < HEAD / LANES; i++)
        q[i] = vi_round(vf_mul(x[i], factor));
    return largest > NOTHING ? largest / 127.0f : 1.0f;
}

static void project_query(const struct linear *linear, int panel, struct bytes from, int rows, uint8_t *q, float *scale)
{
    struct tile tile = {linear, from, panel, rows, 0, 0};
    while (next_tile(&tile)) {
        for (int r = 0; r < tile.rows; r++) {
            vi x[HEAD / LANES];
            scale[tile.row + r] = head_bytes(&tile, r, x) * SCORE_FACTOR;
            for (int i = 0; i < HEAD / LANES; i++)
                x[i] = vi_add(x[i], vi_set(128));
            bytes_store(q + (tile.row + r) * HEAD, x);
        }
    }
}

static void project_key(const struct linear *linear, int panel, struct bytes from, int rows, int8_t *k, float *scale,
                        int32_t *start)
{
    struct tile tile = {linear, from, panel, rows, 0, 0};
    while (next_tile(&tile)) {
        for (int r = 0; r < tile.rows; r++) {
            vi x[HEAD / LANES], sum = vi_set(0);
            scale[tile.row + r] = head_bytes(&tile, r, x);
            bytes_store((uint8_t *)k + (tile.row + r) * HEAD, x);
            for (int i = 0; i < HEAD / LANES; i++)
                sum = vi_add(sum, x[i]);
            start[tile.row + r] = -128 * vi_sum(sum);
        }
    }
}

static void project_value(const struct linear *linear, int panel, struct bytes from, int rows, float *v)
{
    struct tile tile = {linear, from, panel, rows, 0, 0};
    while (next_tile(&tile)) {
        for (int r = 0; r < tile.rows; r++) {
            struct row row = row_of(&tile, r);
            for (int c = 0; c < HEAD; c += LANES)
                vf_store(v + (tile.row + r) * HEAD + c, dequantise(&row, c));
        }
    }
}

/* Values as 16-bit pairs of neighbouring tokens, [pairs][HEAD][2], one scale a dimension. */
static void pack_values(const struct head *head, int32_t *pairs, float *scale)
{
    for (int c = 0; c < HEAD; c += LANES) {
        vf most = vf_set(NOTHING);
        for (int j = 0; j < head->keys; j++)
            most = vf_max(most, vf_abs(vf_load(head->value + j * HEAD + c)));
        vf factor = vf_div(vf_set(VALUE_MAX), most);
        vf_store(scale + c, vf_div(most, vf_set(VALUE_MAX)));
        for (int j = 0; j < head->keys; j += 2) {
            vi low = vi_round(vf_mul(vf_load(head->value + j * HEAD + c), factor)), high = vi_set(0);
            if (j + 1 < head->keys)
                high = vi_round(vf_mul(vf_load(head->value + (j + 1) * HEAD + c), factor));
            vi_store(pairs + j / 2 * HEAD + c, vi_pair(low, high));
        }
    }
}

/* Inlined together, these loops would crowd each other out of the registers. */
#define OWN_REGISTERS __attribute__((noinline))

#define QUERIES (QUERY_VECTORS * LANES) /* that are worked on together */
#include SCORES

/* Softmax without its division: integers of at most PROBABILITY_MAX in pairs of keys, [pairs][QUERIES][2]. */
static OWN_REGISTERS void weigh_keys(const float *scores, int keys, const vf most[QUERY_VECTORS], int32_t *weights)
{
    for (int v = 0; v < QUERY_VECTORS; v++, scores += LANES, weights += LANES) {
        vf shift = vf_sub(most[v], vf_set(LOG2_PROBABILITY_MAX));
        int j = 0;
        for (; j + 1 < keys; j += 2) {
            vi low = vi_round(vf_exp2(vf_sub(vf_load(scores + j * QUERIES), shift)));
            vi high = vi_round(vf_exp2(vf_sub(vf_load(scores + (j + 1) * QUERIES), shift)));
            vi_store(weights + j / 2 * QUERIES, vi_pair(low, high));
        }
        if (j < keys)
            vi_store(weights + j / 2 * QUERIES, vi_round(vf_exp2(vf_sub(vf_load(scores + j * QUERIES), shift))));
    }
}

#define MIX_ZERO(d) vi a##d = vi_set(0);
#define MIX_STEP(d) a##d = dot2_same(a##d, p, value + d);
#define MIX_STORE(d, sums, v) \
    vf_store(out + d * QUERIES + v * LANES, vf_mul(vf_from(sums##d), vf_mul(inverse[v], vf_set(scale[d]))));
#define MIX_STORE_A(d) MIX_STORE(d, a, 0)
#define MIX_ZERO_B(d) vi b##d = vi_set(0);
#define MIX_STORE_B(d) MIX_STORE(d, b, 1)
#define MIX_EACH_(N, X) ROWS_##N(X)
#define MIX_EACH(N, X) MIX_EACH_(N, X)

/* MIX_COLUMNS dimensions of QUERIES mixed values, [dimension][QUERIES]. */
static OWN_REGISTERS void mix(const int32_t *weights, const int32_t *value, int pairs, const vf inverse[QUERY_VECTORS], const float *scale,
                float *out)
{
    MIX_EACH(MIX_COLUMNS, MIX_ZERO)
#if QUERY_VECTORS == 1
    for (int j = 0; j < pairs; j++, weights += QUERIES, value += HEAD) {
        vi p = vi_load(weights);
        MIX_EACH(MIX_COLUMNS, MIX_STEP)
    }
#else
    MIX_EACH(MIX_COLUMNS, MIX_ZERO_B)
    DOTS(weights, value, pairs, 4, 128)
    MIX_EACH(MIX_COLUMNS, MIX_STORE_B)
#endif
    MIX_EACH(MIX_COLUMNS, MIX_STORE_A)
}

static vf inverse_of_sum(const int32_t *weights, int pairs)
{
    vi sum = vi_set(0);
    const int32_t ones = 0x00010001;
    for (int j = 0; j < pairs; j++)
        sum = dot2_same(sum, vi_load(weights + j * QUERIES), &ones);
    return vf_div(vf_set(1.0f), vf_from(sum));
}

/* [HEAD][QUERIES] to rows of HEAD numbers. */
static void turn_back(const float *mixed, int count, float *out, int stride)
{
    for (int c = 0; c < HEAD; c += LANES) {
        vf block[LANES];
        for (int i = 0; i < LANES; i++)
            block[i] = vf_load(mixed + (c + i) * QUERIES);
        vf_transpose(block);
        for (int i = 0; i < LANES; i++)
            if (i < count)
                vf_store(out + (size_t)i * stride + c, block[i]);
    }
}

static void attend(const struct head *head, float *out, int stride, void *scratch)
{
    float *scores = scratch; /* [keys][QUERIES] */
    int32_t *weights = (int32_t *)(scores + MAX_TOKENS * QUERIES);
    int32_t *values = weights + MAX_TOKENS / 2 * QUERIES;
    int32_t *keys = values + MAX_TOKENS / 2 * HEAD;
    float *value_scale = (float *)(keys + KEY_NUMBERS * MAX_TOKENS), *mixed = value_scale + HEAD;
    int32_t *query = (int32_t *)(mixed + HEAD * QUERIES);
    float *query_scale = (float *)(query + QUERY_NUMBERS * QUERIES);
    int pairs = (head->keys + 1) / 2;
    pack_values(head, values, value_scale);
    turn_keys(head, keys);
    for (int first = 0; first < head->queries; first += QUERIES) {
        int count = head->queries - first < QUERIES ? head->queries - first : QUERIES;
        vf most[QUERY_VECTORS], inverse[QUERY_VECTORS];
        memset(query, 0, sizeof(int32_t) * (QUERY_NUMBERS + 1) * QUERIES);
        turn_queries(head->query + first * HEAD, count, query);
        memcpy(query_scale, head->query_scale + first, sizeof(float) * count);
        score_keys(head, keys, query, query_scale, scores, most);
        weigh_keys(scores, head->keys, most, weights);
        for (int v = 0; v < QUERY_VECTORS; v++)
            inverse[v] = inverse_of_sum(weights + v * LANES, pairs);
        for (int c = 0; c < HEAD; c += MIX_COLUMNS)
            mix(weights, values + c, pairs, inverse, value_scale + c, mixed + c * QUERIES);
        for (int v = 0; v * LANES < count; v++)
            turn_back(mixed + v * LANES, count - v * LANES, out + (size_t)(first + v * LANES) * stride, stride);
    }
}
