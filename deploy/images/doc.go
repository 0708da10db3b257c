// Package images builds the container images of the daemons and of the CLI with ko, as
// tarballs for `docker load`, `ctr images import` and the like. It needs neither a
// registry nor a container daemon: ko asks a registry for its base image, so this
// program is one for that time, on loopback, with one image that it makes itself.
//
// The same source, Go toolchain and bundle of CA certificates give the same images, by
// their digests; ko's tarballs hold them in any order.
package images
