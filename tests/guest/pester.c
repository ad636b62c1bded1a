// SPDX-License-Identifier: GPL-2.0-only
/*
 * pester SOCKET|PORT ROUNDS: clients of the control socket, or of the metrics at a port, that
 * are many, rude or asleep. Prints how many were answered, and how, and stays asleep.
 */
#include <arpa/inet.h>
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

static const char *place;
static in_port_t port; /* 0 for the control socket */
static const char *request = "\"show\"\n";
static unsigned long served, turned_away, refused, without_answer;

static int connect_to(const void *address, sa_family_t family, socklen_t length)
{
	int fd = socket(family, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, address, length)) {
		perror(place);
		exit(1);
	}
	return fd;
}

static int connected(void)
{
	struct sockaddr_in metrics = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct sockaddr_un control = { .sun_family = AF_UNIX };

	if (port)
		return connect_to(&metrics, AF_INET, sizeof(metrics));
	strncpy(control.sun_path, place, sizeof(control.sun_path) - 1);
	return connect_to(&control, AF_UNIX, sizeof(control));
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
	else if (strstr(text, "in_force") || strstr(text, " 200 OK"))
		served++;
	else if (strstr(text, "connections are served at once"))
		turned_away++;
	else if (strstr(text, "refused") || strstr(text, " 400 Bad Request"))
		refused++;
	else
		without_answer++;
	close(fd);
}

static void come_at_once(void)
{
	int fds[CROWD];

	for (int n = 0; n < CROWD; n++)
		fds[n] = connected();
	for (int n = 0; n < CROWD; n++)
		say(fds[n], request, strlen(request));
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
		say(connected(), request, n % 2 ? strlen(request) : 3);
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;

	signal(SIGPIPE, SIG_IGN);
	place = argc > 1 ? argv[1] : "";
	port = strtoul(place, NULL, 10);
	if (port)
		request = "GET /metrics HTTP/1.1\r\n\r\n";
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
