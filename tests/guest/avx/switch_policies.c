// SPDX-License-Identifier: GPL-2.0-only
/*
 * switch_policies TIMES SOCKET: turns knobs of a running scheduler at random, through
 * its control socket. Prints how often it said that the new policy is in force.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *const turns[] = {
	"\"return=syscall\"",	 "\"return=switch\"",	"\"return=timeout\"",
	"\"return=adaptive\"",	 "\"sizing=share\"",	"\"sizing=controller\"",
	"\"placement=spread\"",	 "\"placement=pack\"",	"\"worthwhile=1ms\"",
	"\"worthwhile=100us\"",	 "\"stranded=0s\"",	"\"stranded=50ms\"",
	"\"backoff-min=0s\"",	 "\"backoff-min=1ms\"", "\"sizing=static\",\"avx-cpus=1\"",
	"\"scalar-penalty=0s\"",
};

static const char *any_turn(void)
{
	return turns[rand() % (sizeof(turns) / sizeof(*turns))];
}

/* Whether one request was granted. */
static int turn_some(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), granted;
	char text[4096];
	ssize_t length;

	if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address))) {
		perror(address->sun_path);
		exit(1);
	}
	snprintf(text, sizeof(text), "{\"change\":{\"what\":{\"set\":[%s,%s]}}}\n", any_turn(),
		 any_turn());
	if (write(fd, text, strlen(text)) < 0)
		exit(1);
	length = read(fd, text, sizeof(text) - 1);
	text[length > 0 ? length : 0] = 0;
	granted = !strncmp(text, "{\"changed\"", 10);
	if (!granted)
		fprintf(stderr, "%s\n", text);
	close(fd);
	return granted;
}

int main(int argc, char **argv)
{
	unsigned long times = argc > 1 ? strtoul(argv[1], NULL, 0) : 1, granted = 0;
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (argc > 2)
		strncpy(address.sun_path, argv[2], sizeof(address.sun_path) - 1);
	for (unsigned long n = 0; n < times; n++)
		granted += turn_some(&address);
	printf("granted=%lu\n", granted);
	return 0;
}
