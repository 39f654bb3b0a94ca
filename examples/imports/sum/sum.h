int sum_of(int n, int each);
