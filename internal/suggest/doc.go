// Package suggest owns which of several known words a person may have meant by one that is not known.
package suggest
