cimport cython
cimport tidelog.kernel.primitives as primitives

@cython.locals(view=object, data="const unsigned char*", low=Py_ssize_t, high=Py_ssize_t,
               middle=Py_ssize_t, key="long long")
cpdef Py_ssize_t find_floor(object buf, Py_ssize_t entries, Py_ssize_t entry_bytes, int key_bytes,
                            long long target, Py_ssize_t key_at=*) except? -2
