# A kernel's parts, each by itself: for the tests that compare them with plain arithmetic.


cdef class Stages:
    """The functions of an encoder's kernel. Rows of bytes are (uint8 [rows, width], float32 scale, int32 zero point)."""

    cdef Encoder encoder

    def __cinit__(self, Encoder encoder):
        self.encoder = encoder

    def quantise(self, const float[:, ::1] x, tuple to):
        """Rows of x to bytes."""
        self.encoder.kernel.quantise(&x[0, 0], x.shape[0], x.shape[1], rows_of(to))

    def embed(self, const int32_t[::1] ids, const int32_t[::1] types, float[:, ::1] x, tuple to):
        """States of one sequence after the embedding's norm, and their bytes."""
        self.encoder.kernel.embed(self.encoder.model, &ids[0], &types[0] if types is not None else NULL, ids.shape[0],
                                  &x[0, 0], rows_of(to))

    def normalise(self, int index, str which, float[:, ::1] x, tuple to):
        """Layer norm of x in place, and its bytes."""
        self.encoder.kernel.normalise(self.encoder._norm(index, which), self.encoder.model.epsilon, &x[0, 0],
                                      x.shape[0], x.shape[1], rows_of(to))

    def linear(self, int index, str which, str finish, tuple rows, float[:, ::1] out):
        """A fully connected layer; `finish` is plain, add (to what `out` holds) or gelu."""
        cdef const kernel *of = self.encoder.kernel
        cdef linear *layer = self.encoder._linear(index, which)
        cdef bytes_ source = rows_of(rows)
        if finish == "add":
            of.linear_add(layer, source, out.shape[0], &out[0, 0])
        elif finish == "gelu":
            of.linear_gelu(layer, source, out.shape[0], &out[0, 0])
        else:
            of.linear(layer, source, out.shape[0], &out[0, 0])

    def project(self, int index, int head, tuple rows, tuple query, tuple key, float[:, ::1] value):
        """Query (uint8, scales), key (int8, scales, starts) and value of one head."""
        cdef const kernel *of = self.encoder.kernel
        cdef linear *layer = self.encoder._linear(index, "qkv")
        cdef bytes_ source = rows_of(rows)
        cdef uint8_t[:, ::1] q = query[0]
        cdef int8_t[:, ::1] k = key[0]
        cdef float[::1] q_scale = query[1], k_scale = key[1]
        cdef int32_t[::1] start = key[2]
        cdef int count = value.shape[0]
        of.project_query(layer, 3 * head, source, count, &q[0, 0], &q_scale[0])
        of.project_key(layer, 3 * head + 1, source, count, &k[0, 0], &k_scale[0], &start[0])
        of.project_value(layer, 3 * head + 2, source, count, &value[0, 0])

    def attend(self, tuple query, tuple key, const float[:, ::1] value, float[:, ::1] out):
        """Attention of one head over one sequence: [queries, HEAD]."""
        cdef const uint8_t[:, ::1] q = query[0]
        cdef const int8_t[:, ::1] k = key[0]
        cdef const float[::1] q_scale = query[1], k_scale = key[1]
        cdef const int32_t[::1] start = key[2]
        cdef uint8_t[::1] scratch = bytearray(ATTEND_SCRATCH)
        cdef head of = [&q[0, 0], &q_scale[0], &k[0, 0], &k_scale[0], &start[0], &value[0, 0], q.shape[0], k.shape[0]]
        self.encoder.kernel.attend(&of, &out[0, 0], out.shape[1], &scratch[0])

    def mean(self, const float[:, ::1] x, bint normalize, float[::1] out):
        """Mean of the rows, of unit length on request."""
        self.encoder.kernel.mean(&x[0, 0], x.shape[0], x.shape[1], normalize, &out[0])


cdef bytes_ rows_of(tuple parts):
    cdef const uint8_t[:, ::1] values = parts[0]
    cdef const float[::1] scale = parts[1]
    cdef const int32_t[::1] zero = parts[2]
    return [<uint8_t *>&values[0, 0], <float *>&scale[0], <int32_t *>&zero[0]]
