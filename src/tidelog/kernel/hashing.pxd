cimport cython
cimport tidelog.kernel.primitives as primitives

cdef unsigned long long _SEED
cdef unsigned long long _M
cdef unsigned long long _MASK

@cython.locals(view=object, raw="const unsigned char*", size=Py_ssize_t, pos=Py_ssize_t, left=Py_ssize_t,
               h="unsigned long long", k="unsigned long long")
cpdef object murmur2(object data)
