// Package services owns the services of this cluster: it votes on what is asked for, makes,
// changes and deletes services by OSCAR, reads back what stands, and reports it.
//
// plan is pure: it names the next step of one service from what is desired, what OSCAR shows,
// the last report and the recent writes. A step is at most one write to OSCAR; afterwards
// everything is read anew, and nothing is concluded from the status of an answer. Many
// services are decided upon at the same time; writes go one after another, the most urgent
// first. A write is preceded by a linearizable read of the session and of the desired record.
package services
