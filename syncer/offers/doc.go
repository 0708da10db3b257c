// Package offers owns Jobs of this cluster's services that wait for capacity here, and that
// another member of their federation could run.
//
// plan is pure: it names the next step of one Job. Offers reports that a Job waits. It holds the
// Job when the control plane has found another cluster for it, and deletes it once it was posted
// there, or restores it as it was. A Job is changed only in the version that was read.
package offers
