/* Runs sequences of tokens through a model: see encoder.c. */
#ifndef RUNOFF_ENCODER_H
#define RUNOFF_ENCODER_H
#include "model.h"

/* Parts of the time, named in this order by PARTS_NAMES in _encoder.pyx. */
enum part { PART_EMBED, PART_PROJECT, PART_ATTEND, PART_OUT, PART_UP, PART_DOWN, PART_NORM, PART_QUANTISE, PART_POOL, PARTS };

/* States of all tokens of a call between two layers, row t of token ids[t]: the caller's memory. */
struct rest {
    float *x;           /* [tokens][hidden] */
    struct bytes bytes; /* the same, quantised */
};

/* One call: sequences i of tokens ids[starts[i]] .. ids[starts[i + 1]], from one layer to another. */
struct batch {
    const struct model *model;
    const struct kernel *kernel;
    const int32_t *ids;
    const int32_t *types;  /* NULL: all zero */
    const int64_t *starts; /* [count + 1] */
    const int64_t *chosen; /* [count]: which sequences run, each once; NULL: all */
    int64_t count;         /* of sequences that run */
    int threads;
    int first, last;         /* layers first .. last - 1; first > 0 goes on from `rest` */
    const struct rest *rest; /* read when first > 0, written when last < layers */
    float *cls;              /* written when last < layers: [CLS] states after one layer more [sequences][hidden] */
    float *out; /* when last == layers: logits [sequences] of a cross-encoder, else vectors [sequences][hidden] */
    uint64_t *times; /* NULL, or [PARTS] nanoseconds over all threads, added to */
};

/* 0, or -1 when there is no memory. Lengths must be 1 .. MAX_TOKENS and ids in range: the caller checks. */
int encoder_run(const struct batch *batch);

/* The kernel of that name if this CPU runs it, else NULL; NULL as name means the best one. */
const struct kernel *encoder_kernel(const char *name);

#endif
