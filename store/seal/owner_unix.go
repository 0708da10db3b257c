//go:build unix

package seal

import (
	"io/fs"
	"syscall"
)

func ofRoot(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0
}
