# cython: freethreading_compatible=True
"""Inner products over half-precision vectors. `runoff.index` is the face; rows are checked here."""

from libc.stdint cimport int64_t, uint16_t

cdef extern from "scan.h" nogil:
    int scan_best()
    void scan_rows(int, const uint16_t*, int64_t, const float*, const int64_t*, int64_t, int64_t, float*)


def best():
    """Number of the best kernel that this machine has: 0 plain C, 1 AVX2, 2 AVX-512."""
    return scan_best()


def scan(const uint16_t[:, ::1] vectors, const float[::1] query, int64_t first, float[::1] out, int kernel):
    """out[i] = vectors[first + i] . query, for every i of ``out``."""
    cdef int64_t count = out.shape[0], dimensions = vectors.shape[1]
    if query.shape[0] != dimensions or first < 0 or first + count > vectors.shape[0] or not 0 <= kernel <= scan_best():
        raise ValueError("scan: shapes do not fit")
    if count:
        with nogil:
            scan_rows(kernel, &vectors[0, 0], dimensions, &query[0], NULL, first, count, &out[0])


def gather(const uint16_t[:, ::1] vectors, const float[::1] query, const int64_t[::1] rows, float[::1] out, int kernel):
    """out[i] = vectors[rows[i]] . query."""
    cdef int64_t count = out.shape[0], dimensions = vectors.shape[1], i
    if query.shape[0] != dimensions or rows.shape[0] != count or not 0 <= kernel <= scan_best():
        raise ValueError("scan: shapes do not fit")
    for i in range(count):
        if not 0 <= rows[i] < vectors.shape[0]:
            raise IndexError(f"scan: row {rows[i]}; expected one of {vectors.shape[0]}")
    if count:
        with nogil:
            scan_rows(kernel, &vectors[0, 0], dimensions, &query[0], &rows[0], 0, count, &out[0])
