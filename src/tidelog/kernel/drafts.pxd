cimport cython
cimport tidelog.kernel.hashing as hashing
cimport tidelog.kernel.primitives as primitives
cimport tidelog.kernel.varints as varints

cdef bytes NO_HEADERS
cdef Py_ssize_t _OVERHEAD, _MOST_AROUND

@cython.final
@cython.freelist(256)
cdef class Delivery:
    cdef public object batch
    cdef public Py_ssize_t index

@cython.final
cdef class Draft:
    cdef public object batch
    cdef public bint closed
    cdef Py_ssize_t _usual
    cdef public Py_ssize_t room, count, size
    cdef public long long base_timestamp, max_timestamp, last_timestamp
    cdef public bytearray stamps, data

    @cython.locals(key_size=Py_ssize_t, value_size=Py_ssize_t, size=Py_ssize_t, index=Py_ssize_t, pos=Py_ssize_t,
                   target="unsigned char*", stamp="unsigned long long", place="unsigned long long",
                   key_raw="unsigned long long", value_raw="unsigned long long", length="unsigned long long", delivery=Delivery)
    cpdef Delivery add(self, long long timestamp, bytes key, bytes value, bytes headers)

    cdef int _grow(self, Py_ssize_t needed) except -1

    cpdef object reserve(self, Py_ssize_t room)

    @cython.locals(data=bytearray)
    cpdef bytearray take(self)

@cython.final
cdef class Drafts:
    cdef object _now_ns
    cdef bytes _headers
    cdef public Draft sticky
    cdef public list open

    @cython.locals(draft=Draft, now="long long")
    cpdef Delivery add(self, object value, object key, object timestamp)

    @cython.locals(found=list, draft=Draft, now="long long", place=Py_ssize_t, delivery=Delivery)
    cpdef list add_many(self, object values, Py_ssize_t start)
