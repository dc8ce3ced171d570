/* Scores of keys as products of bytes, with dot4_same: AVX-512 VNNI, and plain C. QUERY_VECTORS is 1. */

#define QUERY_NUMBERS (HEAD / 4) /* 32-bit numbers of a query */
#define KEY_NUMBERS 0            /* of a copy of the keys: they are used as they are */

static void turn_keys(const struct head *head, int32_t *to) { (void)head, (void)to; }

/* Queries transposed, so that a lane holds four bytes of its query: [HEAD / 4][QUERIES][4]. */
static void turn_queries(const uint8_t *query, int count, int32_t *to)
{
    for (int lane = 0; lane < count; lane++)
        for (int k = 0; k < HEAD / 4; k++)
            memcpy(to + k * QUERIES + lane, query + lane * HEAD + 4 * k, 4);
}

/* Scores as exponents of two, [keys][QUERIES], and the largest of each lane. */
static OWN_REGISTERS void score_keys(const struct head *head, const int32_t *keys, const int32_t *query, const float *query_scale,
                       float *scores, vf most[QUERY_VECTORS])
{
    vf scale = vf_load(query_scale), largest = vf_set(NO_SCORE);
    bytes_u q0 = bytes_u_load(query), q1 = bytes_u_load(query + LANES);
    bytes_u q2 = bytes_u_load(query + 2 * LANES), q3 = bytes_u_load(query + 3 * LANES);
    bytes_u q4 = bytes_u_load(query + 4 * LANES), q5 = bytes_u_load(query + 5 * LANES);
    bytes_u q6 = bytes_u_load(query + 6 * LANES), q7 = bytes_u_load(query + 7 * LANES);
    (void)keys;
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
        largest = vf_max(largest, score);
    }
    most[0] = largest;
}
