/* Products of a tile where one instruction multiplies and adds four bytes a lane exactly: AVX-512 VNNI, and plain C.
 *
 * Weights of a panel lie as [in / 4][PANEL][4]. A tile is up to TILE_ROWS rows by two vectors of columns, its sums held
 * in named registers (gcc would spill an array).
 */

#define TILE_ZERO(r) vi left##r = vi_set(0), right##r = vi_set(0);
#define TILE_STEP(r) \
    { \
        bytes_u x = bytes_u_same(a + r * stride + k); \
        left##r = dot4(left##r, x, w0); \
        right##r = dot4(right##r, x, w1); \
    }
#define TILE_STORE(r) \
    vi_store(sums + r * PANEL, left##r); \
    vi_store(sums + r * PANEL + LANES, right##r);
#define TILE(ROWS) \
    static void tile_##ROWS(const uint8_t *a, ptrdiff_t stride, const int8_t *w, int depth, int32_t *sums) \
    { \
        ROWS_##ROWS(TILE_ZERO) \
        for (ptrdiff_t k = 0; k < depth; k += 4, w += 4 * PANEL) { \
            bytes_s w0 = bytes_s_load(w), w1 = bytes_s_load(w + 4 * LANES); \
            ROWS_##ROWS(TILE_STEP) \
        } \
        ROWS_##ROWS(TILE_STORE) \
    }

typedef void tile_function(const uint8_t *, ptrdiff_t, const int8_t *, int, int32_t *);

TILE(1)
TILE(2)
#if TILE_ROWS > 2
TILE(3)
TILE(4)
TILE(5)
TILE(6)
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)
#endif

static tile_function *const tiles[TILE_ROWS + 1] = {
    NULL, tile_1, tile_2,
#if TILE_ROWS > 2
    tile_3, tile_4, tile_5, tile_6, tile_7, tile_8, tile_9, tile_10, tile_11, tile_12,
#endif
};

/* Sums [rows][PANEL] of `rows` rows of bytes with a packed panel. */
static inline void multiply(const int8_t *panel, const uint8_t *a, int depth, int rows, int32_t *sums)
{
    for (int column = 0; column < PANEL; column += 2 * LANES)
        tiles[rows](a, depth, panel + 4 * column, depth, sums + column);
}

/* Packs columns column .. column + PANEL - 1 of a matrix [in][width] to `to`; returns the bytes used. */
static size_t pack_panel(const int8_t *matrix, int in, int width, int column, int8_t *to)
{
    for (int k = 0; k < in; k++)
        for (int c = 0; c < PANEL; c++)
            to[(k / 4 * PANEL + c) * 4 + k % 4] = matrix[(size_t)k * width + column + c];
    return (size_t)in * PANEL;
}
