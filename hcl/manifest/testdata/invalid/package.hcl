package {
  version = "1.4.0"
}

package {
  name = "second"
}
