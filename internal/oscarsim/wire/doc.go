// Package wire owns the service definition as an OSCAR Manager v4.1.2 reads and shows it: the JSON shapes, the texts
// with which a bad body is refused, and the defaults and normalisation that make a definition read back byte for byte
// the same.
//
// It is an independent reading of the observed facts for the simulator: it shares no type with the rest of the
// project, so that a mistake in one reading cannot hide in the other. Everything here is pure.
//
// Not covered: KServe. Its keys are dropped like any unknown key.
package wire
