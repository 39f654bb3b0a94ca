# profile: deb
profile "dev" {
}

profile "release" {
}
