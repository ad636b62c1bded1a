// SPDX-License-Identifier: GPL-2.0-only
/*
 * liar THREAD: says of itself that it has done whatever it likes, more and less, and of another
 * thread, as long as that is there, that it has done next to nothing.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../../contrib/hints/scx_avxspec_hints.h"

int main(int argc, char **argv)
{
	struct scx_avxspec_hints hints, of_other;

	if (argc < 2 || scx_avxspec_open_hints(&hints)) {
		perror("hints");
		return 1;
	}
	of_other = hints;
	of_other.thread = syscall(SYS_pidfd_open, atoi(argv[1]), SCX_AVXSPEC_PIDFD_THREAD);
	of_other.said[0] = SCX_AVXSPEC_AVX512;
	for (unsigned long n = 1; of_other.thread >= 0; n++) {
		hints.said[1] = n % 2 ? n : ~0UL >> n % 64;
		scx_avxspec_say(&hints);
		if (scx_avxspec_done(&of_other, 1))
			break;
		usleep(2000);
	}
	return 0;
}
