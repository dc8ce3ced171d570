/* Assembles [CLS] query [SEP] passage [SEP] from token ids that were cached.
 *
 * A pair takes PAIR_SPECIALS tokens beside query and passage. Ids are written as 64-bit integers, which is what ONNX
 * graphs take. The macro makes one writer per width of the cached ids, so that each is a plain copy loop. */
#ifndef RUNOFF_PAIRS_H
#define RUNOFF_PAIRS_H

#include <stdint.h>
#include <string.h>

#define PAIR_SPECIALS 3

typedef struct {
    int64_t cls, sep, pad;
} pair_specials;

#define DEFINE_PAIR_WRITER(NAME, ID)                                                                    \
    static inline void NAME(int64_t *ids, int64_t *types, int64_t *mask, int64_t width,                 \
                            const int32_t *query, int64_t query_length, const ID *passage,              \
                            int64_t passage_length, pair_specials special) {                            \
        const int64_t first = query_length + 2, length = first + passage_length + 1;                    \
        ids[0] = special.cls;                                                                           \
        for (int64_t i = 0; i < query_length; i++) ids[1 + i] = query[i];                               \
        ids[first - 1] = special.sep;                                                                   \
        for (int64_t i = 0; i < passage_length; i++) ids[first + i] = passage[i];                       \
        ids[length - 1] = special.sep;                                                                  \
        for (int64_t i = 0; i < width; i++) types[i] = i >= first && i < length;                        \
        for (int64_t i = 0; i < width; i++) mask[i] = i < length;                                       \
        for (int64_t i = length; i < width; i++) ids[i] = special.pad;                                  \
    }

DEFINE_PAIR_WRITER(pair_write_u16, uint16_t)
DEFINE_PAIR_WRITER(pair_write_i32, int32_t)

#undef DEFINE_PAIR_WRITER
#endif
