module github.com/kbuild-dev/kbuild/cmd/kbench

go 1.26.0
