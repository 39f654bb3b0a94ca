/* Multiplies n values in place. Returns 0, -1 without a device, or a CUDA error. */
#ifdef __cplusplus
extern "C"
#endif
int scale(float *values, int n);
