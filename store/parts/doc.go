// Package parts owns how the records of one federation share a definition that is written once:
// how a text becomes parts, how its secrets are sealed once, and how both are read again. Each
// record names its parts and holds what differs (record.Spec, record.History, record.Secrets).
// It does not decide which records share what.
package parts
