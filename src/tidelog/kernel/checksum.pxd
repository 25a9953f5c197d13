cimport cython
cimport tidelog.kernel.primitives as primitives

@cython.locals(view="const unsigned char[::1]")
cpdef object crc32c(object data, unsigned int value=*)

@cython.locals(view="const unsigned char[::1]")
cpdef object crc32c_by_tables(object data, unsigned int value=*)
