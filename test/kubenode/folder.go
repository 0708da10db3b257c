//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// folderName begins the names of the folders of nodes, and of their cgroups.
const folderName = "kubenode"

// newFolder makes a node's folder. It is locked until it is closed, or this process ends.
func newFolder(root string) (*os.File, error) {
	for {
		dir, err := os.MkdirTemp(root, folderName)
		if err != nil {
			return nil, err
		}
		f, err := own(dir)
		if err != nil {
			return nil, err
		}
		if f != nil {
			return f, nil // else somebody sweeps, who took it for a folder without an owner
		}
	}
}

// own opens a folder and locks it; nil when somebody else has it, or when it is gone.
func own(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		_, err = os.Stat(dir)
	}
	if err == nil {
		return f, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return nil, errors.Join(err, f.Close())
}

// sweep removes the folders of nodes that have no owner any more, with their cgroups: one that was
// killed leaves them. Its namespaces, and so its processes and mounts, ended with it.
func sweep(root string) error {
	dirs, err := filepath.Glob(filepath.Join(root, folderName+"[0-9]*"))
	if err != nil {
		return err
	}
	mine, err := hierarchies()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		f, err := own(dir)
		if err != nil {
			return err
		}
		if f == nil {
			continue
		}
		if err := errors.Join(cgroupsOf(filepath.Base(dir), mine).remove(), os.RemoveAll(dir), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
