# cython: freethreading_compatible=True
"""Pair assembly over buffers that the caller owns. Nothing is checked here: `runoff.assembly` is the face."""

from libc.stdint cimport int32_t, int64_t, uint16_t

cdef extern from "pairs.h" nogil:
    ctypedef struct pair_specials:
        int64_t cls, sep, pad
    void pair_write_u16(int64_t*, int64_t*, int64_t*, int64_t, const int32_t*, int64_t, const uint16_t*, int64_t,
                        pair_specials)
    void pair_write_i32(int64_t*, int64_t*, int64_t*, int64_t, const int32_t*, int64_t, const int32_t*, int64_t,
                        pair_specials)

ctypedef fused token_id:
    uint16_t
    int32_t


def assemble(
    const int32_t[::1] query,
    const token_id[::1] passages,
    const int64_t[::1] starts,
    const int64_t[::1] lengths,
    const int64_t[::1] offsets,
    int64_t[::1] ids,
    int64_t[::1] types,
    int64_t[::1] mask,
    int64_t cls,
    int64_t sep,
    int64_t pad,
):
    """Write pair i at [offsets[i], offsets[i + 1]) of `ids`, `types` and `mask`; what the pair leaves over is padding.

    `query` is the query as it goes in, `lengths[i]` the tokens taken from `passages` at `starts[i]`.
    """
    cdef pair_specials special = pair_specials(cls, sep, pad)
    cdef Py_ssize_t i, count = starts.shape[0]
    cdef int64_t at, width, query_length = query.shape[0]
    cdef const int32_t* asked = &query[0] if query_length else NULL
    cdef const token_id* cached = &passages[0] if passages.shape[0] else NULL
    if count == 0:
        return
    with nogil:
        for i in range(count):
            at = offsets[i]
            width = offsets[i + 1] - at
            if token_id is uint16_t:
                pair_write_u16(&ids[at], &types[at], &mask[at], width, asked, query_length, cached + starts[i],
                               lengths[i], special)
            else:
                pair_write_i32(&ids[at], &types[at], &mask[at], width, asked, query_length, cached + starts[i],
                               lengths[i], special)
