// Package manifest reads kernels.hcl and gives a Project of plain data: it knows the language
// (blocks, references, variables, functions, defaults, matrices, partitions) and refuses to know
// compilers, toolkits and how anything is built.
//
// One load has four phases, and every phase reports all it finds before the next one starts to
// trust its result:
//
//	parse     files to blocks; unknown blocks and attributes (schema.go, parse.go)
//	resolve   references to addresses, before anything is evaluated (resolve.go)
//	evaluate  variables, locals and attributes in the order they need each other (evaluate.go)
//	decode    values to Project (target.go, generate.go, block.go)
//
// A reference that names nothing is found in the second phase, so it can never be mistaken for a
// cycle or for a value of a wrong type. What could not be evaluated has an unknown value, which
// later phases pass over in silence: one mistake gives one diagnostic.
package manifest
