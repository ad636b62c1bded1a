// SPDX-License-Identifier: GPL-2.0-only
/*
 * hinted_loop [PROGRAM...]: says that its work is AVX work, and works, and says how much it has
 * done, or becomes that program.
 */
#include <stdio.h>
#include <unistd.h>

#include "../../../contrib/hints/scx_avxspec_hints.h"

int main(int argc, char **argv)
{
	struct scx_avxspec_hints hints;

	if (scx_avxspec_open_hints(&hints) || scx_avxspec_hint(&hints, SCX_AVXSPEC_AVX512)) {
		perror("hints");
		return 1;
	}
	if (argc > 1) {
		execvp(argv[1], argv + 1);
		perror(argv[1]);
		return 1;
	}
	for (;;) {
		for (volatile long n = 0; n < 10000; n++)
			;
		scx_avxspec_done(&hints, 1);
	}
}
