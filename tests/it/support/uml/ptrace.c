/* Preloaded into linux.uml, so that it works on processors whose register state is larger than it expects.
 *
 * user-mode Linux 6.1 reads and writes the extended registers of its processes in a buffer of 2696 bytes, which holds the
 * state up to AVX-512. With AMX, the state is larger. The machine's kernel then reads a part, but refuses to write one. This
 * function adds the rest of the process's own state, which user-mode Linux does not use. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

typedef long request_function(enum __ptrace_request, pid_t, void *, void *);

long ptrace(enum __ptrace_request request, ...)
{
	va_list arguments;
	va_start(arguments, request);
	pid_t pid = va_arg(arguments, pid_t);
	void *address = va_arg(arguments, void *);
	void *data = va_arg(arguments, void *);
	va_end(arguments);

	static request_function *original;
	if (!original)
		original = (request_function *)dlsym(RTLD_NEXT, "ptrace");

	int writes = request == PTRACE_SETREGSET;
	if ((writes || request == PTRACE_GETREGSET) && (long)address == NT_X86_XSTATE) {
		static char state[64 << 10];
		struct iovec whole = { state, sizeof state }, *part = data;
		if (original(PTRACE_GETREGSET, pid, address, &whole) != 0)
			return -1;
		if (writes && part->iov_len < whole.iov_len) {
			memcpy(state, part->iov_base, part->iov_len);
			return original(request, pid, address, &whole);
		}
	}
	return original(request, pid, address, data);
}
