void fill(int *values, int n, int with);
