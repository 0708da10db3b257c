// Package traces follows requests through real processes, by the spans that these export.
package traces
