library "a" {
	sources = ["src/über uns/ker nel.cu", "src/übel.cu"]
	mode = "ürdc"
}
