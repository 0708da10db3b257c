package respond

import (
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// problemText is a problem in lines: first the cause in OSCAR's words, then a
// line per replica or violation. Clients of OSCAR show it as it is.
func problemText(p v1.Problem, st *State) string {
	switch {
	case p.Phase != "":
		return failedText(p, st.Change)
	case len(p.Violations) > 0:
		return violationText(p, st.Noun)
	}
	var b strings.Builder
	b.WriteString(p.Detail)
	if p.Detail == "" {
		b.WriteString(p.Title)
	}
	if p.Code == v1.CodeInternal {
		b.WriteString(": " + p.RequestID)
	}
	if p.Code == v1.CodeUnknownOutcome && p.Instance != "" {
		b.WriteString("\nsee " + p.Instance)
	}
	for _, c := range p.Clusters {
		b.WriteString("\n" + c)
	}
	return b.String()
}

func violationText(p v1.Problem, noun string) string {
	var b strings.Builder
	switch noun {
	case "service":
		b.WriteString("The service specification is not valid: ")
	case "payload":
		b.WriteString("Invalid payload: ")
	default:
		b.WriteString("The " + noun + " is not valid: ")
	}
	if len(p.Violations) == 1 && p.Violations[0].Message == oscar.RefreshTokenRequired {
		return oscar.RefreshTokenRequired // as OSCAR says it, and nothing else
	}
	if len(p.Violations) == 1 && p.Violations[0].Path == "" {
		b.WriteString(p.Violations[0].Message)
		return b.String()
	}
	b.WriteString(p.Detail)
	for _, v := range p.Violations {
		b.WriteByte('\n')
		if v.Path != "" {
			b.WriteString(v.Path + ": ")
		}
		b.WriteString(v.Message)
	}
	return b.String()
}

func failedText(p v1.Problem, change bool) string {
	culprit := -1
	for i, m := range p.Replicas {
		if m.Cause == nil {
			continue
		}
		if culprit < 0 || strings.HasPrefix(p.Detail, addressOfReplica(m)+":") {
			culprit = i
		}
		if strings.HasPrefix(p.Detail, addressOfReplica(m)+":") {
			break
		}
	}
	var b strings.Builder
	if change {
		b.WriteString("Federation not changed: " + p.Detail)
	} else {
		b.WriteString("Federation failed; rollback " + rollbackWord(p.Rollback) + ": " + p.Detail)
	}
	if culprit >= 0 {
		if m := p.Replicas[culprit].Cause.Message; m != "" && !strings.Contains(p.Detail, m) {
			b.WriteString(": " + m)
		}
	}
	for i, m := range p.Replicas {
		if change && (m.Cause == nil || i == culprit) {
			continue // it is as it was
		}
		b.WriteString("\n" + addressOfReplica(m) + ": " + rollbackWord(m.Rollback.State))
		if m.Cause != nil && i != culprit && m.Cause.Message != "" {
			b.WriteString(": " + m.Cause.Message)
		}
	}
	return b.String()
}

// rollbackWord is a state of a rollback as prose; upstream says completed.
func rollbackWord(state string) string {
	if state == "complete" {
		return "completed"
	}
	return strings.ReplaceAll(state, "_", " ")
}
