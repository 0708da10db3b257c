//go:build !linux

package kubetest

import "syscall"

// dieWithParent has nothing to offer here: a test process that is killed leaves its
// API server behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
