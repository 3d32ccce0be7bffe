// SPDX-License-Identifier: GPL-2.0
/*
 * The load that no program can make: blocks asked for where nobody may sleep, contiguous ranges, vmalloc areas.
 *
 * A device, /dev/freehold-load, takes one request a line, and tells in a line what came of the last one:
 *
 *	atomic ORDER COUNT	so many blocks, GFP_ATOMIC, with softirqs off as in a network driver's poll
 *	contig MIB		one physically contiguous range: whatever can be moved is moved out of it
 *	vmalloc MIB		one area of single pages
 *	free			everything that is held goes back, the oldest first
 *
 *	served N failed N
 *
 * What is served is held until it is freed. Nothing is allocated to keep account of it, so that a recording shows
 * requests only: blocks and ranges hang on the list of their first page, areas on a list in their first bytes. A line
 * that is none of these is refused (EINVAL), and a request that memory does not suffice for counts as failed.
 */

#include <linux/bottom_half.h>
#include <linux/kprobes.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/vmalloc.h>

/* No line is longer. */
#define LINE_BYTES 64
/* Blocks asked for in one go without sleeping: what a network driver may receive in one. */
#define BURST 64
/* Blocks of one line; so each ends. */
#define COUNT_MAX (1UL << 20)
#define PAGES_PER_MIB (1UL << (20 - PAGE_SHIFT))
/* May wait and reclaim, but fails rather than have a process killed. */
#define GFP_PATIENT (GFP_KERNEL | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

typedef struct page *(*contig_fn)(unsigned long pages, gfp_t gfp, int node, nodemask_t *nodes);

/* Protects everything below. */
static DEFINE_MUTEX(lock);
/* First pages; their private word says how many pages a range has, and is 0 in a block. */
static LIST_HEAD(held);
static LIST_HEAD(areas);
static unsigned long served, failed;
/* NULL where this kernel does not let us have it. */
static contig_fn contig_pages;

static void keep(struct page *first, unsigned long range)
{
	if (!first) {
		failed++;
		return;
	}
	set_page_private(first, range);
	list_add_tail(&first->lru, &held);
	served++;
}

static void burst(unsigned int order, unsigned long count)
{
	local_bh_disable();
	while (count--)
		keep(alloc_pages(GFP_ATOMIC | __GFP_COMP | __GFP_NOWARN, order), 0);
	local_bh_enable();
}

static int atomic(unsigned long order, unsigned long count)
{
	if (order > MAX_PAGE_ORDER || !count || count > COUNT_MAX)
		return -EINVAL;
	for (; count; count -= min(count, BURST)) {
		burst(order, min(count, BURST));
		cond_resched();
	}
	return 0;
}

static int contig(unsigned long pages)
{
	if (!contig_pages)
		return -EOPNOTSUPP;
	keep(contig_pages(pages, GFP_PATIENT, numa_node_id(), NULL), pages);
	return 0;
}

static int area(unsigned long pages)
{
	struct list_head *first = __vmalloc(pages << PAGE_SHIFT, GFP_PATIENT);

	if (first)
		list_add_tail(first, &areas);
	*(first ? &served : &failed) += 1;
	return 0;
}

static int free_all(void)
{
	struct page *first, *next;
	struct list_head *area, *after;

	list_for_each_entry_safe(first, next, &held, lru) {
		unsigned long range = page_private(first);

		list_del(&first->lru);
		set_page_private(first, 0);
		if (range)
			free_contig_range(page_to_pfn(first), range);
		else
			__free_pages(first, compound_order(first));
		served++;
		cond_resched();
	}
	list_for_each_safe(area, after, &areas) {
		list_del(area);
		vfree(area);
		served++;
	}
	return 0;
}

static int request(const char *line)
{
	char verb[8], rest;
	unsigned long a, b;
	int words = sscanf(line, "%7s %lu %lu %c", verb, &a, &b, &rest);

	served = failed = 0;
	if (words == 3 && !strcmp(verb, "atomic"))
		return atomic(a, b);
	if (words == 1 && !strcmp(verb, "free"))
		return free_all();
	if (words != 2 || !a || a > totalram_pages() / PAGES_PER_MIB)
		return -EINVAL;
	if (!strcmp(verb, "contig"))
		return contig(a * PAGES_PER_MIB);
	return strcmp(verb, "vmalloc") ? -EINVAL : area(a * PAGES_PER_MIB);
}

static ssize_t take(struct file *file, const char __user *from, size_t bytes, loff_t *at)
{
	char line[LINE_BYTES] = {};
	int error;

	if (bytes >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, bytes))
		return -EFAULT;
	mutex_lock(&lock);
	error = request(line);
	mutex_unlock(&lock);
	return error ?: bytes;
}

static ssize_t tell(struct file *file, char __user *to, size_t bytes, loff_t *at)
{
	char line[LINE_BYTES];
	int length;

	mutex_lock(&lock);
	length = scnprintf(line, sizeof(line), "served %lu failed %lu\n", served, failed);
	mutex_unlock(&lock);
	return simple_read_from_buffer(to, bytes, at, line, length);
}

/* Newer kernels export it. An older one tells where it is; where indirect branches are tracked, that is not enough. */
static contig_fn find_contig_pages(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 2, 0)
	return alloc_contig_pages_noprof;
#else
	struct kprobe probe = { .symbol_name = "alloc_contig_pages_noprof" };

	if (cpu_feature_enabled(X86_FEATURE_IBT) || register_kprobe(&probe))
		return NULL;
	unregister_kprobe(&probe);
	return (contig_fn)probe.addr;
#endif
}

static const struct file_operations operations = { .owner = THIS_MODULE, .read = tell, .write = take };
static struct miscdevice device = { .minor = MISC_DYNAMIC_MINOR, .name = "freehold-load", .fops = &operations };

static int __init start(void)
{
	contig_pages = find_contig_pages();
	return misc_register(&device);
}

static void __exit stop(void)
{
	misc_deregister(&device);
	free_all();
}

module_init(start);
module_exit(stop);
MODULE_DESCRIPTION("Page requests that no program can make, for freehold");
MODULE_LICENSE("GPL");
