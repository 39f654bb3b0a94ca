__device__ float tap(const float *in, int i, int width) {
  int at = i < 0 ? 0 : i >= width ? width - 1 : i;
  return in[at] * (width - at);
}
