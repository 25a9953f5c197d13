cimport cython
cimport tidelog.kernel.primitives as primitives

cdef Py_ssize_t _LEAST_FRAME_BYTES
cdef Py_ssize_t _LEAST_RECORD_BYTES
cdef long long _ZSTD

@cython.locals(view=object, data="const unsigned char*", found=list, size=Py_ssize_t, stop=Py_ssize_t,
               at=Py_ssize_t, place=Py_ssize_t, batch=Py_ssize_t, length=Py_ssize_t, version="long long",
               correlation_id="long long", acks="long long", count="long long")
cpdef tuple scan_produces(object buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t largest)

@cython.locals(count="long long", attributes="long long", crc="long long")
cdef long long _records(const unsigned char* data, Py_ssize_t pos, Py_ssize_t length)
