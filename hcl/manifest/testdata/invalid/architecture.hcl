gencode "g" {
  code = ["sm80", "8.6", "90-virtual", "sm_9x", "nativ"]
}

gencode "mixed" {
  code = ["sm_80", "gfx90a"]
}

gencode "none" {
  code = []
}

gencode "empty" {
}
