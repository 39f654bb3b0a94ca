x = 1
gencode = ["sm_80"]
