/* y += a * x. Returns 0, or an error of CUDA with what it says. */
int saxpy_on_gpu(int n, float a, const float *x, float *y, const char **what);
