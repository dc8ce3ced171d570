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
#define PAIRINGS 3

/* Inputs of a quad in the order in which they are multiplied: the first two meet, and the last two. */
static const uint8_t pairings[PAIRINGS][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {0, 3, 1, 2}};

struct strip {
    int32_t plain, shuffled, quads, wide, bytes; /* groups of both kinds, quads in them, others; bytes of the strip */
    int32_t start[COLUMNS];                      /* what the sums begin with */
};

#define HEAD_BYTES(groups, quads) ((sizeof(struct strip) + sizeof(int32_t) * ((size_t)(groups) + (quads)) + 63) / 64 * 64)

#include "deal_quads.h"

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
                "vpmaddwd %[w1], %[x], %[x]\n\t" \
                "vpaddd %[product], %[left], %[left]\n\t" \
                "vpaddd %[x], %[right], %[right]" \
                : [left] "+x"(left##r), [right] "+x"(right##r), [x] "=&x"(x), [product] "=&x"(product) \
                : [quad] QUAD(r), [low] VECTOR(low_bytes), [w0] "x"(w0), [w1] "x"(w1)); \
    }
#define WIDE_EVEN(r) WIDE_STEP(r, "vpand %[low]")
#define WIDE_ODD(r) WIDE_STEP(r, "vpsrlw $8")
#define SUMS_STORE(r) \
    vi_store(sums + r * PANEL, left##r); \
    vi_store(sums + r * PANEL + LANES, right##r);

/* Six rows by two vectors of sums leave four registers: two of weights and two to work in. gcc would spill most of them,
 * so groups are a loop in a loop of asm with registers of its own choice. Both products come before both additions: in turns
 * they are slower. %[quad] is where a quad begins in the first row; strides are in bytes.
 */
#define LEFT_0 "%%ymm0"
#define RIGHT_0 "%%ymm1"
#define LEFT_1 "%%ymm2"
#define RIGHT_1 "%%ymm3"
#define LEFT_2 "%%ymm4"
#define RIGHT_2 "%%ymm5"
#define LEFT_3 "%%ymm6"
#define RIGHT_3 "%%ymm7"
#define LEFT_4 "%%ymm8"
#define RIGHT_4 "%%ymm9"
#define LEFT_5 "%%ymm10"
#define RIGHT_5 "%%ymm11"
#define W0 "%%ymm12"
#define W1 "%%ymm13"
#define X "%%ymm14"
#define Y "%%ymm15"
#define ROW_0 "(%[quad])"
#define ROW_1 "(%[quad],%[stride])"
#define ROW_2 "(%[quad],%[stride],2)"
#define ROW_3 "(%[quad],%[stride3])"
#define ROW_4 "(%[quad],%[stride],4)"
#define ROW_5 "(%[quad],%[stride5])"
#define NUMBER_(x) #x
#define NUMBER(x) NUMBER_(x)
#define LINE "\n\t"

#define IN_ORDER(x) ""
#define IN_PAIRS(x) "vpshufb (%[shuffle]), " x ", " x LINE

/* A row's part of the first quad of a group, whose offsets are in X and Y, and of each one after it. */
#define START(r, PAIR) \
    "vpbroadcastd " ROW_##r ", " RIGHT_##r LINE PAIR(RIGHT_##r) \
    "vpmaddubsw " W0 ", " RIGHT_##r ", " LEFT_##r LINE \
    "vpmaddubsw " W1 ", " RIGHT_##r ", " RIGHT_##r LINE \
    "vpaddw " X ", " LEFT_##r ", " LEFT_##r LINE \
    "vpaddw " Y ", " RIGHT_##r ", " RIGHT_##r LINE
#define STEP(r, PAIR) \
    "vpbroadcastd " ROW_##r ", " X LINE PAIR(X) \
    "vpmaddubsw " W0 ", " X ", " Y LINE \
    "vpmaddubsw " W1 ", " X ", " X LINE \
    "vpaddw " Y ", " LEFT_##r ", " LEFT_##r LINE \
    "vpaddw " X ", " RIGHT_##r ", " RIGHT_##r LINE
#define PLAIN_START(r) START(r, IN_ORDER)
#define PLAIN_STEP(r) STEP(r, IN_ORDER)
#define SHUFFLED_START(r) START(r, IN_PAIRS)
#define SHUFFLED_STEP(r) STEP(r, IN_PAIRS)

/* The 16-bit sums of a group, times ones, to 32-bit sums. */
#define WIDEN(half, sum) \
    "vpmaddwd " W0 ", " half ", " half LINE \
    "vpaddd " sum "(%[sums]), " half ", " half LINE \
    "vmovdqa " half ", " sum "(%[sums])" LINE
#define GROUP_WIDEN(r) WIDEN(LEFT_##r, NUMBER(4 * PANEL * r)) WIDEN(RIGHT_##r, NUMBER(4 * PANEL * r + 32))

#define PLAIN_PLACE "movslq (%[place]), %[quad]" LINE
#define SHUFFLED_PLACE \
    "movslq (%[place]), %[quad]" LINE \
    "mov %[quad], %[shuffle]" LINE \
    "and $-4, %[quad]" LINE \
    "and $3, %[shuffle]" LINE \
    "shl $5, %[shuffle]" LINE \
    "add %[shuffles], %[shuffle]" LINE
#define LOAD(one, other) \
    "vmovdqa (%[w]), " one LINE \
    "vmovdqa 32(%[w]), " other LINE \
    "add $" NUMBER(QUAD_BYTES) ", %[w]" LINE
#define NEXT_QUAD(KIND) \
    KIND##_PLACE \
    "add %[a], %[quad]" LINE \
    "add $4, %[place]" LINE \
    LOAD(W0, W1)

#define GROUPS(ROWS, KIND, COUNT) \
    if (COUNT) { \
        const int32_t *end = size + (COUNT), *last; \
        ptrdiff_t quad, shuffle; \
        __asm__ volatile( \
            "1:" LINE \
            "movslq (%[size]), %[last]" LINE \
            "add $4, %[size]" LINE \
            "lea (%[place],%[last],4), %[last]" LINE \
            LOAD(X, Y) NEXT_QUAD(KIND) ROWS_##ROWS(KIND##_START) \
            "cmp %[last], %[place]" LINE \
            "jae 3f" LINE \
            ".p2align 5\n" \
            "2:" LINE \
            NEXT_QUAD(KIND) ROWS_##ROWS(KIND##_STEP) \
            "cmp %[last], %[place]" LINE \
            "jb 2b\n" \
            "3:" LINE \
            "vpcmpeqw " W0 ", " W0 ", " W0 LINE \
            "vpabsw " W0 ", " W0 LINE \
            ROWS_##ROWS(GROUP_WIDEN) \
            "cmp %[end], %[size]" LINE \
            "jb 1b" \
            : [w] "+r"(w), [place] "+r"(place), [size] "+r"(size), [quad] "=&r"(quad), [last] "=&r"(last), \
              [shuffle] "=&r"(shuffle) \
            : [a] "r"(a), [end] "r"(end), [sums] "r"(sums), [stride] "r"(stride), [stride3] "r"(3 * stride), \
              [stride5] "r"(5 * stride), [shuffles] "r"(shuffles) \
            : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
              "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"); \
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
