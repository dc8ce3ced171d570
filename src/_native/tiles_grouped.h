/* Products of a tile with AVX2, exact at nearly the rate of vpmaddubsw.
 *
 * vpmaddubsw multiplies 32 pairs of bytes and adds neighbours in 16 bits, where the sums may saturate; vpmaddwd widens
 * to 32 bits for another multiplication. But the weights are known when they are packed: as long as the positive
 * weights that meet in one 16-bit sum add up to at most SUM_LIMIT, and the negative ones too, no activations can
 * overflow it (255 * 128 = 32640). So quads of inputs are dealt into groups that keep to this limit, and only a group's
 * total is widened. Most trained weights are small: groups of the cross-encoder hold three to a hundred quads. A quad
 * that breaks the limit by itself is kept as 16-bit numbers and multiplied by vpmaddwd alone.
 *
 * A strip is half a panel, COLUMNS columns, packed as struct strip, then int32 sizes[groups], int32 places[quads + wide]
 * (where in a row a quad begins), then 64 bytes for each grouped quad [COLUMNS][4], 128 for each wide one: [2][COLUMNS][2]
 * 16-bit numbers, of the even inputs and of the odd ones. Places and weights are in the order of use.
 */

#define COLUMNS (2 * LANES)
#define QUAD_BYTES (4 * COLUMNS)
#define SUM_LIMIT 128

struct strip {
    int32_t groups, quads, wide, bytes; /* bytes: of the strip with this head */
};

#define HEAD_BYTES(groups, quads) ((sizeof(struct strip) + sizeof(int32_t) * ((size_t)(groups) + (quads)) + 63) / 64 * 64)

/* What a quad can add to each 16-bit sum of a strip: of its positive weights and of its negative ones. */
struct load {
    uint8_t most[4 * COLUMNS];
};

/* ---- packing ---- */

static inline int8_t weight_at(const int8_t *matrix, int width, int k, int c) { return matrix[(size_t)k * width + c]; }

/* Returns the largest entry, which may exceed SUM_LIMIT (two weights of one sign: up to 256, kept as 255). */
static int load_of(const int8_t *matrix, int width, int k, struct load *load)
{
    int largest = 0;
    for (int c = 0; c < COLUMNS; c++)
        for (int half = 0; half < 2; half++) {
            int a = weight_at(matrix, width, k + 2 * half, c), b = weight_at(matrix, width, k + 2 * half + 1, c);
            int up = (a > 0 ? a : 0) + (b > 0 ? b : 0), down = (a < 0 ? -a : 0) + (b < 0 ? -b : 0);
            uint8_t *most = load->most + 4 * c + 2 * half;
            most[0] = (uint8_t)(up < 255 ? up : 255);
            most[1] = (uint8_t)(down < 255 ? down : 255);
            largest = up > largest ? up : largest;
            largest = down > largest ? down : largest;
        }
    return largest;
}

/* Adds a quad's load to a group's if it fits. */
static int fits(struct load *group, const struct load *quad)
{
    uint8_t over = 0;
    for (int i = 0; i < 4 * COLUMNS; i++)
        over |= (uint8_t)(group->most[i] + quad->most[i] > SUM_LIMIT);
    for (int i = 0; i < 4 * COLUMNS && !over; i++)
        group->most[i] += quad->most[i];
    return !over;
}

struct dealt {
    int place, largest, group;
};

static int by_largest(const void *a, const void *b)
{
    const struct dealt *x = a, *y = b;
    return x->largest != y->largest ? y->largest - x->largest : x->place - y->place;
}

static int by_group(const void *a, const void *b)
{
    const struct dealt *x = a, *y = b;
    return x->group != y->group ? x->group - y->group : x->place - y->place;
}

/* Deals quads into groups, the heaviest first, each into the first group that has room; -1 for wide ones. */
static int deal(const int8_t *matrix, int in, int width, struct dealt *dealt, struct load *loads, struct load *groups)
{
    int count = 0, quads = in / 4;
    for (int i = 0; i < quads; i++)
        dealt[i] = (struct dealt){4 * i, load_of(matrix, width, 4 * i, loads + i), -1};
    qsort(dealt, quads, sizeof *dealt, by_largest);
    for (int i = 0; i < quads; i++) {
        int group = 0;
        if (dealt[i].largest > SUM_LIMIT)
            continue;
        while (group < count && !fits(groups + group, loads + dealt[i].place / 4))
            group++;
        if (group == count)
            groups[count++] = loads[dealt[i].place / 4];
        dealt[i].group = group;
    }
    qsort(dealt, quads, sizeof *dealt, by_group);
    return count;
}

static void write_quad(const int8_t *matrix, int width, int k, int8_t *to)
{
    for (int c = 0; c < COLUMNS; c++)
        for (int i = 0; i < 4; i++)
            to[4 * c + i] = weight_at(matrix, width, k + i, c);
}

static void write_wide(const int8_t *matrix, int width, int k, int16_t *to)
{
    for (int odd = 0; odd < 2; odd++)
        for (int c = 0; c < COLUMNS; c++)
            for (int i = 0; i < 2; i++)
                *to++ = weight_at(matrix, width, k + 2 * i + odd, c);
}

static size_t pack_strip(const int8_t *matrix, int in, int width, int8_t *to)
{
    int quads = in / 4, wide = 0;
    struct load *loads = malloc(2 * quads * sizeof *loads);
    struct dealt *dealt = malloc(quads * sizeof *dealt);
    if (!loads || !dealt) {
        free(loads);
        free(dealt);
        return 0;
    }
    int groups = deal(matrix, in, width, dealt, loads, loads + quads);
    while (wide < quads && dealt[wide].group < 0)
        wide++;
    int8_t *w = to + HEAD_BYTES(groups, quads);
    int32_t *sizes = (int32_t *)(to + sizeof(struct strip)), *places = sizes + groups;
    memset(to, 0, w - to);
    for (int i = 0; i < quads; i++) {
        const struct dealt *quad = dealt + i;
        *places++ = quad->place;
        if (quad->group < 0) {
            write_wide(matrix, width, quad->place, (int16_t *)w);
            w += 2 * QUAD_BYTES;
        } else {
            sizes[quad->group]++;
            write_quad(matrix, width, quad->place, w);
            w += QUAD_BYTES;
        }
    }
    *(struct strip *)to = (struct strip){groups, quads - wide, wide, (int32_t)(w - to)};
    free(loads);
    free(dealt);
    return w - to;
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

#define QUAD(r) "m"(*(const int32_t *)(a + (r) * stride + *place))
#define VECTOR(p) "m"(*(const __m256i *)(p))

#define WIDE_ZERO(r) __m256i left##r = _mm256_setzero_si256(), right##r = _mm256_setzero_si256();
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
#define GROUP_START(r) \
    __asm__("vpbroadcastd %[quad], %[right]\n\t" \
            "vpmaddubsw %[w0], %[right], %[left]\n\t" \
            "vpmaddubsw %[w1], %[right], %[right]" \
            : [left] "=&x"(left##r), [right] "=&x"(right##r) \
            : [quad] QUAD(r), [w0] "x"(w0), [w1] "x"(w1));
#define GROUP_STEP(r) \
    { \
        __m256i x, product; \
        __asm__("vpbroadcastd %[quad], %[x]\n\t" \
                "vpmaddubsw %[w0], %[x], %[product]\n\t" \
                "vpaddw %[product], %[left], %[left]\n\t" \
                "vpmaddubsw %[w1], %[x], %[x]\n\t" \
                "vpaddw %[x], %[right], %[right]" \
                : [left] "+x"(left##r), [right] "+x"(right##r), [x] "=&x"(x), [product] "=&x"(product) \
                : [quad] QUAD(r), [w0] "x"(w0), [w1] "x"(w1)); \
    }
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

#define TILE(ROWS) \
    static void tile_##ROWS(const struct strip *strip, const uint8_t *a, ptrdiff_t stride, int32_t *sums) \
    { \
        const int32_t *size = (const int32_t *)(strip + 1), *end = size + strip->groups, *place = end; \
        const int8_t *w = (const int8_t *)strip + HEAD_BYTES(strip->groups, strip->quads + strip->wide); \
        { \
            ROWS_##ROWS(WIDE_ZERO) \
            for (const int32_t *last = place + strip->wide; place < last; place++, w += 2 * QUAD_BYTES) { \
                __m256i w0 = bytes_load(w), w1 = bytes_load(w + 32); \
                ROWS_##ROWS(WIDE_EVEN) \
                w0 = bytes_load(w + 64), w1 = bytes_load(w + 96); \
                ROWS_##ROWS(WIDE_ODD) \
            } \
            ROWS_##ROWS(SUMS_STORE) \
        } \
        for (; size < end; size++) { \
            const int32_t *last = place + *size; \
            __m256i w0 = bytes_load(w), w1 = bytes_load(w + 32); \
            ROWS_##ROWS(HALVES) \
            ROWS_##ROWS(GROUP_START) \
            for (place++, w += QUAD_BYTES; place < last; place++, w += QUAD_BYTES) { \
                w0 = bytes_load(w), w1 = bytes_load(w + 32); \
                ROWS_##ROWS(GROUP_STEP) \
            } \
            ROWS_##ROWS(GROUP_WIDEN) \
        } \
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
