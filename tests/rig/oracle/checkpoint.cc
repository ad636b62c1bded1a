// SPDX-License-Identifier: GPL-2.0-only
/*
 * A machine that was booted once, for many guests.
 *
 * Problem. To boot takes longer than most of what is done afterwards, and goes the same way
 * each time.
 *
 * Mechanism. A machine that reaches its checkpoint stands there, and is copied by the host's
 * own fork() for each guest: whatever there is of it, since it is one process with one thread.
 * A copy goes on in a directory of its own, with the files there in place of those that have
 * the same names in the directory of the machine.
 *
 * Whoever starts Bochs gives it a socket (ORACLE_CHECKPOINT in the environment: its number).
 * A message from here is the id of a process, first 0: the machine stands. A message from
 * there is the directory for another copy. The copy is a child of whoever started Bochs, and
 * dies with it.
 *
 * Limits. Traces and profiles begin with the machine, and are no files of a copy's own.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "checkpoint.h"

/* Bochs has a dozen open. */
#define MAX_FDS 256

static void give_up(const char *what)
{
	perror(what);
	_exit(1);
}

static void tell(int control, pid_t pid)
{
	if (send(control, &pid, sizeof(pid), MSG_NOSIGNAL) != (ssize_t)sizeof(pid))
		_exit(0);
}

/* Where the file that was at @path belongs to in @place; elsewhere it is the same file. */
static void translate(char *path, size_t size, const char *old_place, const char *place)
{
	char rest[PATH_MAX];
	size_t length = strlen(old_place);

	if (strncmp(path, old_place, length) || path[length] != '/')
		return;
	snprintf(rest, sizeof(rest), "%s", path + length);
	if ((size_t)snprintf(path, size, "%s%s", place, rest) >= size)
		give_up("a path is too long");
}

/*
 * Copies of a process share what they have open, and where they are in it. So each file is
 * opened again, even one that is only read.
 */
static void reopen(int fd, const char *old_place, const char *place)
{
	char link[64], path[PATH_MAX];
	struct stat status;
	ssize_t length;
	off_t offset;
	int again;

	if (fstat(fd, &status) || !S_ISREG(status.st_mode))
		return;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length < 0)
		give_up(link);
	path[length] = 0;
	translate(path, sizeof(path), old_place, place);

	offset = lseek(fd, 0, SEEK_CUR);
	/* A file without a name is at least opened anew. */
	again = open(status.st_nlink ? path : link, fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND));
	if (again < 0 || lseek(again, offset, SEEK_SET) < 0 || dup2(again, fd) < 0)
		give_up(path);
	close(again);
}

static void move_to(const char *place)
{
	char old_place[PATH_MAX];
	struct dirent *entry;
	int fds[MAX_FDS], n = 0;
	DIR *all;

	if (!getcwd(old_place, sizeof(old_place)) || chdir(place))
		give_up(place);
	all = opendir("/proc/self/fd");
	if (!all)
		give_up("/proc/self/fd");
	while ((entry = readdir(all)) && n < MAX_FDS)
		if (entry->d_name[0] != '.')
			fds[n++] = atoi(entry->d_name);
	closedir(all);
	while (n--)
		reopen(fds[n], old_place, place);
}

void checkpoint_stand(void)
{
	const char *number = getenv("ORACLE_CHECKPOINT");
	char place[PATH_MAX];
	ssize_t length;
	int control;
	pid_t pid;

	if (!number)
		return;
	control = atoi(number);
	/* What is buffered would be missing from the files, and then be written by each copy. */
	fflush(NULL);
	tell(control, 0);
	for (;;) {
		length = recv(control, place, sizeof(place) - 1, 0);
		if (length <= 0)
			_exit(0);
		place[length] = 0;
		pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
		if (!pid)
			break;
		tell(control, pid);
	}
	close(control);
	unsetenv("ORACLE_CHECKPOINT");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	move_to(place);
}
