cimport cython
cimport tidelog.kernel.primitives as primitives

@cython.locals(view=object)
cpdef tuple read_uvarint(object buf, Py_ssize_t pos)

@cython.locals(view=object)
cpdef tuple read_varint(object buf, Py_ssize_t pos)

@cython.locals(byte="unsigned long long", value="long long", shift=int)
cdef (long long, Py_ssize_t) uvarint(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) except *

@cython.locals(byte="unsigned long long", raw="unsigned long long", shift=int)
cdef (long long, Py_ssize_t) varint(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) except *

cdef unsigned long long zigzag(long long value) noexcept

@cython.locals(size=Py_ssize_t)
cdef Py_ssize_t size_of(unsigned long long raw) noexcept

cdef Py_ssize_t put(unsigned char* target, Py_ssize_t pos, unsigned long long raw) noexcept
