/* Assembles [CLS] query [SEP] passage [SEP] from token ids that were cached.
 *
 * A pair takes PAIR_SPECIALS tokens beside query and passage. ONNX graphs take 64-bit integers, our own encoder 32-bit
 * ones; cached ids have 16 or 32 bits. The macro makes one writer per combination, so that each is a plain copy loop. */
#ifndef RUNOFF_PAIRS_H
#define RUNOFF_PAIRS_H

#include <stdint.h>

#define PAIR_SPECIALS 3

typedef struct {
    int64_t cls, sep, pad;
} pair_specials;

/* Whether passage_length ids from start on lie inside of a cache of cached ids, and the pair inside of its width.
 * Differences, not sums, so that no value that a caller can pass overflows. */
static inline int pair_fits(int64_t start, int64_t passage_length, int64_t cached, int64_t query_length, int64_t width) {
    return passage_length >= 0 && passage_length <= cached && start >= 0 && start <= cached - passage_length &&
           passage_length <= width - PAIR_SPECIALS - query_length;
}

#define DEFINE_PAIR_WRITER(NAME, ID, OUT)                                                               \
    static inline void NAME(OUT *ids, OUT *types, OUT *mask, int64_t width, const int32_t *query,       \
                            int64_t query_length, const ID *passage, int64_t passage_length,            \
                            pair_specials special) {                                                    \
        const int64_t first = query_length + 2, length = first + passage_length + 1;                    \
        ids[0] = (OUT)special.cls;                                                                      \
        for (int64_t i = 0; i < query_length; i++) ids[1 + i] = query[i];                               \
        ids[first - 1] = (OUT)special.sep;                                                              \
        for (int64_t i = 0; i < passage_length; i++) ids[first + i] = passage[i];                       \
        ids[length - 1] = (OUT)special.sep;                                                             \
        for (int64_t i = length; i < width; i++) ids[i] = (OUT)special.pad;                             \
        for (int64_t i = 0; i < width; i++) types[i] = i >= first && i < length;                        \
        for (int64_t i = 0; i < width; i++) mask[i] = i < length;                                       \
    }

DEFINE_PAIR_WRITER(pair_write_u16_i64, uint16_t, int64_t)
DEFINE_PAIR_WRITER(pair_write_i32_i64, int32_t, int64_t)
DEFINE_PAIR_WRITER(pair_write_u16_i32, uint16_t, int32_t)
DEFINE_PAIR_WRITER(pair_write_i32_i32, int32_t, int32_t)

#undef DEFINE_PAIR_WRITER
#endif
