/* Products of byte rows with packed weights, and what follows while a tile is in cache.
 *
 * TILES (tiles_dense.h or tiles_grouped.h, as the lanes have it) packs panels and multiplies a tile: up to TILE_ROWS rows
 * by PANEL columns. Integers are exact, so a row's result does not depend on its tile. An epilogue then turns the tile's
 * integers into floats, row by row, always with the same operations.
 */

#define ROWS_1(X) X(0)
#define ROWS_2(X) ROWS_1(X) X(1)
#define ROWS_3(X) ROWS_2(X) X(2)
#define ROWS_4(X) ROWS_3(X) X(3)
#define ROWS_5(X) ROWS_4(X) X(4)
#define ROWS_6(X) ROWS_5(X) X(5)
#define ROWS_7(X) ROWS_6(X) X(6)
#define ROWS_8(X) ROWS_7(X) X(7)
#define ROWS_9(X) ROWS_8(X) X(8)
#define ROWS_10(X) ROWS_9(X) X(9)
#define ROWS_11(X) ROWS_10(X) X(10)
#define ROWS_12(X) ROWS_11(X) X(11)
#define ROWS_13(X) ROWS_12(X) X(12)
#define ROWS_14(X) ROWS_13(X) X(13)
#define ROWS_15(X) ROWS_14(X) X(14)
#define ROWS_16(X) ROWS_15(X) X(15)

#include TILES

/* A walk over the rows of one panel, tile by tile, with the sums of the current one. */
struct tile {
    const struct linear *linear;
    struct bytes from;
    int panel, end; /* panel of columns, rows in all */
    int row, rows;  /* first row and rows of this tile */
    int32_t sums[TILE_ROWS * PANEL] __attribute__((aligned(64)));
};

/* Weights come from memory once for each group of rows: while a panel is used, the next one is fetched, a share a tile,
 * to the second-level cache, as the first has no room for both. */
static inline void fetch_ahead(const struct tile *tile)
{
    const struct panel *next = tile->linear->panels + tile->panel + 1;
    size_t from = next->bytes * tile->row / tile->end / 64 * 64, to = next->bytes * (tile->row + tile->rows) / tile->end;
    for (; from < to; from += 64)
        __builtin_prefetch(next->packed + from, 0, 2);
}

/* Multiplies the next tile; 0 when there is none. The rows left are split evenly, so that no tile is small. */
static inline int next_tile(struct tile *tile)
{
    const struct linear *linear = tile->linear;
    tile->row += tile->rows;
    int rest = tile->end - tile->row, count = (rest + TILE_ROWS - 1) / TILE_ROWS;
    if (rest == 0)
        return 0;
    tile->rows = (rest + count - 1) / count;
    fetch_ahead(tile);
    multiply(linear->panels[tile->panel].packed, tile->from.values + (size_t)tile->row * linear->in, linear->in, tile->rows, tile->sums);
    return 1;
}

static void products(const struct linear *linear, const uint8_t *a, int rows, int32_t *out)
{
    struct bytes from = {(uint8_t *)a, NULL, NULL};
    for (int panel = 0; panel < linear->out / PANEL; panel++) {
        struct tile tile = {linear, from, panel, rows, 0, 0};
        while (next_tile(&tile))
            for (int r = 0; r < tile.rows; r++)
                memcpy(out + (size_t)(tile.row + r) * linear->out + panel * PANEL, tile.sums + r * PANEL, PANEL * 4);
    }
}

/* What turns the sums of one row of a tile into floats, at hand: a store could change what pointers lead to. */
struct row {
    const float *scale, *bias, *column_sums; /* of the panel's columns */
    const int32_t *sums;
    vf unit, zero; /* the row's scale, and its zero point times it, negative */
};

static inline struct row row_of(const struct tile *tile, int r)
{
    const struct linear *linear = tile->linear;
    int at = tile->panel * PANEL;
    float scale = tile->from.scale[tile->row + r], zero = -scale * (float)tile->from.zero[tile->row + r];
    return (struct row){linear->scale + at, linear->bias + at, linear->sums + at, tile->sums + r * PANEL, vf_set(scale), vf_set(zero)};
}

/* LANES numbers of a row: sum * scale - zero * column sum * scale + bias. */
static inline vf dequantise(const struct row *row, int column)
{
    vf shift = vf_fma(vf_load(row->column_sums + column), row->zero, vf_load(row->bias + column));
    return vf_fma(vf_from(vi_load(row->sums + column)), vf_mul(vf_load(row->scale + column), row->unit), shift);
}

/* What becomes of LANES numbers x on their way to `to`. */
typedef void finish(vf x, float *to);

static inline __attribute__((always_inline)) void run_linear(const struct linear *linear, struct bytes from, int rows,
                                                             float *out, finish *finish)
{
    for (int panel = 0; panel < linear->out / PANEL; panel++) {
        struct tile tile = {linear, from, panel, rows, 0, 0};
        while (next_tile(&tile)) {
            float *to = out + (size_t)tile.row * linear->out + panel * PANEL;
            for (int r = 0; r < tile.rows; r++, to += linear->out) {
                struct row row = row_of(&tile, r);
                for (int c = 0; c < PANEL; c += LANES)
                    finish(dequantise(&row, c), to + c);
            }
        }
    }
}

static inline void finish_plain(vf x, float *to) { vf_store(to, x); }
static inline void finish_add(vf x, float *to) { vf_store(to, vf_add(x, vf_load(to))); }

/* GELU(x) = x * P(X <= x) = max(x, 0) - |x| * P(X <= -|x|) for a normal X: the erf form, absolute error below 1e-6. */
static inline void finish_gelu(vf x, float *to)
{
    vf b = vf_minus_abs(x);
    vf_store(to, vf_fma(b, vf_exp2(LOG2_TAIL(b)), vf_max(x, vf_set(0.0f))));
}

static void linear_plain(const struct linear *linear, struct bytes from, int rows, float *out)
{
    run_linear(linear, from, rows, out, finish_plain);
}

/* out += the product: the residual of both halves of a layer. */
static void linear_add(const struct linear *linear, struct bytes from, int rows, float *out)
{
    run_linear(linear, from, rows, out, finish_add);
}

static void linear_gelu(const struct linear *linear, struct bytes from, int rows, float *out)
{
    run_linear(linear, from, rows, out, finish_gelu);
}
