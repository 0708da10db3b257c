// Package offers owns Jobs of this cluster's services that wait for capacity here, and that
// another member of their federation could run.
//
// plan is pure: it names the next step of one Job. Offers reports that a Job waits, holds it
// when the control plane has found another place for it, and deletes it once it was posted
// there, or gives it back as it was. A Job is changed only in the version that was read.
package offers
