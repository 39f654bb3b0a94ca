package manifest

import "testing"

func TestCache(t *testing.T) {
	const byVariables = `
variable "ci" { default = false }
cache {
  remote    = var.ci ? "grpcs://cache.example:8980/team" : null
  read_only = !var.ci
}
`
	expect(t, "no block", load(t, "", Options{}).Cache, Cache{})
	expect(t, "an empty one", load(t, "cache {}", Options{}).Cache, Cache{})
	expect(t, "for all but CI", load(t, byVariables, Options{}).Cache, Cache{ReadOnly: true})
	expect(t, "for CI", load(t, byVariables, Options{Vars: map[string]string{"ci": "true"}}).Cache, Cache{Remote: "grpcs://cache.example:8980/team"})
}
