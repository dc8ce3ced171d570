# cython: freethreading_compatible=True
"""Walks over graphs of neighbours in buffers that the caller owns. `runoff.graph` is the face: it parses and raises."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free, malloc

cdef extern from "hnsw.h" nogil:
    enum: HNSW_WIDEST
    uint32_t HNSW_SEEN
    ctypedef struct hnsw_level:
        const int32_t* rows
        const int32_t* links
        int64_t count, width
    ctypedef struct hnsw_graph:
        int64_t rows, entry, levels
        const hnsw_level* level
    ctypedef struct hnsw_found:
        float score
        uint32_t row
    int scan_best()
    int64_t hnsw_walk(const hnsw_graph*, int, const uint16_t*, int64_t, const float*, uint8_t*, hnsw_found*, int64_t)


WIDEST = HNSW_WIDEST


cdef class Levels:
    """The levels of a graph, the ground first. They never change, so that any number of threads may walk them.

    `levels` has for each the rows that it has, ascending (nothing for the ground, which has all), and their links: int32,
    shape [rows, width].
    """

    cdef hnsw_level* _levels
    cdef hnsw_graph _graph
    cdef object _parts

    def __cinit__(self, list levels, int64_t entry):
        cdef const int32_t[::1] rows
        cdef const int32_t[:, ::1] links
        self._parts = levels
        self._levels = <hnsw_level*>calloc(len(levels), sizeof(hnsw_level))
        if not self._levels:
            raise MemoryError
        for i, (numbers, links) in enumerate(levels):
            if not links.shape[0] or not 0 < links.shape[1] <= HNSW_WIDEST:
                raise ValueError("levels: no rows, or too many neighbours")
            if i:
                rows = numbers
                if rows.shape[0] != links.shape[0]:
                    raise ValueError("levels: shapes do not fit")
                self._levels[i].rows = &rows[0]
            self._levels[i].links = &links[0, 0]
            self._levels[i].count, self._levels[i].width = links.shape[0], links.shape[1]
        self._graph = hnsw_graph(self._levels[0].count, entry, len(levels), self._levels)

    def __dealloc__(self):
        free(self._levels)

    def walk(self, const uint16_t[:, ::1] vectors, const float[::1] query, int64_t[::1] rows, int kernel):
        """Write about the nearest rows, best first, until `rows` is full; returns how many, -1 for a damaged graph."""
        cdef int64_t room = rows.shape[0], dimensions = vectors.shape[1], found = 0, i
        if vectors.shape[0] != self._graph.rows or query.shape[0] != dimensions or not 0 <= kernel <= scan_best():
            raise ValueError("walk: shapes do not fit")
        if not room:
            return 0
        cdef uint8_t* visited = <uint8_t*>calloc(self._graph.rows // 8 + 1, 1)
        cdef hnsw_found* best = <hnsw_found*>malloc(room * sizeof(hnsw_found))
        try:
            if not visited or not best:
                raise MemoryError
            with nogil:
                found = hnsw_walk(&self._graph, kernel, &vectors[0, 0], dimensions, &query[0], visited, best, room)
                for i in range(found):
                    rows[i] = best[i].row & ~HNSW_SEEN
            return found
        finally:
            free(visited)
            free(best)
