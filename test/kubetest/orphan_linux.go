package kubetest

import "syscall"

// dieWithParent makes the kernel end a child when we die without stopping it.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
