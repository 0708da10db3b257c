// Package plan says what a definition would write, where and why, before anything is
// written. Its digest names the plan, so that a request can demand to be that plan.
package plan
