// Package process owns this project's programs as processes of their own, so that
// a test can kill a real one. The test binary is the program: [Main], called from
// TestMain, makes it be a control plane, a syncer or a member of etcd when it was
// started as one, and no other binary is built.
package process
