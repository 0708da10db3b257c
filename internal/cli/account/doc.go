// Package account owns the commands about the caller and his way to the control plane: login,
// logout, whoami, contexts, usage and doctor.
package account
