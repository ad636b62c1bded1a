// SPDX-License-Identifier: GPL-2.0-only
/*
 * pester SOCKET ROUNDS: clients of the control socket that are many, rude or asleep. Prints
 * how many were answered, and how, and stays asleep.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CROWD 100
#define ASLEEP 20
#define GARBAGE (1 << 20)

static struct sockaddr_un address = { .sun_family = AF_UNIX };
static unsigned long served, turned_away, refused, without_answer;

static int connected(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address))) {
		perror(address.sun_path);
		exit(1);
	}
	return fd;
}

/* Who is turned away is not listened to. */
static void say(int fd, const char *text, size_t length)
{
	while (length) {
		ssize_t written = write(fd, text, length);

		if (written < 0)
			return;
		text += written;
		length -= written;
	}
}

static void hear(int fd)
{
	char text[256] = "";

	if (read(fd, text, sizeof(text) - 1) <= 0)
		without_answer++;
	else if (strstr(text, "in_force"))
		served++;
	else if (strstr(text, "connections are served at once"))
		turned_away++;
	else if (strstr(text, "refused"))
		refused++;
	else
		without_answer++;
	close(fd);
}

static const char show[] = "\"show\"\n";

static void come_at_once(void)
{
	int fds[CROWD];

	for (int n = 0; n < CROWD; n++)
		fds[n] = connected();
	for (int n = 0; n < CROWD; n++)
		say(fds[n], show, strlen(show));
	for (int n = 0; n < CROWD; n++)
		hear(fds[n]);
}

static void be_rude(void)
{
	char *garbage = malloc(GARBAGE);
	int fd = connected();

	if (garbage)
		memset(garbage, '[', GARBAGE);
	say(fd, garbage, garbage ? GARBAGE : 0);
	hear(fd);
	free(garbage);
}

/* Half of them in the middle of a request, half before they hear the answer. */
static void fall_asleep(void)
{
	for (int n = 0; n < ASLEEP; n++)
		say(connected(), show, n % 2 ? strlen(show) : 3);
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;

	signal(SIGPIPE, SIG_IGN);
	if (argc > 1)
		strncpy(address.sun_path, argv[1], sizeof(address.sun_path) - 1);
	for (unsigned long n = 0; n < rounds; n++) {
		come_at_once();
		be_rude();
	}
	fall_asleep();
	printf("served=%lu\nturned-away=%lu\nrefused=%lu\nwithout-answer=%lu\n", served,
	       turned_away, refused, without_answer);
	fflush(stdout);
	pause();
	return 0;
}
