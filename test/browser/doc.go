// Package browser drives a real Chromium, for what only a browser does: it sends a
// remembered password with the form of a foreign page, and runs what a function answers.
// `make browser`, which `make test` does by itself, installs it on Debian as root.
package browser
