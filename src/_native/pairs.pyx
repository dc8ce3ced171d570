# cython: freethreading_compatible=True
"""Pair assembly over buffers that the caller owns. `runoff.assembly` is the face: it allocates and raises."""

from libc.stdint cimport int32_t, int64_t, uint16_t

cdef extern from "pairs.h" nogil:
    ctypedef struct pair_specials:
        int64_t cls, sep, pad
    int pair_fits(int64_t, int64_t, int64_t, int64_t, int64_t)
    void pair_write_u16_i64(int64_t*, int64_t*, int64_t*, int64_t, const int32_t*, int64_t, const uint16_t*, int64_t,
                            pair_specials)
    void pair_write_i32_i64(int64_t*, int64_t*, int64_t*, int64_t, const int32_t*, int64_t, const int32_t*, int64_t,
                            pair_specials)
    void pair_write_u16_i32(int32_t*, int32_t*, int32_t*, int64_t, const int32_t*, int64_t, const uint16_t*, int64_t,
                            pair_specials)
    void pair_write_i32_i32(int32_t*, int32_t*, int32_t*, int64_t, const int32_t*, int64_t, const int32_t*, int64_t,
                            pair_specials)

ctypedef fused cached_id:
    uint16_t
    int32_t

ctypedef fused out_id:
    int32_t
    int64_t


def assemble(
    const int32_t[::1] query,
    const cached_id[::1] passages,
    const int64_t[::1] starts,
    const int64_t[::1] lengths,
    const int64_t[::1] offsets,
    out_id[::1] ids,
    out_id[::1] types,
    out_id[::1] mask,
    int64_t cls,
    int64_t sep,
    int64_t pad,
):
    """Write pair i at [offsets[i], offsets[i + 1]) of `ids`, `types` and `mask`; what the pair leaves over is padding.

    `query` is the query as it goes in, `lengths[i]` the tokens taken from `passages` at `starts[i]`. That arrays have
    equal sizes is the face's duty; rows are checked here, as a writable array may have changed since it was checked.
    Returns the number of pairs written: less than all means that the next one reaches out of its cache or its width.
    """
    cdef pair_specials special = pair_specials(cls, sep, pad)
    cdef Py_ssize_t i = 0, count = starts.shape[0]
    cdef int64_t at, width, query_length = query.shape[0], size = passages.shape[0], room = ids.shape[0]
    cdef const int32_t* asked = &query[0] if query_length else NULL
    cdef const cached_id* cached = &passages[0] if size else NULL
    with nogil:
        while i < count:
            at = offsets[i]
            width = offsets[i + 1] - at
            if offsets[i + 1] > room or not pair_fits(starts[i], lengths[i], size, query_length, width):
                break
            if cached_id is uint16_t and out_id is int64_t:
                pair_write_u16_i64(&ids[at], &types[at], &mask[at], width, asked, query_length, cached + starts[i],
                                   lengths[i], special)
            elif cached_id is int32_t and out_id is int64_t:
                pair_write_i32_i64(&ids[at], &types[at], &mask[at], width, asked, query_length, cached + starts[i],
                                   lengths[i], special)
            elif cached_id is uint16_t:
                pair_write_u16_i32(&ids[at], &types[at], &mask[at], width, asked, query_length, cached + starts[i],
                                   lengths[i], special)
            else:
                pair_write_i32_i32(&ids[at], &types[at], &mask[at], width, asked, query_length, cached + starts[i],
                                   lengths[i], special)
            i += 1
    return i
