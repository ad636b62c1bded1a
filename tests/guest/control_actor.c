// SPDX-License-Identifier: GPL-2.0-only
/*
 * control_actor SOCKET FILE: plays a scheduler at its control socket. Whoever asks for the
 * status is answered with what is in the file, and whoever wants to follow hears nothing.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char following[] = "\"following\"\n";

static void answer(int fd, const char *path)
{
	static char text[1 << 20];
	int file = open(path, O_RDONLY);
	ssize_t length;

	if (read(fd, text, sizeof(text)) <= 0)
		return;
	if (!strstr(text, "status")) {
		/* It stays open: nothing happens. */
		if (write(fd, following, strlen(following)) < 0)
			perror("write");
		return;
	}
	while ((length = read(file, text, sizeof(text))) > 0)
		if (write(fd, text, length) < 0)
			break;
	close(file);
	close(fd);
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);

	if (argc != 3)
		return 2;
	strncpy(address.sun_path, argv[1], sizeof(address.sun_path) - 1);
	if (bind(listener, (const struct sockaddr *)&address, sizeof(address)) ||
	    listen(listener, 8)) {
		perror(argv[1]);
		return 1;
	}
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd >= 0)
			answer(fd, argv[2]);
	}
}
