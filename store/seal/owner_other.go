//go:build !unix

package seal

import "io/fs"

// ofRoot is false: there is no root, and no Kubernetes mounts Secrets.
func ofRoot(fs.FileInfo) bool { return false }
