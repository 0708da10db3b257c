package seal

import "io/fs"

// private says whether a file is kept from the other users of this machine. One of
// root may also be readable by its group, when the process (of user euid) is not
// root: so Kubernetes mounts a Secret for it, and neither the process nor anybody of
// the group can have made the file.
func private(info fs.FileInfo, euid int) bool {
	mode := info.Mode()
	switch {
	case !mode.IsRegular():
		return false
	case mode.Perm()&0o077 == 0:
		return true
	}
	return ofRoot(info) && euid != 0 && mode.Perm()&0o037 == 0
}
