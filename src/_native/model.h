/* A packed int8 BERT encoder: what the other files share. No Python in here. */
#ifndef RUNOFF_MODEL_H
#define RUNOFF_MODEL_H
#include <stddef.h>
#include <stdint.h>

#define HEAD 32        /* dimensions of an attention head */
#define PANEL 32       /* columns of weights that are packed together: HEAD, so that one head's product is one panel */
#define MAX_TOKENS 512 /* positions; bounds the int32 sums of attention too */

/* Rows of unsigned bytes: a row stands for (byte - zero) * scale. */
struct bytes {
    uint8_t *values; /* [rows][width] */
    float *scale;    /* [rows] */
    int32_t *zero;   /* [rows] */
};

/* PANEL columns of a matrix, packed as the kernel wants them. */
struct panel {
    const int8_t *packed;
    size_t bytes;
};

/* Fully connected layer. A weight stands for w * scale[column]. */
struct linear {
    int in, out;
    struct panel *panels; /* [out / PANEL + 1], the last one empty */
    float *scale; /* [out] */
    float *bias;  /* [out] */
    float *sums;  /* [out]: sum of each column times its scale, for the zero points of the activations */
};

struct norm {
    const float *gain, *shift; /* [hidden] */
};

/* Byte table: a value stands for ((byte ^ flip) - zero) * scale[row * step]. */
struct table {
    const uint8_t *values;
    const float *scale;
    int step; /* 0: one scale for all rows; 1: one a row */
    int zero;
    uint8_t flip; /* 128 turns signed bytes into unsigned ones */
};

struct layer {
    struct linear qkv; /* panels in the order q, k, v of head 0, q, k, v of head 1, ... */
    struct linear out, up, down;
    struct norm attention_norm, output_norm;
};

struct model {
    const struct kernel *kernel; /* that the weights are packed for */
    struct block *blocks;        /* memory of the linear layers, in the order in which they were packed */
    int layers, heads, hidden, intermediate;
    float epsilon;
    struct table words, places;
    float *types; /* [types][hidden] */
    struct norm embedding_norm;
    struct layer *layer;
    struct linear pooler;     /* cross-encoder only, else in = 0 */
    float *classifier;        /* [hidden] */
    float classifier_bias;
    int normalize;            /* bi-encoder: unit length */
};

/* One head of one sequence. Queries may be fewer than the keys: the last layer asks for [CLS] only. */
struct head {
    const uint8_t *query; /* [queries][HEAD], offset by 128 */
    const float *query_scale;
    const int8_t *key; /* [keys][HEAD] */
    const float *key_scale;
    const int32_t *key_start; /* [keys]: -128 * sum of the key, undoes the offset of the query */
    const float *value; /* [keys][HEAD] */
    int queries, keys;
};

/* The functions that exist once for each instruction set. */
struct kernel {
    const char *name;
    int (*supported)(void);
    /* Packs PANEL columns of a matrix [in][width], from `column` on, to 64-byte aligned memory of PACKED_MOST(in) bytes;
     * returns the bytes used, or 0 when there is no memory. */
    size_t (*pack_panel)(const int8_t *matrix, int in, int width, int column, int8_t *to);
    /* int32 products of bytes and weights [rows][out], zero points not taken off: for tests */
    void (*products)(const struct linear *, const uint8_t *, int rows, int32_t *out);
    void (*quantise)(const float *x, int rows, int width, struct bytes to);
    void (*embed)(const struct model *, const int32_t *ids, const int32_t *types, int rows, float *x, struct bytes to);
    void (*normalise)(const struct norm *, float epsilon, float *x, int rows, int width, struct bytes to);
    void (*linear)(const struct linear *, struct bytes from, int rows, float *out);
    void (*linear_add)(const struct linear *, struct bytes from, int rows, float *inout);
    void (*linear_gelu)(const struct linear *, struct bytes from, int rows, float *out);
    /* panel of q, k or v: [rows][HEAD] */
    void (*project_query)(const struct linear *, int panel, struct bytes from, int rows, uint8_t *q, float *scale);
    void (*project_key)(const struct linear *, int panel, struct bytes from, int rows, int8_t *k, float *scale, int32_t *start);
    void (*project_value)(const struct linear *, int panel, struct bytes from, int rows, float *v);
    void (*attend)(const struct head *, float *out, int stride, void *scratch);
    void (*mean)(const float *x, int rows, int width, int normalize, float *out);
};

extern const struct kernel kernel_portable;
#if defined(__x86_64__)
extern const struct kernel kernel_avx2, kernel_avx512vnni;
#endif

/* Most bytes of a packed panel: 16 bits a weight, two places a quad of inputs and their heads (tiles_grouped.h). */
#define PACKED_MOST(in) (2 * (size_t)(in) * PANEL + 4 * (size_t)(in) + 512)

/* Scratch bytes of attend, for 16 queries at most: of each key its scores, weights, values and the key in 16 bits; then
 * mixed values and queries; then scales. */
#define ATTEND_SCRATCH (MAX_TOKENS * (64 + 32 + HEAD * 2 + HEAD * 2) + HEAD * 64 * 2 + 4096)

#endif
