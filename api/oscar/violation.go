package oscar

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Violation is one thing that is wrong with an input.
type Violation struct {
	// Path is the JSON path in what was submitted, as in federation.members[2].cluster_id;
	// empty for the input as a whole.
	Path string `json:"path"`
	Rule string `json:"rule"`
	// Value is what stood there. It is never a secret, and absent when it says nothing.
	Value any `json:"value,omitempty"`
	// Message says what is wrong, the limit, and the way out.
	Message string `json:"message"`
}

// Error makes a violation usable as an error.
func (v Violation) Error() string {
	if v.Path == "" {
		return v.Message
	}
	return v.Path + ": " + v.Message
}

// The rules.
const (
	RuleRequired        = "required"
	RuleOneOf           = "one_of"
	RuleUnique          = "unique"
	RuleNoSelf          = "no_self"
	RuleKnownCluster    = "known_cluster"
	RuleAllowedCluster  = "allowed_cluster"
	RuleName            = "name"
	RuleQuantity        = "quantity"
	RuleMaxLength       = "max_length"
	RuleMaxBytes        = "max_bytes"
	RuleMaxMembers      = "max_members"
	RuleType            = "type"
	RuleDefinedProvider = "defined_provider"
	RuleSharedBucket    = "shared_bucket"
	RuleReadBack        = "read_back"
)

// LimitViolations cuts a long list, and long paths and messages, as of a long key: an answer stays readable
// and bounded. The last one then says how many more there are.
func LimitViolations(vs []Violation) []Violation {
	cut := slices.Clone(vs[:min(len(vs), maxViolations)])
	for i := range cut {
		cut[i].Path, cut[i].Message = shortenTo(maxViolationText, cut[i].Path), shortenTo(maxViolationText, cut[i].Message)
	}
	if more := len(vs) - len(cut); more > 0 {
		cut = append(cut, Violation{Rule: vs[maxViolations].Rule, Message: fmt.Sprintf("%d more violations are not shown", more)})
	}
	return cut
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// joinPath appends a key to a path; a key with other characters is quoted.
func joinPath(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return path + "[" + strconv.Quote(shorten(key)) + "]"
	case path == "":
		return key
	default:
		return path + "." + key
	}
}

func indexPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// shorten keeps a value that is echoed readable.
func shorten(s string) string { return shortenTo(100, s) }

func shortenTo(limit int, s string) string {
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

// quote shortens and quotes a value for a message.
func quote(s string) string { return strconv.Quote(shorten(s)) }

// wordList writes "a, b or c".
func wordList(words ...string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
