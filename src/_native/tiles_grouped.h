/* Products of a tile with AVX2, exact at nearly the rate of vpmaddubsw.
 *
 * vpmaddubsw multiplies 32 pairs of bytes and adds neighbours in 16 bits, where the sums may saturate; vpmaddwd widens
 * to 32 bits for another multiplication. But the weights are known when they are packed. As long as two weights of one
 * sign that meet in a product add up to at most PAIR_LIMIT, no activations can saturate it (255 * 128 = 32640). Sums of
 * such products may wrap around: where a lane's weights, without their signs, add up to at most SPAN_LIMIT, its sum is
 * one of 65536 numbers, and 16 bits tell which (255 * 257 = 65535). So quads of inputs are dealt into groups that keep
 * to this limit, each lane starts from an offset that puts its lowest sum at -32768, and only a group's total is
 * widened. The offsets of all groups are taken off where the 32-bit sums begin. Most trained weights are small: groups
 * of the cross-encoder hold four to a hundred quads.
 *
 * Which inputs of a quad meet in a product is a choice of three: in order, or after a shuffle of the broadcast quad,
 * which costs little. A quad whose weights break the limit in each is kept as 16-bit numbers and multiplied by vpmaddwd.
 *
 * A strip is half a panel, COLUMNS columns, packed as struct strip, then int32 sizes[groups], int32 places[quads + wide]
 * (where in a row a quad begins, plus its pairing), then 128 bytes for each wide quad, [2][COLUMNS][2] 16-bit numbers, of
 * the even inputs and of the odd ones; then for each group 64 bytes of offsets and 64 for each quad [COLUMNS][4]. All are
 * in the order of use: wide quads, groups in order, shuffled groups, each from the smallest to the largest, so that the
 * processor can tell when a loop ends.
 */

#define COLUMNS (2 * LANES)
#define SUMS (2 * COLUMNS) /* 16-bit sums of a strip */
#define QUAD_BYTES (4 * COLUMNS)
#define PAIR_LIMIT 128
#define SPAN_LIMIT 257
#define PAIRINGS 3

/* Inputs of a quad in the order in which they are multiplied: the first two meet, and the last two. */
static const uint8_t pairings[PAIRINGS][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {0, 3, 1, 2}};

struct strip {
    int32_t plain, shuffled, quads, wide, bytes; /* groups of both kinds, quads in them, others; bytes of the strip */
    int32_t start[COLUMNS];                      /* what the sums begin with */
};

#define HEAD_BYTES(groups, quads) ((sizeof(struct strip) + sizeof(int32_t) * ((size_t)(groups) + (quads)) + 63) / 64 * 64)

/* What quads can add to each 16-bit sum of a strip, those of the first pairs, then those of the second: weights without
 * their signs, and the negative ones among them. */
struct load {
    int16_t span[SUMS], down[SUMS];
};

/* ---- packing ---- */

/* The load of a quad, rows w, w + width, ... of a matrix, under a pairing; 0 when one of its products could saturate. */
static int load_of(const int8_t *w, ptrdiff_t width, const uint8_t *order, struct load *load)
{
    int16_t over = 0;
    for (int pair = 0; pair < 2; pair++) {
        const int8_t *one = w + order[2 * pair] * width, *other = w + order[2 * pair + 1] * width;
        int16_t *span = load->span + pair * COLUMNS, *downs = load->down + pair * COLUMNS;
        for (int c = 0; c < COLUMNS; c++) {
            int16_t a = one[c], b = other[c], up = (a > 0 ? a : 0) + (b > 0 ? b : 0), down = up - a - b;
            span[c] = up + down;
            downs[c] = down;
            over |= (up > PAIR_LIMIT) | (down > PAIR_LIMIT);
        }
    }
    return !over;
}

/* Adds a quad's load to a group's if it fits. */
static int fits(struct load *group, const struct load *quad)
{
    int16_t over = 0;
    for (int i = 0; i < SUMS; i++)
        over |= (int16_t)(group->span[i] + quad->span[i]) > SPAN_LIMIT;
    if (over)
        return 0;
    for (int i = 0; i < SUMS; i++) {
        group->span[i] += quad->span[i];
        group->down[i] += quad->down[i];
    }
    return 1;
}

/* A quad of inputs: where it begins, how its inputs are paired, and the group that has it, -1 for none. */
struct dealt {
    int place, pairing, heaviest, group;
};

static struct dealt quad_of(const int8_t *matrix, int width, int place, struct load *load)
{
    struct dealt quad = {place, 0, 0, -1};
    int16_t heaviest = 0;
    while (quad.pairing < PAIRINGS && !load_of(matrix + (ptrdiff_t)place * width, width, pairings[quad.pairing], load))
        quad.pairing++;
    for (int i = 0; i < SUMS; i++)
        heaviest = load->span[i] > heaviest ? load->span[i] : heaviest;
    quad.heaviest = heaviest;
    return quad;
}

/* The kind of groups that may have a quad. */
enum kind { WIDE, PLAIN, SHUFFLED };

static enum kind kind_of(const struct dealt *quad)
{
    return quad->pairing == PAIRINGS ? WIDE : quad->pairing ? SHUFFLED : PLAIN;
}

static int by_heaviest(const void *a, const void *b)
{
    const struct dealt *x = a, *y = b;
    return x->heaviest != y->heaviest ? y->heaviest - x->heaviest : x->place - y->place;
}

static int by_group(const void *a, const void *b)
{
    const struct dealt *x = a, *y = b;
    return x->group != y->group ? x->group - y->group : x->place - y->place;
}

struct group_of_quads {
    struct load load;
    enum kind kind;
    int quads, number;
};

/* Groups in the order of use. */
static int by_size(const void *a, const void *b)
{
    const struct group_of_quads *x = a, *y = b;
    if (x->kind != y->kind)
        return (int)x->kind - (int)y->kind;
    return x->quads != y->quads ? x->quads - y->quads : x->number - y->number;
}

/* Deals quads into groups, the heaviest first, each into the first group with room; returns how many groups there are.
 * `ranks` is room for as many numbers as there are quads. */
static int deal(struct dealt *dealt, const struct load *loads, int quads, struct group_of_quads *groups, int *ranks)
{
    int count = 0;
    qsort(dealt, quads, sizeof *dealt, by_heaviest);
    for (int i = 0; i < quads; i++) {
        enum kind kind = kind_of(dealt + i);
        const struct load *load = loads + dealt[i].place / 4;
        int group = 0;
        if (kind == WIDE)
            continue;
        while (group < count && (groups[group].kind != kind || !fits(&groups[group].load, load)))
            group++;
        if (group == count)
            groups[count++] = (struct group_of_quads){*load, kind, 0, group};
        groups[group].quads++;
        dealt[i].group = group;
    }
    qsort(groups, count, sizeof *groups, by_size);
    for (int i = 0; i < count; i++)
        ranks[groups[i].number] = i;
    for (int i = 0; i < quads; i++)
        if (dealt[i].group >= 0)
            dealt[i].group = ranks[dealt[i].group];
    qsort(dealt, quads, sizeof *dealt, by_group);
    return count;
}

static int8_t *write_quad(const int8_t *matrix, int width, const struct dealt *quad, int8_t *to)
{
    for (int c = 0; c < COLUMNS; c++)
        for (int i = 0; i < 4; i++)
            *to++ = matrix[(ptrdiff_t)(quad->place + pairings[quad->pairing][i]) * width + c];
    return to;
}

static int8_t *write_wide(const int8_t *matrix, int width, int k, int8_t *to)
{
    int16_t *numbers = (int16_t *)to;
    for (int odd = 0; odd < 2; odd++)
        for (int c = 0; c < COLUMNS; c++)
            for (int i = 0; i < 2; i++)
                *numbers++ = matrix[(ptrdiff_t)(k + 2 * i + odd) * width + c];
    return to + 2 * QUAD_BYTES;
}

/* Where the 16-bit sums of a group start, and the opposite to where the 32-bit sums do. */
static int8_t *write_offsets(const struct load *group, int32_t *start, int8_t *to)
{
    int16_t *numbers = (int16_t *)to;
    for (int i = 0; i < SUMS; i++) {
        int column = i % COLUMNS, offset = 255 * group->down[i] - 32768;
        numbers[2 * column + i / COLUMNS] = (int16_t)offset;
        start[column] -= offset;
    }
    return to + QUAD_BYTES;
}

static size_t write_strip(const int8_t *matrix, int width, const struct dealt *dealt, int quads,
                          const struct group_of_quads *groups, int count, int8_t *to)
{
    struct strip *strip = (struct strip *)to;
    int8_t *w = to + HEAD_BYTES(count, quads);
    int32_t *sizes = (int32_t *)(strip + 1), *places = sizes + count;
    memset(to, 0, w - to);
    for (; quads && dealt->group < 0; dealt++, quads--, strip->wide++) {
        *places++ = dealt->place;
        w = write_wide(matrix, width, dealt->place, w);
    }
    strip->quads = quads;
    for (int i = 0; i < count; i++) {
        *sizes++ = groups[i].quads;
        strip->plain += groups[i].kind == PLAIN;
        strip->shuffled += groups[i].kind == SHUFFLED;
        w = write_offsets(&groups[i].load, strip->start, w);
        for (int q = 0; q < groups[i].quads; q++, dealt++) {
            *places++ = dealt->place + dealt->pairing;
            w = write_quad(matrix, width, dealt, w);
        }
    }
    strip->bytes = (int32_t)(w - to);
    return w - to;
}

static size_t pack_strip(const int8_t *matrix, int in, int width, int8_t *to)
{
    int quads = in / 4;
    size_t bytes = 0;
    struct load *loads = malloc(quads * sizeof *loads);
    struct dealt *dealt = malloc(quads * sizeof *dealt);
    struct group_of_quads *groups = malloc(quads * sizeof *groups);
    int *ranks = malloc(quads * sizeof *ranks);
    if (loads && dealt && groups && ranks) {
        for (int i = 0; i < quads; i++)
            dealt[i] = quad_of(matrix, width, 4 * i, loads + i);
        int count = deal(dealt, loads, quads, groups, ranks);
        bytes = write_strip(matrix, width, dealt, quads, groups, count, to);
    }
    free(loads);
    free(dealt);
    free(groups);
    free(ranks);
    return bytes;
}

/* Packs columns column .. column + PANEL - 1 of a matrix [in][width] to `to`; returns the bytes used, 0 without memory. */
static size_t pack_panel(const int8_t *matrix, int in, int width, int column, int8_t *to)
{
    size_t used = 0;
    for (int c = 0; c < PANEL; c += COLUMNS) {
        size_t bytes = pack_strip(matrix + column + c, in, width, to + used);
        if (!bytes)
            return 0;
        used += bytes;
    }
    return used;
}

/* ---- multiplying ----
 *
 * Six rows by two vectors of sums leave four registers: two of weights, two to work in. gcc would spill most of them, so a
 * step is asm; its operands say all that it reads and writes.
 */

static const int16_t ones[16] __attribute__((aligned(32))) = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static const int16_t low_bytes[16] __attribute__((aligned(32))) = {
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
};

/* What vpshufb makes of a broadcast quad, for each pairing. */
#define SHUFFLE_QUADS(a, b, c, d) \
    a, b, c, d, 4 + a, 4 + b, 4 + c, 4 + d, 8 + a, 8 + b, 8 + c, 8 + d, 12 + a, 12 + b, 12 + c, 12 + d
#define SHUFFLE(...) {SHUFFLE_QUADS(__VA_ARGS__), SHUFFLE_QUADS(__VA_ARGS__)}
static const uint8_t shuffles[PAIRINGS][32] __attribute__((aligned(32))) = {
    SHUFFLE(0, 1, 2, 3), SHUFFLE(0, 2, 1, 3), SHUFFLE(0, 3, 1, 2),
};

#define VECTOR(p) "m"(*(const __m256i *)(p))
#define QUAD(r) "m"(*(const int32_t *)(a + (r) * stride + at))

#define WIDE_START(r) \
    __m256i left##r = vi_load(strip->start), right##r = vi_load(strip->start + LANES);
/* x is what turns bytes into 16-bit numbers: the low ones by a mask, the high ones by a shift. */
#define WIDE_STEP(r, ...) \
    { \
        __m256i x, product; \
        __asm__("vpbroadcastd %[quad], %[x]\n\t" __VA_ARGS__ ", %[x], %[x]\n\t" \
                "vpmaddwd %[w0], %[x], %[product]\n\t" \
                "vpaddd %[product], %[left], %[left]\n\t" \
                "vpmaddwd %[w1], %[x], %[x]\n\t" \
                "vpaddd %[x], %[right], %[right]" \
                : [left] "+x"(left##r), [right] "+x"(right##r), [x] "=&x"(x), [product] "=&x"(product) \
                : [quad] QUAD(r), [low] VECTOR(low_bytes), [w0] "x"(w0), [w1] "x"(w1)); \
    }
#define WIDE_EVEN(r) WIDE_STEP(r, "vpand %[low]")
#define WIDE_ODD(r) WIDE_STEP(r, "vpsrlw $8")
#define SUMS_STORE(r) \
    vi_store(sums + r * PANEL, left##r); \
    vi_store(sums + r * PANEL + LANES, right##r);

/* The first quad of a group, and each one after it; ORDER is nothing, or the shuffle of the broadcast quad. */
#define START(r, ORDER, ...) \
    __asm__("vpbroadcastd %[quad], %[right]\n\t" ORDER("right") \
            "vpmaddubsw %[w0], %[right], %[left]\n\t" \
            "vpaddw %[start0], %[left], %[left]\n\t" \
            "vpmaddubsw %[w1], %[right], %[right]\n\t" \
            "vpaddw %[start1], %[right], %[right]" \
            : [left] "=&x"(left##r), [right] "=&x"(right##r) \
            : [quad] QUAD(r), [w0] "x"(w0), [w1] "x"(w1), [start0] "x"(start0), [start1] "x"(start1) __VA_ARGS__);
#define STEP(r, ORDER, ...) \
    { \
        __m256i x, product; \
        __asm__("vpbroadcastd %[quad], %[x]\n\t" ORDER("x") \
                "vpmaddubsw %[w0], %[x], %[product]\n\t" \
                "vpaddw %[product], %[left], %[left]\n\t" \
                "vpmaddubsw %[w1], %[x], %[x]\n\t" \
                "vpaddw %[x], %[right], %[right]" \
                : [left] "+x"(left##r), [right] "+x"(right##r), [x] "=&x"(x), [product] "=&x"(product) \
                : [quad] QUAD(r), [w0] "x"(w0), [w1] "x"(w1) __VA_ARGS__); \
    }
#define IN_ORDER(x) ""
#define IN_PAIRS(x) "vpshufb %[shuffle], %[" x "], %[" x "]\n\t"
#define PLAIN_START(r) START(r, IN_ORDER)
#define PLAIN_STEP(r) STEP(r, IN_ORDER)
#define SHUFFLED_START(r) START(r, IN_PAIRS, , [shuffle] VECTOR(shuffle))
#define SHUFFLED_STEP(r) STEP(r, IN_PAIRS, , [shuffle] VECTOR(shuffle))
#define WIDEN(terms, to) \
    __asm__("vpmaddwd %[ones], %[half], %[half]\n\t" \
            "vpaddd %[sum], %[half], %[half]\n\t" \
            "vmovdqa %[half], %[sum]" \
            : [half] "+x"(terms), [sum] "+m"(*(__m256i *)(to)) \
            : [ones] VECTOR(ones));
#define GROUP_WIDEN(r) \
    WIDEN(left##r, sums + r * PANEL) \
    WIDEN(right##r, sums + r * PANEL + LANES)
#define HALVES(r) __m256i left##r, right##r;

#define PLAIN_PLACE ptrdiff_t at = *place;
#define SHUFFLED_PLACE \
    ptrdiff_t at = *place & -4; \
    const uint8_t *shuffle = shuffles[*place & 3];
#define QUAD_STEP(ROWS, PLACE, WITH) \
    { \
        PLACE \
        __m256i w0 = bytes_load(w), w1 = bytes_load(w + 32); \
        ROWS_##ROWS(WITH) \
        place++, w += QUAD_BYTES; \
    }
#define GROUPS(ROWS, KIND, COUNT) \
    for (const int32_t *end = size + (COUNT); size < end; size++) { \
        const int32_t *last = place + *size; \
        __m256i start0 = bytes_load(w), start1 = bytes_load(w + 32); \
        ROWS_##ROWS(HALVES) \
        w += QUAD_BYTES; \
        QUAD_STEP(ROWS, KIND##_PLACE, KIND##_START) \
        while (place < last) \
            QUAD_STEP(ROWS, KIND##_PLACE, KIND##_STEP) \
        ROWS_##ROWS(GROUP_WIDEN) \
    }

#define TILE(ROWS) \
    static void tile_##ROWS(const struct strip *strip, const uint8_t *a, ptrdiff_t stride, int32_t *sums) \
    { \
        int groups = strip->plain + strip->shuffled; \
        const int32_t *size = (const int32_t *)(strip + 1), *place = size + groups; \
        const int8_t *w = (const int8_t *)strip + HEAD_BYTES(groups, strip->quads + strip->wide); \
        { \
            ROWS_##ROWS(WIDE_START) \
            for (const int32_t *last = place + strip->wide; place < last; place++, w += 2 * QUAD_BYTES) { \
                ptrdiff_t at = *place; \
                __m256i w0 = bytes_load(w), w1 = bytes_load(w + 32); \
                ROWS_##ROWS(WIDE_EVEN) \
                w0 = bytes_load(w + 64), w1 = bytes_load(w + 96); \
                ROWS_##ROWS(WIDE_ODD) \
            } \
            ROWS_##ROWS(SUMS_STORE) \
        } \
        GROUPS(ROWS, PLAIN, strip->plain) \
        GROUPS(ROWS, SHUFFLED, strip->shuffled) \
    }

static inline __m256i bytes_load(const int8_t *p) { return _mm256_load_si256((const __m256i *)p); }

typedef void tile_function(const struct strip *, const uint8_t *, ptrdiff_t, int32_t *);

TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)

static tile_function *const tiles[TILE_ROWS + 1] = {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};

/* Sums [rows][PANEL] of `rows` rows of bytes with a packed panel. */
static inline void multiply(const int8_t *panel, const uint8_t *a, int depth, int rows, int32_t *sums)
{
    for (int column = 0; column < PANEL; column += COLUMNS) {
        const struct strip *strip = (const struct strip *)panel;
        tiles[rows](strip, a, depth, sums + column);
        panel += strip->bytes;
    }
}
