// SPDX-License-Identifier: GPL-2.0-only
/*
 * A scheduler's own error, to order: setting the host name makes the kernel
 * eject the scheduler that is loaded, as if its BPF code had called for it.
 */
#define SECTION(name) __attribute__((section(name), used))

extern void scx_bpf_error_bstr(char *format, unsigned long long *data, unsigned int data_size)
	SECTION(".ksyms");

char _license[] SECTION("license") = "GPL";
static char message[] = "an error made to order";

int SECTION("fentry/__x64_sys_sethostname") eject(void *ctx)
{
	unsigned long long none = 0;

	scx_bpf_error_bstr(message, &none, 0);
	return 0;
}
