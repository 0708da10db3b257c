// Package process owns programs as processes of their own, so that a test can kill a
// real one: any binary as a [Child], and whole federations of this project's programs
// whose OSCARs are simulated in the process of the test. For these the test binary is
// the program: [Main], called from TestMain, makes it be a control plane, a syncer or a
// member of etcd when it was started as one, and no other binary is built.
package process
