#!/bin/sh
# Runs the end-to-end tests of HIP, and of the launcher with hipcc, with compilers that this system does not have, each in a Debian root of its own:
# hipcc 5.7 with clang 17 and 19, hipcc 7.0 with clang 21, hipcc 7.2 with clang 22 and 23. It makes the roots that are not there, and says before what they bring.
# No root has a GPU or CUDA. Needs root, Go and, to make roots, debootstrap.
#
#   KBUILD_TOOLKIT_ROOTS  where the roots are; by default in the user's cache
#   ONLY                  "57 72": the roots to run, of 57, 70 and 72
#   RUN                   the tests to run, by default the matrix and the launcher's: RUN=TestHIP
set -eu

say() { printf '%s\n' "test-toolkits: $*" >&2; }

roots=${KBUILD_TOOLKIT_ROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/kbuild-toolkits}
only=${ONLY:-57 70 72}
[ "$(id -u)" = 0 ] || { say "root is needed, for chroot: run make test-toolkits as root"; exit 1; }

# llvm VERSION: what HIP needs of an LLVM. clang-tools has clang-offload-packager, llvm what the new offload driver runs besides.
llvm() { echo "clang-$1 lld-$1 llvm-$1 clang-tools-$1"; }

# about ROOT: suite, size in GB, packages.
about() {
	case $1 in
	57) echo "trixie 1.6 hipcc libamdhip64-dev rocm-device-libs-17 $(llvm 17) $(llvm 19) libclang-rt-19-dev" ;;
	70) echo "sid 1.4 hipcc libamdhip64-dev $(llvm 21)" ;;
	72) echo "experimental 1.8 hipcc libamdhip64-dev $(llvm 22) $(llvm 23)" ;;
	*) say "there is no root $1; there are 57, 70 and 72"; exit 1 ;;
	esac
}

# inside ROOT COMMAND...: runs a command in a root, whose mounts go with it.
inside() {
	dir=$1
	shift
	unshare --mount sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' "$dir" "$@"
}

make_root() {
	name=$1 suite=$2 dir=$roots/$1.new
	shift 3
	command -v debootstrap >/dev/null || { say "debootstrap is needed: apt install debootstrap"; exit 1; }
	rm -rf "$dir"
	mkdir -p "$dir/etc/apt"
	base=$suite
	[ "$suite" = experimental ] && base=sid # it stands on that
	debootstrap --variant=minbase --include=ca-certificates,make,git,gcc,g++,python3 "$base" "$dir" >"$roots/$name.log" 2>&1 || { tail -n 5 "$roots/$name.log" >&2; exit 1; }
	for f in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
		[ ! -f $f ] || cp $f "$dir$f"
	done
	cp -r /etc/apt/apt.conf.d/. "$dir/etc/apt/apt.conf.d/" # how this system reaches packages
	target=
	if [ "$suite" = experimental ]; then
		sed 's/\bsid\b/experimental/' "$dir/etc/apt/sources.list" >"$dir/etc/apt/sources.list.d/experimental.list"
		target="-t experimental"
	fi
	{ inside "$dir" apt-get update &&
		inside "$dir" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $target "$@"; } >>"$roots/$name.log" 2>&1 || { tail -n 5 "$roots/$name.log" >&2; exit 1; }
	case $name in
	57) # the script of hipcc 5.7 runs clang-17 and clang++-17 of the folder that it is told of
		ln -s clang "$dir/usr/lib/llvm-19/bin/clang-17"
		ln -s clang++ "$dir/usr/lib/llvm-19/bin/clang++-17" ;;
	72) # clang 23 links this file
		ln -s x86_64-linux-gnu/libamdhip64.so "$dir/usr/lib/libamdhip64.so" ;;
	esac
	mv "$dir" "$roots/$name"
}

# run ROOT LABEL VARIABLE...: runs the tests.
run() {
	dir=$roots/$1 label=$2
	shift 2
	rm -rf "$dir/kbuild"
	mkdir -p "$dir/kbuild"
	cp bin/kbuild bin/kbuild-cc "$dir/kbuild/"
	say "$label"
	status=0
	for package in hip launcher; do
		mkdir "$dir/kbuild/$package"
		cp -r "$built/$package.test" cmd/internal/e2e/$package/testdata "$dir/kbuild/$package/"
		tests=${RUN:-^TestMatrix$}
		[ $package = hip ] || tests=${RUN:-^TestHIP}
		inside "$dir" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 KBUILD_TEST_BIN=/kbuild "$@" \
			sh -c 'cd "/kbuild/$0" && exec "./$0.test" -test.v -test.timeout 0 -test.run "$1"' $package "$tests" || status=$?
	done >"$roots/$label.log" 2>&1
	sed -n 's/.*MATRIX //p' "$roots/$label.log" | sort
	[ $status = 0 ] || { say "$label failed: see $roots/$label.log"; failed=1; }
}

mkdir -p "$roots"
missing=
for r in $only; do
	[ -d "$roots/$r" ] || missing="$missing $r"
done
for r in $missing; do
	set -- $(about "$r")
	say "$roots/$r will be made: Debian $1 with hipcc and clang, about $2 GB on disk, a third of that to download"
done
for r in $missing; do
	set -- $(about "$r")
	make_root "$r" "$@"
done

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
CGO_ENABLED=0 go test -c -o "$built/" ./cmd/internal/e2e/hip ./cmd/internal/e2e/launcher
failed=
for r in $only; do
	case $r in
	57)
		run 57 hipcc-5.7-clang-17
		run 57 hipcc-5.7-clang-19 HIP_CLANG_PATH=/usr/lib/llvm-19/bin HIP_DEVICE_LIB_PATH=/usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode ;;
	70) run 70 hipcc-7.0-clang-21 ;;
	72)
		run 72 hipcc-7.2-clang-22
		run 72 hipcc-7.2-clang-23 HIP_CLANG_PATH=/usr/lib/llvm-23/bin HIP_DEVICE_LIB_PATH=/usr/lib/llvm-22/lib/clang/22/amdgcn/bitcode ;;
	esac
done
[ -z "$failed" ]
