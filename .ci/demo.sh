#!/bin/sh
# Builds examples/partial-lto for two architectures and shows in the linked program what LTO did.
set -eu
unset MAKEFLAGS
cd "$(dirname "$0")/.."
kbuild=$PWD/bin/kbuild
PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || PATH=$PATH:$("$kbuild" -C .ci/cuda toolkit path)/bin # as .ci/toolkit.sh has installed it
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

step "The linked program: its architectures, functions, and the calls that are left"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bin=$PWD/build/bin/bench
(cd "$dir" && cuobjdump --extract-elf all "$bin" >/dev/null)
for cubin in "$dir"/*.cubin; do
	printf '%s\n' "$(basename "$cubin" | sed 's/.*\(sm_[0-9a-z]*\).*/\1/'):"
	nvdisasm -c "$cubin" | sed -n -e 's/^\.text\.\(.*\):$/  function \1/p' -e 's/.*CALL[^`]*`(\([^)]*\)).*/    calls \1/p'
done
echo
echo "The solver's own functions, in another file, are inlined: no call to them is left."
echo "spectra_weight, from the prebuilt library, stayed a call: partial LTO, as the manifest says."

step "build/bin/bench"
build/bin/bench
