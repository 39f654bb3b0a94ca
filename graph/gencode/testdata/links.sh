# sh links.sh TOOLKIT: links an image of each kind and architecture that the toolkit knows into each architecture, with nvlink alone.
cd "$(mktemp -d)" && bin=$1/bin || exit 1
echo '__device__ int f(int x) { return x * 3; }' >x.cu
echo 'extern __device__ int f(int); __global__ void k(int *p) { *p = f(*p); }' >u.cu
names=$("$bin/nvcc" --help | grep -o "'sm_[0-9a-z]*'" | tr -d "'" | sed s/sm_// | sort -u | sort -n)
for n in $names; do
	for kind in sm compute lto; do
		"$bin/nvcc" -dc -gencode arch=compute_$n,code=${kind}_$n x.cu -o x.${kind}_$n.o
		"$bin/nvcc" -dc -gencode arch=compute_$n,code=${kind}_$n u.cu -o u.${kind}_$n.o
	done
done
for kind in sm compute lto; do
	user=sm options=
	test $kind = lto && user=lto options="-dlto -nvvmpath=$1/nvvm -L$1/lib -lcudadevrt"
	for n in $names; do
		printf %s ${kind}_$n:
		for target in $names; do
			rm -f out.cubin
			"$bin/nvlink" -m64 --arch=sm_$target u.${user}_$target.o x.${kind}_$n.o $options -o out.cubin >said 2>&1 && test -s out.cubin && printf " $target"
		done
		echo
	done
done
