/* Runs sequences of tokens through a model: see encoder.c. */
#ifndef RUNOFF_ENCODER_H
#define RUNOFF_ENCODER_H
#include "model.h"

/* Parts of the time, in the order of encoder_time(). */
enum part { PART_EMBED, PART_PROJECT, PART_ATTEND, PART_OUT, PART_UP, PART_DOWN, PART_NORM, PART_QUANTISE, PART_POOL, PARTS };

/* One call: sequences i of tokens ids[starts[i]] .. ids[starts[i + 1]]. */
struct batch {
    const struct model *model;
    const struct kernel *kernel;
    const int32_t *ids;
    const int32_t *types;  /* NULL: all zero */
    const int64_t *starts; /* [count + 1] */
    int64_t count;
    int threads;
    float *out; /* logits [count] of a cross-encoder, else vectors [count][hidden] */
    uint64_t *times; /* NULL, or [PARTS] nanoseconds over all threads, added to */
};

/* 0, or -1 when there is no memory. Lengths must be 1 .. MAX_TOKENS and ids in range: the caller checks. */
int encoder_run(const struct batch *batch);

/* The kernel of that name if this CPU runs it, else NULL; NULL as name means the best one. */
const struct kernel *encoder_kernel(const char *name);

#endif
