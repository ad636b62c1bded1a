// SPDX-License-Identifier: GPL-2.0-only
/*
 * rival PMU: wants three counters of CPU 0 as a group, as anybody may who uses perf. Prints
 * twice a second for which part of the time it had them, in percent.
 */
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NR_EVENTS 3

static int open_event(unsigned int pmu, uint64_t config, int leader)
{
	struct perf_event_attr attr = {
		.type = pmu,
		.size = sizeof(attr),
		.config = config,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, leader, 0);

	if (fd < 0) {
		perror("perf_event_open");
		exit(1);
	}
	return fd;
}

int main(int argc, char **argv)
{
	struct {
		uint64_t count, enabled, running;
	} before = { 0 }, now;
	unsigned int pmu;
	char path[128];
	FILE *file;
	int leader;

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type",
		 argc > 1 ? argv[1] : "cpu");
	file = fopen(path, "r");
	if (!file || fscanf(file, "%u", &pmu) != 1) {
		perror(path);
		return 1;
	}
	leader = open_event(pmu, 0, -1);
	for (int n = 1; n < NR_EVENTS; n++)
		open_event(pmu, n, leader);
	for (;;) {
		usleep(500000);
		if (read(leader, &now, sizeof(now)) != sizeof(now)) {
			perror("read");
			return 1;
		}
		printf("%.0f\n", 100.0 * (double)(now.running - before.running) /
					 (double)(now.enabled - before.enabled));
		fflush(stdout);
		before = now;
	}
}
