//! Arguments to a request, a request to one call of the library, a result to an exit code.
