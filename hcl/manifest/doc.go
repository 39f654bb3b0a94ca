// Package manifest parses kernels.hcl into a Project of plain data. It knows the language (blocks,
// references, variables, functions, defaults, matrices, partitions) and refuses to know compilers,
// toolkits and how anything is built.
//
// A load has four phases. Each phase reports all errors that it finds before the next one relies on
// its result:
//
//	parse     files to blocks; unknown blocks and attributes (schema.go, parse.go)
//	resolve   references to addresses, before anything is evaluated (resolve.go)
//	evaluate  variables, locals and attributes in the order of their dependencies (evaluate.go)
//	decode    values to Project (decode.go, targets.go, source.go, generate.go)
//
// The second phase finds a reference to a name that does not exist. So it is never mistaken for a
// cycle or for a value of a wrong type. An expression that cannot be evaluated has an unknown
// value, which later phases ignore: one mistake causes one diagnostic.
package manifest
