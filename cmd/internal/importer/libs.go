package importer

import (
	"slices"
	"strings"
)

// library maps a header to the libraries that it needs.
type library struct {
	header string // or its prefix, with a trailing / or *
	libs   string
}

// libraries lists the libraries that sources need, by header.
var libraries = []library{
	{"cublas.h", "cublas"}, {"cublas_v2.h", "cublas"}, {"cublasXt.h", "cublas"}, {"cublasLt.h", "cublasLt"}, {"cufft.h", "cufft"}, {"cufftXt.h", "cufft"}, {"cufftw.h", "cufftw cufft"},
	{"curand.h", "curand"}, {"cusparse.h", "cusparse"}, {"cusparse_v2.h", "cusparse"}, {"cusparseLt.h", "cusparseLt"}, {"cusolver*", "cusolver"},
	{"nvml.h", "nvidia-ml"}, {"nvrtc.h", "nvrtc"}, {"nvJitLink.h", "nvJitLink"}, {"nvjpeg.h", "nvjpeg"}, {"cupti*", "cupti"}, {"nvperf_host.h", "nvperf_host"}, {"nvperf_target.h", "nvperf_target"}, {"nvToolsExt.h", "nvToolsExt"}, {"nvtx3/", "dl"}, {"nccl.h", "nccl"},
	{"cudnn.h", "cudnn"}, {"cudnn_*", "cudnn"}, {"nppi.h", "nppial nppicc nppidei nppif nppig nppim nppist nppitc nppc"}, {"npps.h", "npps nppc"}, {"cufile.h", "cufile"},
	{"npp.h", "nppial nppicc nppidei nppif nppig nppim nppist nppitc npps nppc"}, {"nvshmem.h", "nvshmem_host nvshmem_device"},
	{"hipblas*", "hipblas"}, {"rocblas*", "rocblas"}, {"hipfft*", "hipfft"}, {"hiprand/hiprand.h", "hiprand"}, {"hipsparse*", "hipsparse"}, {"rccl*", "rccl"},
	{"pthread.h", "pthread"}, {"thread", "pthread"}, {"dlfcn.h", "dl"}, {"omp.h", "gomp"}, {"mpi.h", "mpi"}, {"zlib.h", "z"}, {"png.h", "png"}, {"jpeglib.h", "jpeg"}, {"tiffio.h", "tiff"},
	{"GL/gl.h", "GL"}, {"GL/glu.h", "GLU"}, {"GL/glut.h", "glut"}, {"GL/freeglut*", "glut"}, {"GL/glew.h", "GLEW"}, {"GLFW/", "glfw"}, {"EGL/", "EGL"}, {"vulkan/", "vulkan"}, {"CL/", "OpenCL"},
	{"opencv2/", "opencv_core opencv_imgproc opencv_imgcodecs opencv_highgui"}, {"SDL2/", "SDL2"}, {"hdf5.h", "hdf5"}, {"fftw3.h", "fftw3"}, {"cblas.h", "cblas"}, {"lapacke.h", "lapacke"}, {"gsl/", "gsl gslcblas"},
	{"curl/", "curl"}, {"openssl/", "ssl crypto"}, {"jansson.h", "jansson"}, {"yaml-cpp/", "yaml-cpp"}, {"fmt/", "fmt"}, {"glog/", "glog"}, {"gflags/", "gflags"}, {"tbb/", "tbb"}, {"numa.h", "numa"},
	{"gtest/", "gtest pthread"}, {"gmock/", "gmock gtest pthread"}, {"benchmark/", "benchmark pthread"}, {"boost/program_options*", "boost_program_options"}, {"boost/filesystem*", "boost_filesystem boost_system"},
	{"boost/system*", "boost_system"}, {"boost/thread*", "boost_thread boost_system"}, {"lz4*", "lz4"}, {"zstd.h", "zstd"}, {"snappy*", "snappy"}, {"bzlib.h", "bz2"}, {"infiniband/", "ibverbs"}, {"sqlite3.h", "sqlite3"},
}

var driverRE = pattern(`^cu(?:Init|Ctx|Module|Mem|Device|Launch|Stream|Event|Func|Link|Tex|Surf|GetErrorString|GetErrorName|GetProcAddress|Driver|Library|Kernel|Graph|Array|Occupancy|Pointer|Ipc|Profiler|Multicast|Tensor)[A-Z]?\w*$`)

// callsRuntime reports whether the unit calls the CUDA runtime.
func (u *unit) callsRuntime() bool {
	for header := range u.system {
		if strings.HasPrefix(header, "cu") && strings.HasSuffix(header, ".h") {
			for name := range u.uses {
				if len(name) > 5 && strings.HasPrefix(name, "cuda") && name[4] >= 'A' && name[4] <= 'Z' && !u.all[name] {
					return true
				}
			}
		}
	}
	return false
}

// libs returns the libraries that linking the unit needs.
func (u *unit) libs() (all []string) {
	add := func(l string) { all = appendNew(all, l) }
	for header := range u.system {
		for _, l := range libraries {
			begin, part := strings.CutSuffix(l.header, "*")
			if header == l.header || (part || strings.HasSuffix(l.header, "/")) && strings.HasPrefix(header, begin) {
				for _, name := range strings.Fields(l.libs) {
					add(name)
				}
			}
		}
	}
	if u.language == "c" && u.system["math.h"] {
		add("m")
	}
	if u.openMP {
		add("gomp")
	}
	if u.system["cuda.h"] {
		for name := range u.uses {
			if driverRE().MatchString(name) && !u.all[name] {
				add("cuda")
				break
			}
		}
	}
	if u.nested != "" {
		add("cudadevrt")
	}
	slices.Sort(all)
	return slices.Compact(all)
}
