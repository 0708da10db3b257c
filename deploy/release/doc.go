// Command release builds all that a release consists of, into one folder: archives of the programs for each
// platform, container images, charts, lists of contents (SPDX), the section of CHANGELOG.md, and SHA256SUMS
// over them. It builds what is committed, and refuses a working copy with changes.
//
// The same commit, Go toolchain and bundle of CA certificates give the same bytes, whenever and wherever
// they are built: files have the time of the commit, no owner, and a fixed order.
package main
