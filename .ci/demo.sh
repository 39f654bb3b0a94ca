#!/bin/sh
# Builds examples/partial-lto for two architectures and shows in the linked program what LTO did.
set -eu
cd "$(dirname "$0")/.."
kbuild=$PWD/bin/kbuild
PATH=$PATH:/usr/local/cuda/bin
cd examples/partial-lto

step() { printf '\n== %s\n' "$*"; }

step "A vendor's library: machine code only, no LTO-IR"
[ -f third_party/libspectra.a ] || make -s -C third_party
"$kbuild" inspect third_party/libspectra.a

step "kbuild --arch sm_80,sm_90"
"$kbuild" --arch sm_80,sm_90

step "Again: nothing to do"
"$kbuild" --arch sm_80,sm_90

step "After rm -rf build: all from the cache"
rm -rf build
"$kbuild" --arch sm_80,sm_90

step "The linked program: which architectures, and which calls are left"
cuobjdump --list-elf build/bin/bench
for arch in sm_80 sm_90; do
	calls=$(cuobjdump --dump-sass -arch "$arch" build/bin/bench | sed -n 's/.*CALL[^`]*`(\([^)]*\)).*/\1/p' | sort | uniq -c)
	printf '%s, calls left:\n%s\n' "$arch" "${calls:-  none}"
done
echo
echo "The solver's own functions, in another file, are inlined: no call to them is left."
echo "spectra_weight, from the prebuilt library, stayed a call: partial LTO, as the manifest says."

step "build/bin/bench"
build/bin/bench
