/* The artifacts of a module in a program: device code with what a loader chooses by. C99 and C++. */
#ifndef KBUILD_ARTIFACT_H
#define KBUILD_ARTIFACT_H

#include <stddef.h>
#include <string.h>

enum kbuild_kind { KBUILD_FATBIN = 1, KBUILD_CUBIN, KBUILD_PTX, KBUILD_LTOIR, KBUILD_HSACO, KBUILD_BITCODE };

struct kbuild_artifact {
	const char *name;          /* its file, for messages: "gemm.f16.64.sm_80.cubin" */
	const char *variant;       /* "dtype=f16,tile=64", axes in order of their names; "" without a matrix */
	const char *source;        /* "src/gemm.cu"; "" if the sources of the module are linked into one artifact */
	const char *arch;          /* "sm_90a", "compute_80", "lto_75"; "" for a fatbin, which holds several */
	int kind;                  /* of enum kbuild_kind */
	int arch_number;           /* 90; 0 for a fatbin and for HIP */
	int arch_suffix;           /* 'a': for this GPU alone, 'f': for its family, else 0 */
	const unsigned char *data; /* aligned to 16 bytes; a zero byte follows, so that PTX is a string */
	size_t size;               /* without that byte */
};

/* The first artifact of a kind for a variant and a source; NULL stands for any of them. NULL if there is none. A table ends with
 * an entry whose data is NULL. */
static inline const struct kbuild_artifact *kbuild_find(const struct kbuild_artifact *table, const char *variant, const char *source, int kind) {
	const struct kbuild_artifact *a;
	for (a = table; a->data != NULL; a++)
		if (a->kind == kind && (variant == NULL || strcmp(a->variant, variant) == 0) && (source == NULL || strcmp(a->source, source) == 0))
			return a;
	return NULL;
}

/* How well an artifact suits an NVIDIA GPU of compute capability cc, 80 for 8.0; 0 if it cannot be loaded there. The GPU's own
 * machine code is best, then that of an older one of its generation, then PTX, which the driver compiles, the newest first. In a
 * fatbin the driver looks for itself. */
static inline int kbuild_fit(const struct kbuild_artifact *a, int cc) {
	int same_generation = a->arch_number / 10 == cc / 10;
	if (a->kind == KBUILD_FATBIN)
		return 1;
	if (a->arch_number > cc || (a->arch_suffix == 'a' && a->arch_number != cc) || (a->arch_suffix == 'f' && !same_generation))
		return 0;
	if (a->kind == KBUILD_CUBIN && same_generation)
		return 4000 + 2 * a->arch_number + (a->arch_suffix != 0);
	if (a->kind == KBUILD_PTX)
		return 2000 + 2 * a->arch_number + (a->arch_suffix != 0);
	return 0;
}

/* The artifact for a variant and a source that suits a GPU best, NULL if none does; NULL stands for any variant or source. */
static inline const struct kbuild_artifact *kbuild_best(const struct kbuild_artifact *table, const char *variant, const char *source, int cc) {
	const struct kbuild_artifact *a, *best = NULL;
	for (a = table; a->data != NULL; a++)
		if ((variant == NULL || strcmp(a->variant, variant) == 0) && (source == NULL || strcmp(a->source, source) == 0) &&
		    kbuild_fit(a, cc) > (best != NULL ? kbuild_fit(best, cc) : 0))
			best = a;
	return best;
}

#endif
