/* Attention of one head over one sequence.
 *
 * A lane is a query: LANES queries go through scores, softmax and mixing together, and no step crosses lanes. Scores are
 * exact products of bytes; probabilities keep 12 bits and values 11 (mixing 8-bit probabilities drops the many small
 * ones and shifted logits by 0.04), and 512 * 4095 * 1023 still fits in 31 bits. The key's bias is left out: it adds the same
 * amount to all scores of a query, which softmax does not see.
 */
#define PROBABILITY_MAX 4095
#define VALUE_MAX 1023
#define LOG2_PROBABILITY_MAX 11.99964774f
#define SCORE_FACTOR (1.44269504089f * 0.17677669530f) /* log2(e) / sqrt(HEAD) */

/* Symmetric bytes of one head's HEAD numbers in a tile row; returns the scale. */
static inline float head_bytes(const struct tile *tile, int r, vi q[HEAD / LANES])
{
    vf x[HEAD / LANES], most = vf_set(0.0f);
    for (int i = 0; i < HEAD / LANES; i++) {
        x[i] = dequantise(tile, r, i * LANES);
        most = vf_max(most, vf_abs(x[i]));
    }
    float largest = vf_largest(most);
    vf factor = vf_set(largest > 1e-30f ? 127.0f / largest : 0.0f);
    for (int i = 0; i < HEAD / LANES; i++)
        q[i] = vi_round(vf_mul(x[i], factor));
    return largest > 1e-30f ? largest / 127.0f : 1.0f;
}

static void project_query(const struct linear *linear, int panel, struct bytes from, int rows, uint8_t *q, float *scale)
{
    struct tile tile = {linear, from, panel, rows, 0, 0};
    while (next_tile(&tile)) {
        for (int r = 0; r < tile.rows; r++) {
            vi x[HEAD / LANES];
            scale[tile.row + r] = head_bytes(&tile, r, x) * SCORE_FACTOR;
            for (int i = 0; i < HEAD / LANES; i++)
                vi_store_bytes(q + (tile.row + r) * HEAD + i * LANES, vi_add(x[i], vi_set(128)));
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
            for (int i = 0; i < HEAD / LANES; i++) {
                vi_store_bytes((uint8_t *)k + (tile.row + r) * HEAD + i * LANES, x[i]);
                sum = vi_add(sum, x[i]);
            }
            start[tile.row + r] = -128 * vi_sum(sum);
        }
    }
}

static void project_value(const struct linear *linear, int panel, struct bytes from, int rows, float *v)
{
    struct tile tile = {linear, from, panel, rows, 0, 0};
    while (next_tile(&tile)) {
        for (int r = 0; r < tile.rows; r++)
            for (int c = 0; c < HEAD; c += LANES)
                vf_store(v + (tile.row + r) * HEAD + c, dequantise(&tile, r, c));
    }
}

/* Values as 16-bit pairs of neighbouring tokens, [pairs][HEAD][2], one scale a dimension. */
static void pack_values(const struct head *head, int32_t *pairs, float *scale)
{
    for (int c = 0; c < HEAD; c += LANES) {
        vf most = vf_set(1e-30f);
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

/* LANES queries, transposed so that a lane holds four bytes of its query: [HEAD / 4][LANES][4]. */
static void turn_queries(const uint8_t *query, int count, int32_t *to)
{
    for (int lane = 0; lane < count; lane++)
        for (int k = 0; k < HEAD / 4; k++)
            memcpy(to + k * LANES + lane, query + lane * HEAD + 4 * k, 4);
}

/* Scores as exponents of two, [keys][LANES]; returns each lane's largest. */
static vf score_keys(const struct head *head, const int32_t *query, vf scale, float *scores)
{
    vf most = vf_set(-3e38f);
    bytes_u q0 = bytes_u_load(query), q1 = bytes_u_load(query + LANES);
    bytes_u q2 = bytes_u_load(query + 2 * LANES), q3 = bytes_u_load(query + 3 * LANES);
    bytes_u q4 = bytes_u_load(query + 4 * LANES), q5 = bytes_u_load(query + 5 * LANES);
    bytes_u q6 = bytes_u_load(query + 6 * LANES), q7 = bytes_u_load(query + 7 * LANES);
    for (int j = 0; j < head->keys; j++) {
        const int8_t *key = head->key + j * HEAD;
        vi a = dot4_same(vi_set(head->key_start[j]), q0, key);
        vi b = dot4_same(vi_set(0), q1, key + 4);
        a = dot4_same(a, q2, key + 8);
        b = dot4_same(b, q3, key + 12);
        a = dot4_same(a, q4, key + 16);
        b = dot4_same(b, q5, key + 20);
        a = dot4_same(a, q6, key + 24);
        b = dot4_same(b, q7, key + 28);
        vf score = vf_mul(vf_from(vi_add(a, b)), vf_mul(scale, vf_set(head->key_scale[j])));
        vf_store(scores + j * LANES, score);
        most = vf_max(most, score);
    }
    return most;
}

/* Softmax without its division: integers of at most PROBABILITY_MAX in pairs of keys, [pairs][LANES][2]. */
static void weigh_keys(const float *scores, int keys, vf most, int32_t *weights)
{
    vf shift = vf_sub(most, vf_set(LOG2_PROBABILITY_MAX));
    int j = 0;
    for (; j + 1 < keys; j += 2) {
        vi low = vi_round(vf_exp2(vf_sub(vf_load(scores + j * LANES), shift)));
        vi high = vi_round(vf_exp2(vf_sub(vf_load(scores + (j + 1) * LANES), shift)));
        vi_store(weights + j / 2 * LANES, vi_pair(low, high));
    }
    if (j < keys)
        vi_store(weights + j / 2 * LANES, vi_round(vf_exp2(vf_sub(vf_load(scores + j * LANES), shift))));
}

#define MIX_ZERO(d) vi sum##d = vi_set(0);
#define MIX_STEP(d) sum##d = dot2_same(sum##d, p, value + d);
#define MIX_STORE(d) vf_store(out + d * LANES, vf_mul(vf_from(sum##d), vf_mul(inverse, vf_set(scale[d]))));
#define MIX_EACH_(N, X) ROWS_##N(X)
#define MIX_EACH(N, X) MIX_EACH_(N, X)

/* MIX_COLUMNS dimensions of LANES mixed values, [dimension][LANES]. */
static void mix(const int32_t *weights, const int32_t *value, int pairs, vf inverse, const float *scale, float *out)
{
    MIX_EACH(MIX_COLUMNS, MIX_ZERO)
    for (int j = 0; j < pairs; j++, weights += LANES, value += HEAD) {
        vi p = vi_load(weights);
        MIX_EACH(MIX_COLUMNS, MIX_STEP)
    }
    MIX_EACH(MIX_COLUMNS, MIX_STORE)
}

static vf inverse_of_sum(const int32_t *weights, int pairs)
{
    vi sum = vi_set(0);
    const int32_t ones = 0x00010001;
    for (int j = 0; j < pairs; j++)
        sum = dot2_same(sum, vi_load(weights + j * LANES), &ones);
    return vf_div(vf_set(1.0f), vf_from(sum));
}

/* [HEAD][LANES] to rows of HEAD numbers. */
static void turn_back(const float *mixed, int count, float *out, int stride)
{
    for (int c = 0; c < HEAD; c += LANES) {
        vf block[LANES];
        for (int i = 0; i < LANES; i++)
            block[i] = vf_load(mixed + (c + i) * LANES);
        vf_transpose(block);
        for (int i = 0; i < LANES; i++)
            if (i < count)
                vf_store(out + (size_t)i * stride + c, block[i]);
    }
}

static void attend(const struct head *head, float *out, int stride, void *scratch)
{
    float *scores = scratch; /* [keys][LANES] */
    int32_t *weights = (int32_t *)(scores + MAX_TOKENS * LANES);
    int32_t *values = weights + MAX_TOKENS / 2 * LANES;
    float *value_scale = (float *)(values + MAX_TOKENS / 2 * HEAD), *mixed = value_scale + HEAD;
    int32_t *query = (int32_t *)(mixed + HEAD * LANES);
    float *query_scale = (float *)(query + HEAD / 4 * LANES);
    int pairs = (head->keys + 1) / 2;
    pack_values(head, values, value_scale);
    for (int first = 0; first < head->queries; first += LANES) {
        int count = head->queries - first < LANES ? head->queries - first : LANES;
        memset(query, 0, sizeof(int32_t) * (HEAD / 4 + 1) * LANES);
        turn_queries(head->query + first * HEAD, count, query);
        memcpy(query_scale, head->query_scale + first, sizeof(float) * count);
        vf most = score_keys(head, query, vf_load(query_scale), scores);
        weigh_keys(scores, head->keys, most, weights);
        vf inverse = inverse_of_sum(weights, pairs);
        for (int c = 0; c < HEAD; c += MIX_COLUMNS)
            mix(weights, values + c, pairs, inverse, value_scale + c, mixed + c * LANES);
        turn_back(mixed, count, out + (size_t)first * stride, stride);
    }
}
