package record

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Prefixes of jobs.
const (
	JobsPrefix      = Root + "jobs/"
	EventsPrefix    = Root + "events/"
	DecisionsPrefix = Root + "decisions/"
	ReservedPrefix  = Root + "reserved/"
)

// JobKey is the authority about a job.
func JobKey(job string) string { return JobsPrefix + job }

// EventKey is its event.
func EventKey(job string) string { return EventsPrefix + job }

// DecisionKey is what an attempt was decided on.
func DecisionKey(job string, attempt int) string { return DecisionsPrefix + attemptName(job, attempt) }

// DecisionsOf is the beginning of the DecisionKeys of a job, and of no other.
func DecisionsOf(job string) string { return DecisionsPrefix + job + "." }

// ReservedKey is what is promised of a cluster.
func ReservedKey(cluster string) string { return ReservedPrefix + cluster }

// AssignmentsPrefix covers the attempts that are asked of a cluster.
func AssignmentsPrefix(cluster string) string { return DesiredPrefix(cluster) + "jobs/" }

// AssignmentKey is one of them.
func AssignmentKey(cluster, job string, attempt int) string {
	return AssignmentsPrefix(cluster) + attemptName(job, attempt)
}

// AssignedEventsPrefix covers their events.
func AssignedEventsPrefix(cluster string) string { return DesiredPrefix(cluster) + "events/" }

// AssignedEventKey is the event of an attempt, sealed to its cluster.
func AssignedEventKey(cluster, job string, attempt int) string {
	return AssignedEventsPrefix(cluster) + attemptName(job, attempt)
}

// JobReportsPrefix covers what the syncer of a cluster says of attempts.
func JobReportsPrefix(cluster string) string { return ObservedPrefix(cluster) + "jobs/" }

// JobReportKey is what it says of one.
func JobReportKey(cluster, job string, attempt int) string {
	return JobReportsPrefix(cluster) + attemptName(job, attempt)
}

// OffersPrefix covers the Jobs that a cluster offers.
func OffersPrefix(cluster string) string { return ObservedPrefix(cluster) + "offers/" }

// OfferKey is one of them.
func OfferKey(cluster, job string) string { return OffersPrefix(cluster) + job }

// OfferedEventKey is its event, sealed to the control plane.
func OfferedEventKey(cluster, job string) string {
	return ObservedPrefix(cluster) + "events/" + job
}

// OfferAnswersPrefix covers the answers to a cluster's offers.
func OfferAnswersPrefix(cluster string) string { return DesiredPrefix(cluster) + "offers/" }

// OfferAnswerKey is the answer to one.
func OfferAnswerKey(cluster, job string) string { return OfferAnswersPrefix(cluster) + job }

func attemptName(job string, attempt int) string { return job + "." + strconv.Itoa(attempt) }

// maxServiceInName is how much of a service's name is in the name of a Job: with a
// uuid and the number of an attempt it stays below Kubernetes's 63 characters.
const maxServiceInName = 16

// JobName is what an attempt is called at OSCAR: <service cut to 16>-<job>-<attempt>.
func JobName(service, job string, attempt int) string {
	for len(service) > maxServiceInName {
		_, size := utf8.DecodeLastRuneInString(service)
		service = service[:len(service)-size]
	}
	return strings.TrimRight(service, "-.") + "-" + job + "-" + strconv.Itoa(attempt)
}

// OfJobName takes a JobName apart; false when it is none.
func OfJobName(name string) (job string, attempt int, ok bool) {
	const uuid = 36
	head, number, ok := cutLast(name, "-")
	if !ok || len(head) < uuid+2 || head[len(head)-uuid-1] != '-' {
		return "", 0, false
	}
	n, ok := attemptNumber(number)
	if job = head[len(head)-uuid:]; !ok || strings.Count(job, "-") != 4 {
		return "", 0, false
	}
	return job, n, true
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// MaxFoundAttempt is the highest number of an attempt that a cluster can have found. No job has had so many. A higher one could
// not be raised for long: with 10 digits the names of Jobs are too long, and numbers end.
const MaxFoundAttempt = 100_000_000

// attemptNumber reads a number as strconv.Itoa writes it.
func attemptNumber(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n > 0 && strconv.Itoa(n) == s
}

// parseAttempt takes <job>.<attempt> apart.
func parseAttempt(r Ref, tail string) Ref {
	job, number, ok := cutLast(tail, ".")
	if _, isNumber := attemptNumber(number); !ok || job == "" || !isNumber || strings.Contains(tail, "/") {
		return Ref{}
	}
	r.Name, r.Rest = job, number
	return r
}

// AttemptOf is the number in a Ref of an attempt; 0 when it is of something else.
func (r Ref) AttemptOf() int {
	switch r.Kind {
	case KindAssignment, KindAssignedEvent, KindJobReport, KindDecision:
		n, _ := attemptNumber(r.Rest)
		return n
	}
	return 0
}
